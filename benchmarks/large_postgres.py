"""The figures of `large` for a server on PostgreSQL and NATS. Run it with `python -m benchmarks large_postgres`.

PostgreSQL does not sync while it is filled; reading does not depend on that. The server is a process of its own where
requests are measured, and runs in this process where its memory is.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import asyncpg

from benchmarks.large import (
    EVENTS,
    OPEN,
    OPEN_TEXTS,
    SIGNAL,
    WAITS,
    Recorded,
    Row,
    Taken,
    chain,
    copy,
    in_own_process,
    memory,
    new_ids,
    record,
    taken_over,
    works,
)
from noetl.adapters.postgres.catalog import PostgresCatalog
from noetl.adapters.postgres.database import open_postgres
from noetl.adapters.postgres.store import PARTITIONS, PostgresStore
from noetl.clock import SystemClock
from noetl.control.playbooks import Playbooks
from noetl.ids import partition_of
from noetl.runtime.server import ServerOptions, open_server
from noetl.session.api import connect
from noetl.session.protocol import Session
from noetl.tool import Tools
from tests.ports import free_port
from tests.services import PostgresServer
from tests.services_nats import running_nats

FILL_S = 3_600.0  # the lease of the partitions while they are filled
NOETL = Path(sys.executable).with_name("noetl")


async def fill(dsn: str, copies: Sequence[tuple[Recorded, Sequence[str]]]) -> None:
    clock = SystemClock()
    database = open_postgres(dsn, clock)
    store, playbooks = PostgresStore(database), Playbooks(PostgresCatalog(database), Tools.installed().kinds())
    numbers = range(PARTITIONS)
    epochs = (await store.own("fill", numbers, FILL_S)).epochs
    for recorded, ids in copies:
        await playbooks.add(recorded.text, None)
        await copy(recorded, store, lambda id: epochs[partition_of(id, PARTITIONS)], ids)
    await store.let_go("fill", numbers)
    await store.close()
    await database.close()
    connection = await asyncpg.connect(dsn)
    await connection.execute("VACUUM ANALYZE", timeout=FILL_S)  # as autovacuum would have by then
    await connection.close()


@contextmanager
def served(dsn: str, nats: str) -> Iterator[tuple[str, str, int]]:
    """`noetl server` as a process: its address, a token, its pid."""
    environment = {**os.environ, "NOETL_DB": dsn, "NOETL_NATS": nats}
    create = [str(NOETL), "token", "create", "bench", "--scope", "admin", "--db", dsn, "--format", "json"]
    token = json.loads(subprocess.run(create, env=environment, capture_output=True, check=True).stdout)["token"]
    port = free_port()
    command = [str(NOETL), "server", "--port", str(port)]
    running = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    try:
        assert running.stderr is not None
        while b"noetl: ready" not in (line := running.stderr.readline()):
            assert line, "the server has ended"
        yield f"http://127.0.0.1:{port}", token, running.pid
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)


def used(pids: Sequence[int]) -> float:
    """CPU seconds of processes and of those that they have started."""
    found = 0
    for pid in pids:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in (pid, *map(int, children)):
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            found += int(fields[11]) + int(fields[12])
    return found / os.sysconf("SC_CLK_TCK")


async def spent(url: str, token: str, id: str, pids: Sequence[int]) -> list[Row]:
    """The time of each request in a new session, and the CPU time of client, server and PostgreSQL (10 ms steps)."""

    async def resume(session: Session) -> None:
        await session.resume(WAITS)

    rows: list[Row] = []
    for name, work in {**works(id), "resume of a paused one": resume}.items():
        async with connect(url, token=token) as session:
            began, before = time.perf_counter(), used(pids) + time.process_time()
            await work(session)
            rows.append((f"large on PostgreSQL: {name}", time.perf_counter() - began, "s"))
            processor = used(pids) + time.process_time() - before
            rows.append((f"large on PostgreSQL: {name}, processor", processor, "s"))
    return rows


async def start_server(dsn: str, nats: str) -> Taken:
    began, used = time.perf_counter(), time.process_time()
    async with open_server(ServerOptions(dsn, nats)) as server:
        ready = time.perf_counter() - began
        await taken_over(server.control)
        return Taken(ready, time.process_time() - used, memory())


async def create_database(server: PostgresServer, name: str) -> str:
    connection = await asyncpg.connect(server.dsn())
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return server.dsn(name)


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder, postgres = Path(name), PostgresServer()
        try:
            recorded = asyncio.run(record(folder / "recorded.db", chain(), "ok"))
            paused = asyncio.run(record(folder / "recorded.db", SIGNAL, "paused"))
            ids = new_ids(-(-EVENTS // recorded.facts))
            dsn = asyncio.run(create_database(postgres, "events"))
            began = time.perf_counter()
            asyncio.run(fill(dsn, [(recorded, ids), (paused, [WAITS])]))
            written = f"large on PostgreSQL: write {len(ids) * recorded.facts:,} events"
            yield written, time.perf_counter() - began, "s"
            (folder / "nats").mkdir()
            with running_nats(folder / "nats") as nats, served(dsn, nats.url) as (url, token, pid):
                pids = (pid, postgres.pid)
                yield from asyncio.run(spent(url, token, ids[len(ids) // 2], pids))
            for what, texts in OPEN_TEXTS.items():
                dsn = asyncio.run(create_database(postgres, f"open{len(texts)}"))
                open_ones = [asyncio.run(record(folder / "recorded.db", text, "running")) for text in texts]
                copies = [(each, new_ids(OPEN // len(texts))) for each in open_ones]
                asyncio.run(fill(dsn, copies))
                own = folder / f"nats{len(texts)}"
                own.mkdir()
                with running_nats(own) as nats:
                    yield from in_own_process(start_server, dsn, nats.url).rows("large on PostgreSQL", what)
        finally:
            postgres.close()
