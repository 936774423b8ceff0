"""A process that holds an execution, appends to it, says its number, and waits to be ended."""

from __future__ import annotations

import asyncio
import sys

from noetl.adapters.sqlite.database import open_sqlite
from noetl.adapters.sqlite.ownership import SqliteOwnership
from noetl.adapters.sqlite.store import SqliteStore
from noetl.clock import SystemClock
from noetl.engine.facts import Requested
from noetl.ports import Append


async def main(path: str, execution_id: str) -> None:
    clock = SystemClock()
    database = open_sqlite(path, clock)
    number = await SqliteOwnership(database).hold(execution_id)
    append = Append(execution_id, 1, clock.now(), (Requested(path="p", digest="d"),), number, "running")
    assert await SqliteStore(database).append([append]) == [None]
    print(number, flush=True)
    sys.stdin.read()
    database.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
