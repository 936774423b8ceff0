"""Triggers of a simulated cluster: servers fire them while they are killed, stalled and cut off.

The log of executions keeps what the owner of an execution guarantees: a second start with the same id has no effect.
A long simulation consists of parts: at the end of each, all servers die, and the next part continues on the same
triggers and the same log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from noetl.adapters.memory_triggers import MemoryTriggers
from noetl.control.ownership import PartitionOwners
from noetl.control.triggers import Triggers
from noetl.engine.commands import Start
from noetl.engine.state import Status
from noetl.errors import Unavailable
from noetl.ports import Firing, FiringRecord, OwnedPartitions, StoredTrigger
from noetl.testing.memory_runtime import MemoryPrograms
from noetl.testing.simulator.loop import SimLoop
from noetl.testing.simulator.ports import FaultRates, SimClock, SimStore

T = TypeVar("T")
PARTITIONS = 16
TTL_S = 10.0  # of a lease
REQUEST_S = 2.0  # until a request of a server without a network fails
LATENCY_S = 0.05  # maximum of a request
GENERATION = 300_000  # ids that the log keeps at least; no repetition comes later


class TriggerFaults(NamedTuple):
    """How often the servers have faults."""

    every_s: float = 20.0  # on average, between two faults
    down_s: float = 90.0  # maximum that a server is down, stalled or cut off
    all_down: float = 0.1  # the part of faults that hits all servers
    lost: float = 0.02  # requests without effect, and as many with a lost answer and with a late effect


class StartedExecutions:
    """Executions by id, and how many there are for each trigger and time."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}  # (trigger, time)
        self._ids: tuple[set[str], set[str]] = (set(), set())  # of the current generation and of the one before

    async def status(self, id: str) -> Status | None:
        return "running" if id in self._ids[0] or id in self._ids[1] else None

    async def start(self, id: str, command: Start) -> None:
        if await self.status(id) is not None:
            return
        if len(self._ids[0]) >= GENERATION:
            self._ids = (set(), self._ids[0])
        self._ids[0].add(id)
        key = (str(command.by), str(command.workload["at"]))
        self.counts[key] = self.counts.get(key, 0) + 1


class _Network:
    """The way of one server to the store and to the owners of executions."""

    def __init__(self, loop: SimLoop, faults: TriggerFaults) -> None:
        self._loop, self._faults = loop, faults
        self.cut_until = 0.0

    async def request(self, work: Callable[[], Awaitable[T]]) -> T:
        chance = self._loop.random.random
        if self._loop.time() < self.cut_until:
            await self._loop.sleeping(REQUEST_S)
            raise Unavailable("no server answers")
        if chance() < 0.2:
            await self._loop.sleeping(chance() * LATENCY_S)
        fault = chance() / self._faults.lost if self._faults.lost else 3.0
        if fault < 1:
            raise Unavailable("the request was lost")
        if fault < 2:
            self._loop.spawn("main", self._later(work))
            raise Unavailable("the answer is late")
        done = await work()
        if chance() < 0.2:
            await self._loop.sleeping(chance() * LATENCY_S)
        if fault < 3:
            raise Unavailable("the answer was lost")
        return done

    async def _later(self, work: Callable[[], Awaitable[T]]) -> None:
        await self._loop.sleeping(self._loop.random.random() * 5)
        await work()


class SimPartitions:
    """The leases of the partitions, as one server reaches them."""

    def __init__(self, network: _Network, store: SimStore) -> None:
        self._network, self._memory = network, store.memory

    async def own(self, server: str, partitions: Sequence[int], ttl_s: float) -> OwnedPartitions:
        return await self._network.request(lambda: self._memory.own(server, partitions, ttl_s))

    async def let_go(self, server: str, partitions: Sequence[int]) -> None:
        await self._network.request(lambda: self._memory.let_go(server, partitions))

    async def servers(self, server: str, ttl_s: float) -> list[str]:
        return await self._network.request(lambda: self._memory.servers(server, ttl_s))

    async def live(self, partitions: Sequence[int]) -> list[tuple[str, int]]:
        return await self._network.request(lambda: self._memory.live(partitions))


class SimExecutions:
    """The log, as one server reaches it."""

    def __init__(self, network: _Network, log: StartedExecutions) -> None:
        self._network, self._log = network, log

    async def status(self, execution_id: str) -> Status | None:
        return await self._network.request(lambda: self._log.status(execution_id))

    async def start(self, execution_id: str, digest: str, start: Start) -> None:
        del digest
        await self._network.request(lambda: self._log.start(execution_id, start))


class SimTriggerStore:
    """A `TriggerStore`, as one server reaches it."""

    def __init__(self, network: _Network, store: MemoryTriggers) -> None:
        self._network, self._store = network, store

    async def declare(self, path: str, digest: str, triggers: Sequence[StoredTrigger]) -> None:
        await self._network.request(lambda: self._store.declare(path, digest, triggers))

    async def due(self, at: datetime, limit: int) -> list[StoredTrigger]:
        return await self._network.request(lambda: self._store.due(at, limit))

    async def advance(
        self, trigger: StoredTrigger, scheduled_at: datetime, due_at: datetime, firings: Sequence[Firing]
    ) -> bool:
        return await self._network.request(lambda: self._store.advance(trigger, scheduled_at, due_at, firings))

    async def record(self, path: str, name: str, firings: Sequence[Firing]) -> None:
        await self._network.request(lambda: self._store.record(path, name, firings))

    async def set_paused(
        self, path: str, name: str, *, paused: bool, scheduled_at: datetime | None, due_at: datetime | None
    ) -> None:
        await self._network.request(
            lambda: self._store.set_paused(path, name, paused=paused, scheduled_at=scheduled_at, due_at=due_at)
        )

    async def get(self, path: str, name: str) -> StoredTrigger:
        return await self._network.request(lambda: self._store.get(path, name))

    async def find_hook(self, hook: str) -> StoredTrigger | None:
        return await self._network.request(lambda: self._store.find_hook(hook))

    async def history(self, path: str, name: str, *, before: int | None = None, limit: int = 100) -> list[FiringRecord]:
        return await self._network.request(lambda: self._store.history(path, name, before=before, limit=limit))

    async def list(
        self, *, kind: str | None = None, after: tuple[str, str] = ("", ""), limit: int = 100
    ) -> list[StoredTrigger]:
        return await self._network.request(lambda: self._store.list(kind=kind, after=after, limit=limit))


class SimTriggers:
    """Servers that fire the triggers of one store; a seed determines everything that happens."""

    def __init__(
        self,
        programs: MemoryPrograms,
        store: MemoryTriggers,
        log: StartedExecutions,
        *,
        servers: int = 2,
        faults: TriggerFaults | None = None,
        service: type[Triggers] = Triggers,
    ) -> None:
        """`service`: tests replace it to plant a bug."""
        self._programs, self._store, self.log = programs, store, log
        self._count = servers
        self._rates = faults or TriggerFaults()
        self._service = service
        self.faults = 0

    def run(self, seed: int, begin: datetime, seconds: float) -> None:
        """One part: faults until the end, and then the servers die. Raises what crashed a server."""
        self.loop = SimLoop(seed)  # type: ignore[abstract]  # the missing methods must not be used
        self._begin = begin
        self._partitions = SimStore(self.loop, FaultRates(), PARTITIONS)
        self._networks: dict[int, _Network] = {}
        self._processes: dict[int, str] = {}
        self._starts = 0
        self.loop.run(self._main(seconds))
        for crash in self.loop.crashes:
            raise AssertionError(f"a task crashed: {type(crash).__name__}: {crash}") from crash

    def now(self) -> datetime:
        return self._begin + timedelta(seconds=self.loop.time())

    async def _main(self, seconds: float) -> None:
        random = self.loop.random
        for number in range(self._count):
            self._start_server(number)
        while (left := seconds - self.loop.time()) > 0:
            await self.loop.sleeping(min(left, random.random() * 2 * self._rates.every_s))
            hit = range(self._count) if random.random() < self._rates.all_down else (random.randrange(self._count),)
            fault, for_s = random.choice(("kill", "kill", "stall", "cut off")), random.random() * self._rates.down_s
            for number in hit:
                self._fault(number, fault, for_s)

    def _fault(self, number: int, fault: str, for_s: float) -> None:
        self.faults += 1
        if fault == "stall":
            self.loop.pause(self._processes[number], for_s)
        elif fault == "cut off":
            self._networks[number].cut_until = self.loop.time() + for_s
        else:
            self.loop.kill(self._processes[number])
            self.loop.spawn("main", self._restart(number, self._processes[number], for_s))

    async def _restart(self, number: int, killed: str, after_s: float) -> None:
        await self.loop.sleeping(after_s)
        if self._processes[number] == killed:
            self._start_server(number)

    def _start_server(self, number: int) -> None:
        self._starts += 1
        process = self._processes[number] = f"s{number}.{self._starts}"
        network = self._networks[number] = _Network(self.loop, self._rates)
        self.loop.spawn(process, self._serve(process, network))

    async def _serve(self, process: str, network: _Network) -> None:
        clock = SimClock(self.loop)
        error = timedelta(seconds=self.loop.random.random() - 0.5)  # of this server's idea of the store's time
        owners = PartitionOwners(
            SimPartitions(network, self._partitions), clock, process, ttl_s=TTL_S, count=PARTITIONS
        )
        executions = SimExecutions(network, self.log)
        triggers = self._service(
            SimTriggerStore(network, self._store),
            self._programs,
            executions,
            executions,
            clock,
            now=lambda: self.now() + error,
            owns=owners.owns,
        )
        firing = asyncio.ensure_future(triggers.run())
        while not firing.done():
            await owners.renew(lambda _at: None)
            await clock.sleep(TTL_S / 3)
        firing.result()
