"""Running loops: the window of iterations, and the pieces into which their writes are folded.

The part of `apply` for loops: it holds ranges, never a record for each successful iteration (D50).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from msgspec import UNSET

from noetl.engine import facts
from noetl.engine.reduce import REDUCERS, SAME, ReduceConflict, begin, joined
from noetl.engine.retry import entry_bytes, set_aside, taken_up
from noetl.engine.scopes import ABSENT, at_path, patched, put, split, view, without
from noetl.engine.state import Frame, LoopPiece, LoopState, Run, State
from noetl.engine.stored import NeedsValues, has_marks, ref_of
from noetl.ids import frame_id, frame_parts
from noetl.output import JSON, Failure
from noetl.playbook.model import INLINE_BYTES_MAX, VALUE_BYTES_MAX

RESULTS_BYTES_MAX = 65_536  # results of a loop that are kept as its data (D30); larger ones are only in the log
LOST_FRAMES_MAX = 1_000  # failed iterations that a retry continues at the failed task; others restart (D69)
_GROWING = frozenset({"append", "extend", "merge", "union"})
_OPENING = frozenset({"extend", "merge", "union"})  # they read the values that they fold
_encoded = msgspec.json.Encoder().encode


def fresh_frame(run: Run, index: int | None) -> Frame:
    """A frame without facts in the log."""
    frame = Frame(id=frame_id(run.id, index), index=index, ctx=run.ctx, step=run.values)
    if run.undone is not None:
        frame.last, frame.prev = run.undone, run.undone.data
    if run.step_at is not None and run.step_at == index:
        frame.stepping = True
    return frame


def frame_in(state: State, id: str) -> Frame:
    """The frame; a new one if this is its first fact."""
    owner, index = frame_parts(id)
    run = state.runs[owner]
    frame = run.frames.get(index)
    if frame is None:
        frame = run.frames[index] = fresh_frame(run, index)
    return frame


def fly(state: State, run: Run) -> None:
    """Schedule iterations while the window has room, the lowest first (D49); none in a pause (D67)."""
    loop = run.loop
    if loop is None or state.status != "running":
        return
    more = 0 if loop.named else loop.count
    while not loop.stopped and len(loop.flying) < loop.width and (loop.again or loop.frontier < more):
        if loop.again:
            index, end = loop.again.pop()
            if index + 1 < end:
                loop.again.append((index + 1, end))
            if index in loop.lost:
                run.frames[index] = taken_up(run, index, loop.lost.pop(index))
        else:
            index = loop.frontier
            loop.frontier += 1
        loop.flying[index] = None


def loop_started(state: State, fact: facts.LoopStarted) -> None:
    run = state.runs[fact.run]
    run.loop = LoopState(
        count=fact.count, width=fact.width, parallel=fact.parallel, items=fact.items, ref=fact.ref,
        reduce=fact.reduce, start=_start(state, run, fact.reduce), failures={} if fact.failures else None,
    )  # fmt: skip
    fly(state, run)


def _start(state: State, run: Run, reduce: dict[str, str]) -> dict[str, JSON]:
    """ctx as the reducers start from it: what it had before is counted once (D86).

    Where a loop around this one folds a path too, that one counts it, and this one starts from what the
    iteration around it has written.
    """
    start = run.ctx
    for path in reduce if run.parent is not None else ():
        own = _written_around(state, run, path)
        if own is not None:
            parts = split(f"ctx.{path}")[1]
            start = without(start, parts)
            value = at_path(own, parts)
            if value is not ABSENT:
                start = put(start, parts, value)
    return start


def _written_around(state: State, run: Run, path: str) -> dict[str, JSON] | None:
    """The writes around a run since the start of the nearest loop that folds the path; None: no loop does."""
    writes: dict[str, JSON] = {}
    while run.parent is not None:
        owner, index = frame_parts(run.parent)
        run = state.runs[owner]
        if run.loop is not None and run.loop.parallel:
            writes = {**run.frames[index].written, **writes}
            if path in run.loop.reduce:
                return patched({}, writes)
    return None


def iteration_done(state: State, fact: facts.IterationDone) -> None:
    run, frame, loop = _landed(state, fact.run, fact.index)
    loop.succeeded += 1
    _keep_result(loop, fact.index, frame)
    _fold_in(loop, fact.index, frame.written if loop.parallel else {})
    if not loop.parallel:
        run.values, run.ctx = frame.step, view(state, run)
    fly(state, run)
    if frame.stepping:
        _step_on(run, loop)


def iteration_failed(state: State, fact: facts.IterationFailed) -> None:
    run, frame, loop = _landed(state, fact.run, fact.index)
    loop.failed += 1
    if loop.error_at is None or fact.index < loop.error_at:  # The order of arrival decides nothing.
        loop.error, loop.error_at = fact.error, fact.index
    loop.stopped = loop.stopped or fact.stop
    if loop.failures is not None:
        _keep_failure(loop, loop.failures, fact)
    if len(loop.lost) < LOST_FRAMES_MAX:
        loop.lost[fact.index] = set_aside(frame)
    _count_bytes(loop, b"null")
    if not loop.parallel:
        run.values, run.ctx = frame.step, view(state, run)
    fly(state, run)
    if frame.stepping:
        _step_on(run, loop)


def _step_on(run: Run, loop: LoopState) -> None:
    """A single step continues in the next iteration; that of a parallel iteration, after the loop."""
    following = loop.frontier if loop.frontier < loop.count and not loop.stopped else None  # in a pause
    run.step_at = None if loop.parallel else next(reversed(loop.flying), following)
    run.stepping = run.step_at is None


def _keep_failure(loop: LoopState, failures: dict[int, JSON], fact: facts.IterationFailed) -> None:
    """An entry of `output.failed`: of the lowest iterations, as many as fit into the log."""
    if loop.failures_end is not None and fact.index >= loop.failures_end:
        return
    entry: dict[str, JSON] = {"index": fact.index, "error": fact.error.view()}
    item = fact.item if loop.items is None else loop.items[fact.index]
    if item is not UNSET and not has_marks(item):
        entry["item"] = item
    failures[fact.index] = entry
    loop.failures_bytes += entry_bytes(entry)
    while loop.failures_bytes > INLINE_BYTES_MAX:
        loop.failures_end = max(failures)
        loop.failures_bytes -= entry_bytes(failures.pop(loop.failures_end))


def _landed(state: State, run_id: str, index: int) -> tuple[Run, Frame, LoopState]:
    run = state.runs[run_id]
    assert run.loop is not None
    frame = run.frames.pop(index, None) or fresh_frame(run, index)
    del run.loop.flying[index]
    return run, frame, run.loop


def _keep_result(loop: LoopState, index: int, frame: Frame) -> None:
    if loop.results is None:
        return
    data = frame.last.data if frame.last else None
    if data is None and frame.last is not None and frame.last.ref is not None:
        loop.results = None  # It is in a result store: so is the whole list (D30).
        return
    if data is not None:
        loop.results[index] = data
    _count_bytes(loop, _encoded(data))


def _count_bytes(loop: LoopState, encoded: bytes) -> None:
    loop.result_bytes += len(encoded) + 1
    if loop.result_bytes > RESULTS_BYTES_MAX:
        loop.results = None


def _fold_in(loop: LoopState, index: int, writes: dict[str, JSON]) -> None:
    """Add one iteration: a piece of its own, joined with its neighbours if they are done."""
    if loop.conflict is not None:
        return  # Its writes are never used.
    piece = LoopPiece(end=index + 1)
    try:
        for path, value in writes.items():
            reducer = loop.reduce.get(path, SAME)
            if reducer in _OPENING and ref_of(value) is not None:
                piece.unfolded[path] = [(False, value)]
                continue
            piece.folded[path] = _said(reducer, path, REDUCERS[reducer].single, value)
            if reducer in _GROWING:
                piece.bytes[path] = len(_encoded(value)) + 1
        begins = index
        if index in loop.ends:
            begins = loop.ends.pop(index)
            piece = _join(loop, loop.pieces[begins], piece)
        if index + 1 in loop.pieces:
            piece = _join(loop, piece, loop.pieces.pop(index + 1))
    except _DoesNotFold as error:
        loop.conflict, loop.stopped = error.failure, True
        loop.pieces, loop.ends = {}, {}
        return
    loop.pieces[begins] = piece
    loop.ends[piece.end] = begins


class _DoesNotFold(Exception):
    def __init__(self, failure: Failure) -> None:
        self.failure = failure


def _said(reducer: str, path: str, how: Callable[..., JSON], *values: JSON) -> JSON:
    """Join two partial results. An error message names the path."""
    try:
        return how(*values)
    except ReduceConflict:
        message = f'iterations write different values to "ctx.{path}" and no reducer folds them'
    except ValueError as error:
        message = f'reducer "{reducer}" of "ctx.{path}": {error}'
    raise _DoesNotFold(Failure(kind="ctx-conflict", message=message))


def _join(loop: LoopState, left: LoopPiece, right: LoopPiece) -> LoopPiece:
    left.end = right.end
    for path in {**left.unfolded, **right.unfolded}:
        left.unfolded[path] = [*_operands(left, path), *_operands(right, path)]
    for path, value in right.folded.items():
        reducer = loop.reduce.get(path, SAME)
        if path in left.folded:
            value = _said(reducer, path, REDUCERS[reducer].joined, left.folded[path], value)
        left.folded[path] = value
        if reducer in _GROWING:
            left.bytes[path] = _weighed(reducer, path, value, left.bytes.get(path, 0) + right.bytes[path])
    return left


def _operands(piece: LoopPiece, path: str) -> list[tuple[bool, JSON]]:
    """What a piece contributes to a path, in order; a partial result counts as one operand."""
    if path in piece.unfolded:
        return piece.unfolded[path]
    piece.bytes.pop(path, None)
    return [(True, piece.folded.pop(path))] if path in piece.folded else []


def _weighed(reducer: str, path: str, value: JSON, most: int) -> int:
    """Growing values are measured only when they may have become too large (D55), not each time."""
    if most <= VALUE_BYTES_MAX:
        return most
    size = len(_encoded(REDUCERS[reducer].finish(value)))
    if size > VALUE_BYTES_MAX:
        message = f'"ctx.{path}" is over {VALUE_BYTES_MAX:,} bytes: keep references instead'
        raise _DoesNotFold(Failure(kind="payload-too-large", message=message))
    return size


def folded(loop: LoopState) -> tuple[dict[str, JSON], Failure | None]:
    """The writes of the iterations in order, applied to the ctx with which the loop started (D86).

    Raises NeedsValues when a reducer has to read a value that is in the result store.
    """
    made: dict[str, JSON] = {}
    try:
        for begins in sorted(loop.pieces):
            for path, value in _partial_results(loop, loop.pieces[begins]):
                reducer = loop.reduce.get(path, SAME)
                if path not in made:
                    if reducer in _OPENING | {"append"} and ref_of(at_path(loop.start, tuple(path.split(".")))):
                        raise NeedsValues
                    made[path] = _said(reducer, path, begin, reducer, loop.start, path)
                made[path] = _said(reducer, path, joined, reducer, made[path], value)
        return {
            path: _said(reducer := loop.reduce.get(path, SAME), path, REDUCERS[reducer].finish, value)
            for path, value in made.items()
        }, None
    except _DoesNotFold as error:
        return {}, error.failure


def _partial_results(loop: LoopState, piece: LoopPiece) -> Iterator[tuple[str, JSON]]:
    yield from piece.folded.items()
    for path, operands in piece.unfolded.items():
        reducer = loop.reduce.get(path, SAME)
        for is_partial, value in operands:
            if has_marks(value):
                raise NeedsValues
            yield path, value if is_partial else _said(reducer, path, REDUCERS[reducer].single, value)
