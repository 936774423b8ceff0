"""State → the next fact that follows of itself, or None when the net is at rest.

The order is fixed, so that a log can be told in advance: what has changed in a run, routing of ended runs,
tokens, oldest first, joins, the end. It touches what changed, never everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypeAlias

from noetl.engine import facts
from noetl.engine.facts import Fact, ForBlock, Token
from noetl.engine.loops import landed, loop_done, loop_started
from noetl.engine.routing import route
from noetl.engine.scopes import base_scope, moment
from noetl.engine.state import Run, State
from noetl.ids import block_run_id, frame_parts, run_id
from noetl.net.program import Program, Step
from noetl.net.template import Template, TemplateError
from noetl.output import JSON, Failure, Output

Agenda: TypeAlias = dict[tuple[str, int | None, bool], None]  # run, index of a frame, is it about the frame


def agenda_of(state: State) -> Agenda:
    """Everything that may need a decision: where a fold of the log goes on."""
    todo: Agenda = {}
    for run in state.runs.values():
        todo[run.id, None, False] = None
        todo.update(dict.fromkeys((run.id, index, True) for index in run.frames))
    return todo


def put_on(agenda: Agenda, fact: Fact) -> None:
    """What a fact gives to decide."""
    match fact:
        case facts.StepScheduled(run=run) | facts.LoopStarted(run=run):
            agenda[run, None, False] = None
        case facts.IterationDone(run=run) | facts.IterationFailed(run=run):
            agenda[run, None, False] = None
        case facts.TaskDone(frame=frame, next=following) if following < 0:
            agenda[*frame_parts(frame), True] = None
        case facts.FrameParked(frame=frame, until=ForBlock()):
            agenda[*frame_parts(frame), True] = None


def settle(program: Program, state: State, agenda: Agenda, at: datetime) -> Fact | None:
    if state.status not in ("running", "paused"):
        return None
    while agenda:
        run_id_, index, of_frame = next(iter(agenda))
        run = state.runs.get(run_id_)
        if run is not None and run.output is None:
            fact = _of_frame(program, state, run, index) if of_frame else _of_run(program, state, run, at)
            if fact is not None:
                return fact
        del agenda[run_id_, index, of_frame]
    if state.status == "paused":
        return None
    for run_id_ in state.ended:
        return _of_ended(program, state, state.runs[run_id_], at)
    if over := _over_limit(program, state):
        return over
    for token in state.fresh:
        return _of_token(program, state, state.tokens[token], at)
    if (fact := _of_joins(program, state, at)) is not None:
        return fact
    if state.runs:
        return None  # at rest: what happens next is up to the workers
    return _end(state)


def _of_run(program: Program, state: State, run: Run, at: datetime) -> Fact | None:
    """A loop that has not started or is complete, a pipeline without tasks."""
    pipeline = program.pipeline(run.step, block=run.block)
    if pipeline.loop is not None and run.loop is None:
        return loop_started(program, state, run, at)
    if run.loop is not None and not run.loop.flying:
        return loop_done(run)
    if not pipeline.tasks:
        if run.loop is None:
            return facts.StepDone(run=run.id, output=Output())
        return facts.IterationDone(run=run.id, index=next(iter(run.loop.flying)))
    return None


def _of_frame(program: Program, state: State, run: Run, index: int | None) -> Fact | None:
    """A frame that is over, or that has called a block."""
    frame = run.frames.get(index)
    if frame is None:
        return None
    if isinstance(frame.parked, ForBlock):
        called = frame.parked.block
        name, number = called.rpartition("/")[2], frame.blocks.get(called, 0)
        if block_run_id(frame.id, name, number) in state.runs:
            return None
        child = block_run_id(frame.id, name, number + 1)
        return facts.StepScheduled(run=child, step=called, input=frame.parked.input, parent=frame.id)
    if frame.pc < 0:
        return landed(program.pipeline(run.step, block=run.block), run, index, frame)
    return None


def _of_ended(program: Program, state: State, run: Run, at: datetime) -> Fact:
    if run.parent is None:
        return route(program, state, run, at)
    return _answer(program, state, run, at)


def _answer(program: Program, state: State, run: Run, at: datetime) -> Fact:
    """A block has ended: its own `set`, then its caller goes on with its output."""
    assert run.output is not None
    assert run.parent is not None
    output, written = run.output, {}
    if output.status == "ok":
        scope = base_scope(state, run) | {"output": output.view()}
        try:
            for write in program.blocks[run.step].set:
                written[write.target] = write.value(scope, moment(at, f"{run.id}/{write.target}"))
        except TemplateError as error:
            output = Output(status="error", error=Failure(kind="template", message=str(error)))
            written = {}
    return facts.FrameResumed(frame=run.parent, output=output, run=run.id, set=written)


def _of_token(program: Program, state: State, token: Token, at: datetime) -> Fact:
    step = program.steps[token.step]
    if step.join:
        return facts.StepWaiting(token=token.id, join=True)
    return _admit(state, step, (token,), token.input, at)


def _admit(
    state: State,
    step: Step,
    tokens: tuple[Token, ...],
    input: dict[str, JSON],
    at: datetime,
) -> Fact:
    """One firing, if admission says so (D35). What can not be evaluated spends the token (D16)."""
    event = tokens[0].event if not step.join else _joined_event(tokens)
    scope = {
        "workload": state.workload,
        "ctx": state.ctx,
        "execution_id": state.execution_id,
        "input": input,
        "event": event or {},
    }
    try:
        admitted = _admits(step, scope)
    except TemplateError as error:
        return facts.StepFailed(token=tokens[0].id, error=Failure(kind="template", message=str(error)))
    if not admitted:
        return facts.StepWaiting(token=tokens[0].id, reads=step.admit_reads)
    deadline = step.pipeline.deadline_s
    return facts.StepScheduled(
        run=run_id(step.name, state.firings.get(step.name, 0) + 1),
        step=step.name,
        tokens=tuple(token.id for token in tokens),
        input=input,
        deadline_at=None if deadline is None else at + timedelta(seconds=deadline),
    )


def _admits(step: Step, scope: dict[str, JSON]) -> bool:
    if step.admit is None:
        return True
    for when, allow in step.admit:
        if when is True or (isinstance(when, Template) and when.holds(scope)):
            return allow
    return False


def _joined_event(tokens: tuple[Token, ...]) -> dict[str, JSON]:
    """What a join's admission and input read: the tokens in the order in which they came (D36, D40)."""
    last = tokens[-1].event or {}
    listed = [{"from": (token.event or {}).get("run"), "input": token.input} for token in tokens]
    return {**last, "tokens": listed}


def _of_joins(program: Program, state: State, at: datetime) -> Fact | None:
    """A join fires when nothing live can reach it; at rest the first in the document is released (D36)."""
    if not state.joins:
        return None
    waiting = [name for name in program.steps if name in state.joins]
    broken = _reach(program, state.broken)
    moving = _reach(program, {run.step for run in state.runs.values() if run.parent is None})
    running = {run.step for run in state.runs.values() if run.parent is None}
    held_by_tokens = _reach(program, {state.tokens[token].step for token in state.waiting})
    at_rest = not state.runs
    for name in waiting:
        bit = program.bits[name]
        others = _reach(program, [each for each in waiting if each != name])
        if not (moving | broken | others | held_by_tokens) & bit and name not in running:
            return _fire_join(program, state, name, at)
    if at_rest:
        for name in waiting:
            if not broken & program.bits[name]:
                return _fire_join(program, state, name, at)
    return None


def _fire_join(program: Program, state: State, name: str, at: datetime) -> Fact:
    step = program.steps[name]
    tokens = tuple(state.tokens[token] for token in state.joins[name])
    scope: dict[str, JSON] = {
        "workload": state.workload,
        "ctx": state.ctx,
        "execution_id": state.execution_id,
        "event": _joined_event(tokens),
    }
    try:
        input = step.pipeline.input(scope, moment(at, f"{name}/input"))
    except TemplateError as error:
        return facts.StepFailed(token=tokens[0].id, error=Failure(kind="template", message=str(error)))
    return _admit(state, step, tokens, input, at)


def _reach(program: Program, steps: Iterable[str]) -> int:
    mask = 0
    for step in steps:
        mask |= program.reach[step]
    return mask


def _over_limit(program: Program, state: State) -> Fact | None:
    for name, value in (("tokens", len(state.tokens)), ("firings", state.fired)):
        if value > program.limits[name]:
            message = f"{value:,} {name}; the limit is limits.{name} ({program.limits[name]:,})"
            error = Failure(kind="limit", message=message, details={"limit": name})
            return facts.Finished(status="error", error=error)
    return None


def _end(state: State) -> Fact:
    """No runnable token and nothing running: it is a theorem, not a sweep (D42)."""
    waiting = (*state.waiting, *(token for tokens in state.joins.values() for token in tokens))
    status = "error" if state.failure else "ok"
    return facts.Finished(
        status=status,  # type: ignore[arg-type]  # one of two literals
        output=state.end_output or state.last_output,
        error=state.failure,
        waiting=waiting,
    )
