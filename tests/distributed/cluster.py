"""A cluster of real processes: servers, workers, and PostgreSQL and NATS that sync every write.

`with open_cluster(folder, ClusterSize(servers=2)) as cluster:`. Tests read the log from PostgreSQL, not from a server.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple

import asyncpg
import msgspec

from noetl.adapters.nats.permissions import SERVER_USER, NatsUser, PoolUser, nats_users, user_of
from noetl.client import Client
from noetl.clock import SystemClock
from noetl.engine import facts
from noetl.engine.facts import Fact
from noetl.engine.snapshot import schema, thaw
from noetl.engine.state import State
from noetl.ids import partition_of
from noetl.ports import LogRow
from noetl.testing.scenario import audit
from noetl.views.documents import ShowDocument, read_runs, show_document
from noetl.views.log import events_of, folded
from noetl.views.replay import ReplayDifference, replayed
from tests.distributed.processes import Process, Program
from tests.ports import free_port
from tests.services import PostgresServer

NOETL = str(Path(sys.executable).with_name("noetl"))
NATS = str(Path(sys.executable).with_name("nats-server"))
LINK_KEY = base64.b64encode(b"k" * 32).decode()
PATIENCE_S = 180.0
PARTITIONS = 64
LOOK_S = 0.05
SHORT_LEASE_S = 10.0
CLUSTERS: list[Cluster] = []  # open clusters: the report of a failed test shows the output of their processes
_names = count(1)
_clock = SystemClock()
_decoder: msgspec.json.Decoder[tuple[Fact, ...]] = msgspec.json.Decoder(tuple[Fact, ...])


class ClusterSize(NamedTuple):
    """The processes of a cluster, and their settings."""

    servers: int = 1
    workers: int = 2
    slots: int = 16  # of each worker
    server_slots: int = 0  # of each server
    lease_s: float = 60.0  # longer than a busy machine may stop a process; SHORT_LEASE_S: the test waits for its end
    pools: tuple[str, ...] = ()  # of the workers, in their order; further workers are in the default pool
    variables: Mapping[str, str] = {}  # environment variables of the servers, which read credentials from them
    # pools: each has its NATS user and its key; keys: one user for all; none: no keys of pools, as in 0.1.0.
    isolation: Literal["pools", "keys", "none"] = "pools"
    release: Sequence[str] = (NOETL,)  # the command of servers and workers at their first start


DEFAULT_SIZE = ClusterSize()


class SyncedPostgres(PostgresServer):
    """PostgreSQL with production settings: it acknowledges only writes that are on disk."""

    def _forked(self, command: list[str | Path]) -> subprocess.Popen[str]:
        own = {"fsync": "on", "full_page_writes": "on", "max_connections": 120}
        return super()._forked([*command, *(part for name in own for part in ("-c", f"{name}={own[name]}"))])


@cache
def synced_postgres() -> SyncedPostgres:
    """The PostgreSQL of this test process, for clusters whose tests do not disturb it."""
    server = SyncedPostgres()
    atexit.register(server.close)
    return server


class Cluster:
    """`servers` and `workers` are processes; tests disturb them with `kill`, `send`, `stop`, `start`, `start_server`."""

    def __init__(self, folder: Path, size: ClusterSize, postgres: SyncedPostgres) -> None:
        self.folder, self.size, self.postgres = folder, size, postgres
        self.database = f"cluster{next(_names)}"
        self.dsn = postgres.dsn(self.database)
        self.token = ""
        self.nats_port = free_port()
        self.pools = tuple(dict.fromkeys(("default", "gpu", *size.pools)))
        self.pool_keys = {pool: base64.b64encode(pool.encode().ljust(32, b"p")).decode() for pool in self.pools}
        self.ports = [free_port() for _ in range(size.servers)]
        self.nats = Process(self._nats_program())
        self.servers = [Process(self._server_program(number, 1)) for number in range(size.servers)]
        self.workers = [Process(self._worker_program(number)) for number in range(size.workers)]

    # Start and stop

    def open(self) -> None:
        asyncio.run(self._as_owner(f"CREATE DATABASE {self.database}"))
        self.nats.start()
        create = ("token", "create", "tests", "--scope", "admin", "--db", self.dsn, "--format", "json")
        made = self.noetl(*create, release=self.size.release)
        assert made.returncode == 0, made.stdout + made.stderr
        self.token = json.loads(made.stdout)["token"]
        processes = [*self.servers, *self.workers]
        if self.size.release != (NOETL,):
            # Two servers of 0.1.0 that start at once on an empty database race for the row with the number of partitions.
            self.begin([processes.pop(0)])
        self.begin(processes)
        asyncio.run(self.until(self.is_shared))

    def begin(self, processes: list[Process]) -> None:
        """Start processes at the same time."""
        for each in processes:
            each.begin()
        for each in processes:
            each.await_ready()

    def close(self) -> None:
        for each in self.processes:
            each.close()
        if self.postgres.folder.exists():
            asyncio.run(self._as_owner(f"DROP DATABASE IF EXISTS {self.database} WITH (FORCE)"))

    @property
    def processes(self) -> list[Process]:
        return [*self.workers, *self.servers, self.nats]

    def start_server(self, number: int) -> None:
        """Start a server again under another name: the leases of the previous one must run out."""
        server = self.servers[number]
        server.start(self._server_program(number, server.starts + 1))

    def replace(self, process: Process, release: Sequence[str]) -> None:
        """Stop a server or a worker, and start it as one of another release, given by its command."""
        assert process.stop() == 0, process.output()
        program = process.program
        arguments = next(place for place, word in enumerate(program.command) if word in ("server", "worker"))
        process.start(program._replace(command=[*release, *program.command[arguments:]]))

    def add_worker(self, slots: int | None = None, pool: str = "default") -> Process:
        worker = Process(self._worker_program(len(self.workers), slots, pool))
        self.workers.append(worker)
        worker.start()
        return worker

    def output(self) -> str:
        """The last output of all processes."""
        return "\n".join(f"== {each.name}\n{each.output()}" for each in self.processes)

    # Programs

    def nats_url(self, pool: str = "") -> str:
        """The address of NATS with the user of a pool; "": of servers."""
        user = user_of(pool) if pool and self.size.isolation == "pools" else SERVER_USER
        return f"nats://{user}:pw-{user}@127.0.0.1:{self.nats_port}"

    @property
    def environment(self) -> dict[str, str]:
        """What servers, workers and commands have in common."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
        return {
            **kept, "PYTHONUNBUFFERED": "1", "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "NOETL_LEASE": f"{self.size.lease_s:g}", "NOETL_ALLOW_NETWORKS": "127.0.0.0/8",
        }  # fmt: skip

    @property
    def server_environment(self) -> dict[str, str]:
        keys = " ".join(f"{pool}={key}" for pool, key in self.pool_keys.items())
        isolated = {} if self.size.isolation == "none" else {"NOETL_POOL_KEYS": keys}
        return {
            **self.environment, **isolated, **self.size.variables, "NOETL_NATS": self.nats_url(),
            "NOETL_LINK_KEY": LINK_KEY, "NOETL_DB": self.dsn, "NOETL_KEY": base64.b64encode(b"s" * 32).decode(),
        }  # fmt: skip

    def worker_environment(self, pool: str) -> dict[str, str]:
        """Everything that code on a worker of the pool can read."""
        isolated = self.size.isolation != "none"
        own = {"NOETL_POOL_KEY": self.pool_keys[pool]} if isolated else {"NOETL_LINK_KEY": LINK_KEY}
        return {**self.environment, **own, "NOETL_NATS": self.nats_url(pool)}

    def _nats_program(self) -> Program:
        config = self.folder / "nats.conf"
        store = f'store_dir: "{self.folder / "nats"}", sync_interval: always, max_file_store: 2G'
        pools = self.pools if self.size.isolation == "pools" else ()
        names = [(pool, user_of(pool)) for pool in pools]
        users = nats_users(
            NatsUser(SERVER_USER, f'"pw-{SERVER_USER}"'),
            [PoolUser(pool, NatsUser(name, f'"pw-{name}"')) for pool, name in names],
        )
        config.write_text(f'listen: "127.0.0.1:{self.nats_port}"\njetstream {{ {store} }}\n{users}')
        return Program("nats", [NATS, "-c", str(config)], os.environ, self.folder, "Server is ready")

    def _server_program(self, number: int, start: int) -> Program:
        command = [*self.size.release, "server", "--port", str(self.ports[number]), "--name", f"s{number}.{start}"]
        if self.size.server_slots:
            command += ["--slots", str(self.size.server_slots)]
        return Program(f"server-{number}", command, self.server_environment, self.folder, "noetl: ready")

    def _worker_program(self, number: int, slots: int | None = None, pool: str = "") -> Program:
        pools = self.size.pools
        pool = pool or (pools[number] if number < len(pools) else "default")
        options = ["--slots", str(slots or self.size.slots), "--pool", pool, "--name", f"w{number}"]
        command = [*self.size.release, "worker", *options]
        return Program(f"worker-{number}", command, self.worker_environment(pool), self.folder, "noetl: ready")

    # Use

    def noetl(
        self,
        *arguments: str | Path,
        environment: dict[str, str] | None = None,
        release: Sequence[str] = (NOETL,),
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*release, *arguments], capture_output=True, text=True, encoding="utf-8", check=False,
            cwd=self.folder, env={**self.environment, **(environment or {})}, timeout=PATIENCE_S,
        )  # fmt: skip

    def call(self, *arguments: str | Path, server: int = 0) -> subprocess.CompletedProcess[str]:
        """Run the command line with one of the servers as its context."""
        return self.noetl(*arguments, environment={"NOETL_SERVER": self.url(server), "NOETL_TOKEN": self.token})

    def url(self, server: int = 0) -> str:
        return f"http://127.0.0.1:{self.ports[server]}"

    def client(self, server: int = 0) -> Client:
        return Client(self.url(server), self.token)

    async def run(self, text: str, workload: dict[str, Any], server: int = 0, *, file: str = "t.yaml") -> ShowDocument:
        async with self.client(server) as client:
            registered = await client.register(text, dialect="auto", file=file)
            return await client.run(digest=registered.digest, workload=workload, timeout_s=PATIENCE_S)

    async def start(self, text: str, workload: dict[str, Any], server: int = 0) -> str:
        async with self.client(server) as client:
            registered = await client.register(text)
            return (await client.start(digest=registered.digest, workload=workload)).execution_id

    async def ended(self, execution_id: str, server: int = 0, *, timeout_s: float = PATIENCE_S) -> ShowDocument:
        """Follow the events of an execution to the end, and read its state from PostgreSQL."""
        async with asyncio.timeout(timeout_s), self.client(server) as client:
            async for _ in client.stream(execution_id):
                pass
        return await self.shown(execution_id)

    # The log

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[asyncpg.Connection]:
        connection = await asyncpg.connect(self.dsn)
        try:
            yield connection
        finally:
            await connection.close()

    async def rows(self, execution_id: str) -> list[LogRow]:
        query = "SELECT first_seq, at, body FROM noetl.log WHERE execution_id = $1 ORDER BY first_seq"
        async with self.connected() as connection:
            found = await connection.fetch(query, execution_id)
        return [LogRow(first_seq, at, _decoder.decode(body)) for first_seq, at, body in found]

    async def facts(self, execution_id: str) -> list[Fact]:
        return [fact for row in await self.rows(execution_id) for fact in row.facts]

    async def audited(self, execution_id: str) -> State:
        """The state that the log folds to. Raises AssertionError if the log is invalid."""
        return audit(execution_id, await self.rows(execution_id))

    async def replayed(self, execution_id: str) -> list[ReplayDifference]:
        """The differences between the log and the stored head and snapshot."""
        events = list(events_of(await self.rows(execution_id)))
        state = folded(execution_id, events)
        async with self.connected() as connection:
            query = "SELECT seq, status FROM noetl.heads WHERE execution_id = $1"
            seq, status = await connection.fetchrow(query, execution_id)
            query = "SELECT schema, body FROM noetl.snapshots WHERE execution_id = $1"
            kept = await connection.fetchrow(query, execution_id)
        assert (seq, status) == (state.seq, state.status)
        if kept is None or kept["schema"] != schema():
            return []
        return replayed(execution_id, events, thaw(kept["body"]))

    async def shown(self, execution_id: str) -> ShowDocument:
        return show_document(read_runs(execution_id, events_of(await self.rows(execution_id))))

    async def executions(self) -> dict[str, str]:
        """All executions with their status."""
        async with self.connected() as connection:
            found = await connection.fetch("SELECT execution_id, status FROM noetl.heads ORDER BY started_at")
        return dict(map(tuple, found))

    async def children(self, execution_id: str) -> list[str]:
        async with self.connected() as connection:
            query = "SELECT execution_id FROM noetl.heads WHERE starts_with(parent, $1 || '/') ORDER BY started_at"
            return [row[0] for row in await connection.fetch(query, execution_id)]

    async def owners(self) -> dict[int, int]:
        """Partition → the number of the server with a valid lease."""
        async with self.connected() as connection:
            found = await connection.fetch("SELECT number, server FROM noetl.partitions WHERE until > now()")
        return {number: int(server[1:].partition(".")[0]) for number, server in found if server}

    async def owner(self, execution_id: str) -> int | None:
        """None: no server owns it at the moment."""
        return (await self.owners()).get(partition_of(execution_id, PARTITIONS))

    async def is_shared(self) -> bool:
        """Whether every server owns its share of the partitions."""
        owners = list((await self.owners()).values())
        return {owners.count(number) for number in range(len(self.servers))} == {PARTITIONS // len(self.servers)}

    async def until(self, holds: Callable[[], Awaitable[bool]], *, timeout_s: float = PATIENCE_S) -> None:
        """Poll PostgreSQL until a condition holds, because it sends no notification."""
        async with asyncio.timeout(timeout_s):
            while not await holds():
                await _clock.sleep(LOOK_S)

    async def _as_owner(self, command: str) -> None:
        connection = await asyncpg.connect(self.postgres.dsn())
        try:
            await connection.execute(command)
        finally:
            await connection.close()


def repeated(log: list[Fact]) -> list[str]:
    """Calls that are in the log more than once: there must be none."""
    calls = [f"{fact.frame}/{fact.call}" for fact in log if isinstance(fact, facts.TaskDone)]
    return sorted({call for call in calls if calls.count(call) > 1})


@contextmanager
def open_cluster(
    folder: Path, size: ClusterSize = DEFAULT_SIZE, *, postgres: SyncedPostgres | None = None
) -> Iterator[Cluster]:
    """`postgres`: a server that the test may disturb; None: the shared one of this test process."""
    cluster = Cluster(folder, size, postgres or synced_postgres())
    CLUSTERS.append(cluster)
    try:
        cluster.open()
        yield cluster
    finally:
        cluster.close()
        CLUSTERS.remove(cluster)
