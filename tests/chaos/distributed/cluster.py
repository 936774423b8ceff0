"""A cluster of real processes for fault injection: PostgreSQL and NATS as in `noetl up`, servers and workers.

Services sync every write to disk. Nothing restarts a process except the test. All processes end with the test.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from noetl.adapters.postgres.database import open_postgres
from noetl.adapters.postgres.secrets import PostgresTokens
from noetl.client import Client
from noetl.clock import SystemClock
from noetl.control.api_tokens import digest_of, new_token
from noetl.engine.facts import Fact
from noetl.errors import Unavailable
from noetl.link.messages import PARTITIONS
from noetl.runtime.devcluster.folder import Folder, random_key
from noetl.runtime.devcluster.processes import ManagedProcess, ServiceSpec
from noetl.runtime.devcluster.services import PORT_FILE, Nats, Postgres
from tests.ports import free_port

LEASE_S = 5.0  # in tests
BUSY_S = 10.0  # added to time limits: the machine may run other work; the tests print the exact figures
REPOSITORY = Path(__file__).parents[3]
RECOVERY_S = LEASE_S + 5.0  # within this time of the end of a fault, every execution makes progress
LOOK_S = 0.05
PATIENCE_S = 240.0  # until something happens whose duration has no limit, or one that is compared afterwards
_FOREIGN = ("NOETL_", "PG", "OTEL_")  # settings of the shell that would configure the cluster
CLOCK = SystemClock()
_decoder: msgspec.json.Decoder[tuple[Fact, ...]] = msgspec.json.Decoder(tuple[Fact, ...])


class Plan(NamedTuple):
    """The parts of a cluster."""

    servers: int = 2
    workers: int = 3
    slots: int = 16  # of each worker
    server_slots: int = 0  # of each server
    named: bool = False  # a restarted server keeps its name, and so replaces the dead one at once
    faulty: bool = False  # processes of tests.chaos.distributed.faulty_process, which inject faults
    results_in_postgresql: bool = False  # besides NATS
    environment: Mapping[str, str] = {}  # for servers and workers


class ChaosCluster:
    """`children` by name: postgresql, nats, server-1, …, worker-1, …"""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.plan = plan
        self.folder = Folder(folder / "cluster")
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.children: dict[str, ManagedProcess] = {}
        self.token = ""
        self.database = self.nats = ""
        self.store = Path()  # of NATS
        self.ports = [free_port() for _ in range(plan.servers)]
        self.servers = [f"server-{number}" for number in range(1, plan.servers + 1)]
        self.workers = [f"worker-{number}" for number in range(1, plan.workers + 1)]
        self.clients: list[Client] = []
        self.faults: list[datetime] = []  # the end of each, by the clock of this machine, as the facts in the log
        self._key, self._link_key = random_key(), random_key()
        self._lock = -1
        self._connection: Any = None  # of the test to PostgreSQL
        self._one_looks = asyncio.Lock()

    # Start and stop

    async def open(self) -> None:
        self._lock = await self.folder.wait_for_leftovers(CLOCK)
        self.folder.put(PORT_FILE, f"{free_port()}\n")  # while NATS is down, the system gives it to no connection
        postgres, nats = Postgres(self.folder, CLOCK), Nats(self.folder)
        await postgres.initialise()
        self.database, self.nats, self.store = postgres.url(), nats.url(), nats.store
        program = postgres.spec()
        more = ("-c", "log_connections=receipt", "-c", "log_line_prefix=%n ")
        await asyncio.gather(self._begin(program._replace(command=(*program.command, *more))), self._begin(nats.spec()))
        await postgres.create_database()
        await self._admit()
        for number, name in enumerate(self.servers):
            slots = ("--slots", str(self.plan.server_slots)) if self.plan.server_slots else ()
            await self._begin(self._program(name, "server", "--port", str(self.ports[number]), *slots))
            self.clients.append(Client(f"http://127.0.0.1:{self.ports[number]}", self.token, clock=CLOCK))
        await self.until_shared()
        slots = ("--slots", str(self.plan.slots))
        await asyncio.gather(
            *(self._begin(self._program(name, "worker", *slots, "--name", name)) for name in self.workers)
        )

    async def close(self) -> None:
        for client in self.clients:
            await client.close()
        if self._connection is not None:
            self._connection.terminate()
        for child in self.children.values():
            if child.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGCONT)
        for kind in ("worker", "server", "nats", "postgresql"):
            some = [child for name, child in self.children.items() if name.startswith(kind)]
            await asyncio.gather(*(child.stop(at_once=kind in ("worker", "server")) for child in some))
            await asyncio.gather(*(child.kill() for child in some))
        self.folder.close()

    def _program(self, name: str, kind: str, *options: str) -> ServiceSpec:
        noetl = "tests.chaos.distributed.faulty_process" if self.plan.faulty else "noetl"
        named = ("--name", name) if kind == "server" and self.plan.named else ()
        plain = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
        own = {"NOETL_DB": self.database, "NOETL_KEY": self._key} if kind == "server" else {}
        if self.plan.results_in_postgresql:
            own["NOETL_RESULTS"] = f"{self.nats} {self.database}"
        return ServiceSpec(
            name=name,
            command=(sys.executable, "-m", noetl, kind, *options, *named),
            environment={
                **plain,
                "PYTHONUNBUFFERED": "1",
                "XDG_DATA_HOME": str(self.logs.parent),
                "NOETL_NATS": self.nats,
                "NOETL_LINK_KEY": self._link_key,
                "NOETL_LEASE": f"{LEASE_S:g}",
                "NOETL_ALLOW_NETWORKS": "127.0.0.0/8",
                **own,
                **self.plan.environment,
            },
            ready="ready",
            folder=REPOSITORY,
        )

    async def _begin(self, program: ServiceSpec) -> None:
        child = ManagedProcess(program, self.logs / f"{program.name}.log", CLOCK, self._lock)
        self.children[program.name] = child
        await child.start()

    async def _admit(self) -> None:
        database = open_postgres(self.database, CLOCK)
        token, self.token = new_token("chaos", ["admin"], None, CLOCK, os.urandom)
        await PostgresTokens(database).add(token, digest_of(self.token))
        await database.close()

    # Faults

    async def add(self, name: str, kind: str, *options: str) -> None:
        """Start one more process."""
        await self._begin(self._program(name, kind, *options))

    async def kill(self, name: str) -> float:
        """kill -9; returns the instant."""
        pid = self.pid(name)
        at = CLOCK.monotonic()
        os.kill(pid, signal.SIGKILL)
        await self.children[name].wait()
        await self.children[name].kill()
        return at

    async def start(self, name: str) -> float:
        """Start it again; returns the duration."""
        seconds = await self.children[name].start()
        self.record_end()
        return seconds

    def signal(self, name: str, how: signal.Signals) -> None:
        os.kill(self.pid(name), how)
        if how is signal.SIGCONT:
            self.record_end()

    def record_end(self) -> None:
        """Record that a fault ends now: `start` and SIGCONT call it."""
        self.faults.append(CLOCK.now())

    def pid(self, name: str) -> int:
        pid = self.children[name].pid
        assert pid is not None, f"{name} is not running"
        return pid

    def rss_mb(self, name: str, *, peak: bool = False) -> float:
        """The resident memory now, or its peak."""
        wanted = "VmHWM:" if peak else "VmRSS:"
        for line in Path(f"/proc/{self.pid(name)}/status").read_text().splitlines():
            if line.startswith(wanted):
                return int(line.split()[1]) / 1_024
        return 0.0

    # Observations that do not use the servers

    async def rows(self, query: str, *values: object) -> list[Any]:
        """Query PostgreSQL. Raises Unavailable while it is down."""
        try:
            async with self._one_looks:
                if self._connection is None or self._connection.is_closed():
                    mine = {"application_name": "chaos"}
                    self._connection = await asyncpg.connect(self.database, timeout=5, server_settings=mine)
                found: list[Any] = await self._connection.fetch(query, *values)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise Unavailable("PostgreSQL is unreachable") from error
        return found

    async def log(self, execution_id: str) -> list[Fact]:
        """The facts in the log of an execution."""
        query = "SELECT body FROM noetl.log WHERE execution_id = $1 ORDER BY first_seq"
        return [fact for (body,) in await self.rows(query, execution_id) for fact in _decoder.decode(body)]

    async def facts(self) -> int:
        """The number of facts in all logs."""
        ((count,),) = await self.rows("SELECT coalesce(sum(seq), 0) FROM noetl.heads")
        return int(count)

    async def progress(self) -> tuple[int, int]:
        """The number of facts in all logs, and of executions that have not ended."""
        ended = "status IN ('ok', 'error', 'cancelled')"
        ((facts, open_),) = await self.rows(
            f"SELECT coalesce(sum(seq), 0), count(*) FILTER (WHERE NOT {ended}) FROM noetl.heads"
        )
        return int(facts), int(open_)

    async def until_something_happens(self) -> float:
        """Wait for the next fact; returns the duration."""
        before: int | None = None

        async def happened() -> bool:
            nonlocal before
            now = await self.facts()
            before = now if before is None else before
            return now > before

        return await until(happened)

    async def owners(self) -> dict[str, list[int]]:
        """Server processes, by identity, with their partitions; "": partitions without an owner."""
        found = await self.rows(
            "SELECT CASE WHEN until > now() THEN server ELSE '' END, array_agg(number) FROM noetl.partitions GROUP BY 1"
        )
        return {row[0]: row[1] for row in found}

    async def until_shared(self, servers: int | None = None) -> float:
        """Wait until each server owns its share of the partitions; returns the duration."""
        many = self.plan.servers if servers is None else servers
        shares = sorted(len(range(first, PARTITIONS, many)) for first in range(many))

        async def shared() -> bool:
            owners = await self.owners()
            return "" not in owners and sorted(map(len, owners.values())) == shares

        return await until(shared)

    async def metric(self, name: str, **labels: str) -> float:
        """The sum over all servers."""
        total = 0.0
        for client in self.clients:
            text = (await client.http.request("GET", "/metrics")).body.decode()
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    if sample.name == name and labels.items() <= sample.labels.items():
                        total += sample.value
        return total

    async def until_all_ended(self) -> None:
        open_only = "SELECT execution_id, seq FROM noetl.heads WHERE status NOT IN ('ok','error','cancelled')"

        async def ended() -> bool:
            return not await self.rows(open_only)

        try:
            await until(ended)
        except TimeoutError:
            raise AssertionError(f"not ended: {await self.rows(open_only)}") from None


async def until(holds: Callable[[], Awaitable[bool]]) -> float:
    """Wait for a condition; returns the duration. Raises TimeoutError."""
    begun = CLOCK.monotonic()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(Unavailable):
                if await holds():
                    return CLOCK.monotonic() - begun
            await CLOCK.sleep(LOOK_S)


async def kill_again_and_again(
    cluster: ChaosCluster,
    name: str,
    kills: int,
    life_s: Iterator[float],
    may_die: Callable[[], Awaitable[bool]] | None = None,
) -> list[float]:
    """Kill and start a process several times; returns the instants of the kills.

    The cluster makes progress between two kills, however slow the machine is. `may_die`: what a kill waits for, too.
    """
    instants = []
    for _ in range(kills):
        before = await cluster.progress()

        async def has_lived(before: tuple[int, int] = before) -> bool:
            facts, open_ = await cluster.progress()
            return facts > before[0] or not open_

        await CLOCK.sleep(next(life_s))
        await until(has_lived)
        if may_die is not None:
            await until(may_die)
        instants.append(await cluster.kill(name))
        await cluster.start(name)
    return instants


@asynccontextmanager
async def opened(plan: Plan = Plan()) -> AsyncIterator[ChaosCluster]:  # noqa: B008  # it is immutable
    """Open a cluster. The output of its processes is kept if the test fails."""
    folder = Path(tempfile.mkdtemp(prefix="noetl-chaos-", dir="/tmp"))
    folder.chmod(0o711)  # as root, PostgreSQL runs as another user
    cluster = ChaosCluster(folder, plan)
    try:
        await cluster.open()
        yield cluster
    except BaseException:
        print(f"output of the processes: {cluster.logs}")
        await cluster.close()
        shutil.rmtree(folder / "cluster", ignore_errors=True)
        raise
    await cluster.close()
    shutil.rmtree(folder, ignore_errors=True)
