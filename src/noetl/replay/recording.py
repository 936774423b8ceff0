"""The calls of a recorded execution, read from its log, and the source that answers from them.

A call is found by its frame, its task and its occurrence in the frame, and verified by the hash of its input.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from noetl.engine import Event
from noetl.engine.facts import (
    Finished,
    ForSignal,
    FrameParked,
    FrameResumed,
    Requested,
    Started,
    StepScheduled,
    TaskDone,
)
from noetl.engine.scopes import is_foreign
from noetl.errors import Damaged, NotFound
from noetl.ids import call_id, frame_id, frame_parts, place_of_frame, step_of_token
from noetl.net.program import FilesOfTask
from noetl.output import JSON, Output, failed
from noetl.replay.adapter import Answer, MadeCall
from noetl.runtime.memory import MemoryState
from noetl.template import Moment, TemplateError
from noetl.views.documents import content_type, decoded
from noetl.views.log import instant

BodyReader: TypeAlias = Callable[[dict[str, JSON]], Awaitable[bytes]]

FOLLOWED_S: Final = 1.0  # between two calls of a frame, so that the second one sees its recorded time
FOLLOWED_MAX: Final = 1_000  # calls of a frame


class RecordedCall(Struct, frozen=True, kw_only=True):
    """A call that was made, with its answer."""

    frame: str  # "fetch#2[17]"
    task: str
    occurrence: int  # of the task in its frame, from 1
    output: Output
    input_hash: str | None = None
    started_at: datetime | None = None
    ms: float = 0.0
    seq: int = 0  # of its fact
    position: int = 0  # of the call in its frame, with those of pure tasks
    files: dict[str, str] | None = None  # a part of its code, with digests; None: not known, as in a cassette


class RecordedSignal(Struct, frozen=True, kw_only=True):
    name: str
    frame: str  # that waited for it
    data: JSON = None


class RoutedStep(NamedTuple):
    """A run of a step, and where its tokens came from."""

    step: str
    origins: tuple[str, ...]  # the steps before it; empty text: the request
    seq: int

    @property
    def arc(self) -> tuple[str, tuple[str, ...]]:
        return self.step, tuple(sorted(self.origins))


def routed(event: Event) -> RoutedStep | None:
    """None: the event schedules no step, or it retries, undoes or calls a block."""
    match event.fact:
        case StepScheduled(step=step, tokens=tokens, retry_of=None, parent=None, compensates=None):
            return RoutedStep(step, tuple(map(step_of_token, tokens)), event.seq)
    return None


class RecordedExecution(Struct, kw_only=True):
    """What an execution was asked for, and what the world answered."""

    id: str
    path: str
    digest: str
    workload: dict[str, JSON] = {}
    ctx: dict[str, JSON] = {}  # first values
    saved: dict[str, JSON] = {}  # the values of saved.* that it read
    started_at: datetime
    ended_at: datetime | None = None
    status: str = "running"
    route: tuple[RoutedStep, ...] = ()  # in the order of scheduling
    output: Output | None = None  # of the playbook
    called_as: str | None = None  # of a child: the path by which its caller found it
    calls: list[RecordedCall] = []
    signals: list[RecordedSignal] = []
    children: list[RecordedExecution] = []

    def tree(self) -> Iterable[RecordedExecution]:
        yield self
        for child in self.children:
            yield from child.tree()


class _Reading:
    """What is known while a log is read."""

    def __init__(self) -> None:
        self.retried: dict[str, str] = {}  # run → the first of the runs that it retries
        self.from_start: set[str] = set()
        self.calls: dict[str, list[tuple[RecordedCall, bool]]] = {}  # frame → its calls, and whether it ended there
        self.waiting: dict[str, str] = {}  # frame → the signal
        self.signals: list[RecordedSignal] = []
        self.route: list[RoutedStep] = []
        self.repeated: set[str] = set()  # frames of retries that have made a call

    def frame(self, frame: str) -> str:
        """The frame that it repeats, if `noetl retry` made it: what succeeded counts, not what failed before."""
        run, index = frame_parts(frame)
        return frame_id(self.retried.get(run, run), index)

    def add(self, event: Event, fact: TaskDone) -> None:
        assert fact.output is not None
        frame, run = self.frame(fact.frame), frame_parts(fact.frame)[0]
        known = self.calls.setdefault(frame, [])
        if run in self.retried and fact.frame not in self.repeated:
            self.repeated.add(fact.frame)
            if run in self.from_start:
                known.clear()
            elif known and known[-1][1]:
                known.pop()
        call = RecordedCall(
            frame=frame, task=fact.task, occurrence=1 + sum(each.task == fact.task for each, _ in known),
            output=fact.output, input_hash=fact.input_hash, started_at=fact.started_at, ms=fact.ms, seq=event.seq,
            position=fact.call, files=fact.files,
        )  # fmt: skip
        known.append((call, fact.directive == "fail"))


def read_recording(execution_id: str, events: Iterable[Event]) -> RecordedExecution:
    """The calls of one execution, without its children. Raises NotFound for a request that never started."""
    reading, found = _Reading(), None
    for event in events:
        match event.fact:
            case Requested(path=path, digest=digest, workload=workload, ctx=ctx):
                found = RecordedExecution(
                    id=execution_id, path=path, digest=digest, workload=workload, ctx=ctx, started_at=event.at
                )
            case Started(saved=saved) if found is not None:
                found.saved = saved
            case StepScheduled(retry_of=None):
                reading.route += [each] if (each := routed(event)) is not None else []
            case StepScheduled(run=run, retry_of=str(first), from_start=from_start):
                reading.retried[run] = reading.retried.get(first, first)
                if from_start:
                    reading.from_start.add(run)
            case TaskDone(input_hash=str(), output=Output()) as fact:
                reading.add(event, fact)
            case FrameParked(frame=frame, until=ForSignal(name=name)):
                reading.waiting[frame] = name
            case FrameResumed(frame=frame, output=Output() as output) if frame in reading.waiting:
                name = reading.waiting.pop(frame)
                reading.signals.append(RecordedSignal(name=name, frame=reading.frame(frame), data=output.data))
            case Finished(status=status, output=output) if found is not None:
                found.status, found.ended_at, found.output = status, event.at, output
    if found is None or not reading.route:
        raise NotFound(f"{execution_id} never started: there is nothing to replay")
    found.route = tuple(reading.route)
    found.calls = sorted((call for calls in reading.calls.values() for call, _ in calls), key=lambda each: each.seq)
    found.signals = reading.signals
    return found


class _Index:
    """The calls of one recorded execution, ready to be found."""

    def __init__(self, recorded: RecordedExecution) -> None:
        self.recorded = recorded
        self.by_key = {(each.frame, each.task, each.occurrence): each for each in recorded.calls}
        self.by_hash: dict[tuple[str, str, str | None], list[RecordedCall]] = defaultdict(list)
        for each in reversed(recorded.calls):
            self.by_hash[place_of_frame(each.frame), each.task, each.input_hash].append(each)
        self.used: set[int] = set()  # calls that answered, by seq
        self.claimed: set[int] = set()  # … for exactly their input
        self.by_frame: dict[str, list[RecordedCall]] = defaultdict(list)
        for each in recorded.calls:
            self.by_frame[each.frame].append(each)
        self.signals: dict[str, list[RecordedSignal]] = defaultdict(list)
        for signal in reversed(recorded.signals):
            self.signals[signal.name].append(signal)

    def find(self, call: MadeCall, wanted: str | None) -> tuple[RecordedCall, bool] | None:
        """The recorded call, and whether its input was the same."""
        found = self.by_key.get((call.frame, call.task, call.occurrence))
        if found is not None and (found.input_hash == wanted or self._is_same_then(call, found)):
            return found, True
        # Another iteration or firing had this input, and no call of its own has used the answer.
        alike = self.by_hash.get((place_of_frame(call.frame), call.task, wanted), [])
        while alike:
            if (other := alike.pop()).seq not in self.claimed:
                return other, True
        return None if found is None else (found, False)

    def _is_same_then(self, call: MadeCall, recorded: RecordedCall) -> bool:
        """Whether the input is the same when `now()` and `uuid()` give what they gave in the recorded call."""
        called, task = call.called, call.called.task
        if recorded.started_at is None or not (task.fields.calls or task.input.calls):
            return False
        at = instant(recorded.started_at)
        seed = f"{self.recorded.id}/{call_id(recorded.frame, recorded.position)}"
        try:
            fields = task.fields(called.scope, Moment(at, f"{seed}/a field"))
            input = task.input(called.scope, Moment(at, f"{seed}/input"))
        except TemplateError:  # it reads the keychain, which is not in the scope
            return False
        return replace(called, fields={**task.code, **fields}, input=input).input_hash == recorded.input_hash


class Recordings:
    """Recorded executions by the ids of those that replay them. Implements AnswerSource."""

    def __init__(
        self,
        recorded: RecordedExecution,
        root: str,
        read_body: BodyReader,
        memory: MemoryState,
        changed: Collection[tuple[str, str, str]] = (),
        *,
        files: FilesOfTask | None = None,
    ) -> None:
        """`changed`: (path, step, task) whose code differs from the recorded one, which no hash shows.

        `files`: what the code includes now; None: this is not compared.
        """
        self._indexes = {root: _Index(recorded)}
        self._read_body = read_body
        self._write_body = memory.results.put
        self._clock = memory.clock
        self._changed = changed
        self._files = files
        self._free = [each for child in recorded.children for each in child.tree()]
        self._adopt_by_id()

    def _adopt_by_id(self) -> None:
        """A child has the id that follows from its call: the same, unless the playbook was changed before it."""
        for each in self._free:
            self._indexes.setdefault(each.id, _Index(each))

    def adopt(self, execution_id: str, path: str, workload: dict[str, JSON]) -> None:
        """A child has started: if its id is new, it uses a recorded child of the same path that is not used yet."""
        if execution_id in self._indexes:
            self._free = [each for each in self._free if each.id != execution_id]
            return
        alike = [each for each in self._free if each.path == path]
        same = next((each for each in alike if each.workload == workload), alike[0] if alike else None)
        if same is not None:
            self._free.remove(same)
            self._indexes[execution_id] = _Index(same)

    @property
    def unused(self) -> list[RecordedCall]:
        """Calls that were recorded and not asked for."""
        return [call for each in self._indexes.values() for call in each.recorded.calls if call.seq not in each.used]

    def _follow(self, index: _Index, recorded: RecordedCall) -> None:
        """Move the clock to the end of the recorded call, or to the call that followed at once in its frame."""
        if recorded.started_at is None:
            return
        target = recorded.started_at + timedelta(milliseconds=recorded.ms)
        calls = index.by_frame[recorded.frame]
        place = calls.index(recorded) + 1 if len(calls) <= FOLLOWED_MAX else len(calls)
        following = calls[place].started_at if place < len(calls) else None
        if following is not None and target < following <= target + timedelta(seconds=FOLLOWED_S):
            target = following
        if (ahead := (target - self._clock.now()).total_seconds()) > 0:
            self._clock.advance(ahead)

    def signal(self, execution_id: str, name: str) -> tuple[JSON] | None:
        """The data of the next signal of this name; None: none was received."""
        index = self._indexes.get(execution_id)
        return (index.signals[name].pop().data,) if index is not None and index.signals.get(name) else None

    async def answer(self, call: MadeCall) -> Answer | None:
        index = self._indexes.get(call.execution_id)
        if index is None or (found := index.find(call, call.called.input_hash)) is None:
            return None
        recorded, same = found
        index.used.add(recorded.seq)
        if same:
            index.claimed.add(recorded.seq)
        self._follow(index, recorded)
        if (index.recorded.path, call.step, call.task) in self._changed or self._has_other_files(call, recorded):
            same = False
        if (tried := _earlier_try(recorded, call)) is not None:
            return Answer(tried, "same" if same else "changed", recorded.seq)
        output = await self._loaded(call, recorded.output)
        return Answer(_without_tries(output), "same" if same else "changed", recorded.seq)

    def _has_other_files(self, call: MadeCall, recorded: RecordedCall) -> bool:
        if self._files is None or recorded.files is None:
            return False
        return recorded.files != self._files(call.called.task, call.called.folder).digests

    async def _loaded(self, call: MadeCall, output: Output) -> Output:
        """With its data, which may be in the result store. Raises Damaged when it is gone."""
        ref = output.ref
        if ref is None or output.data is not None or is_foreign(ref):
            return output
        try:
            body = await self._read_body(ref)
        except NotFound as error:
            raise Damaged(f"the recorded answer of {call.name} is missing: {error}") from error
        kind = content_type(ref)
        if is_json(kind) and call.called.input.get("response") != "file":
            return replace(output, data=decoded(body, ref), ref=None)
        return replace(output, ref=await self._write_body(call.execution_id, body, kind))


def is_json(content_type: str) -> bool:
    return content_type == "application/json" or content_type.endswith("+json")


def _earlier_try(recorded: RecordedCall, call: MadeCall) -> Output | None:
    """The failure of a try before the last one (D92)."""
    tries = recorded.output.meta.get("tries") or ()
    number = call.attempt - call.called.attempt
    if number < len(tries) - 1:
        tried = tries[number]
        return failed(tried.get("kind", "tool"), tried.get("message", "the try failed"), retryable=True)
    return None


def _without_tries(output: Output) -> Output:
    if "tries" not in output.meta:
        return output
    return replace(output, meta={key: value for key, value in output.meta.items() if key != "tries"})
