"""One small record for each run, kept while a log is read: the state forgets what has ended.

Never one for each iteration; and of the blocks that a run calls, those that are over up to a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct, field

from noetl.engine import Event, apply, facts
from noetl.engine.facts import Fact, ForBlock, ForChild, ForSignal, ForTime, Until
from noetl.engine.state import State
from noetl.ids import frame_parts
from noetl.output import Failure
from noetl.views.log import instant

BLOCKS_KEPT_MAX = 100  # of one run, those that have ended in the same way; all of them are counted


class RunRecord(Struct, kw_only=True):
    """What is remembered of a run."""

    id: str
    step: str
    parent: str | None = None  # of a block: the run that called it
    retry_of: str | None = None
    scheduled_at: datetime
    started_at: datetime | None = None  # None: no worker has begun it
    ended_at: datetime | None = None
    status: str = "scheduled"
    error: Failure | None = None
    handled: bool = False  # it failed, and an arc has taken the failure (D38)
    calls: int = 0
    retries: int = 0
    iterations: tuple[int, int, int] | None = None  # in all, succeeded, failed
    waits_for: str | None = None  # why a frame without a loop holds no worker
    child: str | None = None  # the execution that it called last, of a run without a loop
    blocks: dict[str, RunRecord] = field(default_factory=dict)
    blocks_ended: dict[str, int] = field(default_factory=dict)  # how many have ended, by status


class Runs:
    """Reads a log, event by event: the records, where the first failure was, and the state itself."""

    def __init__(self, execution_id: str) -> None:
        self.state = State(execution_id=execution_id)
        self.steps: dict[str, RunRecord] = {}  # runs of steps, in the order in which they were scheduled
        self.begun_at: datetime | None = None
        self.failed_at: tuple[str, str | None] | None = None  # step and run of the first unhandled failure
        self._live: dict[str, RunRecord] = {}  # of steps and of blocks: not ended

    def feed(self, event: Event) -> None:
        state, fact, at = self.state, event.fact, event.at
        if self.begun_at is None:
            self.begun_at = at
        cancelling, failure = state.status == "cancelling", state.failure
        apply(state, fact, at)
        match fact:
            case facts.StepScheduled():
                self._scheduled(fact, at)
            case facts.StepStarted(run=run):
                record = self._live[run]
                record.started_at, record.status = at, "running"
            case facts.TaskDone(frame=frame):
                _called(self._live[frame_parts(frame)[0]], fact)
            case facts.FrameParked(frame=frame, until=until):
                self._parked(frame, until)
            case facts.FrameResumed(frame=frame):
                self._live[frame_parts(frame)[0]].waits_for = None
            case facts.LoopStarted(run=run) | facts.IterationDone(run=run) | facts.IterationFailed(run=run):
                self._count(self._live[run])
            case facts.StepDone(run=run) | facts.LoopDone(run=run):
                self._ended(run, "ok", at)
            case facts.StepFailed(run=str(run), error=error):
                given_up = cancelling and error.kind == "cancelled"
                self._ended(run, "cancelled" if given_up else "error", at).error = error
            case facts.NextEvaluated():
                self._routed(fact)
            case facts.Finished():
                self._finished(at)
        self._look_for_failure(fact, failure)

    def _look_for_failure(self, fact: Fact, before: Failure | None) -> None:
        """Where the first failure was that nothing has handled."""
        state = self.state
        match fact:
            case facts.NextEvaluated(run=run) if before is None and state.failed_step is not None:
                self.failed_at = (state.failed_step, run) if state.failure is not None else None
            case facts.StepFailed(run=None) if before is None and state.failed_step is not None:
                self.failed_at = (state.failed_step, None)
            case facts.Finished(error=error) if error != before:
                self.failed_at = None  # It is of the execution as a whole: a limit, or a cancel.
            case facts.Retried(runs=runs):
                left = [(run.step, run.id) for run in state.failed.values() if run.id not in runs]
                spoiled = [(each.token.step, None) for each in state.spoiled.values()]
                self.failed_at = next(iter((*left, *spoiled)), None)

    def records(self) -> Iterator[RunRecord]:
        """All of them, those of blocks behind the run that called them."""
        for record in self.steps.values():
            yield from _with_blocks(record)

    def _scheduled(self, fact: facts.StepScheduled, at: datetime) -> None:
        parent = frame_parts(fact.parent)[0] if fact.parent is not None else None
        record = RunRecord(
            id=fact.run, step=fact.step, parent=parent, retry_of=fact.retry_of, scheduled_at=at
        )
        self._live[fact.run] = record
        (self.steps if parent is None else self._live[parent].blocks)[fact.run] = record
        self._count(record)

    def _count(self, record: RunRecord) -> None:
        """The counts of a loop, with what a retry has inherited."""
        loop = self.state.runs[record.id].loop
        if loop is not None:
            record.iterations = (loop.count, loop.succeeded, loop.failed)

    def _parked(self, frame: str, until: Until) -> None:
        run, index = frame_parts(frame)
        if index is not None:
            return
        record = self._live[run]
        record.waits_for = waits_for(until)
        if isinstance(until, ForChild):
            record.child = until.execution_id

    def _ended(self, run: str, status: str, at: datetime) -> RunRecord:
        record = self._live.pop(run)
        record.status, record.ended_at, record.waits_for = status, at, None
        caller = self._live.get(record.parent) if record.parent is not None else None
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
        """What had not ended is given up with the execution."""
        for record in self._live.values():
            record.status, record.ended_at, record.waits_for = "stopped", at, None
        self._live.clear()


def _called(record: RunRecord, fact: facts.TaskDone) -> None:
    record.calls += fact.status != "skipped"
    record.retries += fact.directive == "retry"
    began = fact.started_at
    if began is not None and (record.started_at is None or began < record.started_at):
        # Its start goes on record with the first report, when a task is done: the task knows better.
        record.started_at = max(began, record.scheduled_at)


def _with_blocks(record: RunRecord) -> Iterator[RunRecord]:
    yield record
    for block in record.blocks.values():
        yield from _with_blocks(block)


def waits_for(until: Until) -> str:
    match until:
        case ForTime(at=at):
            return f"until {instant(at)}"
        case ForSignal(name=name):
            return f"for the signal {name}"
        case ForBlock(block=block):
            return f"for the block {block}"
        case ForChild(path=path):
            return f"for the playbook {path}"
