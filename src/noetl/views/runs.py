"""One small record for each run, kept while a log is read. The state itself drops runs that have ended.

There is no record for each iteration, and the number of records for ended blocks of a run is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct, field

from noetl.engine import Event, apply, facts
from noetl.engine.facts import Fact, ForBlock, ForChild, ForDebugger, ForDocument, ForPermit, ForSignal, ForTime
from noetl.engine.state import State
from noetl.escape import one_line, shorten
from noetl.ids import frame_parts
from noetl.net.program import BODY
from noetl.output import Failure
from noetl.template.values import to_json
from noetl.views.log import instant

PRINTED_LINES_MAX = 10  # the last lines that a call has printed
PRINTED_CHARS_MAX = 2_000
FAILURES_KEPT_MAX = 5  # failed iterations of one run; all are counted
ITEM_CHARS_MAX = 200  # of an item on one line
CHANGES_KEPT_MAX = 100  # by hand; all are in the log
BLOCKS_KEPT_MAX = 100  # ended blocks of one run for each status; all are counted


class LoopProgress(NamedTuple):
    """How many iterations a loop has, and how many have ended."""

    total: int = 0
    succeeded: int = 0
    failed: int = 0

    def changed(self, before: LoopProgress, after: LoopProgress) -> LoopProgress:
        """The counts after a part of them has changed from `before` to `after`."""
        return LoopProgress(*(mine - old + new for mine, old, new in zip(self, before, after, strict=True)))


class PrintedOutput(NamedTuple):
    """The last lines that a failed call has printed."""

    iteration: int | None
    error: Failure
    text: str


class RunRecord(Struct, kw_only=True):
    id: str
    step: str
    parent: str | None = None  # of a block: the run that called it
    called_in: int | None = None  # of a block: the iteration of that run
    retry_of: str | None = None
    compensates: str | None = None  # of a compensation: the run that it undoes (D116)
    scheduled_at: datetime
    started_at: datetime | None = None  # None: no worker has started it
    ended_at: datetime | None = None
    status: str = "scheduled"
    error: Failure | None = None
    printed: PrintedOutput | None = None  # by the failed call; of a loop, in its first failed iteration
    handled: bool = False  # it failed, and an arc has handled the failure (D38)
    calls: int = 0  # calls of tools, also in its blocks
    retries: int = 0
    kept: int = 0  # calls that a fork has kept; they are counted by `calls`, too
    iterations: LoopProgress | None = None
    inside: LoopProgress | None = None  # of a list of loops: all iterations of the last one
    failures: dict[int, Failure] = field(default_factory=dict)  # of the first failed iterations, by index
    running: dict[str, facts.TaskStarted] = field(default_factory=dict)  # calls that take long, by frame
    lost: int = 0  # workers that were lost while they held a frame of it
    waits_for: str | None = None  # what the frame of a run without a loop waits for
    child: str | None = None  # of a run without a loop: the child execution that it called last
    blocks: dict[str, RunRecord] = field(default_factory=dict)
    blocks_ended: dict[str, int] = field(default_factory=dict)  # status → number of ended blocks

    def keep_failure(self, index: int, error: Failure) -> None:
        """Keep the failures with the lowest indexes, independent of the order of arrival."""
        self.failures[index] = error
        if len(self.failures) > FAILURES_KEPT_MAX:
            del self.failures[max(self.failures)]

    def keep_printed(self, printed: PrintedOutput) -> None:
        """For a loop, keep the output of the iteration with the lowest index."""
        known = self.printed.iteration if self.printed is not None else None
        if known is None or printed.iteration is None or printed.iteration <= known:
            self.printed = printed


class Runs:
    """Reads a log event by event. Holds the records, the place of the first failure, and the state."""

    def __init__(self, execution_id: str) -> None:
        self.state = State(execution_id=execution_id)
        self.steps: dict[str, RunRecord] = {}  # runs of steps, in the order of scheduling
        self.begun_at: datetime | None = None
        self.failed_at: tuple[str, str | None] | None = None  # step and run of the first unhandled failure
        self.fork: facts.ForkOrigin | None = None  # the execution whose work it keeps
        self.changes: tuple[tuple[int, datetime, facts.ScopeChanged], ...] = ()  # the last ones by hand
        self.cancelled: facts.Cancelled | None = None  # the last cancel, unless a retry came after it
        self.stored = 0  # facts that a stored copy contains
        self.live: dict[str, RunRecord] = {}  # unfinished runs of steps and blocks
        self.calling: set[str] = set()  # frames that have called a block, which is not a call of a tool

    def feed(self, event: Event) -> None:
        state, fact, at = self.state, event.fact, event.at
        if (progress := _PROGRESS.get(type(fact))) is not None:  # most facts of a long log
            apply(state, fact, at)
            progress(self, fact)
            return
        if self.begun_at is None:
            self.begun_at = at
        cancelling, failure = state.status == "cancelling", state.failure
        apply(state, fact, at)
        match fact:
            case facts.Requested(fork=fork):
                self.fork = fork
            case facts.StepScheduled():
                self._scheduled(fact, at)
            case facts.StepWaiting(run=str(run), limit=str(limit), key=key):
                self.live[run].waits_for = permit_words(limit, key)
            case facts.PermitGranted(run=str(id)) | facts.HoldReleased(at=id) | facts.FrameResumed(frame=id):
                self.live[frame_parts(id)[0]].waits_for = None
            case facts.ScopeChanged():
                self.changes = (*self.changes[1 - CHANGES_KEPT_MAX :], (event.seq, at, fact))
            case facts.StepStarted(run=run):
                record = self.live[run]
                record.started_at, record.status = at, "running"
            case facts.TaskStarted(frame=frame):
                record = self.live[frame_parts(frame)[0]]
                record.running[frame] = fact
                record.waits_for = None
            case facts.FrameParked():
                self._parked(fact)
            case facts.FrameLost():
                self._lost(fact)
            case facts.LoopStarted(run=run):
                self._count(self.live[run])
            case facts.IterationFailed(run=run, index=index, error=error):
                self._count(self.live[run])
                self.live[run].keep_failure(index, error)
            case facts.StepDone(run=run) | facts.LoopDone(run=run):
                self._ended(run, "ok", at)
            case facts.StepFailed(run=str(run), error=error):
                given_up = cancelling and error.kind == "cancelled"
                self._ended(run, "cancelled" if given_up else "error", at).error = error
            case facts.NextEvaluated():
                self._routed(fact)
            case facts.Cancelled() | facts.Retried():
                self.cancelled = fact if isinstance(fact, facts.Cancelled) else None
            case facts.Finished() | facts.Compensating():
                self._finished(at)
        self._look_for_failure(fact, failure)

    def _look_for_failure(self, fact: Fact, before: Failure | None) -> None:
        """Update the place of the first unhandled failure."""
        state = self.state
        match fact:
            case facts.NextEvaluated(run=run) if before is None and state.failed_step is not None:
                self.failed_at = (state.failed_step, run) if state.failure is not None else None
            case facts.StepFailed(run=None) if before is None and state.failed_step is not None:
                self.failed_at = (state.failed_step, None)
            case facts.Finished(error=error) | facts.Compensating(error=error) if error != before:
                self.failed_at = None  # The failure concerns the whole execution: a limit or a cancel.
            case facts.Retried(runs=runs):
                left = [(run.step, run.id) for run in state.failed.values() if run.id not in runs]
                spoiled = [(each.token.step, None) for each in state.spoiled.values()]
                self.failed_at = next(iter((*left, *spoiled)), None)

    @property
    def failed_iteration(self) -> int | None:
        """The iteration that failed first, when the first unhandled failure is that of a loop."""
        run = self.failed_at[1] if self.failed_at is not None else None
        kept = self.state.failed.get(run) if run is not None else None
        loop = kept.loop if kept is not None else None
        return loop.error_at if kept is not None and loop is not None and kept.failure == loop.error else None

    @property
    def printed(self) -> str:
        """What the call that caused the first unhandled failure has printed."""
        run = self.failed_at[1] if self.failed_at is not None else None
        printed = self.steps[run].printed if run in self.steps else None
        return printed.text if printed is not None and printed.error == self.state.failure else ""

    def records(self) -> Iterator[RunRecord]:
        """All records; those of blocks follow the run that called them."""
        for record in self.steps.values():
            yield from _with_blocks(record)

    def _scheduled(self, fact: facts.StepScheduled, at: datetime) -> None:
        parent, index = frame_parts(fact.parent) if fact.parent is not None else (None, None)
        record = RunRecord(
            id=fact.run, step=fact.step, parent=parent, called_in=index, retry_of=fact.retry_of,
            compensates=fact.compensates, scheduled_at=at,
            waits_for=None if fact.hold is None else held_words(fact.hold),
        )  # fmt: skip
        self.live[fact.run] = record
        (self.steps if parent is None else self.live[parent].blocks)[fact.run] = record
        self._count(record)

    def _count(self, record: RunRecord) -> None:
        """Update the counts of a loop, including iterations that a retry has inherited."""
        loop = self.state.runs[record.id].loop
        if loop is None:
            return
        before, record.iterations = record.iterations, LoopProgress(loop.count, loop.succeeded, loop.failed)
        owner = owner_of_list(record.step)
        for outer in self._around(record) if owner is not None else ():
            outer.inside = (outer.inside or LoopProgress()).changed(before or LoopProgress(), record.iterations)
            if outer.step == owner:
                break

    def _around(self, record: RunRecord) -> Iterator[RunRecord]:
        """The run that called a block, its caller, and so on."""
        while record.parent is not None and (caller := self.live.get(record.parent)) is not None:
            yield caller
            record = caller

    def _iterated(self, fact: facts.IterationDone) -> None:
        self._count(self.live[fact.run])

    def _called(self, fact: facts.TaskDone) -> None:
        record = self.live[frame_parts(fact.frame)[0]]
        record.waits_for = None
        if record.running:
            record.running.pop(fact.frame, None)
        began = None if fact.kept else fact.started_at
        if began is not None and (record.started_at is None or began < record.started_at):
            # The start is recorded with the first report, after a task is done; the task has the exact time.
            record.started_at = max(began, record.scheduled_at)
        calls = fact.status != "skipped" and fact.frame not in self.calling
        self.calling.discard(fact.frame)
        printed = _printed(fact) if fact.directive == "fail" else None
        again = fact.repeats
        for each in (record, *self._around(record)):
            each.calls += calls
            each.kept += bool(fact.kept and fact.status != "skipped")
            each.retries += again
            if printed is not None:
                each.keep_printed(printed)
                printed = printed._replace(iteration=each.called_in)

    def _parked(self, fact: facts.FrameParked) -> None:
        run, index = frame_parts(fact.frame)
        self.live[run].running.pop(fact.frame, None)
        if isinstance(fact.until, ForBlock):
            self.calling.add(fact.frame)
        if index is not None:
            return
        record = self.live[run]
        record.waits_for = waits_for(fact)
        if isinstance(fact.until, ForChild):
            record.child = fact.until.execution_id

    def _lost(self, fact: facts.FrameLost) -> None:
        run, index = frame_parts(fact.frame)
        record = self.live[run]
        record.running.pop(fact.frame, None)
        if index is None:
            record.waits_for = f"for another worker: {lost_words(fact)}"
        for each in (record, *self._around(record)):
            each.lost += 1

    def _ended(self, run: str, status: str, at: datetime) -> RunRecord:
        record = self.live.pop(run)
        record.status, record.ended_at, record.waits_for = status, at, None
        record.running.clear()
        caller = self.live.get(record.parent) if record.parent is not None else None
        if caller is not None:
            kept = caller.blocks_ended[status] = caller.blocks_ended.get(status, 0) + 1
            if kept > BLOCKS_KEPT_MAX:
                del caller.blocks[run]
        return record

    def _routed(self, fact: facts.NextEvaluated) -> None:
        record = self.steps[fact.run]
        if fact.error is not None:
            record.status, record.error = "error", fact.error
        elif record.status == "error":
            record.handled = bool(fact.tokens or fact.ended)

    def _finished(self, at: datetime) -> None:
        """Unfinished runs are stopped with the execution."""
        for record in self.live.values():
            record.status, record.ended_at, record.waits_for = "stopped", at, None
            record.running.clear()
        self.live.clear()


_PROGRESS: dict[type, Callable[..., None]] = {
    facts.TaskDone: Runs._called,
    facts.IterationDone: Runs._iterated,
}  # they begin and end no run


def _printed(fact: facts.TaskDone) -> PrintedOutput | None:
    """From `stdout` and `stderr` in the tool's own part of the output, which contain no secrets."""
    error = fact.output.error if fact.output is not None else None
    if fact.output is None or error is None:
        return None
    parts = [part for part in fact.output.own.values() if isinstance(part, dict)]
    written = [part.get(stream) for part in parts for stream in ("stdout", "stderr")]
    ends = [text[-PRINTED_CHARS_MAX:] for text in written if isinstance(text, str)]
    lines = [line for end in ends for line in end.rstrip().splitlines()]
    text = "\n".join(lines[-PRINTED_LINES_MAX:])
    if text in error.message:  # the message of a shell error ends with the last lines of its output
        return None
    return PrintedOutput(frame_parts(fact.frame)[1], error, text)


def owner_of_list(step: str) -> str | None:
    """The step or block whose list of loops ends with this body block; None: it is not a body block."""
    owner, slash, name = step.rpartition("/")
    return owner if slash and name == BODY else None


def _with_blocks(record: RunRecord) -> Iterator[RunRecord]:
    yield record
    for block in record.blocks.values():
        yield from _with_blocks(block)


def item_text(state: State, frame: str) -> str:
    """The item of an unfinished iteration on one line; "": it is none, or its item is in the result store."""
    run, index = frame_parts(frame)
    found = state.runs.get(run)
    items = found.loop.items if found is not None and found.loop is not None else None
    if index is None or items is None or index >= len(items):
        return ""
    return shorten(one_line(to_json(items[index])), ITEM_CHARS_MAX)


def lost_words(fact: facts.FrameLost) -> str:
    """`worker-1 was lost in task "fetch"`."""
    return f'{fact.worker or "a worker"} was lost in task "{fact.task}"'


def permit_words(limit: str, key: str) -> str:
    """`for the limit "shop a" (3 at once)`; all executions of a playbook share a limit without a key."""
    return f'for the limit "{one_line(key)}" ({limit})' if key else f"for the limit of {limit}"


def held_words(hold: ForDebugger) -> str:
    """`for the debugger, before fetch.get_page`."""
    failed = f"; its breakpoint cannot be checked: {one_line(hold.error)}" if hold.error else ""
    return f"for the debugger, before {hold.place}{failed}"


def change_words(fact: facts.ScopeChanged) -> str:
    """`ctx.total = 4, by ann`."""
    values = ", ".join(
        f"{target} = {shorten(one_line(to_json(value)), ITEM_CHARS_MAX)}" for target, value in fact.set.items()
    )
    return values + (f", by {fact.by}" if fact.by else "")


def waits_for(fact: facts.FrameParked) -> str:
    match fact.until:
        case ForTime(at=at):
            return f"until {instant(at)}" + (f" for try {fact.tries[-1]['try'] + 1}" if fact.tries else "")
        case ForSignal(name=name):
            return f"for the signal {name}"
        case ForBlock(block=block):
            return f"for the block {block}"
        case ForChild(path=path):
            return f"for the playbook {path}"
        case ForDocument():
            return "for the check of its document"
        case ForPermit(limit=limit, key=key):
            return permit_words(limit, key)
        case ForDebugger():
            return held_words(fact.until)
