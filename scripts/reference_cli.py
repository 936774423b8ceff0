"""The pages of commands and settings: every command with its options, every variable with its default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from noetl.cli.app import app
from noetl.runtime.settings import VARIABLES
from scripts.reference_prose import prose, table


class Setting(NamedTuple):
    """Properties of a variable that the table of variables does not have."""

    default: str
    option: str = ""  # the option that overrides it
    of: str = "all"  # the processes that read it


SETTINGS: Final[dict[str, Setting]] = {
    "NOETL_DB": Setting("`~/.local/share/noetl/noetl.db`", "`--db`", "commands, servers"),
    "NOETL_SERVER": Setting("the current context, or else the database", "`--server`", "commands"),
    "NOETL_TOKEN": Setting("the token of the context", of="commands"),
    "NOETL_RESULTS": Setting("`files`; with NATS, its object store"),
    "NOETL_NATS": Setting("none: one process on one file", "`--nats`", "servers, workers"),
    "NOETL_LINK_KEY": Setting("none: workers get no credentials", of="servers, workers"),
    "NOETL_ALLOW_NETWORKS": Setting("none: public addresses only", of="servers, workers"),
    "NOETL_SECRET_VARIABLES": Setting("only `NOETL_SECRET_…`", of="servers"),
    "NOETL_SECRET_FOLDERS": Setting("`/run/secrets`", of="servers"),
    "NOETL_LEASE": Setting("`30`", of="servers, workers"),
    "NOETL_KEEP_DAYS": Setting("unlimited", of="servers"),
    "NOETL_LOG": Setting("`info`", of="servers, workers"),
    "NOETL_TRACES": Setting("none: no traces", of="servers"),
    "NOETL_METRICS": Setting("none: no metrics", of="workers"),
    "NOETL_S3_ENDPOINT": Setting("Amazon S3"),
    "NOETL_KEY": Setting("a file beside the database", of="commands, servers"),
    "NOETL_FAILPOINT": Setting("none", of="tests"),
}
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
    also = (
        "`noetl --help` and `noetl COMMAND --help` print the same. [Settings](config.md) lists the variables."
    )
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
    assert SETTINGS.keys() == VARIABLES.keys(), SETTINGS.keys() ^ VARIABLES.keys()
    lines = ["# Settings", "", head, "", "## Variables", ""]
    lines += table(
        ("variable", "option", "default", "read by", "meaning"),
        (
            (f"`{name}`", SETTINGS[name].option, SETTINGS[name].default, SETTINGS[name].of, prose(words))
            for name, words in VARIABLES.items()
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
