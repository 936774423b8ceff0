"""Loops: where one starts, when an iteration ends, and the results of a finished loop."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from noetl.engine import facts
from noetl.engine.admission import over_limit
from noetl.engine.apply import apply, ok
from noetl.engine.facts import Fact
from noetl.engine.loop_state import folded
from noetl.engine.retry import gaps
from noetl.engine.scopes import base_scope, ctx_misfit, is_ref, misfit, moment, owner_of, patched
from noetl.engine.state import Frame, LoopState, Run, State
from noetl.engine.stored import (
    ITEMS_LIMIT,
    NeedsValues,
    ValueTooLarge,
    ensure_readable,
    has_marks,
    is_stored,
    ref_of,
)
from noetl.ids import frame_parts
from noetl.net.program import CompiledPipeline, Program
from noetl.output import JSON, Failure, Output
from noetl.playbook.model import DEFAULT_MAX_IN_FLIGHT
from noetl.template.compile import TemplateError
from noetl.template.values import kind_of

LISTED_MAX = 10  # failed iterations that an error names
_SOME_TIME = datetime(1970, 1, 1, tzinfo=UTC)  # no output depends on the time of recording


def lineage(log: Iterable[Fact], run: str) -> frozenset[str]:
    """The run and the runs that it retries, newest first: it has inherited iterations from them."""
    before = {
        fact.run: fact.retry_of for fact in log if isinstance(fact, facts.StepScheduled) and fact.retry_of is not None
    }
    found = [run]
    while found[-1] in before:
        found.append(before[found[-1]])
    return frozenset(found)


class Iterations:
    """Reads the facts of a log in order and holds the output of each iteration of one run."""

    def __init__(self, run: str, ancestry: frozenset[str], only: range | None = None) -> None:
        self.run = run
        self.count = 0
        self._only = only  # the requested indexes; None: all
        self._ancestry = ancestry
        self._state = State(execution_id="")
        self._done: dict[int, Output] = {}

    def feed(self, fact: Fact) -> None:
        match fact:
            case facts.IterationDone(run=run, index=index) if run in self._ancestry and self._asks(index):
                frame = self._state.runs[run].frames.get(index)
                self._done[index] = ok(frame.last) if frame is not None and frame.last else Output()
            case facts.LoopStarted(run=run, count=count) if run in self._ancestry:
                self._done, self.count = {}, count  # Earlier iterations were not inherited.
        apply(self._state, fact, _SOME_TIME)

    def outputs(self) -> Iterator[tuple[int, Output | None]]:
        """By index.

        None: it failed, or is not done. The data of an output with a Ref and no data is in a result
        store.
        """
        for index in range(self.count):
            if self._asks(index):
                yield index, self._done.get(index)

    def _asks(self, index: int) -> bool:
        return self._only is None or index in self._only


def iteration_outputs(log: Iterable[Fact], run: str, only: range | None = None) -> Iterator[tuple[int, Output | None]]:
    """The outputs of all or some iterations of a run. The log is read twice."""
    reader = Iterations(run, lineage(log, run), only)
    for fact in log:
        reader.feed(fact)
    return reader.outputs()


_encoded = msgspec.json.Encoder().encode


class ToStore(NamedTuple):
    """Items that are too large for the log: they are stored before `loop.started` (D44)."""

    items: list[JSON]
    started: facts.LoopStarted  # without them


class ToRead(NamedTuple):
    """Items behind a Ref: a worker reads them, never control."""

    ref: dict[str, JSON]
    started: facts.LoopStarted


def iteration(program: Program, state: State, run: Run, index: int | None) -> dict[str, JSON] | None:
    """`iter` for a frame: the item, the index, and the iteration around it; None: it is in no loop.

    Without the item when that is in the result store: the worker fetches it.
    """
    pipeline = program.pipeline(run.step, block=run.block)
    around = _around(program, state, run) if run.parent is not None else None
    if pipeline.loop is None or index is None:
        return around
    own: dict[str, JSON] = {"index": index}
    if run.loop is not None and run.loop.items is not None:
        own[pipeline.loop.iterator] = run.loop.items[index]
    if around is not None:
        own["parent"] = around
    return own


def _around(program: Program, state: State, run: Run) -> dict[str, JSON] | None:
    """The iteration from which a block was called."""
    assert run.parent is not None
    owner, place = frame_parts(run.parent)
    caller = state.runs[owner]
    frame = caller.frames.get(place)
    if frame is not None and isinstance(frame.parked, facts.ForBlock) and frame.parked.iter is not None:
        return frame.parked.iter
    around = iteration(program, state, caller, place)
    return {**around, **frame.iter} if around is not None and frame is not None else around


def digest_of(items: list[JSON] | None) -> str:
    return hashlib.sha256(_encoded(items)).hexdigest()


def loop_started(program: Program, state: State, run: Run, at: datetime) -> Fact | ToStore | ToRead:
    """The start of a loop, or what must be done first."""
    pipeline = program.pipeline(run.step, block=run.block)
    loop = pipeline.loop
    assert loop is not None
    scope = base_scope(state, run)
    scope["ctx"] = run.ctx
    around = iteration(program, state, run, None)
    if around is not None:
        scope["iter"] = around
    if state.stored:
        ensure_readable(loop.items, scope)
        if loop.width is not None:
            ensure_readable(loop.width, scope)
    try:
        items = loop.items(scope, moment(loop.items, at, f"{run.id}/in"))
        wide = loop.width
        width = DEFAULT_MAX_IN_FLIGHT if wide is None else wide(scope, moment(wide, at, f"{run.id}/width"))
    except TemplateError as error:
        return _no_loop(run, "template", f'loop of "{run.step}": {error}')
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        return _no_loop(run, "loop", f'max_in_flight of "{run.step}" must be at least 1')
    started = facts.LoopStarted(
        run=run.id,
        count=0,
        width=width if loop.parallel else 1,
        parallel=loop.parallel,
        reduce={".".join(path): name for path, name in loop.reduce.items()},
        failures=pipeline.reads_failed and state.level >= 2,
    )
    most = program.limits.get(ITEMS_LIMIT)
    is_origin = is_ref(items) and (loop.origin or owner_of(items) is not None)
    ref = items if is_origin else ref_of(items)
    if ref is not None:
        if most is None:
            return _no_loop(run, "loop", "a loop over a Ref needs a result store, and there is none")
        return ToRead(ref, started)
    if isinstance(items, dict):
        items = [{"key": key, "value": value} for key, value in items.items()]
    if not isinstance(items, list):
        message = f'loop.in of "{run.step}" gives {kind_of(items)}, and not a list or a mapping'
        return _no_loop(run, "loop", message)
    if len(items) > program.limits["iterations"]:
        return over_limit(program, "iterations", len(items))
    started = replace(started, count=len(items))
    if most is not None and len(_encoded(items)) > most:
        if state.stored and has_marks(items):
            raise NeedsValues  # The pages of a list hold values only.
        return ToStore(items, started)
    return replace(started, items=items)


def _no_loop(run: Run, kind: str, message: str) -> Fact:
    return facts.StepFailed(run=run.id, error=Failure(kind=kind, message=message))


def is_complete(loop: LoopState) -> bool:
    """Have all scheduled iterations ended, and is none left to schedule?"""
    return not loop.flying and (loop.stopped or (not loop.again and (loop.named or loop.frontier == loop.count)))


def landed(pipeline: CompiledPipeline, run: Run, index: int | None, frame: Frame) -> Fact:
    """A frame is over, and with it the step or one iteration."""
    error = frame.last_error
    if run.loop is None:
        if error is not None:
            return facts.StepFailed(run=run.id, error=error)
        return facts.StepDone(run=run.id)
    assert index is not None
    if error is None:
        return facts.IterationDone(run=run.id, index=index)
    stop = not pipeline.best_effort or _past_tolerance(pipeline, run.loop)
    return facts.IterationFailed(run=run.id, index=index, error=error, stop=stop, item=frame.failed_item)


def _tolerated(pipeline: CompiledPipeline, loop: LoopState) -> int | None:
    """How many iterations may fail (D48, D87); None: any number, or none because of fail_fast."""
    tolerate = pipeline.tolerate if pipeline.best_effort else None
    return int(tolerate[:-1]) * loop.count // 100 if isinstance(tolerate, str) else tolerate


def _past_tolerance(pipeline: CompiledPipeline, loop: LoopState) -> bool:
    """Is one more failure too many?"""
    allowed = _tolerated(pipeline, loop)
    return allowed is not None and loop.failed + 1 > allowed


def awaits_reading(program: Program, run: Run) -> bool:
    """Are the results too large for the log, and do `set` or arcs read them?

    Then a worker evaluates them (D52).
    """
    loop = run.loop
    if loop is None or loop.results is not None or loop.conflict is not None or not is_complete(loop):
        return False
    pipeline = program.pipeline(run.step, block=run.block)
    return ITEMS_LIMIT in program.limits and bool(pipeline.picks or pipeline.failure_picks)


def loop_done(program: Program, state: State, run: Run) -> Fact:
    pipeline, loop = program.pipeline(run.step, block=run.block), run.loop
    assert loop is not None
    if loop.conflict is not None:
        return facts.StepFailed(run=run.id, error=loop.conflict)
    output = loop_output(pipeline, state, run)
    if loop.stopped:
        assert loop.error is not None
        return facts.StepFailed(run=run.id, error=_too_many(pipeline, state, loop) or loop.error, output=output)
    if (left := _left(pipeline, loop)) is not None:
        return facts.StepFailed(run=run.id, error=left, output=output)
    values, failure = folded(loop)
    failure = failure or _misfit(program, state, values)
    written = {f"ctx.{path}": each for path, each in values.items()}
    try:
        stored = tuple(target for target, value in written.items() if is_stored(program, target, value))
    except ValueTooLarge as error:
        failure = failure or error.failure
    if failure is not None:
        return facts.StepFailed(run=run.id, error=failure, output=output)
    return facts.LoopDone(run=run.id, output=output, set=written, stored=stored)


def _too_many(pipeline: CompiledPipeline, state: State, loop: LoopState) -> Failure | None:
    """More iterations failed than are tolerated: which, and why the first of them; None: that is not the reason."""
    allowed = _tolerated(pipeline, loop)
    if allowed is None or loop.error is None or state.level < 2:
        return None
    known = (index for index in loop.lost if not any(first <= index < end for first, end in loop.again))
    first = sorted(known)[:LISTED_MAX]
    which = ", ".join(f"[{index}]" for index in first) + (", …" if loop.failed > len(first) else "")
    head = f"{loop.failed:,} of {loop.count:,} iterations failed, {allowed:,} tolerated: {which}"
    return replace(loop.error, message=f"{head}; [{loop.error_at}] {loop.error.message}")


def _left(pipeline: CompiledPipeline, loop: LoopState) -> Failure | None:
    """A retry of named iterations has left others that keep the loop from being done; None: it is done."""
    allowed, unbegun = _tolerated(pipeline, loop), loop.count - loop.frontier
    too_many = loop.failed > (allowed or 0) and not (pipeline.best_effort and allowed is None)
    if not loop.named or not (too_many or unbegun):
        return None
    words = []
    if too_many:
        failed = islice((index for first, end in reversed(gaps(loop)) for index in range(first, end)), LISTED_MAX)
        which = ", ".join(f"[{index}]" for index in failed) + (", …" if loop.failed > LISTED_MAX else "")
        words.append(f"{loop.failed:,} of {loop.count:,} iterations failed: {which}")
    if unbegun:
        words.append(f"{unbegun:,} of {loop.count:,} iterations have not begun")
    words += [f"[{loop.error_at}] {loop.error.message}"] if loop.error is not None else []
    error = loop.error or Failure(kind="loop", message="")
    return replace(error, message="; ".join(words))


def _misfit(program: Program, state: State, values: dict[str, JSON]) -> Failure | None:
    """Folded values obey the rules of all writes (D54, D55)."""
    for path, value in values.items():
        if failure := misfit(f"ctx.{path}", value, state.execution_id, origin=True):
            return failure
    return ctx_misfit(patched(state.ctx, values)) if values and not program.has_values else None


def loop_output(pipeline: CompiledPipeline, state: State, run: Run) -> Output:
    """The data of the iterations in order if it is small, else a Ref into the log itself (D30).

    If some template reads `output.ref`, there is a Ref at any size (D51).
    """
    loop = run.loop
    assert loop is not None
    output = Output(meta={"count": loop.count, "succeeded": loop.succeeded, "failed": loop.failed})
    if loop.results is not None:
        output = replace(output, data=[loop.results.get(index) for index in range(loop.count)])
    if loop.results is None or pipeline.reads_ref:
        output = replace(output, ref=results_ref(state, run.id, output.data))
    if loop.failures is not None:
        output = replace(output, own={"failed": [loop.failures[index] for index in sorted(loop.failures)]})
    return output


def results_ref(state: State, name: str, data: list[JSON] | None = None) -> dict[str, JSON]:
    """A Ref into the log itself: the outputs of the iterations, by index. `data`: all of them, if they are small."""
    loop = state.runs[name].loop
    assert loop is not None
    locator = {"execution_id": state.execution_id, "run": name}
    meta: dict[str, JSON] = {"content_type": "application/json", "count": loop.count}
    if data is not None:
        body = _encoded(data)
        meta |= {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    return {"type": "relational", "locator": locator, "meta": meta}
