"""A process that does everything that the disk is asked for, and says what was acknowledged, until it is killed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from noetl.adapters.files import FileResults
from noetl.adapters.sqlite.database import open_sqlite
from noetl.adapters.sqlite.ownership import SqliteInbox, SqliteOwnership
from noetl.adapters.sqlite.store import SqliteStore
from noetl.clock import SystemClock
from noetl.engine.commands import Cancel
from noetl.engine.facts import Fact, Requested
from noetl.ports import Append, Snapshot

LARGE = "x" * 6_000_000  # three of these are more than a checkpoint waits for


def told(*words: object) -> None:
    """In one piece: another thread may come to the failpoint in the middle of a line."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def in_pieces(piece: bytes, count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield piece


async def main(path: Path) -> None:
    clock = SystemClock()
    database = open_sqlite(path, clock)
    store, inbox, results = SqliteStore(database), SqliteInbox(database), FileResults(path.parent / "results")
    holding = SqliteOwnership(database)

    async def append(execution_id: str, seq: int, owner: int, filler: str = "") -> None:
        fact: Fact = Requested(path="p", digest="d", workload={"filler": filler})
        assert await store.append([Append(execution_id, seq, clock.now(), (fact,), owner, "running")]) == [None]
        told("append", execution_id, seq)

    owner = await holding.hold("old")
    told("hold", "old", owner)
    await append("old", 2, owner)
    owner = await holding.hold("new")
    for seq in range(1, 5):
        await append("new", seq, owner)
    for seq in (2, 4):
        await store.keep("new", Snapshot(seq, "s", b"state"))
        told("keep", "new", seq)
    await inbox.post("new", Cancel())
    posted = await inbox.collect()
    await inbox.done([each.id for each in posted])
    told("done", len(posted))
    for number in range(2):
        if number == 0:
            ref = await results.put("new", b"result", "text/plain")
        else:
            ref = await results.write("new", in_pieces(b"result", 2), "text/plain")
        told("put", ref["locator"]["key"], ref["meta"]["bytes"])
    for seq in range(5, 9):
        await append("new", seq, owner, LARGE)
    told("end")
    database.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
