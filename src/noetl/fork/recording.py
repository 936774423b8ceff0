"""A log as a fork reads it: what each frame has received, the calls that it made, and how it ended.

The result of a frame depends on two things only: the text of its tasks, and the values that their templates read.
`Recording` indexes the frames of a log by both, so that a fork can find a frame again wherever its step is scheduled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from noetl.engine import Event, apply
from noetl.engine.delegation import decision_digest
from noetl.engine.facts import (
    Fact,
    ForDebugger,
    ForPermit,
    FrameParked,
    FrameResumed,
    LoopDone,
    LoopStarted,
    NextEvaluated,
    Requested,
    ScopeChanged,
    Started,
    StepScheduled,
    StepWaiting,
    TaskDone,
)
from noetl.engine.loops import ToRead, ToStore, loop_started
from noetl.engine.moves import work_of
from noetl.engine.saved import saved_in
from noetl.engine.state import Run, State
from noetl.engine.stored import ITEMS_LIMIT, NeedsValues, decision_id, paths_read
from noetl.ids import frame_id, frame_parts
from noetl.net.program import CompiledPipeline, CompiledTask, Program
from noetl.output import JSON
from noetl.playbook.model import INLINE_BYTES_MAX, SAFE, Step
from noetl.template.compile import Template, Value

ScopePath: TypeAlias = tuple[str | int, ...]
FrameFact: TypeAlias = TaskDone | FrameParked | FrameResumed

_encode = msgspec.json.Encoder(order="sorted").encode
CACHED_MAX = 10_000  # values whose digests are known
_NOT_IN_TEXT = frozenset({"at", "desc"})  # of the model: positions and descriptions change no result


def digest(value: object) -> str:
    return hashlib.sha256(_encode(value)).hexdigest()[:32]


class RecordedFact(NamedTuple):
    """A fact of a frame, and when it was recorded: templates see the same time again."""

    seq: int
    at: datetime
    fact: FrameFact


class RecordedFrame(Struct):
    """One pass through a pipeline, as the log has it."""

    id: str
    run: str
    pipeline: str  # the name of the step or the block
    block: bool
    entry: dict[str, str]  # path that its templates read → digest of the value, or "" where there was none
    facts: list[RecordedFact] = []
    base: str | None = None  # the frame that it continues, after `noetl retry`
    changed: bool = False  # its values were changed by hand: what follows is not kept

    @property
    def over(self) -> bool:
        last = self._last_call()
        return last is not None and last.next < 0

    @property
    def is_stored(self) -> bool:
        """Is its data in the result store? Then a worker has evaluated what `set` and arcs read of it."""
        calls = (each.fact for each in self.facts if isinstance(each.fact, TaskDone))
        return any(
            call.picked is not None or (call.output is not None and call.output.ref is not None) for call in calls
        )

    @property
    def failed(self) -> bool:
        last = self._last_call()
        return last is not None and last.directive == "fail"

    def _last_call(self) -> TaskDone | None:
        last = self.facts[-1].fact if self.facts else None
        return last if isinstance(last, TaskDone) else None


class RecordedLoop(NamedTuple):
    """The start of a loop whose items are in the result store."""

    fact: LoopStarted
    items: str | None  # digest of the list that was stored; None: a worker has read it
    source: dict[str, JSON] | None  # the Ref that was read


class RecordedDecision(NamedTuple):
    """A decision that a worker has made, because it reads or makes values in the result store (D91)."""

    digest: str  # of what it depends on in ctx
    subject: str  # digest of the run that it is about; "" for tokens
    step: str  # or the block; "" when it is about a token
    text: str  # digest of the templates that it evaluates
    fact: Fact


class Recording:
    """The log of an execution up to an event, with the program that it ran."""

    def __init__(self, program: Program, execution_id: str, events: Iterable[Event], up_to: int | None = None) -> None:
        self.program = program
        self.requested: Requested | None = None
        self.started: Started | None = None
        self.started_at: datetime | None = None
        self.frames: dict[str, RecordedFrame] = {}
        self.loops: dict[str, RecordedLoop] = {}  # by run
        self.loop_ends: dict[str, LoopDone] = {}  # by run: those whose results a worker has read
        self.decisions: dict[str, RecordedDecision] = {}
        self.scheduled: dict[str, StepScheduled] = {}  # every run, in the order of the log
        self.superseded: set[str] = set()  # runs that were retried
        self.routed: set[str] = set()  # runs whose `set` and arcs were evaluated
        self.saved: set[tuple[str, str]] = set()  # the values of saved.* that it has written: key and digest
        self.last_at: datetime | None = None
        self.state = State(execution_id=execution_id)
        self._digests = EntryDigests([execution_id])
        for event in events:
            if up_to is not None and event.seq > up_to:
                break
            self._note(event)
            apply(self.state, event.fact, event.at)
            self.last_at = event.at

    def _note(self, event: Event) -> None:
        match event.fact:
            case Requested() as fact:
                self.requested = fact
                if fact.fork is not None:
                    origins = (fact.fork.execution, *fact.fork.before)
                    self._digests = EntryDigests([self.state.execution_id, *origins])
            case Started() as fact:
                self.started, self.started_at = fact, event.at
            case FrameParked(until=ForPermit() | ForDebugger()):
                pass  # permits and breakpoints belong to the execution that has them (D113)
            case ScopeChanged(at=at) if self.state.runs[frame_parts(at)[0]].hold is None:
                self._frame(at).changed = True
            case FrameResumed(frame=frame) if self._waits_for_permit(frame):
                pass
            case TaskDone(frame=frame) | FrameParked(frame=frame) | FrameResumed(frame=frame):
                if not (known := self._frame(frame)).changed:
                    known.facts.append(RecordedFact(event.seq, event.at, event.fact))
            case StepScheduled() as fact:
                self.scheduled[fact.run] = fact
                if fact.retry_of is not None:
                    self.superseded.add(fact.retry_of)
                kind, subject = ("token", fact.tokens[0]) if len(fact.tokens) == 1 else ("join", fact.step)
                self._decision(decision_id(subject, kind), fact)
            case StepWaiting(token=token) as fact:
                self._decision(decision_id(token, "token"), fact)
            case NextEvaluated(run=run) as fact:
                self.saved |= {(key, digest(value)) for key, value in saved_in([fact])}
                if fact.error is None:
                    self.routed.add(run)
                self._decision(decision_id(run, "route"), fact)
            case LoopStarted(run=run) as fact:
                self._loop(event, fact)
                self._decision(decision_id(run, "loop"), fact)
            case LoopDone(run=run) as fact:
                if fact.picked is not None:
                    self.loop_ends[run] = fact
                self._decision(decision_id(run, "end"), fact)

    def _waits_for_permit(self, id: str) -> bool:
        owner, index = frame_parts(id)
        return isinstance(self.state.runs[owner].frames[index].parked, ForPermit)

    def _frame(self, id: str) -> RecordedFrame:
        if id not in self.frames:
            owner, index = frame_parts(id)
            run = self.state.runs[owner]
            entry = self._digests.entry(self.program, self.state, run, index)
            known = run.frames.get(index)
            base = None
            if run.retry_of is not None and known is not None and known.entries:
                base = self._continued(run.retry_of, index)
            self.frames[id] = RecordedFrame(
                id=id, run=owner, pipeline=run.step, block=run.block, entry=entry, facts=[], base=base
            )
        return self.frames[id]

    def _continued(self, run: str | None, index: int | None) -> str | None:
        """The frame of an earlier run that a retried frame continues; an untouched iteration skips a run."""
        while run is not None:
            if (id := frame_id(run, index)) in self.frames:
                return id
            run = self.scheduled[run].retry_of
        return None

    def _loop(self, event: Event, fact: LoopStarted) -> None:
        run = self.state.runs[fact.run]
        self._digests.items.pop(fact.run, None)
        if fact.items is not None and fact.ref is None:
            return
        try:
            start = loop_started(with_result_store(self.program), self.state, run, event.at)
        except NeedsValues:
            return
        match start:
            case ToStore(items):
                self._digests.items[fact.run] = items
                self.loops[fact.run] = RecordedLoop(fact, digest(items), None)
            case ToRead(ref):
                self.loops[fact.run] = RecordedLoop(fact, None, ref)

    def _decision(self, decision: str, fact: Fact) -> None:
        if self.state.stored or getattr(fact, "stored", None):
            program = self.program
            try:
                depends = decision_digest(program, self.state, decision)
            except LookupError:  # control has made it: there is no such token or run
                return
            subject = self._digests.subject(self.state, decision)
            step = self._step_of(fact)
            self.decisions[decision] = RecordedDecision(depends, subject, step, decision_text(program, step), fact)

    def _step_of(self, fact: Fact) -> str:
        match fact:
            case StepScheduled(step=step):
                return step
            case NextEvaluated(run=run) | LoopStarted(run=run) | LoopDone(run=run):
                return self.scheduled[run].step
        return ""

    # What a fork asks

    def is_unhandled(self, frame: RecordedFrame) -> bool:
        """Has the frame failed, and did no rule, arc or tolerance take the failure?

        In a run that has not ended, this is open, unless its loop tolerates any number of failures: the frame counts as
        unhandled, and its last task is repeated.
        """
        run, index = frame_parts(frame.id)
        while (parent := self.scheduled[run].parent) is not None:
            if self._is_tolerated(run, index):
                return False
            caller = self.frames.get(parent)
            if caller is not None and (call := _call_of(caller, run)) is not None:
                kept = len(without_last_task(caller.facts)) if caller.failed else len(caller.facts)
                return call >= kept and self.is_unhandled(caller)
            run, index = frame_parts(parent)
        if self._is_tolerated(run, index):
            return False
        return run in self.state.failed or run in self.state.runs or run in self.superseded

    def _is_tolerated(self, run: str, index: int | None) -> bool:
        """Is it an iteration of a running loop that continues after any failure?"""
        if index is None or run not in self.state.runs or run in self.state.failed:
            return False
        scheduled = self.scheduled[run]
        pipeline = self.program.pipeline(scheduled.step, block=scheduled.parent is not None)
        return pipeline.best_effort and pipeline.tolerate is None

    def facts_to_keep(self, frame: RecordedFrame) -> list[RecordedFact]:
        """The facts of the frame and of those that it continues, without a last task that must be repeated."""
        base = self.frames.get(frame.base or "")
        before = self.facts_to_keep(base) if base is not None else []
        if base is not None and base.entry != frame.entry:
            return before
        own = frame.facts
        return before + (without_last_task(own) if frame.failed and self.is_unhandled(frame) else own)


def _call_of(caller: RecordedFrame, run: str) -> int | None:
    """The place of the call of a block whose run this was; None: the caller has not taken its result."""
    called = False
    for place, each in enumerate(caller.facts):
        match each.fact:
            case FrameResumed(run=taken):
                called = taken == run
            case TaskDone() if called:
                return place
    return None


def without_last_task(facts: list[RecordedFact]) -> list[RecordedFact]:
    """The facts before the last entry into a task: its attempts, and what it waited for, are left out."""
    return before_task(facts, len(facts) - 1)


def before_task(facts: list[RecordedFact], place: int) -> list[RecordedFact]:
    """The facts before the entry into the task whose call is at this place."""
    called = facts[place].fact
    assert isinstance(called, TaskDone)
    while place > 0:
        fact = facts[place - 1].fact
        if isinstance(fact, TaskDone) and (fact.task != called.task or fact.directive != "retry"):
            break
        place -= 1
    return facts[:place]


def changed_files(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """The files that differ, are new or are gone."""
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


class EntryDigests:
    """The values that frames read, as digests. Values that frames share are encoded once.

    A fork has a different id from the execution that it repeats, and Refs contain ids: `ids` count as one.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = [id.encode() for id in ids]
        self.items: dict[str, list[JSON]] = {}  # run → the items of its loop, when they are in the result store
        self._paths: dict[int, tuple[CompiledPipeline, tuple[ScopePath, ...]]] = {}
        self._known: dict[int, tuple[JSON, str]] = {}  # id of a value → the value, which keeps the id valid

    def entry(self, program: Program, state: State, run: Run, index: int | None) -> dict[str, str]:
        """Path → digest, for every path that the tasks of a frame read when it begins."""
        pipeline = program.pipeline(run.step, block=run.block)
        pipeline_paths = self._paths.get(id(pipeline))
        if pipeline_paths is None:
            paths = tuple(sorted({path for path, below in paths_read(pipeline) if below}, key=str))
            pipeline_paths = self._paths[id(pipeline)] = (pipeline, paths)
        work = work_of(program, state, frame_id(run.id, index))
        frame, place = work.frame, work.place
        around = dict(place.iter or {})
        if place.items is not None and pipeline.loop is not None and index is not None:
            items = self.items.get(run.id)
            around[pipeline.loop.iterator] = {"stored": place.items, "index": index} if items is None else items[index]
        scope = {"ctx": frame.ctx, "step": frame.step, "iter": around, "input": place.input, "workload": place.workload}
        return {".".join(map(str, path)): self._digest(scope, path) for path in pipeline_paths[1]}

    def _digest(self, scope: Mapping[str, JSON], path: ScopePath) -> str:
        value: JSON = scope
        for part in path:
            if not isinstance(value, dict):
                break  # an item of a list, or a field of a text: the whole value counts
            if part not in value:
                return ""
            value = value[part]
        if not isinstance(value, dict | list):
            return self.of(value)
        known = self._known.get(id(value))
        if known is None:
            if len(self._known) >= CACHED_MAX:
                self._known.clear()
            known = self._known[id(value)] = (value, self.of(value))
        return known[1]

    def of(self, value: object) -> str:
        """The digest of a value."""
        body = _encode(plain(value) if isinstance(value, Struct | tuple) else value)
        for each in self._ids:
            body = body.replace(each, b"")
        return hashlib.sha256(body).hexdigest()[:32]

    def subject(self, state: State, decision: str) -> str:
        """The digest of the run that a decision is about; "" for a token."""
        run = state.runs.get(decision.rpartition("!")[0])
        return "" if run is None else self.of((run.input, run.values, run.output, run.picked, run.loop))


# Texts


def pipeline_text(program: Program, pipeline: CompiledPipeline) -> str:
    """A digest of everything that decides the result of a frame, except for the values that it reads.

    Positions, descriptions, the loop around the tasks, admission, `set` and arcs of the step are not part of it:
    they are evaluated again. What a worker has noted for them is: output.meta, output.ref.
    """
    noted = [pipeline.reads_meta, pipeline.reads_ref, pipeline.reads_failed]
    return digest([[_task_text(program, task) for task in pipeline.tasks], noted])


def picks_text(pipeline: CompiledPipeline) -> str:
    """A digest of the templates that a worker has evaluated on data that is not in the log (D52)."""
    return digest([_source(each.value) for each in (*pipeline.picks, *pipeline.failure_picks)])


def _task_text(program: Program, task: CompiledTask) -> JSON:
    used = {task.auth} | {
        str(read.path[1]) for value in (task.fields, task.input) for read in value.reads if read.path[0] == "keychain"
        and len(read.path) > 1
    }  # fmt: skip
    keychain = [plain(entry) for entry in program.keychain if entry.name in used]
    libs = [plain(task.libs)] if task.libs and task.kind == "python" else []
    written, spec = (
        {key: value for key, value in each.items() if key != SAFE} for each in (task.source.spec, task.spec)
    )
    return [plain(replace(task.source, spec=written)), plain(spec), keychain, *libs]


def decision_text(program: Program, step: str) -> str:
    """A digest of the templates of a step outside of its tasks, and of the inputs that its arcs bind."""
    source = next((each for each in program.playbook.pipelines if each.name == step), None)
    if source is None:
        return ""
    parts: list[JSON] = [plain(source.set), plain(source.loops), plain(source.input)]
    if isinstance(source, Step):
        parts += [plain(source.arcs), plain(source.admit), source.mode]
        parts += [[each.name, plain(each.input)] for each in program.playbook.steps]
    return digest(parts)


def plain(value: object) -> JSON:
    """A part of the model without positions and descriptions."""
    match value:
        case Struct():
            fields = ((name, getattr(value, name)) for name in value.__struct_fields__ if name not in _NOT_IN_TEXT)
            return {name: plain(each) for name, each in fields if each is not msgspec.UNSET}
        case dict():
            return {str(key): plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
    return value


def _source(value: Value | Template) -> JSON:
    return value.source if isinstance(value, Template) else [template.source for template in value.templates]


def with_result_store(program: Program) -> Program:
    """The program as control runs it: large items of loops go to the result store."""
    return program._replace(limits={ITEMS_LIMIT: INLINE_BYTES_MAX, **program.limits})
