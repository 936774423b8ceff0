"""One frame in a worker's hands, from its grant to its end or to someone else's.

The pipeline machine says what to do; what came of it is reported before the next effect begins.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec.json import decode, encode
from msgspec.structs import replace

from noetl.engine.apply import advance
from noetl.engine.commands import Report
from noetl.engine.facts import ForTime, FrameParked, TaskDone
from noetl.engine.moves import Answered, Decided, Over, Park, RunTask, Wait
from noetl.engine.pipeline import next_move, take
from noetl.engine.results import absent, recorded, restore
from noetl.errors import NoetlError, NotFound, Rejected, Unavailable
from noetl.failpoints import failpoint
from noetl.output import JSON, Output, failed
from noetl.paging import is_json
from noetl.ports import Epoch, Grant, ReportAnswer, ResultStore
from noetl.worker.calls import total_s
from noetl.worker.keychain import Keys
from noetl.worker.loop_data import close_loop, open_loop
from noetl.worker.result_policy import DEFAULT, ResultPolicy
from noetl.worker.stop import REPORT_TRIES_MAX, Stopped, insist

if TYPE_CHECKING:
    from noetl.worker.worker import Worker

PATIENCE_S = 5.0  # a longer wait parks the frame
SLOW_S = 0.05  # a task that takes longer is reported as started
PROGRESS_S = 0.2  # between two words of how far a call is
SAID_CHARS_MAX = 1_000  # of one line


# The frame that the present task works on: who asks for a credential must say on whose behalf.
HELD: ContextVar[tuple[str, str, Epoch] | None] = ContextVar("held", default=None)


class LogLine(NamedTuple):
    """What a tool said while it worked."""

    execution_id: str
    frame: str
    kind: Literal["line", "progress"]
    words: str


class FrameDriver:
    """Holds the frame, and the time of its owner."""

    def __init__(self, worker: Worker, execution_id: str, grant: Grant) -> None:
        self.worker = worker
        self.execution_id = execution_id
        self.work = grant.work
        self.epoch = grant.epoch
        self.position = grant.work.frame.calls
        self.answered = True  # is everything that we did on record?
        self.following: tuple[Grant, ...] = ()  # what the last answer gave us to go on with
        self._time = (grant.at, worker.clock.monotonic())
        self._made: list[TaskDone] = []
        self._stopped = False
        self._scope: asyncio.Timeout | None = None  # around the call that runs now
        self._missing: Output | None = None  # why the frame can not see what it should
        self._lost = grant.lost
        self._keys = Keys(worker.keychain)
        self._tells_at = 0.0
        self.keeping = DEFAULT  # of the task that runs

    def now(self) -> datetime:
        """The owner's time, carried on by our own pulse."""
        at, then = self._time
        return at + timedelta(seconds=self.worker.clock.monotonic() - then)

    def stop(self) -> None:
        """The owner says so: the call that runs is given up, and nothing follows."""
        self._stopped = True
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(0)

    async def run(self) -> None:
        HELD.set((self.execution_id, self.work.frame.id, self.epoch))
        try:
            if self.work.place.opens is not None:
                failpoint("worker.before-start-loop")
                await open_loop(self, self.work.place.opens)
                return
            if self.work.place.closes is not None:
                await close_loop(self, self.work.place.closes)
                return
            await self._fetch()
            await self._go()
        except Stopped:
            self.answered = False  # what we did is on nobody's record

    async def _go(self) -> None:
        clock = self.worker.clock
        while not self._stopped and not (self.worker.leaving and not self._made):
            until = self.work.frame.until
            keys = await self._keys.ready(self.work, waits=until is not None and self.now() < until)
            move = next_move(self.work, self.now(), keys.values)
            match move:
                case RunTask():
                    begun, started_at = clock.monotonic(), self.now()
                    output = keys.missing or await self._call(move, started_at)
                    ms = round((clock.monotonic() - begun) * 1000, 3)
                    fact = take(self.work, move, output, self.now(), chance=clock.chance(), ms=ms)
                    self._add(replace(fact, started_at=started_at))
                    # The barrier: the next effect begins only when this one is on record.
                    if not move.task.pure and not await self._flush():
                        return
                case Answered():
                    self._add(take(self.work, move, move.output, self.now(), chance=clock.chance()))
                case Decided(fact):
                    self._add(self._keys.decided(fact, keys.missing))
                case Park(parked):
                    await self._flush(parked)
                    return
                case Wait(until):
                    if not await self._flush() or not await self._wait(until):
                        return
                case Over():
                    await self._flush()
                    return
        if not self._stopped:
            await self._let_go()
        raise Stopped

    async def _let_go(self) -> None:
        """We are leaving, and nothing of it runs: a report of nothing gives it back."""
        report = Report(frame=self.work.frame.id, position=self.position, epoch=self.epoch)
        with suppress(Unavailable, NotFound, Rejected):  # then it is another's when our lease is over
            await self.worker.link.report(self.execution_id, report)

    async def _wait(self, until: datetime) -> bool:
        """Between two attempts: here when it is short, parked when it is long."""
        wait = until - self.now()
        if wait > timedelta(seconds=PATIENCE_S):
            frame = self.work.frame
            await self._flush(FrameParked(frame=frame.id, call=frame.calls + 1, until=ForTime(at=until)))
            return False
        await self.worker.clock.sleep(max(0.0, wait.total_seconds()))
        return True

    # The call

    async def _call(self, called: RunTask, started_at: datetime) -> Output:
        if self._missing is not None:
            return self._missing
        if not called.task.pure and self._lost:
            lost, self._lost = self._lost, 0
            words = f'{lost} workers were lost, one after the other, while they ran task "{called.task.name}"'
            return failed("lost", f"{words}: it is not tried again")
        try:
            self.keeping = ResultPolicy.of(called.task.spec)
            results = self.keeping.store_in(self.worker.results)
        except Rejected as error:
            return failed("input", str(error))
        if called.task.pure:
            return await self._kept(self._keys.taken(called, await self.worker.tool(called, self)), results)
        loop = asyncio.get_running_loop()
        slow = loop.call_later(SLOW_S, self._say_started, started_at) if self.position == 0 else None
        seconds = total_s(called.task.spec)
        try:
            async with asyncio.timeout(seconds) as self._scope:
                failpoint("worker.before-call")
                output = await self.worker.tool(called, self)
            failpoint("worker.after-call")
        except TimeoutError:
            if self._stopped:
                raise Stopped from None
            message = f'task "{called.task.name}" took longer than its timeout of {seconds:g} s'
            output = failed("timeout", message, retryable=True)
        finally:
            self._scope = None
            if slow is not None:
                slow.cancel()
        return await self._kept(self._keys.taken(called, output), results)

    def say(self, words: str) -> None:
        """A line of the tool's, for whoever watches; it is not kept."""
        self._tell("line", self._keys.masked(words)[:SAID_CHARS_MAX])

    def progress(self, done: float, of: float | None) -> None:
        """How far the call is: told now and then."""
        now = self.worker.clock.monotonic()
        if now >= self._tells_at:
            self._tells_at = now + PROGRESS_S
            self._tell("progress", f"{done / of:.0%}" if of else f"{done:,.0f}")

    def _tell(self, kind: Literal["line", "progress"], words: str) -> None:
        if self.worker.listen is not None:
            self.worker.listen(LogLine(self.execution_id, self.work.frame.id, kind, words))

    def _say_started(self, started_at: datetime) -> None:
        """People see what runs, and the step's timeout begins to count."""
        frame = self.work.frame
        report = Report(frame=frame.id, position=frame.calls, epoch=self.epoch, started_at=started_at)
        self.worker.spawn(self._report_started(report))

    async def _report_started(self, report: Report) -> None:
        try:
            answer = await self.worker.link.report(self.execution_id, report)
        except (Unavailable, NotFound):
            return
        if answer.why == "fenced":
            self.stop()

    async def _kept(self, output: Output, results: ResultStore) -> Output:
        """Large data goes to the result store before the event that names it (D51)."""
        always = self.work.pipeline.reads_ref
        output = self.keeping.selected(output)
        if output.ref is not None:
            return replace(output, ref=self.keeping.marked(self.execution_id, output.ref))
        if not (always or isinstance(output.data, str | list | dict)):
            return output
        body = encode(output.data)
        if len(body) <= self.keeping.inline_max and not always:
            return output
        failpoint("worker.before-store")
        ref = await self._store(body, results)
        failpoint("worker.after-store")
        return replace(output, ref=ref)

    async def _store(self, body: bytes, results: ResultStore) -> dict[str, JSON]:
        # When there is no room, nothing of it is on record, and someone does it again when there is.
        return await insist(self.worker.clock, lambda: self.keeping.put(results, self.execution_id, body))

    async def _fetch(self) -> None:
        """The item, and what earlier tasks gave back, when it was too large for the log (D44, D52)."""
        bodies: dict[str, JSON] = {}
        pipeline, frame, place = self.work
        try:
            for slot, ref in absent(frame).items():
                if is_json(ref):  # a file that a tool has kept is read by whoever resolves it
                    bodies[slot] = decode(await self.worker.refs.get(ref))
            if place.items is not None:
                assert place.iter is not None
                assert pipeline.loop is not None
                item = await self.worker.pages.item(place.items, place.iter["index"])
                around = {**place.iter, pipeline.loop.iterator: item}
                self.work = self.work._replace(place=place._replace(iter=around))
        except Unavailable:
            raise Stopped from None
        except NoetlError as error:
            self._missing = failed("reference", str(error))
            return
        restore(frame, bodies)

    # The report

    def _add(self, fact: TaskDone) -> None:
        """What goes on record is cut to the limit; our own frame goes on with all of it."""
        self._made.append(recorded(self.work, fact, self.keeping.inline_max))
        self.keeping = DEFAULT
        advance(self.work.frame, fact)

    async def _flush(self, parked: FrameParked | None = None) -> bool:
        """Report what was made. False: the frame is no longer ours."""
        if not self._made and parked is None:
            return True
        report = Report(
            frame=self.work.frame.id,
            position=self.position,
            facts=tuple(self._made),
            parked=parked,
            epoch=self.epoch,
        )
        over = parked is not None or self.work.frame.pc < 0
        # Whoever leaves has no room: what it were given would be nobody's until its lease runs out.
        answer = await self._report(report, room=1 if over and not self.worker.leaving else 0)
        failpoint("worker.after-report")
        self.position += len(self._made)
        self._made = []
        self.following = answer.next
        return answer.word == "go"

    async def _report(self, report: Report, room: int) -> ReportAnswer:
        """The same report again until it is answered: its position makes it count once."""
        worker = self.worker
        try:
            return await insist(
                worker.clock,
                lambda: worker.link.report(self.execution_id, report, room=room),
                REPORT_TRIES_MAX,
            )
        except NotFound:
            return ReportAnswer("stop", "gone")
        except Rejected as error:
            return ReportAnswer("stop", error.code)  # it can not be sent: whoever is asked next may do better
