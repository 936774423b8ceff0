"""The command line. Importing a module of noetl.cli.commands adds its commands."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Final

import typer

from noetl import __version__
from noetl.cli.options import app

__all__ = ["app"]

MODULES: Final = (  # in the order in which the help lists their commands
    "check", "explain", "fmt", "lsp", "migrate", "schema", "test",
    "run", "control", "fork", "backfill", "delete", "record", "what_if",
    "register", "playbooks", "saved", "triggers", "context", "gc", "init",
    "show", "events", "logs", "state", "output", "audit", "audit_log",
    "secrets", "server", "workers", "token", "tools", "up", "doctor",
)  # fmt: skip


@app.callback(invoke_without_command=True)
def noetl(version: Annotated[bool, typer.Option("--version", "-V", help="Print the version.")] = False) -> None:
    """Playbooks in YAML: checked before they run, durable while they run."""
    if version:
        typer.echo(f"noetl {__version__}")
        raise typer.Exit


for each in MODULES:
    import_module(f"noetl.cli.commands.{each}")
# A program may have imported one of them before.
app.registered_commands.sort(
    key=lambda each: MODULES.index(each.callback.__module__.rpartition(".")[2]) if each.callback is not None else 0
)
