"""The command line. Importing a module of noetl.cli.commands adds its commands."""

from __future__ import annotations

from importlib import import_module
from inspect import cleandoc
from typing import Annotated, Final

import typer

from noetl import __version__
from noetl.cli.options import app

__all__ = ["app"]

PANELS: Final = {  # of the help: the modules of their commands, in this order
    "Write playbooks": (
        "init",
        "new",
        "check",
        "fmt",
        "explain",
        "test",
        "lsp",
        "mcp",
        "migrate",
        "imports",
        "schema",
        "tools",
    ),
    "Run playbooks": ("run", "debug", "control", "fork", "backfill"),
    "Look at executions": (
        "show",
        "events",
        "logs",
        "output",
        "state",
        "audit",
        "record",
        "what_if",
        "diff",
        "label",
        "delete",
    ),
    "Register and schedule": ("register", "playbooks", "triggers", "saved"),
    "Operate": ("server", "workers", "up", "doctor", "context", "token", "secrets", "audit_log", "gc"),
}
GROUPS: Final = {"import": "imports"}  # groups whose name cannot be the name of a module
MODULES: Final = tuple(module for modules in PANELS.values() for module in modules)


@app.callback(invoke_without_command=True)
def noetl(version: Annotated[bool, typer.Option("--version", "-V", help="Print the version.")] = False) -> None:
    """Playbooks in YAML: checked before they run, durable while they run."""
    if version:
        typer.echo(f"noetl {__version__}")
        raise typer.Exit


def _panel(module: str) -> str:
    return next(panel for panel, modules in PANELS.items() if module in modules)


def _joined(text: str) -> str:
    """A docstring with one line a paragraph, so that terminals of any width can wrap it; "\\b" keeps the lines."""
    paragraphs = cleandoc(text).split("\n\n")
    return "\n\n".join(each if each.startswith("\b") else each.replace("\n", " ") for each in paragraphs)


for each in MODULES:
    import_module(f"noetl.cli.commands.{each}")
# A program may have imported one of them before.
app.registered_commands.sort(
    key=lambda each: MODULES.index(each.callback.__module__.rpartition(".")[2]) if each.callback is not None else 0
)
groups = [each.typer_instance for each in app.registered_groups if each.typer_instance is not None]
for command in (each for owner in (app, *groups) for each in owner.registered_commands):
    if command.callback is not None:
        command.help = _joined(command.callback.__doc__ or "")
for command in app.registered_commands:
    if command.callback is not None:
        command.rich_help_panel = _panel(command.callback.__module__.rpartition(".")[2])
for group in app.registered_groups:
    if isinstance(group.help, str):
        group.help = _joined(group.help)
    group.rich_help_panel = _panel(GROUPS.get(str(group.name), str(group.name)))
