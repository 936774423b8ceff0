"""Loops: where one starts, when an iteration has landed, what a finished one gives back (D30, D43–D49)."""

from __future__ import annotations

from datetime import datetime

from noetl.engine import facts
from noetl.engine.facts import Fact
from noetl.engine.scopes import base_scope, moment
from noetl.engine.state import Frame, Loop, Run, State
from noetl.ids import frame_parts
from noetl.net.program import Pipeline, Program
from noetl.net.template import TemplateError
from noetl.output import JSON, REF_FIELDS, Failure, Output

WIDTH = 10  # of a parallel loop that does not say (D49)


def iteration(
    program: Program, state: State, run: Run, index: int | None, items: list[JSON] | None
) -> dict[str, JSON] | None:
    """`iter` for a frame: the item, the index, and the iteration around it; None: no loop is around it."""
    pipeline = program.pipeline(run.step, block=run.block)
    around = None
    if run.parent is not None:
        owner, place = frame_parts(run.parent)
        caller = state.runs[owner]
        around = iteration(program, state, caller, place, caller.loop.items if caller.loop else None)
        if around is not None and place in caller.frames:
            around = {**around, **caller.frames[place].iter}
    if pipeline.loop is None or index is None:
        return around
    own: dict[str, JSON] = {"index": index}
    if items is not None:
        own[pipeline.loop.iterator] = items[index]
    if around is not None:
        own["parent"] = around
    return own


def loop_started(program: Program, state: State, run: Run, at: datetime) -> Fact:
    pipeline = program.pipeline(run.step, block=run.block)
    loop = pipeline.loop
    assert loop is not None
    scope = base_scope(state, run)
    scope["ctx"] = run.ctx
    around = iteration(program, state, run, None, None)
    if around is not None:
        scope["iter"] = around
    try:
        items = loop.items(scope, moment(at, f"{run.id}/in"))
        width = loop.width(scope, moment(at, f"{run.id}/width")) if loop.width is not None else WIDTH
    except TemplateError as error:
        return facts.StepFailed(run=run.id, error=Failure(kind="template", message=str(error)))
    if isinstance(items, dict) and set(items) >= {"type", "locator"} and set(items) <= set(REF_FIELDS):
        return facts.StepFailed(
            run=run.id, error=Failure(kind="loop", message="a loop over a Ref is not there yet")
        )
    if isinstance(items, dict):
        items = [{"key": key, "value": value} for key, value in items.items()]
    if not isinstance(items, list):
        message = f"loop.in of {run.step} gives {type(items).__name__}, and not a list or a mapping"
        return facts.StepFailed(run=run.id, error=Failure(kind="loop", message=message))
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        return facts.StepFailed(
            run=run.id, error=Failure(kind="loop", message="max_in_flight must be at least 1")
        )
    if len(items) > program.limits["iterations"]:
        message = (
            f"{len(items):,} iterations; the limit is limits.iterations ({program.limits['iterations']:,})"
        )
        return facts.StepFailed(run=run.id, error=Failure(kind="limit", message=message))
    return facts.LoopStarted(
        run=run.id,
        count=len(items),
        items=items,
        width=width if loop.parallel else 1,
        parallel=loop.parallel,
        reduce={".".join(path): name for path, name in loop.reduce.items()},
    )


def landed(pipeline: Pipeline, run: Run, index: int | None, frame: Frame) -> Fact:
    """A frame is over: the step is, or one iteration of it."""
    error = frame.last_error
    if run.loop is None:
        if error is not None:
            return facts.StepFailed(run=run.id, error=error)
        return facts.StepDone(run=run.id)
    assert index is not None
    if error is None:
        return facts.IterationDone(run=run.id, index=index)
    stop = not pipeline.best_effort or _past_tolerance(pipeline, run.loop)
    return facts.IterationFailed(run=run.id, index=index, error=error, stop=stop)


def _past_tolerance(pipeline: Pipeline, loop: Loop) -> bool:
    """Is one more failure too many (D48, D87)?"""
    tolerate = pipeline.tolerate
    if tolerate is None:
        return False
    allowed = int(tolerate[:-1]) * loop.count // 100 if isinstance(tolerate, str) else tolerate
    return loop.failed + 1 > allowed


def loop_done(run: Run) -> Fact:
    loop = run.loop
    assert loop is not None
    if loop.conflict is not None:
        return facts.StepFailed(run=run.id, error=loop.conflict)
    meta = {"count": loop.count, "succeeded": loop.succeeded, "failed": loop.failed}
    output = _result(run, loop, meta)
    if loop.stopped:
        assert loop.error is not None
        return facts.StepFailed(run=run.id, error=loop.error, output=output)
    return facts.LoopDone(
        run=run.id, output=output, set={f"ctx.{path}": value for path, value in loop.folded.items()}
    )


def _result(run: Run, loop: Loop, meta: dict[str, JSON]) -> Output:
    """The iterations' data in order while it is small, else a Ref into the log itself (D30)."""
    if loop.results is not None:
        return Output(data=[loop.results.get(index) for index in range(loop.count)], meta=meta)
    ref = {"type": "relational", "locator": {"run": run.id}, "meta": {"count": loop.count}}
    return Output(ref=ref, meta=meta)
