"""A simulated world: clocks that disagree; a store, a queue and a link that fail as real ones do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeVar
from uuid import UUID

from noetl.adapters.memory.queue import MemoryQueue
from noetl.adapters.memory.store import MemoryStore
from noetl.control.executions import Control
from noetl.engine.commands import Command, Report, Start
from noetl.engine.facts import Fact, StepScheduled, TaskDone
from noetl.engine.state import Status
from noetl.errors import Conflict, Fenced, Rejected, Unavailable
from noetl.ids import frame_parts
from noetl.output import Output
from noetl.ports import Append, Claim, Epoch, Grant, LogRow, OwnedPartitions, Pointer, ReportAnswer, Snapshot
from noetl.testing.simulator.loop import SimLoop

T = TypeVar("T")
REQUEST_S = 2.0  # how long one waits for an answer over the link
ASTRAY_S = 100.0  # between an instant on record and the store's time: servers are stopped, and go on


class Odds(NamedTuple):
    """How often things go wrong; drawn for each seed, some of them 0 (swarm)."""

    store_before: float = 0.0  # refused, nothing done
    store_after: float = 0.0  # done, and told as failed
    store_late: float = 0.0  # told as failed, and done some seconds later
    queue_drop: float = 0.0
    queue_twice: float = 0.0
    queue_late: float = 0.0
    link_before: float = 0.0
    link_after: float = 0.0
    skew_s: float = 0.0


class SimClock:
    """A process's own watch: it may be wrong, and it goes on."""

    def __init__(self, loop: SimLoop, skew_s: float = 0.0) -> None:
        self._loop = loop
        self._start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=skew_s)
        self._ids = 0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        return self._loop.time()

    def chance(self) -> float:
        return self._loop.dice.random()

    def new_id(self) -> str:
        self._ids += 1
        return str(UUID(int=self._ids))

    async def sleep(self, seconds: float) -> None:
        await self._loop.sleeping(seconds)


class SimStore:
    """A store behind a network: slow, and now and then silent about what it did."""

    def __init__(self, loop: SimLoop, odds: Odds, partitions: int) -> None:
        self._loop, self.odds = loop, odds
        self._clock = SimClock(loop)
        self.truth = MemoryStore(self._clock, partitions)
        self.granted: set[object] = set()  # tasks that hold a grant and have had no answer yet
        self.violations: list[str] = []  # of the order of things; whoever runs the world looks at them

    async def _around(self, work: Callable[[], Awaitable[T]]) -> T:
        dice = self._loop.dice
        way = dice.random()  # the time goes by on the way there, on the way back, or on both
        if way < 0.7:
            await self._clock.sleep(dice.random() * 0.01)
        if dice.random() < self.odds.store_before:
            raise Unavailable("the store is away")
        if dice.random() < self.odds.store_late:
            self._loop.spawn("world", self._later(work))
            raise Unavailable("the store is slow")
        done = await work()
        if way > 0.3:
            await self._clock.sleep(dice.random() * 0.01)
        if dice.random() < self.odds.store_after:
            raise Unavailable("the store went away")
        return done

    async def _later(self, work: Callable[[], Awaitable[T]]) -> None:
        await self._clock.sleep(self._loop.dice.random() * 5)
        await work()

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        return await self._around(lambda: self._append(appends))

    async def _append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        done = await self.truth.append(appends)
        for each, refused in zip(appends, done, strict=True):
            if refused is None and each.owner != self.truth.epoch(each.execution_id):
                self.violations.append(f"{each.execution_id}: a deposed server's append was accepted")
            if refused is None and abs((each.at - self._clock.now()).total_seconds()) > ASTRAY_S:
                self.violations.append(f"{each.execution_id}: an instant that is not the store's time")
        return done

    async def status(self, execution_id: str) -> Status | None:
        return await self._around(lambda: self.truth.status(execution_id))

    async def snapshot(self, execution_id: str) -> Snapshot | None:
        return await self._around(lambda: self.truth.snapshot(execution_id))

    async def keep(self, execution_id: str, snapshot: Snapshot) -> None:
        await self._around(lambda: self.truth.keep(execution_id, snapshot))

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]:
        return await self._around(lambda: self.truth.read(execution_id, after, up_to))

    async def live(self, partitions: Sequence[int]) -> list[tuple[str, int]]:
        return await self._around(lambda: self.truth.live(partitions))

    def position(self, execution_id: str, frame: str) -> int:
        """Calls of the frame on record."""
        rows = self.truth.rows.get(execution_id, ())
        calls = [f.call for row in rows for f in row.facts if isinstance(f, TaskDone) and f.frame == frame]
        return max(calls, default=0)

    def unanswered(self) -> bool:
        """Does the task that runs now hold a grant of which nothing is on record?"""
        return asyncio.current_task() in self.granted

    def knows(self, pointer: Pointer, *kinds: type[Fact]) -> bool:
        """Is there a fact of one of these kinds about the frame, or its run, on record?"""
        run, _ = frame_parts(pointer.frame)
        about = {pointer.frame, run}
        return any(
            isinstance(fact, kinds)
            and (getattr(fact, "frame", None) in about or getattr(fact, "run", None) in about)
            for row in self.truth.rows.get(pointer.execution_id, ())
            for fact in row.facts
        )

    async def own(self, server: str, partitions: Sequence[int], ttl_s: float) -> OwnedPartitions:
        return await self._around(lambda: self.truth.own(server, partitions, ttl_s))

    async def let_go(self, server: str, partitions: Sequence[int]) -> None:
        await self._around(lambda: self.truth.let_go(server, partitions))

    async def servers(self, server: str, ttl_s: float) -> list[str]:
        return await self._around(lambda: self.truth.servers(server, ttl_s))


class _Crowd(MemoryQueue):
    """A queue whose takers may be killed."""

    def wake_all(self) -> None:
        """Whoever lives gets in line again; whoever does not would be woken later in the place of others."""
        for _ in range(len(self._takers)):
            self._wake_one()


class SimQueue:
    """A queue that drops, repeats and delays, and whose disk may be wiped.

    It sees to the order of things: what is published is in the log, and so is what is acknowledged.
    """

    def __init__(self, loop: SimLoop, odds: Odds, store: SimStore) -> None:
        self._loop, self.odds, self._store = loop, odds, store
        self._clock = SimClock(loop)
        self._queue = _Crowd()

    async def put(self, pointers: Sequence[Pointer]) -> None:
        dice = self._loop.dice
        for pointer in pointers:
            if not self._store.knows(pointer, StepScheduled):
                self._store.violations.append(f"{pointer} was published before its commit")
            if dice.random() < self.odds.queue_drop:
                continue
            for _ in range(2 if dice.random() < self.odds.queue_twice else 1):
                late = dice.random() * 8 if dice.random() < self.odds.queue_late else dice.random() * 0.01
                self._loop.spawn("world", self._deliver(pointer, late))

    async def _deliver(self, pointer: Pointer, late_s: float) -> None:
        await self._clock.sleep(late_s)
        await self._queue.put([pointer])

    async def take(self, limit: int) -> list[Claim]:
        return await self._queue.take(limit)

    async def done(self, claim: Claim) -> None:
        if self._store.unanswered():
            self._store.violations.append(f"{claim.pointer} was acknowledged before its commit")
        await self._queue.done(claim)

    def wipe(self) -> None:
        self._queue.wipe()

    def lose_takers(self) -> None:
        """A process was killed, perhaps one that waits here."""
        self._queue.wake_all()


class SimLink:
    """Requests to the owner of an execution: run in its process, lost on the way there or back."""

    def __init__(self, loop: SimLoop, odds: Odds, store: SimStore) -> None:
        self._loop, self.odds, self._store = loop, odds, store
        self._grants: set[tuple[str, str, Epoch]] = set()
        self.servers: dict[str, tuple[str, Control]] = {}  # name → its process and its control

    async def _request(self, execution_id: str, work: Callable[[Control], Awaitable[T]]) -> T:
        name = self._store.truth.owner(execution_id)
        if name is None or name not in self.servers or self._loop.dice.random() < self.odds.link_before:
            await SimClock(self._loop).sleep(0.05)
            raise Unavailable("nobody answers")
        return await self._reach(name, work)

    async def _reach(self, name: str, work: Callable[[Control], Awaitable[T]]) -> T:
        if name not in self.servers:
            raise Unavailable("nobody answers")
        process, control = self.servers[name]
        answer: asyncio.Future[T] = self._loop.create_future()

        async def serve() -> None:
            try:
                done = await work(control)
            except Exception as error:  # noqa: BLE001  # whatever the server says goes back over the link
                if not answer.done():
                    answer.set_exception(error)
            else:
                if not answer.done() and self._loop.dice.random() >= self.odds.link_after:
                    answer.set_result(done)

        def give_up() -> None:
            if not answer.done():
                answer.set_exception(Unavailable("no answer in time"))

        self._loop.spawn(process, serve())
        patience = self._loop.call_later(REQUEST_S, give_up)
        try:
            return await answer
        finally:
            patience.cancel()

    async def begin(self, execution_id: str, frame: str, worker: str) -> Grant | None:
        async def ask(control: Control) -> Grant | None:
            grant = await control.begin(execution_id, frame, worker)
            if grant is not None:
                self._use(execution_id, grant)
            return grant

        self._store.granted.discard(asyncio.current_task())  # whatever it had, it has let go of
        grant = await self._request(execution_id, ask)
        if grant is not None:
            self._store.granted.add(asyncio.current_task())
        return grant

    def _use(self, execution_id: str, grant: Grant) -> None:
        """A deposed owner may still hand out an old one, which is refused; twice the same never."""
        used = (execution_id, grant.work.frame.id, grant.epoch)
        if used in self._grants:
            self._store.violations.append(f"{execution_id}: the same grant of {used[1]} twice")
        self._grants.add(used)

    async def report(self, execution_id: str, report: Report, *, room: int = 0) -> ReportAnswer:
        async def ask(control: Control) -> ReportAnswer:
            answer = await control.report(execution_id, report, room=room)
            for grant in answer.next:
                self._use(execution_id, grant)
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
                stop += await self._reach(name, lambda control: control.beat(worker, holds))
            except Unavailable:
                continue
        return stop

    async def start(self, execution_id: str, digest: str, start: Start) -> None:
        await self._request(execution_id, lambda control: control.start(execution_id, digest, start))

    async def command(self, execution_id: str, command: Command) -> None:
        try:
            await self._request(execution_id, lambda control: control.command(execution_id, command))
        except Rejected:
            self._store.granted.discard(asyncio.current_task())  # it is answered: there is nothing to record
            raise
        self._store.granted.discard(asyncio.current_task())

    async def iterations(self, execution_id: str, run: str, only: range | None = None) -> list[Output | None]:
        return await self._request(execution_id, lambda control: control.iterations(execution_id, run, only))
