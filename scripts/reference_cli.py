"""The pages of commands and settings: every command with its options, every variable with its default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from noetl.cli.app import app
from noetl.runtime.settings import variables
from scripts.reference_prose import prose, table

SERVING: Final = ("server", "worker", "up", "ui")  # commands whose options are settings of a process


class Command(NamedTuple):
    name: str  # "secrets set"
    command: TyperCommand | TyperGroup


def commands() -> Iterator[Command]:
    """All commands, including subcommands."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    yield from below(group, "")


def below(group: TyperGroup, before: str) -> Iterator[Command]:
    for name, command in group.commands.items():
        assert isinstance(command, TyperCommand | TyperGroup)
        yield Command(before + name, command)
        if isinstance(command, TyperGroup):
            yield from below(command, f"{before}{name} ")


def commands_page(exit_codes: str) -> str:
    group = typer.main.get_command(app)
    also = "`noetl --help` and `noetl COMMAND --help` print the same. [Settings](config.md) lists the variables."
    lines = ["# Commands", "", f"{group.help} {also}", ""]
    for name, command in commands():
        lines += [f"## noetl {name}", "", *command_lines(command), ""]
    lines += ["## Exit codes", "", exit_codes, ""]
    return "\n".join(lines)


def command_lines(command: TyperCommand | TyperGroup) -> Iterator[str]:
    text, _, examples = (command.help or "").partition("\b\n")
    yield from (text.strip(), "")
    for each in command.params:
        if isinstance(each, TyperArgument | TyperOption):
            default = default_of(each)
            yield f"- `{spelt(each)}`: {each.help or ''}" + (f" Default: {default}." if default else "")
    if examples:
        shown = [line.strip() for line in examples.splitlines()[1:] if line.strip()]
        yield from ("", "```sh", *shown, "```")


def spelt(parameter: TyperArgument | TyperOption) -> str:
    """The name of an argument, or all spellings of an option."""
    if isinstance(parameter, TyperArgument):
        return parameter.metavar or parameter.opts[0]
    return ", ".join([*parameter.opts, *parameter.secondary_opts])


def default_of(parameter: TyperArgument | TyperOption) -> str:
    """The default to display; empty: none."""
    given = parameter.default
    if isinstance(parameter, TyperArgument) or given is None or given is False or given == "":
        return ""
    return f"`{parameter.opts[0]}`" if given is True else f"`{given}`"


def settings_page(head: str) -> str:
    lines = ["# Settings", "", head, "", "## Variables", ""]
    lines += table(
        ("variable", "option", "default", "read by", "meaning"),
        (
            (f"`{each.name}`", each.option, each.default, each.read_by, prose(each.meaning))
            for each in variables().values()
        ),
    )
    lines += [
        "",
        "Credentials of kind `env` and `secret_manager` also read the variables that they name.",
    ]
    for name, command in commands():
        if name in SERVING:
            rows = (
                (f"`{spelt(each)}`", default_of(each), prose(each.help or ""))
                for each in command.params
                if isinstance(each, TyperOption)
            )
            lines += ["", f"## Options of noetl {name}", "", *table(("option", "default", "meaning"), rows)]
    return "\n".join(lines)
