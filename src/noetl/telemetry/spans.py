"""Converts the log of an execution to spans. Pure: instants come from the log, ids are derived from names.

An execution is a trace, a step run is a span in it, and iterations and calls are spans below. Attributes hold
names, kinds, sizes and statuses, never a value.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple, TypeAlias

from noetl import ids
from noetl.engine import Event, apply, facts
from noetl.engine.facts import ForChild, TaskDone
from noetl.engine.state import Run, State
from noetl.ids import frame_id, frame_parts
from noetl.net.program import Program
from noetl.output import Failure, Output, tries_of

EVENTS_MAX: Final = 128  # of one span; further ones are only counted
NAME_CHARS_MAX: Final = 200  # in an attribute
ABANDONED: Final = Failure(kind="cancelled", message="it was abandoned")

_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_KIND: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")

Attribute: TypeAlias = str | int | float | bool


class SpanRef(NamedTuple):
    """The global identity of a span."""

    trace_id: int
    span_id: int


class SpanEvent(NamedTuple):
    name: str
    at: datetime
    attributes: dict[str, Attribute]


class SpanData(NamedTuple):
    """One ended span."""

    name: str
    context: SpanRef
    parent: SpanRef | None
    begun_at: datetime
    ended_at: datetime
    kind: Literal["internal", "client"]
    status: Literal["ok", "error"]
    attributes: dict[str, Attribute]
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanRef, ...] = ()


def trace_id(execution_id: str) -> int:
    """As in the events of the execution (D66)."""
    return int(ids.trace_id(execution_id), 16)


def span_id(execution_id: str, part: str = "") -> int:
    """The span of the execution, or of a run or an iteration of it."""
    digest = hashlib.sha256(f"span {execution_id}/{part}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def call_span_id(key: str, attempt: int) -> int:
    """The span of one tool call. A tool knows only its idempotency key and the attempt."""
    digest = hashlib.sha256(f"{key}/{attempt}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


class _Open:
    """A span that has not ended. The span of a run refers to those below it."""

    __slots__ = ("above", "attributes", "begun_at", "blocks", "dropped", "events", "frames")

    def __init__(self, begun_at: datetime, attributes: dict[str, Attribute], above: str | None = None) -> None:
        self.begun_at = begun_at
        self.attributes = attributes
        self.above = above  # for a block: the frame that called it
        self.events: list[SpanEvent] = []
        self.dropped = 0
        self.frames: dict[int, _Open] = {}  # iterations
        self.blocks: dict[str, None] = {}  # runs of blocks that its frames called

    def note(self, name: str, at: datetime, **attributes: Attribute) -> None:
        if len(self.events) < EVENTS_MAX:
            self.events.append(SpanEvent(name, at, attributes))
        else:
            self.dropped += 1


class Spans:
    """Reads a log event by event, and returns the spans that each event ends."""

    def __init__(self, execution_id: str, program: Program | None = None) -> None:
        """`program`: provides the kinds of tools; None: spans have no kinds."""
        self.state = State(execution_id=execution_id)
        self._program = program
        self._trace = trace_id(execution_id)
        self._life = 0  # number of retries after its end (D69)
        self._root = _Open(_EPOCH, {})
        self._runs: dict[str, _Open] = {}
        self._parked: dict[str, tuple[datetime, str | None]] = {}  # frame → since when, and its child
        self._parent: SpanRef | None = None  # the frame of another execution that waits for this one

    def feed(self, event: Event) -> list[SpanData]:
        fact, at = event.fact, event.at
        # The state before a call identifies the call.
        done = [self._call(fact, at)] if isinstance(fact, TaskDone) else []
        apply(self.state, fact, at)
        match fact:
            case facts.Requested():
                self._requested(fact, at)
            case facts.StepScheduled():
                self._scheduled(fact, at)
            case facts.LoopStarted(run=name, count=count):
                self._runs[name].attributes["noetl.loop.count"] = count
            case facts.FrameParked():
                self._park(fact, at)
            case facts.FrameResumed(frame=frame):
                self._frame(frame, at).note("resumed", at)
            case facts.HoldReleased(at=held):
                self._runs[frame_parts(held)[0]].note("released", at)
            case facts.FrameLost(frame=frame, worker=worker, task=task):
                self._frame(frame, at).note("lost", at, worker=_short(worker), task=_short(task))
            case facts.IterationDone(run=name, index=index):
                done.append(self._iteration(name, index, at, None))
            case facts.IterationFailed(run=name, index=index, error=error):
                done.append(self._iteration(name, index, at, error))
            case facts.StepDone(run=name) | facts.LoopDone(run=name):
                done += self._ended(name, at, None)
            case facts.StepFailed(run=str(name), error=error):
                done += self._ended(name, at, error)
            case facts.Paused() | facts.Resumed() | facts.Cancelled():
                self._root.note(type(fact).__name__.lower(), at)
            case facts.Retried():
                self._retried(at)
            case facts.Processed(status=status):
                done += self._processed(status, at)
        return done

    # Beginnings

    def _requested(self, fact: facts.Requested, at: datetime) -> None:
        attributes: dict[str, Attribute] = {
            "noetl.execution_id": self.state.execution_id,
            "noetl.playbook": _short(fact.path),
            "noetl.digest": fact.digest,
        }
        self._root = _Open(at, attributes)
        if fact.parent is not None:
            parent, _, place = fact.parent.partition("/")
            frame = place.rpartition("@")[0] or place
            self._parent = SpanRef(trace_id(parent), span_id(parent, frame))
            attributes["noetl.parent"] = parent

    def _retried(self, at: datetime) -> None:
        """The retry is another span below the first, which has already ended."""
        self._life += 1
        self._root = _Open(at, {**self._root.attributes, "noetl.life": self._life})

    def _scheduled(self, fact: facts.StepScheduled, at: datetime) -> None:
        attributes: dict[str, Attribute] = {"noetl.step": _short(fact.step), "noetl.run": _short(fact.run)}
        if fact.retry_of is not None:
            attributes["noetl.retry_of"] = _short(fact.retry_of)
        self._runs[fact.run] = _Open(at, attributes, fact.parent)
        if fact.parent is not None:
            self._runs[frame_parts(fact.parent)[0]].blocks[fact.run] = None

    def _park(self, fact: facts.FrameParked, at: datetime) -> None:
        child = fact.until.execution_id if isinstance(fact.until, ForChild) else None
        if not isinstance(fact.until, facts.ForDebugger):  # the call begins when it is released
            self._parked[fact.frame] = (at, child)
        self._frame(fact.frame, at).note("parked", at, until=str(fact.until.__struct_config__.tag))

    def _frame(self, frame: str, at: datetime) -> _Open:
        """The parent span of a frame's calls: its iteration, or the run itself."""
        name, index = frame_parts(frame)
        run = self._runs[name]
        if index is None:
            return run
        found = run.frames.get(index)
        if found is None:
            found = run.frames[index] = _Open(at, {"noetl.run": _short(name), "noetl.index": index})
        return found

    # Ends

    def _call(self, fact: TaskDone, at: datetime) -> SpanData:
        name, index = frame_parts(fact.frame)
        run = self.state.runs[name]
        known = run.frames.get(index)
        entries, attempt = (known.entries, known.attempt) if known is not None else (0, 1)
        since, child = self._parked.pop(fact.frame, (None, None))
        begun = fact.started_at or since or at
        ended = begun + timedelta(milliseconds=fact.ms) if fact.started_at is not None else at
        around = self._frame(fact.frame, begun)
        around.begun_at = min(around.begun_at, begun)
        if fact.directive == "retry":
            around.note("retry", ended, task=_short(fact.task), attempt=attempt)
        kind = self._kind(run, fact.task)
        attributes: dict[str, Attribute] = {
            "noetl.task": _short(fact.task),
            "noetl.frame": _short(fact.frame),
            "noetl.call": fact.call,
            "noetl.attempt": attempt,
            "noetl.status": fact.status,
            "noetl.directive": fact.directive,
            **({"noetl.tries": tries} if (tries := tries_of(fact.output)) > 1 else {}),
            **({"noetl.kind": kind} if kind is not None else {}),
            **_sizes(fact.output),
        }
        error = fact.error or (fact.output.error if fact.output is not None else None)
        entry = f"{self.state.execution_id}/{fact.frame}/{fact.task}/{entries}"
        key = hashlib.sha256(entry.encode()).hexdigest()  # the idempotency key that the worker made (P3)
        return SpanData(
            name=f"task {_short(fact.task)}",
            context=SpanRef(self._trace, call_span_id(key, attempt)),
            parent=self._id(fact.frame),
            begun_at=begun,
            ended_at=max(begun, ended),
            kind="client" if kind == "http" else "internal",
            status="error" if fact.status == "error" else "ok",
            attributes=_with_error(attributes, error),
            links=(SpanRef(trace_id(child), span_id(child)),) if child is not None else (),
        )

    def _kind(self, run: Run, task: str) -> str | None:
        if self._program is None:
            return None
        tasks = self._program.pipeline(run.step, block=run.block).tasks
        return next((each.kind for each in tasks if each.name == task), None)

    def _iteration(self, name: str, index: int, at: datetime, error: Failure | None) -> SpanData:
        frame = frame_id(name, index)
        span = self._frame(frame, at)
        del self._runs[name].frames[index]
        self._parked.pop(frame, None)
        step = self._runs[name].attributes["noetl.step"]
        return self._made(_Named(f"iteration {step}", frame), span, at, self._id(name), error)

    def _ended(self, name: str, at: datetime, error: Failure | None) -> list[SpanData]:
        """The spans of a run and, before it, of unfinished work below it."""
        span = self._runs.get(name)
        if span is None:
            return []  # it was abandoned with the run that called it
        done = [self._iteration(name, index, at, error or ABANDONED) for index in list(span.frames)]
        for block in list(span.blocks):
            done += self._ended(block, at, error or ABANDONED)
        del self._runs[name]
        self._parked.pop(name, None)
        if span.above is not None and (caller := self._runs.get(frame_parts(span.above)[0])) is not None:
            caller.blocks.pop(name, None)
        above = self._id(self._part()) if span.above is None else self._id(span.above)
        step = span.attributes["noetl.step"]
        return [*done, self._made(_Named(f"step {step}", name), span, at, above, error)]

    def _processed(self, status: str, at: datetime) -> list[SpanData]:
        done: list[SpanData] = []
        for name in list(self._runs):
            done += self._ended(name, at, ABANDONED)
        root, failure = self._root, self.state.failure
        error = None if status == "ok" else failure or ABANDONED
        root.attributes["noetl.status"] = status
        named = _Named(f"playbook {root.attributes['noetl.playbook']}", self._part())
        span = self._made(named, root, at, self._id("") if self._life else None, error)
        links = (self._parent,) if self._parent is not None and not self._life else ()
        return [*done, span._replace(links=links)]

    def _made(self, named: _Named, span: _Open, at: datetime, above: SpanRef | None, error: Failure | None) -> SpanData:
        if span.dropped:
            span.attributes["noetl.events_dropped"] = span.dropped
        return SpanData(
            name=named.name,
            context=self._id(named.part),
            parent=above,
            begun_at=min(span.begun_at, at),
            ended_at=at,
            kind="internal",
            status="error" if error is not None else "ok",
            attributes=_with_error(span.attributes, error),
            events=tuple(span.events),
        )

    def _id(self, part: str) -> SpanRef:
        return SpanRef(self._trace, span_id(self.state.execution_id, part))

    def _part(self) -> str:
        return f"life {self._life}" if self._life else ""


class _Named(NamedTuple):
    name: str  # the readable name, the same for all spans of this kind
    part: str  # the part of the execution that its id is derived from


def _with_error(attributes: dict[str, Attribute], error: Failure | None) -> dict[str, Attribute]:
    """Add the kind of the failure. Its message may contain data."""
    if error is None:
        return dict(attributes)
    return {**attributes, "noetl.error.kind": error.kind if _KIND.fullmatch(error.kind) else "other"}


def _sizes(output: Output | None) -> dict[str, Attribute]:
    meta = output.ref.get("meta") if output is not None and output.ref is not None else None
    size = meta.get("bytes") if isinstance(meta, dict) else None
    return {"noetl.result.bytes": size} if isinstance(size, int) else {}


def _short(text: str) -> str:
    return text if len(text) <= NAME_CHARS_MAX else f"{text[:NAME_CHARS_MAX]}…"
