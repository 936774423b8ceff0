"""A frame driver runs one frame in a worker, from its grant until the frame ends, parks or is fenced.

The pipeline machine decides the next move. Each result is reported before the next effect begins.
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
from noetl.engine.pipeline import next_move, refused, take
from noetl.engine.results import absent, recorded, restore
from noetl.engine.scopes import is_foreign
from noetl.errors import NoetlError, NotFound, Rejected, Unavailable
from noetl.failpoints import failpoint
from noetl.output import JSON, Output, failed
from noetl.paging import is_json
from noetl.playbook.model import Credential
from noetl.ports import Epoch, Grant, ReportAnswer, ResultStore
from noetl.worker.calls import total_s
from noetl.worker.keychain import FrameCredentials
from noetl.worker.loop_data import close_loop, open_loop
from noetl.worker.result_stores import DEFAULT, ResultPolicy
from noetl.worker.retry import REPORT_TRIES_MAX, Stopped, retry
from noetl.worker.stored_values import MissingValue, StoredValues

if TYPE_CHECKING:
    from noetl.worker.worker import Worker

PARK_AFTER_S = 5.0  # a longer wait parks the frame
SLOW_S = 0.05  # a task that takes longer is reported as started
PROGRESS_S = 0.2  # between two progress messages
LINE_CHARS_MAX = 1_000


# The frame of the current task: a request for a credential names the frame that needs it.
CURRENT_FRAME: ContextVar[tuple[str, str, Epoch] | None] = ContextVar("frame", default=None)


class LogLine(NamedTuple):
    """A line or a progress message of a running tool."""

    execution_id: str
    frame: str
    kind: Literal["line", "progress"]
    text: str


class FrameDriver:
    """Holds the frame and the time of its owner. It is the CallContext of the frame's calls."""

    def __init__(self, worker: Worker, execution_id: str, grant: Grant) -> None:
        self.worker = worker
        self.execution_id = execution_id
        self.work = grant.work
        self.epoch = grant.epoch
        self.position = grant.work.frame.calls
        self.committed = True  # whether all our results are in the log
        self.following: tuple[Grant, ...] = ()  # grants in the last answer
        self._time = (grant.at, worker.clock.monotonic())
        self._unreported: list[TaskDone] = []
        self._stopped = False
        self._timeout: asyncio.Timeout | None = None  # around the running call
        self._missing: Output | None = None  # the failure to read an item or an earlier result
        self._lost = grant.lost
        self._credentials = FrameCredentials(worker.keychain)
        self.values = StoredValues(self)
        self._next_progress = 0.0
        self.result_policy = DEFAULT  # of the running task

    def now(self) -> datetime:
        """The owner's time, extrapolated with the local monotonic clock."""
        at, then = self._time
        return at + timedelta(seconds=self.worker.clock.monotonic() - then)

    def stop(self) -> None:
        """On request of the owner: abort the running call, and begin no other."""
        self._stopped = True
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(0)

    async def run(self) -> None:
        CURRENT_FRAME.set((self.execution_id, self.work.frame.id, self.epoch))
        try:
            if self.work.place.opens is not None:
                failpoint("worker.before-start-loop")
                await open_loop(self, self.work.place.opens)
                return
            if self.work.place.closes is not None:
                await close_loop(self, self.work.place.closes)
                return
            if self.work.place.decides is not None:
                await self.values.make_decision(self.work.place.decides)
                return
            await self._read_refs()
            await self._run_pipeline()
        except Stopped:
            self.committed = False  # our last results are not in the log

    async def _run_pipeline(self) -> None:
        clock = self.worker.clock
        while not self._stopped and not (self.worker.draining and not self._unreported):
            until = self.work.frame.until
            credentials = await self._credentials.resolve(self.work, waits=until is not None and self.now() < until)
            move = next_move(self.work, self.now(), credentials.values)
            match move:
                case RunTask():
                    begun, started_at = clock.monotonic(), self.now()
                    output = credentials.missing or await self._call(move, started_at)
                    ms = round((clock.monotonic() - begun) * 1000, 3)
                    fact = take(self.work, move, output, self.now(), chance=clock.chance(), ms=ms)
                    await self._add(replace(fact, started_at=started_at))
                    # The barrier: the next effect begins only after this one is committed.
                    if not move.task.pure and not await self._flush():
                        return
                case Answered():
                    await self._add(take(self.work, move, move.output, self.now(), chance=clock.chance()))
                case Decided(fact):
                    await self._add(self._credentials.mask_fact(fact, credentials.missing))
                case Park(parked, document):
                    await self._flush(await self.values.record_parked(parked), document)
                    return
                case Wait(until):
                    if not await self._flush() or not await self._wait(until):
                        return
                case Over():
                    await self._flush()
                    return
        if not self._stopped:
            await self._release()
        raise Stopped

    async def _release(self) -> None:
        """The worker is draining and has not begun the frame: an empty report returns it."""
        report = Report(frame=self.work.frame.id, position=self.position, epoch=self.epoch)
        with suppress(Unavailable, NotFound, Rejected):  # then the frame is free when our lease expires
            await self.worker.link.report(self.execution_id, report)

    async def _wait(self, until: datetime) -> bool:
        """Wait between two attempts: a short time here, a long time parked."""
        wait = until - self.now()
        if wait > timedelta(seconds=PARK_AFTER_S):
            frame = self.work.frame
            await self._flush(FrameParked(frame=frame.id, call=frame.calls + 1, until=ForTime(at=until)))
            return False
        await self.worker.clock.sleep(max(0.0, wait.total_seconds()))
        return True

    # Calls

    async def _call(self, called: RunTask, started_at: datetime) -> Output:
        if self._missing is not None:
            return self._missing
        if not called.task.pure and self._lost:
            lost, self._lost = self._lost, 0
            reason = f'{lost} workers vanished one after the other while they ran task "{called.task.name}"'
            return failed("lost", f"{reason}: it is not tried again")
        try:
            self.result_policy = ResultPolicy.of(called.task.spec)
            results = self.result_policy.store_in(self.worker.results)
        except Rejected as error:
            return failed("input", str(error))
        if called.task.pure:
            return await self._stored(
                self._credentials.mask_output(called, await self.worker.tool(called, self)), results
            )
        loop = asyncio.get_running_loop()
        slow = loop.call_later(SLOW_S, self._on_slow, started_at) if self.position == 0 else None
        seconds = total_s(called.task.spec)
        try:
            async with asyncio.timeout(seconds) as self._timeout:
                failpoint("worker.before-call")
                output = await self.worker.tool(called, self)
            failpoint("worker.after-call")
        except TimeoutError:
            if self._stopped:
                raise Stopped from None
            message = f'task "{called.task.name}" took longer than its timeout of {seconds:g} s'
            output = failed("timeout", message, retryable=True)
        finally:
            self._timeout = None
            if slow is not None:
                slow.cancel()
        return await self._stored(self._credentials.mask_output(called, output), results)

    def say(self, text: str) -> None:
        """Publish a line of the tool. Lines are not stored."""
        self._publish("line", self._credentials.mask_text(text)[:LINE_CHARS_MAX])

    def use_credential(self, entry: Credential) -> None:
        self._credentials.use(entry)

    def progress(self, done: float, of: float | None) -> None:
        """Publish the progress of the call, at most every PROGRESS_S."""
        now = self.worker.clock.monotonic()
        if now >= self._next_progress:
            self._next_progress = now + PROGRESS_S
            self._publish("progress", f"{done / of:.0%}" if of else f"{done:,.0f}")

    def _publish(self, kind: Literal["line", "progress"], text: str) -> None:
        for hook in self.worker.on_log_line:
            hook(LogLine(self.execution_id, self.work.frame.id, kind, text))

    def _on_slow(self, started_at: datetime) -> None:
        """Report that the task has started: observers see it, and the timeout of the step begins."""
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

    async def _stored(self, output: Output, results: ResultStore) -> Output:
        """Store large data in the result store before the event that refers to it (D51)."""
        always = self.work.pipeline.reads_ref
        output = self.result_policy.selected(output)
        if output.ref is not None:
            if is_foreign(output.ref) and len(encode(output.data)) > self.result_policy.inline_max:
                # The Ref does not refer to the data, so the data must fit into the log.
                message = f"the data beside the Ref is over {self.result_policy.inline_max:,} bytes"
                return failed("payload-too-large", f"{message}: fetch it with a task of kind resolve")
            return replace(output, ref=self.result_policy.with_ttl(self.execution_id, output.ref))
        if not (always or isinstance(output.data, str | list | dict)):
            return output
        body = encode(output.data)
        if len(body) <= self.result_policy.inline_max and not always:
            return output
        failpoint("worker.before-store")
        ref = await self._store(body, results)
        failpoint("worker.after-store")
        return replace(output, ref=ref)

    async def _store(self, body: bytes, results: ResultStore) -> dict[str, JSON]:
        # If the store stays unavailable, nothing is committed, and the call is repeated later.
        return await retry(self.worker.clock, lambda: self.result_policy.put(results, self.execution_id, body))

    async def _read_refs(self) -> None:
        """Read the item and earlier results that were too large for the log (D44, D52)."""
        bodies: dict[str, JSON] = {}
        pipeline, frame, place = self.work
        try:
            if place.stored:
                await self.values.fill()
                place = self.work.place
            for slot, ref in absent(frame).items():
                if is_json(ref):  # a stored file is read by the task that resolves it
                    bodies[slot] = decode(await self.worker.refs.get(ref))
            if place.items is not None:
                assert place.iter is not None
                assert pipeline.loop is not None
                item = await self.worker.pages.item(place.items, place.iter["index"])
                around = {**place.iter, pipeline.loop.iterator: item}
                self.work = self.work._replace(place=place._replace(iter=around))
        except Unavailable:
            raise Stopped from None
        except MissingValue as missing:
            await self._add(refused(self.work, missing.failure, self.now()))
            return
        except NoetlError as error:
            self._missing = failed("reference", str(error))
            return
        restore(frame, bodies)

    # Reports

    async def _add(self, fact: TaskDone) -> None:
        """Add a fact to the report, cut to the limit of the log; our own frame keeps all values."""
        cut = recorded(self.work, fact, self.result_policy.inline_max)
        self.result_policy = DEFAULT
        advance(self.work.frame, fact)
        if cut.stored or cut.picked or self.work.place.marks:
            cut = await self.values.record(cut)
        self._unreported.append(cut)

    async def _flush(self, parked: FrameParked | None = None, document: str | None = None) -> bool:
        """Report new facts. False: we no longer hold the frame."""
        if not self._unreported and parked is None:
            return True
        report = Report(
            frame=self.work.frame.id,
            position=self.position,
            facts=tuple(self._unreported),
            parked=parked,
            document=document,
            epoch=self.epoch,
        )
        over = parked is not None or self.work.frame.pc < 0
        # A draining worker asks for no frames: they would be idle until their leases expire.
        answer = await self._report(report, room=1 if over and not self.worker.draining else 0)
        failpoint("worker.after-report")
        self.position += len(self._unreported)
        self._unreported = []
        self.following = answer.next
        return answer.word == "go"

    async def _report(self, report: Report, room: int) -> ReportAnswer:
        """Repeat the report until it is answered: its position makes it count once."""
        worker = self.worker
        try:
            return await retry(
                worker.clock, lambda: worker.link.report(self.execution_id, report, room=room), REPORT_TRIES_MAX
            )
        except NotFound:
            return ReportAnswer("stop", "gone")
        except Rejected as error:
            return ReportAnswer("stop", error.code)  # it cannot be sent: another worker may succeed
