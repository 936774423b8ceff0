"""A state as bytes and back. Values that runs and frames share are written once.

`schema()` names the shape of a state: a snapshot of another shape is dropped, and the log is read instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterator
from functools import cache
from itertools import islice, zip_longest
from typing import TypeAlias, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from noetl.engine.state import Compensation, CompletedRun, Frame, LoopState, Run, State
from noetl.output import JSON, Output

FORMAT = 1  # increase it when the bytes change, or the meaning of a field
LONG_CHARS = 64  # length from which a text gets a number of its own
_LEVELS = 3  # levels of mappings whose values are shared; deeper ones are written in full
_ALONE = -1  # instead of a number: the value is written in place
_PORTION = 1_000  # numbers that are written in one step
_NO_INDEX = -1  # key of a frame that is not an iteration: JSON keys are texts

Slot: TypeAlias = Callable[[JSON, JSON], JSON]  # the value of a slot, and its empty value → the new value


class _Frozen(Struct, array_like=True):
    state: State  # with empty slots
    slots: list[int]  # the numbers of the values of the slots, in the order of the walk through the state
    values: list[JSON]  # by number; a mapping has None for shared values
    links: dict[int, dict[str, int]]  # number of a mapping → key → number of the shared value


def freeze(state: State) -> bytes:
    """Mappings are shared by identity, as they are in the state."""
    return _all_of(freeze_slices(state))


def freeze_slices(state: State) -> Generator[None, None, bytes]:
    """The same in small steps. The state must not change meanwhile."""
    table = _Table()
    number = lambda index: _NO_INDEX if index is None else index  # noqa: E731  # as in `thaw`
    empty = yield from _through(state, table.put, number, _encode)
    for field in ("runs", "failed", "mended", "completed"):
        if encoded := getattr(empty, field):
            parts = []
            for name, part in encoded.items():
                parts.append(b"%b:%b" % (_encode(name), part))
                yield
            setattr(empty, field, _joined(b"{%b}", parts))
    values = []
    for value in table.values:
        values.append(_encode(value))
        yield
    slots = []
    for first in range(0, len(table.slots), _PORTION):
        slots.append(_encode(table.slots[first : first + _PORTION])[1:-1])
        yield
    links, left = [], iter(table.links.items())
    while portion := dict(islice(left, _PORTION)):
        links.append(_encode(portion)[1:-1])
        yield
    yield
    fields = [empty, _joined(b"[%b]", slots), _joined(b"[%b]", values), _joined(b"{%b}", links)]  # of _Frozen
    yield
    return _encode(fields)


def _joined(brackets: bytes, parts: list[bytes]) -> JSON:
    return msgspec.Raw(brackets % b",".join(parts))


T = TypeVar("T")


def _all_of(work: Generator[None, None, T]) -> T:
    """The result of all steps."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def thaw(frozen: bytes) -> State:
    """The same state. Raises ValueError for bytes that `freeze` has not made."""
    try:
        state, slots, values, links = msgspec.structs.astuple(_decoder().decode(frozen))
        for number, shared in links.items():  # A shared value has a lower number than the mappings that share it.
            values[number].update({key: values[inner] for key, inner in shared.items()})
        index_of: Key = lambda number: None if number == _NO_INDEX else number  # noqa: E731
        return _all_of(_through(state, _filled(values, iter(slots)), index_of, lambda part: part))
    except (msgspec.DecodeError, LookupError, AttributeError) as error:
        raise ValueError("this is not a snapshot of a state") from error


class _Table:
    """Values by number."""

    def __init__(self) -> None:
        self.slots: list[int] = []
        self.values: list[JSON] = []
        self.links: dict[int, dict[str, int]] = {}
        self._numbers: dict[int, int] = {}  # id → number; the state keeps its values alive, so ids stay valid

    def put(self, value: JSON, nothing: JSON) -> JSON:
        if not _is_large(value):
            self.slots.append(_ALONE)
            return value
        self.slots.append(self._number(value, _LEVELS))
        return nothing

    def _number(self, value: JSON, levels: int) -> int:
        known = self._numbers.get(id(value))
        if known is not None:
            return known
        links: dict[str, int] = {}
        if levels and type(value) is dict:
            links = {key: self._number(each, levels - 1) for key, each in value.items() if _is_large(each)}
        number = self._numbers[id(value)] = len(self.values)
        if links:
            self.links[number] = links
            self.values.append({key: None if key in links else each for key, each in value.items()})
        else:
            self.values.append(value)
        return number


def _is_large(value: JSON) -> bool:
    kind = type(value)
    return len(value) >= LONG_CHARS if kind is str else (kind is dict or kind is list) and bool(value)


def _filled(values: list[JSON], numbers: Iterator[int]) -> Slot:
    def fill(value: JSON, _nothing: JSON) -> JSON:
        number = next(numbers, None)
        if number is None:
            raise LookupError
        return value if number == _ALONE else values[number]

    return fill


Key: TypeAlias = Callable[[int | None], int | None]


def _through(state: State, slot: Slot, key: Key, pack: Callable[[JSON], JSON]) -> Generator[None, None, State]:
    """A copy of the state with new values in its slots: always the same slots in the same order.

    `pack` makes the parts of the copy that there may be many of.
    """
    workload, ctx = slot(state.workload, {}), slot(state.ctx, {})
    groups: list[dict[str, JSON]] = []
    for runs in (state.runs, state.failed, state.mended):
        groups.append(group := {})
        for name, run in runs.items():
            group[name] = pack(_run(run, slot, key))
            yield
    ends = [_output(each, slot) for each in (state.reached_end, state.last_output, state.end_output)]
    completed: dict[str, JSON] = {}
    for name, done in state.completed.items():
        completed[name] = pack(_completed(done, slot))
        yield
    return replace(
        state,
        workload=workload,
        ctx=ctx,
        runs=groups[0],
        failed=groups[1],
        mended=groups[2],
        reached_end=ends[0],
        last_output=ends[1],
        end_output=ends[2],
        completed=completed,
        compensation=None if state.compensation is None else _compensation(state.compensation, slot, key),
    )


def _completed(done: CompletedRun, slot: Slot) -> CompletedRun:
    output = replace(done.output, data=slot(done.output.data, None))
    return replace(done, input=slot(done.input, {}), values=slot(done.values, {}), output=output)


def _compensation(compensation: Compensation, slot: Slot, key: Key) -> Compensation:
    return replace(
        compensation,
        failed={name: _run(run, slot, key) for name, run in compensation.failed.items()},
        again={name: _run(run, slot, key) for name, run in compensation.again.items()},
    )


def _run(run: Run, slot: Slot, key: Key) -> Run:
    return replace(
        run,
        input=slot(run.input, {}),
        ctx=slot(run.ctx, {}),
        values=slot(run.values, {}),
        frames={key(index): _frame(frame, slot, key) for index, frame in run.frames.items()},
        loop=None if run.loop is None else _loop(run.loop, slot, key),
        output=_output(run.output, slot),
        undone=_output(run.undone, slot),
    )


def _frame(frame: Frame, slot: Slot, key: Key) -> Frame:
    return replace(
        frame,
        ctx=slot(frame.ctx, {}),
        step=slot(frame.step, {}),
        iter=slot(frame.iter, {}),
        outputs=slot(frame.outputs, {}),
        written=slot(frame.written, {}),
        prev=slot(frame.prev, None),
        last=_output(frame.last, slot),
        before=_output(frame.before, slot),
        answer=_output(frame.answer, slot),
        block=None if frame.block is None else _run(frame.block, slot, key),
    )


def _loop(loop: LoopState, slot: Slot, key: Key) -> LoopState:
    return replace(
        loop,
        items=slot(loop.items, None),
        start=slot(loop.start, {}),
        lost={index: _frame(frame, slot, key) for index, frame in loop.lost.items()},
    )


def _output(output: Output | None, slot: Slot) -> Output | None:
    return None if output is None else replace(output, data=slot(output.data, None))


def shape_of(root: type[Struct]) -> dict[str, list[str]]:
    """Every struct in it, with its fields, their types, and their defaults, which are not written."""
    found: dict[str, list[str]] = {}
    rest: list[JSON] = [root]
    while rest:
        kind = rest.pop()
        rest.extend(get_args(kind))
        if isinstance(kind, type) and issubclass(kind, Struct) and kind.__name__ not in found:
            hints = get_type_hints(kind)
            names, defaults = kind.__struct_fields__, kind.__struct_defaults__
            fields = zip_longest(reversed(names), map(_told, reversed(defaults)), fillvalue="required")
            found[kind.__name__] = [str(kind.__struct_config__.tag)]
            found[kind.__name__] += [f"{name}: {hints[name]} = {default}" for name, default in fields]
            rest.extend(hints.values())
    return found


def _told(default: JSON) -> str:
    """A default as a text that is the same in every process."""
    if default is msgspec.NODEFAULT:
        return "required"
    made = getattr(default, "factory", None)
    return repr(default) if made is None else f"a new {made.__name__}"


@cache
def schema() -> str:
    """The name of the shape of a state. Most commands need none, and it takes milliseconds to make."""
    described = msgspec.json.encode([FORMAT, shape_of(_Frozen)], order="sorted")
    return hashlib.sha256(described).hexdigest()[:16]


@cache
def _decoder() -> msgspec.json.Decoder[_Frozen]:
    return msgspec.json.Decoder(_Frozen)


_encode = msgspec.json.Encoder().encode
