"""The app, the options that several commands share, and commands on a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from noetl.cli.arguments import DialectChoice, FormatChoice
from noetl.cli.completion import complete_execution, complete_file
from noetl.cli.execute import Reporter, find, hinting

if TYPE_CHECKING:
    from datetime import datetime

    from noetl.cli.execute import Reporter
    from noetl.session.execution import Execution
    from noetl.session.protocol import Session


app = typer.Typer(
    name="noetl",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: noetl init hello.yaml, then noetl run hello.yaml",
)

File = Annotated[
    str, typer.Argument(metavar="FILE", help="A playbook; `-` is standard input.", autocompletion=complete_file)
]
Out = Annotated[str | None, typer.Option("--output", "-o", metavar="OUT", help="Write to this file.")]
Dialect = Annotated[DialectChoice, typer.Option(help="`auto` upgrades older dialects in memory, like `noetl migrate`.")]
Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="An execution: its id, a prefix of the id, or `last`.",
        autocompletion=complete_execution,
    ),
]
OptionalId = Annotated[
    str | None,
    typer.Argument(
        metavar="[ID]",
        help="An execution: its id, a prefix of the id, or `last`. Without it, options choose several.",
        autocompletion=complete_execution,
    ),
]
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


def begin_of(since: str, option: str = "--since") -> datetime:
    """The instant so long ago: `12h`, `2d`. Raises UsageError."""
    from datetime import timedelta

    from noetl.clock import SystemClock
    from noetl.session.errors import UsageError
    from noetl.worker.result_stores import seconds_of

    seconds = seconds_of(since)
    if seconds is None or not 0 < seconds <= 100 * 365 * 86_400:
        raise UsageError(f'{option} "{since}" is not a duration up to 100 years: write 12h, 2d or 4w')
    return SystemClock().now() - timedelta(seconds=seconds)


# Commands on a session


def on_session(
    format: FormatChoice,
    db: str | None,
    server: str | None,
    work: Callable[[Reporter, Session], Awaitable[int]],
    *,
    create: bool = False,
    before: Callable[[Reporter], object] | None = None,
    if_missing: Callable[[Reporter], int] | None = None,
) -> NoReturn:
    """Open a session, do the work and exit.

    `before` checks options and reads standard input, which must not block an event loop. When the database
    file does not exist, `create` makes it, and `if_missing` replaces the work.
    """

    def command(reporter: Reporter) -> int:
        import asyncio
        import gc

        from noetl.session.connect import open_session, resolve

        if before is not None:
            before(reporter)
        target = resolve(db, server)
        if if_missing is not None and not target.exists:
            return if_missing(reporter)

        gc.set_threshold(100_000, 50, 100)  # facts are no garbage: examining many of them takes a second

        async def run() -> int:
            async with open_session(target, create=create) as session:
                with hinting(session.hint):
                    return await work(reporter, session)

        return asyncio.run(run())

    finish(format, command)


def on_execution(
    format: FormatChoice,
    name: str,
    db: str | None,
    server: str | None,
    work: Callable[[Reporter, Execution], Awaitable[int]],
    *,
    before: Callable[[Reporter], object] | None = None,
) -> NoReturn:
    async def run(reporter: Reporter, session: Session) -> int:
        return await work(reporter, await find(reporter, session, name))

    on_session(format, db, server, run, before=before)


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def confirmed(reporter: Reporter, question: str, *, yes: bool) -> bool:
    """Whether to carry out a plan that was printed: `--yes`, or the answer of the person at the terminal."""
    import sys

    if yes:
        return True
    if not reporter.json and sys.stdin is not None and sys.stdin.isatty():
        return typer.confirm(question, err=True)
    reporter.warn("this is only the plan; nothing was done: --yes carries it out")
    return False


def nothing_to_list(reporter: Reporter, text: str) -> int:
    reporter.document([])
    if not reporter.json:
        reporter.errors.line(text)
    return 0
