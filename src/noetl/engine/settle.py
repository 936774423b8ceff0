"""State → the next fact that follows without a command, or None when nothing follows.

The order is fixed, so that a log is predictable: changes in runs, routing of ended runs, waiting tokens whose
admission may have changed, new tokens (oldest first), joins, the end. It visits only what has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec.structs import replace

from noetl.engine import facts
from noetl.engine.admission import JoinNeedsValues, of_joins, of_token, over_limit
from noetl.engine.apply import ok
from noetl.engine.breakpoints import hold_before
from noetl.engine.compensation import ending, next_compensation
from noetl.engine.facts import Fact, ForBlock
from noetl.engine.limits import is_waiting, run_waits
from noetl.engine.loops import ToRead, ToStore, awaits_reading, is_complete, landed, loop_done, loop_started
from noetl.engine.retry import called
from noetl.engine.routing import answer, route
from noetl.engine.scopes import deadline, of_ctx
from noetl.engine.state import Frame, Run, State
from noetl.engine.stored import NeedsValues, decision_id
from noetl.ids import block_run_id, frame_parts
from noetl.net.program import Program
from noetl.output import JSON, Output

Matter: TypeAlias = Literal["run", "frame", "tokens", "delegated"]
Agenda: TypeAlias = dict[tuple[Matter, str, int | None], dict[str, None] | None]  # TOKENS → which tokens
TOKENS: tuple[Matter, str, int | None] = ("tokens", "", None)
DELEGATED: tuple[Matter, str, int | None] = ("delegated", "", None)  # → the decisions that wait for a worker (D91)


def agenda_of(state: State) -> Agenda:
    """Everything that may need a decision, after a fold of the log."""
    todo: Agenda = {}
    for run in state.runs.values():
        todo["run", run.id, None] = None
        for index in run.frames:
            todo["frame", run.id, index] = None
    if state.tokens:  # also those that have not been tried: a worker may have to decide about them (D91)
        todo[TOKENS] = dict.fromkeys(state.waiting)
    return todo


def delegated(agenda: Agenda) -> dict[str, None]:
    """The decisions that wait for a worker."""
    return agenda.get(DELEGATED) or {}


def _delegate(agenda: Agenda, decision: str) -> None:
    agenda[DELEGATED] = {**delegated(agenda), decision: None}


def end_delegation(agenda: Agenda, state: State, decision: str, *, again: bool) -> None:
    """The worker has decided. `again`: something has changed since, and the decision is tried again."""
    left = {each: None for each in delegated(agenda) if each != decision}
    if left:
        agenda[DELEGATED] = left
    else:
        agenda.pop(DELEGATED, None)
    subject = decision.rpartition("!")[0]
    if again and subject in state.runs:
        agenda["run", subject, None] = None
    if again and subject in state.waiting:
        agenda[TOKENS] = {**(agenda.get(TOKENS) or {}), subject: None}


def put_on(agenda: Agenda, state: State, fact: Fact) -> None:
    """Add what may need a decision after this fact, which has just been applied."""
    if (kind := type(fact)) in _PUT_ON:
        _PUT_ON[kind](agenda, state, fact)


def _put_task(agenda: Agenda, state: State, fact: facts.TaskDone) -> None:
    if fact.next < 0:
        agenda["frame", *frame_parts(fact.frame)] = None
    if fact.set:
        _stir(agenda, state, fact.set)


def _put_parked(agenda: Agenda, _state: State, fact: facts.FrameParked) -> None:
    if isinstance(fact.until, ForBlock):
        agenda["frame", *frame_parts(fact.frame)] = None


def _put_scheduled(agenda: Agenda, state: State, fact: facts.StepScheduled) -> None:
    agenda["run", fact.run, None] = None
    if fact.retry_of is not None:
        _put_frames(agenda, state, fact.run)


def _put_loop(agenda: Agenda, _state: State, fact: facts.LoopStarted) -> None:
    agenda["run", fact.run, None] = None


def _put_iteration(agenda: Agenda, state: State, fact: facts.IterationDone | facts.IterationFailed) -> None:
    agenda["run", fact.run, None] = None
    _look_at_newest(agenda, state.runs[fact.run])


def _put_writes(
    agenda: Agenda, state: State, fact: facts.NextEvaluated | facts.LoopDone | facts.FrameResumed | facts.ScopeChanged
) -> None:
    if fact.set:
        _stir(agenda, state, fact.set)


def _put_permitted(agenda: Agenda, state: State, fact: facts.PermitGranted) -> None:
    if fact.run is None:
        agenda.update(agenda_of(state))
    else:
        _put_run(agenda, state, fact.run)


def _put_released(agenda: Agenda, state: State, fact: facts.HoldReleased) -> None:
    if fact.at in state.runs:
        _put_run(agenda, state, fact.at)


def _put_run(agenda: Agenda, state: State, run: str) -> None:
    agenda["run", run, None] = None
    _put_frames(agenda, state, run)


def _put_frames(agenda: Agenda, state: State, run: str) -> None:
    agenda.update(dict.fromkeys(("frame", run, index) for index in state.runs[run].frames))


def _put_all(agenda: Agenda, state: State, _fact: facts.Resumed | facts.Retried) -> None:
    agenda.update(agenda_of(state))


def _put_nothing_else(agenda: Agenda, _state: State, _fact: facts.Compensating) -> None:
    agenda.clear()  # Nothing else continues (D116).


# By the kind of the fact: a chain of type checks would be the larger part of the cost of most facts.
_PUT_ON: dict[type, Callable[..., None]] = {
    facts.TaskDone: _put_task,
    facts.FrameParked: _put_parked,
    facts.StepScheduled: _put_scheduled,
    facts.LoopStarted: _put_loop,
    facts.IterationDone: _put_iteration,
    facts.IterationFailed: _put_iteration,
    facts.NextEvaluated: _put_writes,
    facts.LoopDone: _put_writes,
    facts.FrameResumed: _put_writes,
    facts.ScopeChanged: _put_writes,
    facts.PermitGranted: _put_permitted,
    facts.HoldReleased: _put_released,
    facts.Resumed: _put_all,
    facts.Retried: _put_all,
    facts.Compensating: _put_nothing_else,
}


def _look_at_newest(agenda: Agenda, run: Run) -> None:
    """An inherited iteration of a retry may be over when it is scheduled."""
    if run.retry_of is not None and run.loop is not None and run.loop.flying:
        agenda["frame", run.id, next(reversed(run.loop.flying))] = None


def _stir(agenda: Agenda, state: State, written: dict[str, JSON]) -> None:
    """Waiting tokens that read a changed path are tried again (D35).

    The cost depends only on these tokens.
    """
    if not state.watched:
        return
    found: dict[str, None] = {}
    for path in of_ctx(written):
        parts = tuple(path.split("."))
        for name in (parts[0], ""):
            for token in state.watched.get(name, ()):
                if any(read[: len(parts)] == parts[: len(read)] for read in state.waiting[token]):
                    found[token] = None
    before = agenda.get(TOKENS)
    if found and (before or len(written) > 1):  # The oldest first, as after a fold of the log.
        found = {token: None for token in state.waiting if token in found or (before and token in before)}
    if found:
        agenda[TOKENS] = found


def settle(program: Program, state: State, agenda: Agenda, at: datetime) -> Fact | None:
    if (state.status != "running" and not state.live) or state.held is not None:
        return None
    fact = _following(program, state, agenda, at)
    return ending(state, fact) if type(fact) is facts.Finished else fact


def _following(program: Program, state: State, agenda: Agenda, at: datetime) -> Fact | None:
    fact = _of_runs(program, state, agenda, at) if agenda else None
    if fact is not None or state.status != "running":
        return fact
    pending = agenda.get(DELEGATED) if agenda else None
    for run in state.ended:
        if pending and decision_id(run, "route") in pending:
            continue
        try:
            return _of_ended(program, state, state.runs[run], at)
        except NeedsValues:
            _delegate(agenda, decision_id(run, "route"))
            return _following(program, state, agenda, at)
    if state.compensation is not None:
        return next_compensation(program, state, at)
    # A token that became a run still counts: tokens that fire at once and multiply reach the limit, too.
    if (live := len(state.tokens) + len(state.runs)) > program.limits["tokens"]:
        return over_limit(program, "tokens", live)
    if len(state.completed) > program.limits["compensations"]:
        return over_limit(program, "compensations", len(state.completed))
    if agenda and TOKENS in agenda and (fact := _of_waiting(program, state, agenda)) is not None:
        return fact
    for token in state.fresh:
        if pending and decision_id(token, "token") in pending:
            continue
        try:
            return of_token(program, state, state.tokens[token])
        except NeedsValues:
            _delegate(agenda, decision_id(token, "token"))
            return _following(program, state, agenda, at)
    if pending and any(decision.endswith("!join") for decision in pending):
        return None  # no other join fires before it
    try:
        fact = of_joins(program, state, at) if state.joins else None
    except JoinNeedsValues as needs:
        _delegate(agenda, decision_id(needs.join, "join"))
        return None
    if fact is not None:
        return fact
    if state.runs or DELEGATED in agenda:
        return None  # nothing follows until a worker reports
    return _end(state)


def _of_runs(program: Program, state: State, agenda: Agenda, at: datetime) -> Fact | None:
    while agenda:
        matters = iter(agenda)
        matter = next(matters, None)
        while matter is TOKENS or matter is DELEGATED:  # they are decided after the runs
            matter = next(matters, None)
        if matter is None:
            return None
        try:
            if (fact := _of_matter(program, state, matter, at)) is not None:
                return fact
        except NeedsValues:
            run = state.runs[matter[1]]
            _delegate(agenda, decision_id(run.id, "loop" if run.loop is None else "end"))
        del agenda[matter]
    return None


def _of_waiting(program: Program, state: State, agenda: Agenda) -> Fact | None:
    """Tokens whose admission may have changed, oldest first.

    One that is still not admitted makes no fact (D35).
    """
    stirred = agenda.get(TOKENS) or {}
    while stirred:
        token = next(iter(stirred))
        try:
            fact = of_token(program, state, state.tokens[token]) if token in state.waiting else None
            if fact is not None:
                return fact
        except NeedsValues:
            _delegate(agenda, decision_id(token, "token"))
        del stirred[token]
    agenda.pop(TOKENS, None)
    return None


def _of_matter(program: Program, state: State, matter: tuple[Matter, str, int | None], at: datetime) -> Fact | None:
    """In a pause and after a cancel, completed work is recorded, and no new work begins (D67, D68)."""
    about, name, index = matter
    going = state.status == "running"
    run = state.runs.get(name)
    if run is None or run.output is not None or run.hold is not None:
        return None
    if run.limited and is_waiting(run):
        return run_waits(program, state, run, at) if going and run.key is None else None
    if about == "run":
        return _of_run(program, state, run, at) if going else None
    frame = run.frames.get(index)
    if frame is None:
        return None
    if frame.pc < 0:
        return landed(program.pipeline(run.step, block=run.block), run, index, frame)
    return _call(program, state, frame, at) if going else None


def _of_run(program: Program, state: State, run: Run, at: datetime) -> Fact | None:
    """A loop that has not started or is complete, or a pipeline without tasks."""
    pipeline = program.pipeline(run.step, block=run.block)
    if pipeline.loop is not None and run.loop is None:
        fact = loop_started(program, state, run, at)
        return None if isinstance(fact, ToStore | ToRead) else fact
    if run.loop is not None and is_complete(run.loop):
        fact = loop_done(program, state, run)
        return None if awaits_reading(program, run) else fact
    if not pipeline.tasks:
        if run.loop is None:
            return facts.StepDone(run=run.id, output=Output())
        return facts.IterationDone(run=run.id, index=next(iter(run.loop.flying)))
    return None


def _call(program: Program, state: State, frame: Frame, at: datetime) -> Fact | None:
    """The run of the block that a frame has called, if it does not exist yet."""
    if not isinstance(frame.parked, ForBlock) or called(frame) in state.runs:
        return None
    block = frame.parked.block
    run = block_run_id(frame.id, block.rpartition("/")[2], frame.blocks.get(block, 0) + 1)
    inherited = frame.block.id if frame.block is not None and frame.block.step == block else None
    return facts.StepScheduled(
        run=run,
        step=block,
        input=frame.parked.input,
        parent=frame.id,
        deadline_at=deadline(program.blocks[block], at),
        loop=program.blocks[block].loop is not None,
        retry_of=inherited,
        limited=program.blocks[block].limit is not None,
        hold=hold_before(state, program.blocks[block], frame.parked.input, frame.ctx) if state.breakpoints else None,
    )


def _of_ended(program: Program, state: State, run: Run, at: datetime) -> Fact:
    return route(program, state, run, at) if run.parent is None else answer(program, state, run, at)


def _end(state: State) -> Fact:
    """No runnable token and no run: the execution has ended.

    This follows from the state, no timer looks for it (D42).

    The output of the playbook has the status of the playbook, like that of a step (D30, D31).
    """
    waiting = (*state.waiting, *(token for tokens in state.joins.values() for token in tokens))
    output = state.reached_end or state.last_output
    if state.failure is not None:
        output = replace(output or Output(), status="error", error=state.failure)
        return facts.Finished(status="error", output=output, error=state.failure, waiting=waiting)
    return facts.Finished(status="ok", output=ok(output) if output else None, waiting=waiting)
