"""An execution for one screen: counts of each step along the log, a bar for each run.

A client can draw an execution at any moment with the timeline alone, without the log.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from itertools import islice

from msgspec import Struct, field

from noetl.engine import Event, facts
from noetl.engine.facts import Fact
from noetl.engine.state import State, Status
from noetl.ids import call_id, frame_parts, token_id
from noetl.output import Failure
from noetl.playbook.model import END
from noetl.views.documents import (
    RUNNING_SHOWN_MAX,
    IterationCounts,
    RunningCall,
    describe_waiting,
    iterations_of,
    running_calls,
)
from noetl.views.log import instant, name_of
from noetl.views.runs import (
    RunRecord,
    Runs,
    change_words,
    held_words,
    item_text,
    lost_words,
    permit_words,
    waits_for,
)
from noetl.views.step_counts import Counts, Sample, Track

RUNS_SHOWN_MAX = 200  # runs of one step: the first ones and the newest
FIRST_SHOWN = 20
CALLS_SHOWN_MAX = 40  # calls of one run, the newest; of a loop only those that did not just continue
MARKS_MAX = 200
WORDS_MAX = 200


class CallBar(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call of a task."""

    seq: int
    id: str
    task: str
    attempt: int
    status: str
    directive: str
    started_at: str | None = None  # None: it was skipped, or never started
    ms: float = 0.0
    error: str | None = None
    item: str = ""  # of an iteration: its item, on one line


class RunBar(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run from its scheduling to its end."""

    id: str
    step: str
    status: str
    scheduled_seq: int
    scheduled_at: str
    started_at: str | None = None
    ended_seq: int | None = None  # None: it has not ended
    ended_at: str | None = None
    routed_seq: int | None = None  # the fact that evaluated its arcs
    iterations: IterationCounts | None = None
    calls: tuple[CallBar, ...] = ()
    calls_left_out: int = 0
    running: tuple[RunningCall, ...] = ()  # calls that take long, in the order of the iterations
    running_left_out: int = 0
    width: int = 0  # of a loop that runs: iterations at a time, at most
    lost: int = 0  # workers that were lost while they held a frame of it
    retries: int = 0
    error: Failure | None = None
    handled: bool = False
    why: str | None = None  # what it waits for
    child: str | None = None
    retry_of: str | None = None
    blocks: tuple[RunBar, ...] = ()
    blocks_left_out: int = 0


class StepLine(Struct, frozen=True, kw_only=True):
    """A step: its counts along the log, and its runs."""

    step: str
    changes: tuple[Sample, ...]  # seq, then the counts in the order of `TimelineDocument.counts`
    runs: tuple[RunBar, ...]
    runs_left_out: int = 0


class ArcLine(Struct, frozen=True, kw_only=True):
    """An arc, identified by its step and its index there."""

    step: str
    place: int
    to: str | None  # its last target; None: it has never fired
    changes: tuple[Sample, ...]  # seq, how often it has fired, how often its guard was false


class WaitingToken(Struct, frozen=True, kw_only=True):
    id: str
    step: str
    why: str


class TimelineMark(Struct, frozen=True, kw_only=True):
    """A notable fact, such as a failure or a pause."""

    seq: int
    name: str
    words: str


class TimelineDocument(Struct, frozen=True, kw_only=True):
    execution_id: str
    path: str
    digest: str
    by: str | None  # the user who requested it
    parent: str | None
    status: Status
    seq: int
    started_at: str
    updated_at: str
    counts: tuple[str, ...]  # the names of the numbers in `StepLine.changes`
    steps: tuple[StepLine, ...]  # in the order in which tokens first reached them
    arcs: tuple[ArcLine, ...]
    waiting: tuple[WaitingToken, ...]  # now
    signals: tuple[str, ...]  # signals that frames wait for now, each once
    marks: tuple[TimelineMark, ...]
    marks_left_out: int
    clock: tuple[Sample, ...]  # seq, milliseconds since `started_at`
    writes: tuple[Sample, ...]  # seq of a fact that changed ctx
    kinds: dict[str, int]  # name → number of facts
    why: str | None = (
        None  # why the whole execution does not advance now: a limit holds it, it is paused, or no process runs it
    )


class _Span(Struct, kw_only=True):
    """Data of a run that its record does not have: seqs and calls."""

    scheduled_seq: int
    ended_seq: int | None = None
    routed_seq: int | None = None
    looped: bool = False
    calls: list[CallBar] = field(default_factory=list)
    calls_left_out: int = 0


class _Arc(Struct, kw_only=True):
    fired: int = 0
    refused: int = 0
    to: str | None = None
    track: Track = field(default_factory=lambda: Track(200))


class Timeline:
    """Reads a log event by event. It can follow a growing log."""

    def __init__(self, execution_id: str) -> None:
        self.runs = Runs(execution_id)
        self.counts = Counts()
        self.by: str | None = None
        self.steps_of: dict[str, str] = {}  # run → the step, or the block; token that has waited → the step
        self._spans: dict[str, _Span] = {}
        self._arcs: dict[tuple[str, int], _Arc] = {}
        self._marks: list[TimelineMark] = []
        self._marks_left_out = 0
        self._clock = Track()
        self._looked_at: datetime | None = None
        self._writes = Track()
        self._kinds: Counter[type[Fact]] = Counter()
        self._signals: dict[str, str] = {}  # frame → what it waits for
        self._held = ""  # the limit for which the whole execution last waited

    @property
    def state(self) -> State:
        return self.runs.state

    def feed(self, event: Event) -> None:
        state, fact = self.runs.state, event.fact
        if isinstance(fact, facts.IterationDone | facts.TaskDone):
            # Most facts of a long log: they begin and end no run, and get no mark.
            self._fold(event)
            if isinstance(fact, facts.TaskDone):
                self._called(event.seq, fact)
            return
        live = [*state.runs] if isinstance(fact, facts.Finished | facts.Compensating) else []
        self._fold(event)
        self._span(event)
        for run in live:
            self._spans[run].ended_seq = self._spans[run].ended_seq or event.seq
        words = _mark(fact)
        if words is not None:
            self._marks.append(TimelineMark(seq=event.seq, name=name_of(fact), words=words[:WORDS_MAX]))
            if len(self._marks) > MARKS_MAX:
                del self._marks[MARKS_MAX // 2]  # keep the first and the last marks
                self._marks_left_out += 1

    def _fold(self, event: Event) -> None:
        """Apply the fact to the state, and count it."""
        state, fact = self.runs.state, event.fact
        ctx = state.ctx
        self.counts.before(state, fact)
        self.runs.feed(event)
        self.counts.after(state, fact, event.seq)
        self._kinds[type(fact)] += 1
        if event.at is not self._looked_at:
            self._tick(event)
        if state.ctx is not ctx:
            self._writes.put(event.seq)

    def _tick(self, event: Event) -> None:
        """All facts of a commit have the same time: the clock stays constant up to the last of them."""
        before, self._looked_at = self._looked_at, event.at
        begun = self.runs.begun_at or event.at
        if before is not None:
            self._clock.put(event.seq - 1, _ms(before - begun), turn=False)
        self._clock.put(event.seq, _ms(event.at - begun), turn=before is None)

    def _span(self, event: Event) -> None:
        seq, fact = event.seq, event.fact
        match fact:
            case facts.Requested(by=by):
                self.by = by
            case facts.StepScheduled():
                self.steps_of[fact.run] = fact.step
                self._spans[fact.run] = _Span(scheduled_seq=seq, looped=fact.loop)
            case facts.StepWaiting(limit=str(limit), key=key, run=None):
                self._held = f"waits {permit_words(limit, key)}"
            case facts.StepWaiting(token=token, limit=None):
                self.steps_of[token] = self.state.tokens[token].step
            case facts.FrameParked(frame=frame, until=facts.ForSignal(name=name)):
                self._signals[frame] = name
            case facts.FrameResumed(frame=frame):
                self._signals.pop(frame, None)
            case facts.StepDone(run=str(run)) | facts.LoopDone(run=str(run)) | facts.StepFailed(run=str(run)):
                self._spans[run].ended_seq = seq
                self._signals.pop(run, None)
            case facts.NextEvaluated():
                self._routed(seq, fact)

    def _called(self, seq: int, fact: facts.TaskDone) -> None:
        span = self._spans[frame_parts(fact.frame)[0]]
        if span.looped and fact.directive in ("continue", "skip"):
            return
        error = fact.error or (fact.output.error if fact.output is not None else None)
        span.calls.append(
            CallBar(
                seq=seq,
                id=call_id(fact.frame, fact.call),
                task=fact.task,
                attempt=fact.attempt,
                status=fact.status,
                directive=fact.directive,
                started_at=None if fact.started_at is None else instant(fact.started_at),
                ms=fact.ms,
                error=None if error is None else error.message[:WORDS_MAX],
                item=item_text(self.state, fact.frame),
            )
        )
        if len(span.calls) > CALLS_SHOWN_MAX:
            del span.calls[0]
            span.calls_left_out += 1

    def _routed(self, seq: int, fact: facts.NextEvaluated) -> None:
        self._spans[fact.run].routed_seq = seq
        step, targets = self.steps_of[fact.run], {token.id: token.step for token in fact.tokens}
        for place, held in fact.asked:
            arc = self._arcs.setdefault((step, place), _Arc())
            if held and fact.error is None:
                arc.fired += 1
                arc.to = targets.get(token_id(fact.run, place), END)
            elif not held:
                arc.refused += 1
            arc.track.put(seq, arc.fired, arc.refused)

    def document(self) -> TimelineDocument:
        state, begun_at = self.state, self.runs.begun_at
        assert begun_at is not None, "a log begins with its request"
        by_step: dict[str, list[RunRecord]] = {}
        for record in self.runs.steps.values():
            by_step.setdefault(record.step, []).append(record)
        return TimelineDocument(
            execution_id=state.execution_id,
            path=state.path,
            digest=state.digest,
            by=self.by,
            parent=state.parent,
            status=state.status,
            seq=state.seq,
            started_at=instant(begun_at),
            updated_at=instant(state.at or begun_at),
            counts=Counts.NAMES,
            steps=tuple(self._line(step, track, by_step.get(step, [])) for step, track in self.counts.tracks.items()),
            arcs=tuple(
                ArcLine(step=step, place=place, to=arc.to, changes=arc.track.samples())
                for (step, place), arc in self._arcs.items()
            ),
            waiting=tuple(_waiting(state)),
            signals=tuple(dict.fromkeys(self._signals.values())) if state.live else (),
            marks=tuple(self._marks),
            marks_left_out=self._marks_left_out,
            clock=self._clock.samples(),
            writes=self._writes.samples(),
            kinds={str(kind.__struct_config__.tag): count for kind, count in self._kinds.items()},
            why=self._held if state.held is not None else None,
        )

    def _line(self, step: str, track: Track, records: list[RunRecord]) -> StepLine:
        left_out = max(0, len(records) - RUNS_SHOWN_MAX)
        shown = records if not left_out else [*records[:FIRST_SHOWN], *records[FIRST_SHOWN + left_out :]]
        bars = tuple(map(self._bar, shown))
        return StepLine(step=step, changes=track.samples(), runs=bars, runs_left_out=left_out)

    def _bar(self, record: RunRecord) -> RunBar:
        span, live = self._spans[record.id], self.state.runs.get(record.id)
        loop = live.loop if live is not None and live.output is None else None
        ended = sum(block.ended_at is not None for block in record.blocks.values())
        blocks = tuple(map(self._bar, islice(record.blocks.values(), RUNS_SHOWN_MAX)))
        return RunBar(
            id=record.id,
            step=record.step,
            status=record.status,
            scheduled_seq=span.scheduled_seq,
            scheduled_at=instant(record.scheduled_at),
            started_at=_instant(record.started_at),
            ended_seq=span.ended_seq,
            ended_at=_instant(record.ended_at),
            routed_seq=span.routed_seq,
            iterations=iterations_of(record),
            calls=tuple(span.calls),
            calls_left_out=span.calls_left_out,
            running=running_calls(record, None, self.state),
            running_left_out=max(0, len(record.running) - RUNNING_SHOWN_MAX),
            width=loop.width if loop is not None else 0,
            lost=record.lost,
            retries=record.retries,
            error=record.error,
            handled=record.handled,
            why=record.waits_for and f"waits {record.waits_for}",
            child=record.child,
            retry_of=record.retry_of,
            blocks=blocks,
            blocks_left_out=sum(record.blocks_ended.values()) - ended + len(record.blocks) - len(blocks),
        )


def _ms(length: timedelta) -> int:
    return round(length.total_seconds() * 1000)


def _instant(at: datetime | None) -> str | None:
    return None if at is None else instant(at)


def _waiting(state: State) -> list[WaitingToken]:
    found = [
        WaitingToken(id=id, step=state.tokens[id].step, why=describe_waiting(reads, ended=not state.live))
        for id, reads in islice(state.waiting.items(), MARKS_MAX)
    ]
    joined = (token for tokens in state.joins.values() for token in tokens)
    why = (
        "waits for other tokens that can still arrive" if state.live else "never fired: the other tokens did not arrive"
    )
    return found + [WaitingToken(id=id, step=state.tokens[id].step, why=why) for id in islice(joined, MARKS_MAX)]


def _mark(fact: Fact) -> str | None:
    """The text of a mark; None: the fact gets none."""
    match fact:
        case facts.StepFailed(error=error) | facts.IterationFailed(error=error):
            return error.message
        case facts.NextEvaluated(error=Failure(message=message)) | facts.Evaluated(error=Failure(message=message)):
            return message
        case facts.Paused(by=by) | facts.Resumed(by=by) | facts.Retried(by=by):
            return f"by {by}" if by else ""
        case facts.Cancelled(reason=reason, by=by):
            return reason or (f"by {by}" if by else "")
        case facts.FrameParked(until=facts.ForSignal() | facts.ForChild() | facts.ForDebugger()):
            return f"waits {waits_for(fact)}"
        case facts.StepScheduled(hold=facts.ForDebugger() as hold):
            return f"waits {held_words(hold)}"
        case facts.ScopeChanged():
            return change_words(fact)
        case facts.StepWaiting(limit=str(limit), key=key):
            return f"waits {permit_words(limit, key)}"
        case facts.Compensating(error=error):
            return error.message
        case facts.FrameLost():
            return lost_words(fact)
        case facts.Finished(status=status):
            return status
    return None
