"""Commands on a session: opened on the target of --db and --server, and closed at the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NoReturn

from noetl.cli.choices import FormatChoice
from noetl.cli.execute import Reporter, find, hinting
from noetl.cli.options import finish

if TYPE_CHECKING:
    from noetl.session.execution import Execution
    from noetl.session.protocol import Session


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


def nothing_to_list(reporter: Reporter, text: str) -> int:
    reporter.document([])
    if not reporter.json:
        reporter.errors.line(text)
    return 0
