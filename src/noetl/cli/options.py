"""The app, and the arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from noetl.cli.choices import DialectChoice, FormatChoice

if TYPE_CHECKING:
    from noetl.cli.execute import Reporter

app = typer.Typer(
    name="noetl",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: noetl init hello.yaml, then noetl run hello.yaml",
)

File = Annotated[str, typer.Argument(metavar="FILE", help="A playbook; `-` is standard input.")]
Out = Annotated[str | None, typer.Option("--output", "-o", metavar="OUT", help="Write to this file.")]
Dialect = Annotated[DialectChoice, typer.Option(help="`auto` upgrades older dialects in memory, like `noetl migrate`.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="An execution: its id, a prefix of the id, or `last`.")]
Db = Annotated[
    str | None,
    typer.Option("--db", metavar="PATH", help="The database file. Default: `NOETL_DB`, else a file in your home."),
]
Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="A server or the name of a context; `local` is the database file. Default: `NOETL_SERVER`, else"
        " the current context.",
    ),
]
Detach = Annotated[bool, typer.Option("--detach", help="With --server: return immediately instead of waiting.")]
Format = Annotated[
    FormatChoice, typer.Option("--format", help="`auto` is rich on a terminal, else plain; `json` is one document.")
]


def finish(format: FormatChoice, command: Callable[[Reporter], int]) -> NoReturn:
    """Run the command and exit with its code; errors become messages."""
    from noetl.cli.execute import execute

    raise typer.Exit(execute(format, command))
