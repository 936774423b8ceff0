"""The cost of durability on PostgreSQL with fsync and synchronous_commit: one chain, and many chains at once.

The server runs on this machine, on a socket, during the measurement.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

from benchmarks.sizes import scaled
from benchmarks.store import FACTS, REQUESTED
from noetl.adapters.postgres.database import open_postgres
from noetl.adapters.postgres.store import PARTITIONS, PostgresStore
from noetl.clock import SystemClock
from noetl.ids import partition_of
from noetl.ports import Append
from tests.services import PostgresServer

AT = datetime(2026, 1, 1, tzinfo=UTC)
LONE = scaled(3_000, 100)  # appends in a chain
AT_ONCE = (64, 500)
APPENDS = scaled(30_000, 2_000)  # of all chains together
READ = scaled(100_000, 5_000)  # facts
Rows: TypeAlias = list[tuple[str, float, str]]


class DurableServer(PostgresServer):
    """PostgreSQL with fsync, unlike the server of the tests."""

    def _forked(self, command: list[str | Path]) -> subprocess.Popen[str]:
        return super()._forked([*command, "-c", "fsync=on", "-c", "full_page_writes=on"])


class Chains:
    """Executions on one store; each appends as soon as its previous append is durable."""

    def __init__(self, store: PostgresStore, epochs: dict[int, int]) -> None:
        self.store = store
        self.epochs = epochs
        self.waits: list[float] = []

    async def run(self, execution_id: str, appends: int) -> None:
        owner = self.epochs[partition_of(execution_id, PARTITIONS)]
        await self.append(Append(execution_id, 1, AT, (REQUESTED,), owner, "running"))
        for number in range(appends):
            first = 2 + number * len(FACTS)
            await self.append(Append(execution_id, first, AT, FACTS, owner, "running"))

    async def append(self, append: Append) -> None:
        started = perf_counter()
        assert await self.store.append([append]) == [None]
        self.waits.append(perf_counter() - started)


async def lone(store: PostgresStore, epochs: dict[int, int]) -> Rows:
    await Chains(store, epochs).run("warm", 100)
    chains = Chains(store, epochs)
    started = perf_counter()
    await chains.run("lone", LONE)
    took = perf_counter() - started
    return [
        ("postgres log: one chain, five facts a commit", LONE / took, "/s"),
        ("postgres log: one chain, p50 of a commit", statistics.median(chains.waits) * 1e6, "µs"),
    ]


async def together(store: PostgresStore, epochs: dict[int, int]) -> Rows:
    rows: Rows = []
    for count in AT_ONCE:
        chains = Chains(store, epochs)
        started = perf_counter()
        await asyncio.gather(*(chains.run(f"{count}-{each}", APPENDS // count) for each in range(count)))
        rate = len(chains.waits) / (perf_counter() - started)
        rows.append((f"postgres log: {count} chains at once", rate, "/s"))
        rows.append((f"postgres log: {count} chains, p50", statistics.median(chains.waits) * 1e3, "ms"))
    return rows


async def reading(store: PostgresStore, epochs: dict[int, int]) -> Rows:
    owner = epochs[partition_of("long", PARTITIONS)]
    facts = FACTS * 10
    await store.append([Append("long", 1, AT, (REQUESTED,), owner, "running")])
    firsts = range(2, READ, len(facts))
    await store.append([Append("long", first, AT, facts, owner, "running") for first in firsts])
    started = perf_counter()
    rows = await store.read("long")
    took = perf_counter() - started
    started = perf_counter()
    await store.read("long", after=rows[-1].first_seq)
    return [
        ("postgres log: read and decode a long log", sum(len(row.facts) for row in rows) / took, "facts/s"),
        ("postgres log: read the tail of a long log", (perf_counter() - started) * 1e6, "µs"),
    ]


async def leases(store: PostgresStore, epochs: dict[int, int]) -> Rows:
    started = perf_counter()
    for _ in range(50):
        assert (await store.own("bench", range(PARTITIONS), 600.0)).epochs == epochs
    took = perf_counter() - started
    return [(f"postgres log: keep {PARTITIONS} partitions", took / 50 * 1e3, "ms")]


async def on(server: PostgresServer) -> Rows:
    database = open_postgres(server.dsn(), SystemClock())
    store = PostgresStore(database)
    works: tuple[Callable[[PostgresStore, dict[int, int]], Awaitable[Rows]], ...]
    works = (lone, together, reading, leases)
    try:
        owned = await store.own("bench", range(PARTITIONS), 600.0)
        return [row for work in works for row in await work(store, owned.epochs)]
    finally:
        await store.close()
        await database.close()


def measure() -> Rows:
    server = DurableServer()
    try:
        return asyncio.run(on(server))
    finally:
        server.close()


if __name__ == "__main__":
    for name, value, unit in measure():
        print(f"{name:60} {value:12.4g} {unit}")
