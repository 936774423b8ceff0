"""A frame driver runs one frame in a worker, from its grant until the frame ends, parks or is fenced.

The pipeline machine decides the next move. Each result is reported before the next effect begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec.json import encode
from msgspec.structs import replace

from noetl.engine.apply import advance
from noetl.engine.commands import Report
from noetl.engine.facts import ForChild, ForTime, FrameParked, TaskDone, TaskStarted
from noetl.engine.moves import Answered, Decided, FrameEnded, Park, RunTask, Wait
from noetl.engine.pipeline import next_move, refused, take
from noetl.engine.results import absent, recorded, restore
from noetl.engine.scopes import is_foreign
from noetl.errors import NoetlError, NotFound, Rejected, Unavailable
from noetl.failpoints import failpoint
from noetl.json_slices import decode_stored, encode_large, release_slices
from noetl.masking import Mask
from noetl.output import JSON, Failure, LargeOutput, Output, failed
from noetl.paging import NOT_CACHED, is_json
from noetl.playbook.model import Credential
from noetl.ports import Epoch, Grant, ReportAnswer, ResultStore
from noetl.slices import in_slices
from noetl.worker.calls import total_s
from noetl.worker.keychain import NO_CREDENTIALS, FrameCredentials
from noetl.worker.loop_data import close_loop, open_loop
from noetl.worker.refs import ExecutionResults
from noetl.worker.result_stores import DEFAULT, ResultPolicy
from noetl.worker.retry import REPORT_TRIES_MAX, Stopped, delay_s, retry
from noetl.worker.stored_values import MissingValue, NamedRef, StoredValues, stored_reads
from noetl.worker.tries import RetryPolicy, Tries, noted

if TYPE_CHECKING:
    from noetl.worker.call_logs import CallLog
    from noetl.worker.worker import Worker

PARK_AFTER_S = 5.0  # a longer wait parks the frame
LOOK_S = 0.05  # between two looks of a worker at its frames; at the second one a frame is reported as started
OVERDUE_S = 0.45  # a call that runs for longer is reported as started, and a task that ended longer ago as done
PROGRESS_S = 0.2  # between two progress messages
LINE_CHARS_MAX = 1_000
_SMALL = frozenset({bool, int, float, type(None)})  # types of data that always fits into the log


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

    # Most frames are so quick that these never change.
    _looks = 0  # of the worker
    _is_started = False  # the start of the frame was reported
    _announced = 0  # the call whose start was reported
    _reporting: asyncio.Task[bool] | None = None  # a report beside the running call
    _running: tuple[RunTask, datetime, float] | None = None  # the call, and when it began
    _between_tries = False  # the running call waits for its next try
    _files: dict[str, str] | None = None  # a part of the code of the running call; None: it has none
    _sized: tuple[JSON, bool | None] = (None, None)  # the data of the last call, and is it too large for the log?
    _large: list[JSON] | None = None  # the data of the last call, to free it in slices; None: it is not large
    _printed: CallLog | None = None  # of the running call; None: it has printed nothing

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
        self._reported = self._time[1]  # when the last effect was reported
        self._stopped = False
        self._timeout: asyncio.Timeout | None = None  # around the running call
        self._missing: Output | None = None  # the failure to read an item or an earlier result
        self._lost = grant.lost
        self._credentials = FrameCredentials(worker.keychain)
        self._values: StoredValues | None = None  # most frames need none
        self._next_progress = 0.0
        self.result_policy = DEFAULT  # of the running task

    @property
    def values(self) -> StoredValues:
        if self._values is None:
            self._values = StoredValues(self)
        return self._values

    def now(self) -> datetime:
        """The owner's time, extrapolated with the local monotonic clock."""
        at, then = self._time
        return at + timedelta(0, self.worker.clock.monotonic() - then)  # by position: a name takes 0.5 µs

    def stop(self) -> None:
        """On request of the owner: abort the running call, and begin no other."""
        self._stopped = True
        self._interrupt()

    def _interrupt(self) -> None:
        """End the running call, or the wait for its next try."""
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
            wanted = stored_reads(self.work) if self.work.place.stored else None
            if wanted or self._has_results() or not self._take_item():
                await self._read_refs(wanted)
            await self._run_pipeline()
        except Stopped:
            self.committed = False  # our last results are not in the log
        finally:
            if self._large:
                self.worker.spawn(in_slices(release_slices(self._large)))
            self._values = None  # a cycle of references would leave each driver to the garbage collector
            if self._reporting is not None:
                self._reporting.cancel()

    async def _run_pipeline(self) -> None:
        clock = self.worker.clock
        while not self._stopped and not (self.worker.draining and not self._unreported):
            if self.work.frame.pc < 0:
                break
            if (waiter := self.worker.turns.waiter(self.execution_id)) is not None:
                await waiter
                if self._stopped or self.worker.draining:
                    continue
            at, until, credentials = self.now(), self.work.frame.until, NO_CREDENTIALS
            if self.work.place.keychain:
                credentials = await self._credentials.resolve(self.work, waits=until is not None and at < until)
            move = next_move(self.work, at, credentials.values)
            match move:
                case RunTask():
                    if not await self._run_task(move, at, credentials.missing):
                        return
                case Answered():
                    await self._add(take(self.work, move, move.output, self.now(), chance=clock.chance()))
                case Decided(fact):
                    await self._add(self._credentials.mask_fact(fact, credentials.missing))
                case Park(parked, document):
                    kept = await self.values.record_parked(parked)
                    if isinstance(parked.until, ForChild) and (failure := await self._misplaced(parked.until.workload)):
                        await self._add(refused(self.work, failure, self.now()))
                        continue
                    await self._flush(kept, document)
                    return
                case Wait(until):
                    if not await self._flush() or not await self._wait(until):
                        return
                case FrameEnded():
                    break
        else:
            if not self._stopped:
                await self._release()
            raise Stopped
        await self._flush()

    async def _misplaced(self, workload: dict[str, JSON]) -> Failure | None:
        """Why a child may not get the workload: it would trust a Ref that came from data (D99). Raises Stopped."""
        try:
            await self.readable(self.work.place.workload).check_passed_on(workload)
        except Unavailable:
            raise Stopped from None
        except NoetlError as error:
            return Failure(kind="reference", message=str(error).removeprefix("foreign-ref: "))
        return None

    def readable(self, workload: dict[str, JSON]) -> ExecutionResults:
        """The results that the execution may read. `workload`: its own."""
        worker, origins = self.worker, self.work.place.origins
        return ExecutionResults(worker.refs, worker.lineage, self.execution_id, workload, origins=origins)

    async def _run_task(self, called: RunTask, at: datetime, missing: Output | None) -> bool:
        """Make the call, or its next try (D92). False: we no longer hold the frame."""
        clock = self.worker.clock
        began = clock.monotonic()
        if self._running is None:
            self._running = called, at, began
        output, results = (missing, None) if missing is not None else await self._call(called)
        tries: Tries = ()
        if not called.task.pure and (policy := RetryPolicy.of(called.task.spec)) is not None:
            tries = noted(self.work.frame.tries, output, round((clock.monotonic() - began) * 1000, 3))
            if policy.repeats(output, tries):
                self.work.frame.tries = tries
                return await self._wait_for_try(policy, output)
        if results is not None:
            output = await self._stored(output, results)
        if tries and (len(tries) > 1 or self.work.pipeline.reads_meta):
            output = replace(output, meta={**output.meta, "tries": list(tries)})
        _, started_at, begun = self._running
        self._running, ended = None, clock.monotonic()
        ms = round((ended - begun) * 1000, 3)
        fact = take(self.work, called, output, self.now(), chance=clock.chance(), ms=ms, started_at=started_at)
        if self._files is not None:
            fact, self._files = replace(fact, files=self._files), None
        await self._add(fact)
        # The barrier: the next effect begins only after this one is committed.
        if not called.task.pure or ended - self._reported >= OVERDUE_S:
            self._reported = ended
            return await self._flush()
        return True

    async def _wait_for_try(self, policy: RetryPolicy, output: Output) -> bool:
        """Wait between two tries: a short time here; a long time, or while the worker drains, parked (D92)."""
        worker, frame = self.worker, self.work.frame
        delay = policy.delay_s(frame.tries)
        until = self.now() + timedelta(seconds=delay)
        self.say(policy.line(frame.tries, output, delay))
        task = self.work.pipeline.tasks[frame.pc]
        if delay <= PARK_AFTER_S and not worker.draining and task.limit is None:  # else the next try needs a permit
            try:
                async with asyncio.timeout(None) as self._timeout:
                    self._between_tries = True
                    failpoint("worker.before-next-try")
                    await worker.clock.sleep(delay)
            except TimeoutError:
                pass  # the frame is stopped, or the worker drains
            finally:
                self._timeout, self._between_tries = None, False
            if self._stopped or not worker.draining:
                return True
        parked = FrameParked(frame=frame.id, call=frame.calls + 1, until=ForTime(at=until), tries=frame.tries)
        await self._flush(parked)
        return False

    async def _release(self) -> None:
        """The worker is draining and runs no call of the frame: an empty report returns it."""
        if not await self._flush():
            return
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

    async def _call(self, called: RunTask) -> tuple[Output, ResultStore | None]:
        """One try, and the store for a large result; without a store its output is recorded as it is."""
        if self._missing is not None:
            return self._missing, None
        if not called.task.pure and self._lost:
            lost, self._lost = self._lost, 0
            reason = f'{lost} workers vanished one after the other while they ran task "{called.task.name}"'
            return failed("poison", f"{reason}: it is not tried again; `noetl retry` tries it again"), None
        try:
            self.result_policy = ResultPolicy.of(called.task.spec)
            results = self.result_policy.store_in(self.worker.results)
        except Rejected as error:
            return failed("input", str(error)), None
        seconds = total_s(called.task.spec)
        if called.task.pure and seconds is None:
            return self._credentials.mask_output(called, await self.worker.tool(called, self)), results
        try:
            async with asyncio.timeout(seconds) as self._timeout:
                failpoint("worker.before-call")
                output = await self.worker.tool(called, self)
            failpoint("worker.after-call")
        except TimeoutError:
            if self._stopped:
                raise Stopped from None
            output = failed("timeout", f'task "{called.task.name}" timed out after {seconds:g} s', retryable=True)
        finally:
            self._timeout = None
            if self._printed is not None:
                printed, self._printed = self._printed, None
                printed.close(self.now())
        return self._credentials.mask_output(called, output), results

    def say(self, text: str) -> None:
        """Publish a line of the tool. Lines are not stored."""
        self._publish("line", self._credentials.mask_text(text)[:LINE_CHARS_MAX])

    def write(self, stream: Literal["out", "err"], chunk: bytes) -> None:
        """Keep bytes that the tool has printed."""
        if self.worker.log_writer is not None and self._timeout is not None:  # after the call, none is kept
            if self._printed is None:
                frame = self.work.frame
                self._printed = self.worker.log_writer.open(self.execution_id, frame.id, frame.calls + 1, self.mask)
            self._printed.write(stream, chunk, self.now())

    def use_credential(self, entry: Credential) -> None:
        self._credentials.use(entry)

    def use_files(self, digests: Mapping[str, str]) -> None:
        self._files = dict(digests)

    def mask(self) -> Mask | None:
        return self._credentials.mask()

    def progress(self, done: float, of: float | None) -> None:
        """Publish the progress of the call, at most every PROGRESS_S."""
        now = self.worker.clock.monotonic()
        if now >= self._next_progress:
            self._next_progress = now + PROGRESS_S
            self._publish("progress", f"{done / of:.0%}" if of else f"{done:,.0f}")

    def _publish(self, kind: Literal["line", "progress"], text: str) -> None:
        for hook in self.worker.on_log_line:
            hook(LogLine(self.execution_id, self.work.frame.id, kind, text))

    async def _stored(self, output: Output, results: ResultStore) -> Output:
        """Store large data in the result store before the event that refers to it (D51)."""
        always = self.work.pipeline.reads_ref
        is_large = False
        if isinstance(output, LargeOutput):
            is_large, output = True, output.plain()
            self._large = [output.data]
        output = self.result_policy.selected(output)
        if output.ref is not None:
            if is_foreign(output.ref) and len(encode(output.data)) > self.result_policy.inline_max:
                # The Ref does not refer to the data, so the data must fit into the log.
                message = f"the data beside the Ref is over {self.result_policy.inline_max:,} bytes"
                return failed("payload-too-large", f"{message}: fetch it with a task of kind resolve")
            return replace(output, ref=self.result_policy.with_ttl(self.execution_id, output.ref))
        if not always and type(output.data) in _SMALL:
            return output
        body = await encode_large(output.data) if is_large else encode(output.data)
        self._sized = output.data, len(body) > self.result_policy.inline_max
        if not self._sized[1] and not always:
            return output
        failpoint("worker.before-store")
        ref = await self._store(body, results)
        failpoint("worker.after-store")
        return replace(output, ref=ref)

    async def _store(self, body: bytes, results: ResultStore) -> dict[str, JSON]:
        # If the store stays unavailable, nothing is committed, and the call is repeated later.
        return await retry(self.worker.clock, lambda: self.result_policy.put(results, self.execution_id, body))

    def _has_results(self) -> bool:
        """Whether there are earlier results, which may be in the result store. A new frame has none."""
        frame = self.work.frame
        return frame.last is not None or frame.answer is not None or bool(frame.outputs)

    def _take_item(self) -> bool:
        """Put a stored item into the scope of the frame. False: its page has to be read first."""
        place = self.work.place
        if place.items is None:
            return True
        assert place.iter is not None
        item = self.worker.pages.cached_item(place.items, place.iter["index"])
        if item is NOT_CACHED:
            return False
        self._put_item(item)
        return True

    def _put_item(self, item: JSON) -> None:
        """In place: the mapping was made for this grant."""
        pipeline, place = self.work.pipeline, self.work.place
        assert pipeline.loop is not None
        assert place.iter is not None
        place.iter[pipeline.loop.iterator] = item

    async def _read_refs(self, wanted: Sequence[NamedRef] | None) -> None:
        """Read these values, earlier results and the item, which were too large for the log (D44, D52)."""
        bodies: dict[str, JSON] = {}
        frame = self.work.frame
        try:
            if wanted:
                await self.values.fill(wanted)
            for slot, ref in absent(frame).items() if self._has_results() else ():
                if is_json(ref):  # a stored file is read by the task that resolves it
                    bodies[slot] = await decode_stored(await self.worker.refs.get(ref))
            if (place := self.work.place).items is not None:
                assert place.iter is not None
                self._put_item(await self.worker.pages.item(place.items, place.iter["index"]))
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

    def look(self) -> None:
        """Report beside the running call what observers cannot see otherwise (D93, D94).

        That the frame has started, which begins the timeout of its step; a call that takes long; and pure tasks,
        which have ended without a report.
        """
        self._looks += 1
        if self._between_tries and self.worker.draining:
            self._interrupt()
        if self._reporting is not None and not self._reporting.done():
            return
        now, running = self.worker.clock.monotonic(), self._running
        is_late = bool(self._unreported) and now - self._reported >= OVERDUE_S
        if running is not None and self._announced != self.work.frame.calls + 1:
            is_late = is_late or now - running[2] >= OVERDUE_S
        if is_late or (self._looks > 1 and not self._is_started and self._is_frame_new()):
            report = self._new_report(running=self._started_call(now))
            if report.facts:
                self._reporting = asyncio.ensure_future(self._report_aside(report))
            else:
                self.worker.spawn(self._announce(report))

    def _is_frame_new(self) -> bool:
        """Whether this may be the first report of a frame. A decision of control is no frame."""
        place = self.work.place
        return self.position == 0 and place.closes is None and place.decides is None

    def _started_call(self, now: float) -> TaskStarted | None:
        """The running call, if it takes long."""
        if self._running is None or now - self._running[2] < OVERDUE_S:
            return None
        called, started_at, _ = self._running
        frame = self.work.frame
        self._announced = frame.calls + 1
        return TaskStarted(
            frame=frame.id,
            call=self._announced,
            task=called.task.name,
            started_at=started_at,
            attempt=called.attempt,
            worker=self.worker.name,
        )

    async def _announce(self, report: Report) -> None:
        try:
            answer = await self.worker.link.report(self.execution_id, report)
        except (Unavailable, NotFound, Rejected):
            self._is_started, self._announced = False, 0  # the next look tries again
            return
        if answer.why == "fenced":
            self.stop()

    async def _report_aside(self, report: Report) -> bool:
        """Report facts beside the running call. False: we no longer hold the frame."""
        try:
            answer = await self._report(report)
        except Stopped:
            answer = ReportAnswer("stop")
        if answer.word == "stop":
            self.stop()
        return answer.word == "go"

    def _new_report(
        self, parked: FrameParked | None = None, document: str | None = None, *, running: TaskStarted | None = None
    ) -> Report:
        """The report of all unreported facts. Its answer must be awaited before the next one is sent."""
        facts, self._unreported = tuple(self._unreported), []
        position, self._is_started = self.position, True
        self.position += len(facts)
        return Report(
            frame=self.work.frame.id,
            position=position,
            facts=facts,
            parked=parked,
            document=document,
            epoch=self.epoch,
            started_at=self._time[0] if position == 0 or running is not None else None,
            running=running,
        )

    async def _add(self, fact: TaskDone) -> None:
        """Add a fact to the report, cut to the limit of the log; our own frame keeps all values."""
        (data, is_large), self._sized = self._sized, (None, None)
        if fact.output is None or fact.output.data is not data:
            is_large = None
        cut = recorded(self.work, fact, self.result_policy.inline_max, is_large=is_large)
        self.result_policy = DEFAULT
        advance(self.work.frame, fact)
        if cut.stored or cut.picked or self.work.place.marks:
            cut = await self.values.record(cut)
        self._unreported.append(cut)

    async def _flush(self, parked: FrameParked | None = None, document: str | None = None) -> bool:
        """Report new facts. False: we no longer hold the frame."""
        if self._reporting is not None and not await self._reporting:
            return False
        if not self._unreported and parked is None:
            return True
        over = parked is not None or self.work.frame.pc < 0
        # A draining worker asks for no frames: they would be idle until their leases expire.
        report = self._new_report(parked, document)
        answer = await self._report(report, room=1 if over and not self.worker.draining else 0)
        failpoint("worker.after-report")
        self.following = answer.next
        return answer.word == "go"

    async def _report(self, report: Report, room: int = 0) -> ReportAnswer:
        """Repeat the report until it is answered: its position makes it count once."""
        worker = self.worker
        for attempt in range(REPORT_TRIES_MAX):
            try:
                return await worker.link.report(self.execution_id, report, room=room)
            except Unavailable:
                await worker.clock.sleep(delay_s(attempt))
            except NotFound:
                return ReportAnswer("stop", "gone")
            except Rejected as error:
                return ReportAnswer("stop", error.code)  # it cannot be sent: another worker may succeed
        raise Stopped
