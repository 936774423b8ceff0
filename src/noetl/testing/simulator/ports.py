"""The ports of a simulated cluster: clocks with skew, and a store, a queue and a link with faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeVar
from uuid import UUID

from noetl.adapters.memory import MemoryQueue, MemoryStore
from noetl.control.executions import Control
from noetl.engine.commands import Command, Report, Start
from noetl.engine.facts import Fact, StepScheduled, TaskDone
from noetl.engine.state import Status
from noetl.errors import Conflict, Fenced, Rejected, Unavailable
from noetl.ids import frame_parts
from noetl.output import Output
from noetl.ports import (
    Append,
    Claim,
    Epoch,
    Grant,
    LogRow,
    OwnedPartitions,
    Pointer,
    ReportAnswer,
    Snapshot,
    SnapshotOf,
)
from noetl.testing.simulator.loop import SimLoop
from noetl.testing.simulator.network import TIMEOUT_S, SimNetwork

T = TypeVar("T")
DRIFT_S_MAX = 100.0  # between the instant of an append and the time of the store: servers may be paused for long


class FaultRates(NamedTuple):
    """The probability of each fault; random for each seed, and some of them are 0 (swarm testing)."""

    store_before: float = 0.0  # the request fails and has no effect
    store_after: float = 0.0  # the request has its effect, and the answer is lost
    store_late: float = 0.0  # the request fails, and has its effect some seconds later
    queue_drop: float = 0.0
    queue_twice: float = 0.0
    queue_late: float = 0.0
    link_before: float = 0.0
    link_after: float = 0.0
    skew_s: float = 0.0
    direct: float = 0.0  # not a fault: pointers that reach a worker of the same process without the queue


class SimClock:
    """The clock of one process: its wall clock may be wrong by a constant."""

    def __init__(self, loop: SimLoop, skew_s: float = 0.0) -> None:
        self._loop = loop
        self._start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=skew_s)
        self._ids = 0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        return self._loop.time()

    def chance(self) -> float:
        return self._loop.random.random()

    def new_id(self) -> str:
        self._ids += 1
        return str(UUID(int=self._ids))

    async def sleep(self, seconds: float) -> None:
        await self._loop.sleeping(seconds)


class SimStore:
    """A store behind a network: slow, and with requests or answers that are lost."""

    def __init__(self, loop: SimLoop, rates: FaultRates, partitions: int, network: SimNetwork | None = None) -> None:
        """`network`: between the servers and the store; None: no message is lost."""
        self._loop, self.rates = loop, rates
        self._network = network or SimNetwork(loop, ())
        self._clock = SimClock(loop)
        self.memory = MemoryStore(self._clock, partitions)
        self.granted: set[object] = set()  # tasks that hold a grant and have not received an answer yet
        self.violations: list[str] = []  # of invariants; the cluster raises the first of them

    async def _request(self, work: Callable[[], Awaitable[T]]) -> T:
        return await self._network.request("store", lambda: self._answer(work))

    async def _answer(self, work: Callable[[], Awaitable[T]]) -> T:
        random = self._loop.random
        direction = random.random()  # the delay is before the effect, after it, or both
        if direction < 0.7:
            await self._clock.sleep(random.random() * 0.01)
        if random.random() < self.rates.store_before:
            raise Unavailable("the store is unreachable")
        if random.random() < self.rates.store_late:
            self._loop.spawn("main", self._later(work))
            raise Unavailable("the store is slow")
        done = await work()
        if direction > 0.3:
            await self._clock.sleep(random.random() * 0.01)
        if random.random() < self.rates.store_after:
            raise Unavailable("the answer of the store was lost")
        return done

    async def _later(self, work: Callable[[], Awaitable[T]]) -> None:
        await self._clock.sleep(self._loop.random.random() * 5)
        await work()

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        return await self._request(lambda: self._append(appends))

    async def _append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        done = await self.memory.append(appends)
        for each, refused in zip(appends, done, strict=True):
            if refused is None and each.owner != self.memory.epoch(each.execution_id):
                self.violations.append(f"{each.execution_id}: an append of a former owner was accepted")
            if refused is None and abs((each.at - self._clock.now()).total_seconds()) > DRIFT_S_MAX:
                message = "the instant of an append is far from the time of the store"
                self.violations.append(f"{each.execution_id}: {message}")
        return done

    async def status(self, execution_id: str) -> Status | None:
        return await self._request(lambda: self.memory.status(execution_id))

    async def snapshot(self, execution_id: str, of: SnapshotOf = "state") -> Snapshot | None:
        return await self._request(lambda: self.memory.snapshot(execution_id, of))

    async def keep(self, execution_id: str, snapshot: Snapshot, of: SnapshotOf = "state") -> None:
        await self._request(lambda: self.memory.keep(execution_id, snapshot, of))

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]:
        return await self._request(lambda: self.memory.read(execution_id, after, up_to))

    async def unnotified(self, before: datetime, limit: int) -> list[str]:
        return await self._request(lambda: self.memory.unnotified(before, limit))

    async def notified(self, execution_id: str, seq: int) -> None:
        await self._request(lambda: self.memory.notified(execution_id, seq))

    async def live(self, partitions: Sequence[int]) -> list[tuple[str, int]]:
        return await self._request(lambda: self.memory.live(partitions))

    def position(self, execution_id: str, frame: str) -> int:
        """The number of calls of the frame in the log."""
        rows = self.memory.rows.get(execution_id, ())
        calls = [f.call for row in rows for f in row.facts if isinstance(f, TaskDone) and f.frame == frame]
        return max(calls, default=0)

    def unanswered(self) -> bool:
        """Whether the current task holds a grant without a committed report."""
        return asyncio.current_task() in self.granted

    def knows(self, pointer: Pointer, *kinds: type[Fact]) -> bool:
        """Whether the log has a fact of one of these kinds about the frame or its run."""
        run, _ = frame_parts(pointer.frame)
        about = {pointer.frame, run}
        return any(
            isinstance(fact, kinds) and (getattr(fact, "frame", None) in about or getattr(fact, "run", None) in about)
            for row in self.memory.rows.get(pointer.execution_id, ())
            for fact in row.facts
        )

    async def own(self, server: str, partitions: Sequence[int], ttl_s: float) -> OwnedPartitions:
        return await self._request(lambda: self.memory.own(server, partitions, ttl_s))

    async def let_go(self, server: str, partitions: Sequence[int]) -> None:
        await self._request(lambda: self.memory.let_go(server, partitions))

    async def servers(self, server: str, ttl_s: float) -> list[str]:
        return await self._request(lambda: self.memory.servers(server, ttl_s))


class SimQueue:
    """A queue that drops, repeats and delays pointers, and that may lose all of them.

    It checks two invariants: a frame is in the log before its pointer is published, and its report before its
    pointer is acknowledged.
    """

    def __init__(self, loop: SimLoop, rates: FaultRates, store: SimStore, network: SimNetwork) -> None:
        self._loop, self.rates, self._store, self._network = loop, rates, store, network
        self._clock = SimClock(loop)
        self._queue = MemoryQueue()

    def give(self, pointer: Pointer) -> bool:
        """Whether it goes directly to a worker."""
        if self._loop.random.random() >= self.rates.direct:
            return False
        self._check_committed(pointer)
        self._loop.spawn("main", self._deliver(pointer, 0.0))
        return True

    def _check_committed(self, pointer: Pointer) -> None:
        if not self._store.knows(pointer, StepScheduled):
            self._store.violations.append(f"{pointer} was published before its commit")

    async def put(self, pointers: Sequence[Pointer]) -> None:
        await self._network.request("queue", lambda: self._put(pointers))

    async def _put(self, pointers: Sequence[Pointer]) -> None:
        random = self._loop.random
        for pointer in pointers:
            self._check_committed(pointer)
            if random.random() < self.rates.queue_drop:
                continue
            for _ in range(2 if random.random() < self.rates.queue_twice else 1):
                late = random.random() * 8 if random.random() < self.rates.queue_late else random.random() * 0.01
                self._loop.spawn("main", self._deliver(pointer, late))

    async def _deliver(self, pointer: Pointer, late_s: float) -> None:
        await self._clock.sleep(late_s)
        await self._queue.put([pointer])

    async def take(self, limit: int) -> list[Claim]:
        """Claims that do not reach the worker are lost."""
        return await self._network.request("queue", lambda: self._queue.take(limit))

    async def done(self, claim: Claim) -> None:
        if self._store.unanswered():
            self._store.violations.append(f"{claim.pointer} was acknowledged before its commit")
        await self._network.request("queue", lambda: self._queue.done(claim))

    def wipe(self) -> None:
        self._queue.wipe()

    def lose_takers(self) -> None:
        """Call this after a process was killed: its takers would consume a wake-up that a live one needs."""
        self._queue.wake_all()


class SimLink:
    """Requests to the owner of an execution: they run in its process; requests and answers may be lost."""

    def __init__(self, loop: SimLoop, rates: FaultRates, store: SimStore, network: SimNetwork) -> None:
        self._loop, self.rates, self._store, self._network = loop, rates, store, network
        self._grants: set[tuple[str, str, Epoch]] = set()
        self.servers: dict[str, tuple[str, Control]] = {}  # name → its process and its control

    async def _request(self, execution_id: str, work: Callable[[Control], Awaitable[T]]) -> T:
        name = self._store.memory.owner(execution_id)
        if name is None or name not in self.servers or self._loop.random.random() < self.rates.link_before:
            await SimClock(self._loop).sleep(0.05)
            raise Unavailable("no server answers")
        return await self._call_server(name, work)

    async def _call_server(self, name: str, work: Callable[[Control], Awaitable[T]]) -> T:
        if name not in self.servers:
            raise Unavailable("no server answers")
        process, control = self.servers[name]
        answer: asyncio.Future[T] = self._loop.create_future()
        here, there, is_lost = self._network.here(), name.partition(".")[0], self._network.is_lost

        async def serve() -> None:
            try:
                done = await work(control)
            except Exception as error:  # noqa: BLE001  # every error of the server goes back over the link
                if not answer.done() and is_lost(there, here) is None:
                    answer.set_exception(error)
            else:
                lost = self._loop.random.random() < self.rates.link_after or is_lost(there, here) is not None
                if not answer.done() and not lost:
                    answer.set_result(done)

        def give_up() -> None:
            if not answer.done():
                answer.set_exception(Unavailable("no answer in time"))

        if is_lost(here, there) is None:
            self._loop.spawn(process, serve())
        timeout = self._loop.call_later(TIMEOUT_S, give_up)
        try:
            return await answer
        finally:
            timeout.cancel()

    async def begin(self, execution_id: str, frame: str, worker: str) -> Grant | None:
        async def ask(control: Control) -> Grant | None:
            grant = await control.begin(execution_id, frame, worker)
            if grant is not None:
                self._check_grant(execution_id, grant)
            return grant

        self._store.granted.discard(asyncio.current_task())  # the task has released its previous grant
        grant = await self._request(execution_id, ask)
        if grant is not None:
            self._store.granted.add(asyncio.current_task())
        return grant

    def _check_grant(self, execution_id: str, grant: Grant) -> None:
        """A former owner may grant an outdated epoch, which is refused; the same grant never comes twice."""
        used = (execution_id, grant.work.frame.id, grant.epoch)
        if used in self._grants:
            self._store.violations.append(f"{execution_id}: {used[1]} was granted twice with one epoch")
        self._grants.add(used)

    async def report(self, execution_id: str, report: Report, *, room: int = 0) -> ReportAnswer:
        async def ask(control: Control) -> ReportAnswer:
            answer = await control.report(execution_id, report, room=room)
            for grant in answer.next:
                self._check_grant(execution_id, grant)
            return answer

        answer = await self._request(execution_id, ask)
        self._store.granted.discard(asyncio.current_task())
        if answer.word == "go":
            position = self._store.position(execution_id, report.frame)
            if position < report.position + len(report.facts):
                self._store.violations.append(f"{report.frame} was answered before its commit")
        return answer

    async def beat(self, worker: str, holds: Sequence[tuple[str, str, Epoch]]) -> list[tuple[str, str]]:
        stop: list[tuple[str, str]] = []
        for name in list(self.servers):
            try:
                stop += await self._call_server(name, lambda control: control.beat(worker, holds))
            except Unavailable:
                continue
        return stop

    async def start(self, execution_id: str, digest: str, start: Start) -> None:
        await self._request(execution_id, lambda control: control.start(execution_id, digest, start))

    async def command(self, execution_id: str, command: Command) -> None:
        try:
            await self._request(execution_id, lambda control: control.command(execution_id, command))
        except Rejected:
            self._store.granted.discard(asyncio.current_task())  # a rejection is an answer: there is nothing to commit
            raise
        self._store.granted.discard(asyncio.current_task())

    async def iterations(self, execution_id: str, run: str, only: range | None = None) -> list[Output | None]:
        return await self._request(execution_id, lambda control: control.iterations(execution_id, run, only))

    async def parent(self, execution_id: str) -> str | None:
        return await self._request(execution_id, lambda control: control.parent(execution_id))
