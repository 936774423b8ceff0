"""The cost of durability on SQLite: one chain, many chains, a busy event loop, reads, and result files.

Run it with `python -m benchmarks store`; each row has a name, a value and its unit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TypeAlias

from benchmarks.sizes import scaled
from noetl.adapters.files import FileResults
from noetl.adapters.sqlite.database import Database, open_sqlite
from noetl.adapters.sqlite.ownership import SqliteInbox, SqliteOwnership
from noetl.adapters.sqlite.store import SqliteStore
from noetl.clock import SystemClock
from noetl.engine.facts import (
    Fact,
    NextEvaluated,
    Requested,
    StepDone,
    StepScheduled,
    StepStarted,
    TaskDone,
    Token,
)
from noetl.output import Output
from noetl.ports import Append

AT = datetime(2026, 1, 1, tzinfo=UTC)
LONE = scaled(3_000, 100)  # appends in a chain
AT_ONCE = 100
ROUNDS = scaled(50, 5)
READ = scaled(100_000, 5_000)  # facts
FACTS: tuple[Fact, ...] = (
    StepScheduled(run="fetch#17", step="fetch", tokens=("start#17>0",), input={"page": 17}),
    StepStarted(run="fetch#17"),
    TaskDone(frame="fetch#17", call=1, task="fetch", directive="continue", next=-1, output=Output(data={"n": 17})),
    StepDone(run="fetch#17"),
    NextEvaluated(run="fetch#17", asked=((0, True),), tokens=(Token(id="fetch#17>0", step="store"),)),
)
REQUESTED = Requested(path="bench", digest="0" * 64)
Rows: TypeAlias = list[tuple[str, float, str]]


async def chain(database: Database, execution_id: str, appends: int, facts: tuple[Fact, ...] = FACTS) -> None:
    """One append after the other, like a chain of steps."""
    store = SqliteStore(database)
    owner = await SqliteOwnership(database).hold(execution_id)
    assert await store.append([Append(execution_id, 1, AT, (REQUESTED,), owner, "running")]) == [None]
    await go_on(store, execution_id, owner, appends, facts)


async def go_on(
    store: SqliteStore, execution_id: str, owner: int, appends: int, facts: tuple[Fact, ...] = FACTS
) -> None:
    for number in range(appends):
        first = 2 + number * len(facts)
        assert await store.append([Append(execution_id, first, AT, facts, owner, "running")]) == [None]


async def lone(database: Database) -> Rows:
    started = perf_counter()
    await chain(database, "lone", LONE)
    took = perf_counter() - started
    return [("store: one chain, five facts a commit", took / LONE * 1e6, "µs")]


async def together(database: Database, writers: int, thinking_s: float = 0.0) -> float:
    """Appends per second of concurrent chains, each of which computes between its appends."""
    store, holding = SqliteStore(database), SqliteOwnership(database)
    ids = [f"{writers}-{thinking_s}-{number}" for number in range(writers)]
    owners = [await holding.hold(each) for each in ids]
    rounds = ROUNDS if writers > 10 else 1_000

    async def one(execution_id: str, owner: int) -> None:
        assert await store.append([Append(execution_id, 1, AT, (REQUESTED,), owner, "running")]) == [None]
        for number in range(rounds):
            until = perf_counter() + thinking_s
            while perf_counter() < until:
                pass
            first = 2 + number * len(FACTS)
            assert await store.append([Append(execution_id, first, AT, FACTS, owner, "running")]) == [None]

    started = perf_counter()
    await asyncio.gather(*map(one, ids, owners))
    return writers * (rounds + 1) / (perf_counter() - started)


async def concurrent(database: Database) -> Rows:
    return [
        (f"store: {writers} chains at once{words}", await together(database, writers, thinking_s), "/s")
        for writers, thinking_s, words in (
            (2, 0.0, ""),
            (AT_ONCE, 0.0, ""),
            (AT_ONCE, 0.0001, ", 100 µs of work a step"),
        )
    ]


async def reading(database: Database) -> Rows:
    store = SqliteStore(database)
    owner = await SqliteOwnership(database).hold("long")
    body = FACTS * 10
    appends = [Append("long", 1, AT, (REQUESTED,), owner, "running")]
    appends += [Append("long", 2 + place, AT, body, owner, "running") for place in range(0, READ, len(body))]
    await store.append(appends)
    started = perf_counter()
    rows = await store.read("long")
    took = perf_counter() - started
    facts = sum(len(row.facts) for row in rows)
    started = perf_counter()
    await store.read("long", after=facts - 10)
    tail = perf_counter() - started
    return [
        ("store: read and decode a long log", facts / took, "facts/s"),
        ("store: read the tail of a long log", tail * 1e6, "µs"),
    ]


async def polling(database: Database) -> Rows:
    await SqliteOwnership(database).hold("poll")
    inbox = SqliteInbox(database)
    await inbox.collect()
    started = perf_counter()
    for _ in range(1_000):
        await inbox.collect()
    return [("store: read an empty inbox", (perf_counter() - started) * 1e3, "µs")]


async def files(folder: Path) -> Rows:
    rows: Rows = []
    for size, words in ((65_536, "64 KiB"), (1 << 20, "1 MiB"), (10 << 20, "10 MiB")):
        results = FileResults(folder / "results")
        bodies = [number.to_bytes(4, "big") * (size // 4) for number in range(20)]
        started = perf_counter()
        refs = [await results.put("bench", body, "application/json") for body in bodies]
        put = perf_counter()
        for ref in refs:
            await results.get(ref)
        rows.append((f"files: put {words}", (put - started) / len(bodies) * 1e3, "ms"))
        rows.append((f"files: get {words}", (perf_counter() - put) / len(bodies) * 1e3, "ms"))
    return rows


def on_a_fresh_file(work: Callable[[Database], Awaitable[Rows]]) -> Rows:
    async def run(path: Path) -> Rows:
        database = open_sqlite(path, SystemClock())
        try:
            return await work(database)
        finally:
            database.close()

    with TemporaryDirectory() as folder:
        return asyncio.run(run(Path(folder) / "noetl.db"))


def measure() -> Rows:
    rows = [row for work in (lone, concurrent, reading, polling) for row in on_a_fresh_file(work)]
    with TemporaryDirectory() as folder:
        rows += asyncio.run(files(Path(folder)))
    return rows


if __name__ == "__main__":
    for name, value, unit in measure():
        print(f"{name:60} {value:12.4g} {unit}")
