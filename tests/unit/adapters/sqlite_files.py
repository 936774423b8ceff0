"""What the tests of the disk share: a file with an execution on it, and clocks that make a disk look slow."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from noetl.adapters.sqlite.database import Database, open_sqlite
from noetl.adapters.sqlite.ownership import SqliteOwnership
from noetl.adapters.sqlite.store import SqliteStore
from noetl.clock import Clock, SystemClock
from noetl.engine.facts import Evaluated, Fact, Requested
from noetl.engine.state import Status
from noetl.failpoints import VARIABLE
from noetl.ports import Append

HERE = Path(__file__).parent
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@contextmanager
def opened(path: Path, clock: Clock | None = None) -> Iterator[Database]:
    database = open_sqlite(path, clock or SystemClock())
    try:
        yield database
    finally:
        database.close()


def on_file(path: Path, work: Callable[[Database], Awaitable[None]], clock: Clock | None = None) -> None:
    """Run some work on a database that is open as long as the loop runs."""

    async def run() -> None:
        with opened(path, clock) as database:
            await work(database)

    asyncio.run(run())


def append(
    execution_id: str,
    first_seq: int,
    owner: int,
    *,
    status: Status = "running",
    path: str = "p",
    filler: str = "",
) -> Append:
    workload = {"filler": filler} if filler else {}
    fact: Fact = Requested(path=path, digest="d", workload=workload) if first_seq == 1 else Evaluated()
    if filler and first_seq > 1:
        fact = Requested(path=path, digest="d", workload=workload)
    return Append(execution_id, first_seq, AT, (fact,), owner, status)


async def begun(database: Database, *execution_ids: str) -> int:
    """Executions of ours, with one fact each; our number."""
    holding, store = SqliteOwnership(database), SqliteStore(database)
    number = 0
    for execution_id in execution_ids:
        number = await holding.hold(execution_id)
        assert await store.append([append(execution_id, 1, number)]) == [None]
    return number


def child(script: str, *arguments: str, failpoint: str | None = None) -> subprocess.Popen[str]:
    """Another process, which tells what it did line by line."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    if failpoint is not None:
        environment[VARIABLE] = failpoint
    return subprocess.Popen(
        [sys.executable, str(HERE / script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
