"""Commands on a session: opened on the target of --db and --server, and closed at the end."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from noetl.cli.execute import Reporter
from noetl.cli.output.text import with_hint
from noetl.errors import Damaged, NotFound
from noetl.session.connect import Target, open_session, resolve
from noetl.session.execution import Execution, ExecutionLog, public_status
from noetl.session.protocol import Session


def on_session(target: Target, work: Callable[[Session], Awaitable[int]], *, create: bool = False) -> int:
    """`create`: make the database file when it does not exist."""

    async def run() -> int:
        async with open_session(target, create=create) as session:
            with hinting(session.hint):
                return await work(session)

    return asyncio.run(run())


def on_execution(
    reporter: Reporter,
    name: str,
    db: str | None,
    server: str | None,
    work: Callable[[Execution], Awaitable[int]],
) -> int:
    """Find the execution first; the reporter names it and its status in errors."""

    async def run(session: Session) -> int:
        return await work(await find(reporter, session, name))

    return on_session(resolve(db, server), run)


async def find(reporter: Reporter, session: Session, name: str) -> Execution:
    execution = await session.execution(name)
    info = await execution.info()
    reporter.execution_id, reporter.status = execution.id, public_status(info.status)
    return execution


async def read_log(execution: Execution) -> ExecutionLog:
    log = await execution.log()
    gc.freeze()  # facts are no garbage: examining 100,000 of them repeatedly takes a second
    return log


@contextmanager
def hinting(hint: str) -> Iterator[None]:
    """Commands at the end of error messages get the option that leads to the same place."""
    try:
        yield
    except (NotFound, Damaged) as error:
        if (message := with_hint(str(error), hint)) == str(error):
            raise
        raise type(error)(message) from error
