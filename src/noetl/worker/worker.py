"""A worker: takes pointers from the queue, begins frames with their owner, drives them, keeps its leases."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from msgspec.json import decode, encode
from msgspec.structs import replace

from noetl.clock import Clock
from noetl.engine.apply import advance
from noetl.engine.commands import Report
from noetl.engine.facts import ForTime, FrameParked, TaskDone
from noetl.engine.pipeline import Answered, Decided, Over, Park, RunTask, Wait, next_move, take
from noetl.engine.results import INLINE_BYTES_MAX, absent, recorded, restore
from noetl.errors import NotFound, Unavailable
from noetl.output import Output, failed
from noetl.ports import Answer, Claim, Epoch, Grant, Link, ResultStore, WorkQueue

PATIENCE_S = 5.0  # a longer wait parks the frame
REPORT_TRIES_MAX = 20
RETRY_S = 0.5


class Call(NamedTuple):
    """What a tool may use besides its input."""

    key: str  # idempotency key, the same for every attempt
    attempt: int


ToolRun: TypeAlias = Callable[[RunTask, Call], Awaitable[Output]]


class Outside(NamedTuple):
    """What a worker reaches."""

    link: Link
    queue: WorkQueue
    results: ResultStore


class Worker:
    """Any number of slots on one link."""

    def __init__(self, name: str, outside: Outside, tools: Mapping[str, ToolRun], clock: Clock) -> None:
        self.name = name
        self.link, self.queue, self.results = outside
        self.tools = tools
        self.clock = clock
        self.holds: dict[tuple[str, str], Epoch] = {}
        self.stop: set[tuple[str, str]] = set()

    async def serve(self) -> None:
        """One slot: claim, do, again."""
        while True:
            try:
                claims = await self.queue.take(1)
            except Unavailable:
                await self.clock.sleep(RETRY_S)
                continue
            for claim in claims:
                await self._do(claim)

    async def beat(self, every_s: float) -> None:
        """Tell the owners what we hold, and learn what to stop."""
        while True:
            await self.clock.sleep(every_s)
            holds = [(execution_id, frame, epoch) for (execution_id, frame), epoch in self.holds.items()]
            if holds:
                try:
                    self.stop.update(await self.link.beat(self.name, holds))
                except Unavailable:
                    continue

    async def _do(self, claim: Claim) -> None:
        execution_id, frame = claim.pointer.execution_id, claim.pointer.frame
        if (execution_id, frame) in self.holds:
            return  # a second pointer to what we are doing
        try:
            grant = await self.link.begin(execution_id, frame, self.name)
        except (Unavailable, NotFound):
            return  # the pointer is lost; the sweeper puts another one
        if grant is not None:
            held = (execution_id, frame)
            self.holds[held] = grant.epoch
            self.stop.discard(held)
            drive = Drive(self, execution_id, grant)
            try:
                await drive.run()
            finally:
                self.holds.pop(held, None)
            if not drive.answered:
                return  # the queue may know less than the log, never more
        try:
            await self.queue.done(claim)
        except Unavailable:
            return

    async def call(self, task: RunTask) -> Output:
        """A tool never raises for what the world does; what it raises all the same is its own failure."""
        tool = self.tools.get(task.task.kind)
        if tool is None:
            return failed("tool", f'this worker has no tool of kind "{task.task.kind}"')
        try:
            return await tool(task, Call(task.key, task.attempt))
        except Exception as error:  # noqa: BLE001  # the border of a tool call (STYLE §2)
            return failed("tool", f"{type(error).__name__}: {error}")


class Drive:
    """One frame in our hands, from its grant to its end or to someone else's."""

    def __init__(self, worker: Worker, execution_id: str, grant: Grant) -> None:
        self.worker = worker
        self.execution_id = execution_id
        self.work = grant.work
        self.epoch = grant.epoch
        self.position = grant.work.frame.calls
        self.answered = True  # is everything that we did on record?
        self._time = (grant.at, worker.clock.monotonic())
        self.made: list[TaskDone] = []

    def now(self) -> datetime:
        """The owner's time, carried on by our own pulse."""
        at, then = self._time
        return at + timedelta(seconds=self.worker.clock.monotonic() - then)

    async def run(self) -> None:
        clock = self.worker.clock
        await self._fetch()
        while (self.execution_id, self.work.frame.id) not in self.worker.stop:
            move = next_move(self.work, self.now())
            match move:
                case RunTask():
                    begun, started_at = clock.monotonic(), self.now()
                    output = await self._kept(await self.worker.call(move))
                    ms = round((clock.monotonic() - begun) * 1000, 3)
                    fact = take(self.work, move, output, self.now(), chance=clock.chance(), ms=ms)
                    self._add(replace(fact, started_at=started_at, ms=ms))
                    # The barrier: the next effect begins only when this one is on record.
                    if not move.task.pure and not await self._flush():
                        return
                case Answered():
                    self._add(take(self.work, move, move.output, self.now(), chance=clock.chance()))
                case Decided(fact):
                    self._add(fact)
                case Park(parked):
                    await self._flush(parked)
                    return
                case Wait(until):
                    if not await self._flush():
                        return
                    wait = until - self.now()
                    if wait > timedelta(seconds=PATIENCE_S):
                        frame = self.work.frame
                        await self._flush(
                            FrameParked(frame=frame.id, call=frame.calls + 1, until=ForTime(at=until))
                        )
                        return
                    await clock.sleep(max(0.0, wait.total_seconds()))
                case Over():
                    await self._flush()
                    return
        self.answered = False  # we were told to stop: what we did is on nobody's record

    async def _fetch(self) -> None:
        """What earlier tasks gave back and was too large for the log: this frame sees it whole (D52)."""
        refs = absent(self.work.frame)
        bodies = {slot: decode(await self.worker.results.get(ref)) for slot, ref in refs.items()}
        restore(self.work.frame, bodies)

    async def _kept(self, output: Output) -> Output:
        """Large data goes to the result store before the event that names it (D51)."""
        always = self.work.pipeline.reads_ref
        if output.ref is not None or not (always or isinstance(output.data, str | list | dict)):
            return output
        body = encode(output.data)
        if len(body) <= INLINE_BYTES_MAX and not always:
            return output
        return replace(output, ref=await self.worker.results.put(self.execution_id, body, "application/json"))

    def _add(self, fact: TaskDone) -> None:
        """What goes on record is cut to the limit; our own frame goes on with all of it."""
        self.made.append(recorded(self.work, fact))
        advance(self.work.frame, fact)

    async def _flush(self, parked: FrameParked | None = None) -> bool:
        """Report what was made. False: the frame is no longer ours."""
        if not self.made and parked is None:
            return True
        report = Report(
            frame=self.work.frame.id,
            position=self.position,
            facts=tuple(self.made),
            parked=parked,
            epoch=self.epoch,
        )
        answer = await self._report(report)
        self.position += len(self.made)
        self.made = []
        return answer.word == "go"

    async def _report(self, report: Report) -> Answer:
        """The same report again until it is answered: its position makes it count once."""
        for attempt in range(REPORT_TRIES_MAX):
            try:
                return await self.worker.link.report(self.execution_id, report)
            except Unavailable:
                await self.worker.clock.sleep(RETRY_S * min(attempt + 1, 6))
            except NotFound:
                return Answer("stop", "gone")
        self.answered = False
        return Answer("stop", "nobody answers")
