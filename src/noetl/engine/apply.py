"""Fact → state: the only code that changes a State. It reads no playbook and makes no decisions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec

from noetl.engine import facts
from noetl.engine.facts import Fact, ForDebugger, TaskDone
from noetl.engine.hold_state import (
    breakpoint_cleared,
    breakpoint_set,
    hold_released,
    hold_run,
    runs_around,
    scope_changed,
    set_in,
    unhold,
)
from noetl.engine.loop_state import fly, frame_in, fresh_frame, iteration_done, iteration_failed, loop_started
from noetl.engine.retry import give_up_blocks, keep, take_up
from noetl.engine.scopes import of_ctx, patched, put, split, write
from noetl.engine.state import Compensation, CompletedRun, Frame, Run, Spoiled, State
from noetl.ids import frame_parts
from noetl.output import JSON, Failure, Output

__all__ = ["advance", "apply", "fresh_frame", "is_done", "ok", "patched", "put"]

Applier: TypeAlias = Callable[..., None]  # each takes the state and its own fact


def apply(state: State, fact: Fact, at: datetime) -> None:
    """The state after one more fact."""
    state.seq += 1
    state.at = at
    _APPLIERS[type(fact)](state, fact)


def advance(frame: Frame, fact: TaskDone) -> None:
    """Apply one call to a frame. The worker applies it to its own copy in the same way."""
    frame.calls = fact.call
    frame.answer = frame.asked = frame.until = frame.running = frame.permit = None
    frame.tries = ()
    frame.released = False
    frame.lost = frame.lost_held = 0
    for target, value in fact.set.items():
        set_in(frame, *split(target), value)
    if fact.epoch is not None:
        frame.epoch = fact.epoch
    if fact.directive == "retry" and fact.next >= 0:
        frame.attempt += 1
        frame.until = fact.until
        frame.block = None
        return
    if fact.directive == "fail":
        _fail(frame, fact)
        return
    frame.pc = fact.next
    frame.attempt = 1
    frame.entries += 1
    frame.block = None
    if fact.output is not None:
        frame.last = fact.output
        frame.prev = fact.output.data
        if fact.keep:
            frame.outputs = {**frame.outputs, fact.task: fact.output.view()}
    if fact.next < 0:
        frame.picked = fact.picked


def _fail(frame: Frame, fact: TaskDone) -> None:
    """The frame is over. What the failed task has seen is kept for a retry (D69)."""
    frame.failed_at, frame.before = frame.pc, frame.last
    frame.pc = -1
    frame.last = fact.output or frame.last
    frame.last_error = fact.error or (fact.output.error if fact.output else None)
    frame.failed_item = fact.item
    frame.picked = fact.picked


def _requested(state: State, fact: facts.Requested) -> None:
    state.status = "running"
    state.path, state.digest, state.parent, state.depth = fact.path, fact.digest, fact.parent, fact.depth
    state.level = fact.level
    state.stored = fact.stored
    if fact.ctx:
        state.ctx = fact.ctx
    if fact.fork is not None:
        state.origins = (fact.fork.execution, *fact.fork.before)


def _evaluated(state: State, fact: facts.Evaluated) -> None:
    state.failure = fact.error


def _started(state: State, fact: facts.Started) -> None:
    state.workload = fact.workload
    state.saved = fact.saved
    _add_token(state, fact.token)


def _add_token(state: State, token: facts.Token) -> None:
    state.tokens[token.id] = token
    state.fresh[token.id] = None


def _waiting(state: State, fact: facts.StepWaiting) -> None:
    if fact.limit is not None:
        if fact.run is None:
            state.held = fact.key
        else:
            state.runs[fact.run].key = fact.key
        return
    state.fresh.pop(fact.token, None)
    step = state.tokens[fact.token].step
    if fact.join:
        state.joins.setdefault(step, {})[fact.token] = None
        return
    state.waiting[fact.token] = fact.reads
    _count(state.waiting_at, step, 1)
    for name in watched_names(fact.reads):
        state.watched.setdefault(name, {})[fact.token] = None


def watched_names(reads: tuple[tuple[str, ...], ...]) -> set[str]:
    """The top-level names of ctx that a waiting token reads; "" for all of ctx."""
    return {read[0] if read else "" for read in reads}


def _count(counts: dict[str, int], step: str, by: int) -> None:
    """Keep no empty entries."""
    left = counts.get(step, 0) + by
    if left:
        counts[step] = left
    else:
        counts.pop(step, None)


def _scheduled(state: State, fact: facts.StepScheduled) -> None:
    for token in fact.tokens:
        _spend(state, token)
    run = Run(
        id=fact.run, step=fact.step, block=fact.parent is not None, parent=fact.parent, tokens=fact.tokens,
        input=fact.input, ctx=state.ctx, scheduled_at=state.at, deadline_at=fact.deadline_at,
        looped=fact.loop, compensable=fact.compensable, limited=fact.limited, hold=fact.hold,
    )  # fmt: skip
    old: Run | None = None
    if fact.compensates is not None:
        old = _compensates(state, run, fact)
    elif fact.parent is not None:
        owner, index = frame_parts(fact.parent)
        caller = state.runs[owner].frames[index]
        run.ctx = caller.ctx
        if caller.stepping and "/" in fact.step:  # the body of a list of loops: the step continues in it
            caller.stepping, run.step_at = False, 0
        caller.blocks = {**caller.blocks, fact.step: caller.blocks.get(fact.step, 0) + 1}
        old, caller.block = caller.block if fact.retry_of else None, None
    else:
        state.firings[fact.step] = state.firings.get(fact.step, 0) + 1
        state.fired += 1
        _count(state.running_at, fact.step, 1)
        if fact.retry_of is not None:
            old = state.failed.pop(fact.retry_of, None) or state.mended.pop(fact.step)
    state.runs[fact.run] = run
    if old is not None:
        take_up(run, old, from_start=fact.from_start, named=fact.iterations)
        fly(state, run)
    if fact.hold is not None:
        hold_run(state, run, fact.hold)


def _compensates(state: State, run: Run, fact: facts.StepScheduled) -> Run | None:
    """The run undoes another one: it sees what that one has received and returned (D116).

    Returns the failed compensation that it retries.
    """
    compensation, name = state.compensation, fact.compensates
    assert compensation is not None
    assert name is not None
    compensation.tries[name] = compensation.tries.get(name, 0) + 1
    run.block, run.compensates = True, name
    if fact.retry_of is not None:
        old = compensation.again.pop(fact.retry_of)
        run.values, run.undone = old.values, old.undone
        return old
    done = state.completed.pop(name)
    run.values, run.undone = done.values, done.output
    return None


def _spend(state: State, token: str) -> facts.Token:
    spent = state.tokens.pop(token)
    state.fresh.pop(token, None)
    if state.stepping:
        state.stepping.pop(token, None)
    reads = state.waiting.pop(token, None)
    if reads is not None:
        _count(state.waiting_at, spent.step, -1)
        for name in watched_names(reads):
            del state.watched[name][token]
            if not state.watched[name]:
                del state.watched[name]
    come = state.joins.get(spent.step)
    if come is not None:
        come.pop(token, None)
        if not come:
            del state.joins[spent.step]
    return spent


def _permit_granted(state: State, fact: facts.PermitGranted) -> None:
    if fact.run is None:
        state.held = None
    else:
        state.runs[fact.run].permitted = True


def _step_started(state: State, fact: facts.StepStarted) -> None:
    run = state.runs[fact.run]
    run.started = True
    run.timeout_at = fact.timeout_at


def _task_started(state: State, fact: facts.TaskStarted) -> None:
    frame = frame_in(state, fact.frame)
    frame.running = fact
    if fact.epoch is not None:
        frame.epoch = fact.epoch


def _frame_lost(state: State, fact: facts.FrameLost) -> None:
    frame = frame_in(state, fact.frame)
    frame.running = None
    frame.lost += 1
    frame.lost_held += fact.held


def _task_done(state: State, fact: TaskDone) -> None:
    owner, index = frame_parts(fact.frame)
    run = state.runs[owner]
    frame = run.frames.get(index)
    if frame is None:
        frame = run.frames[index] = fresh_frame(run, index)
    advance(frame, fact)
    frame.parked = None
    if fact.stored:
        state.stored = True
    writes = of_ctx(fact.set) if fact.set else None
    if writes:
        if run.loop is not None and run.loop.parallel:
            frame.written = {**frame.written, **writes}
        else:
            write(state, run, writes)


def _parked(state: State, fact: facts.FrameParked) -> None:
    frame = frame_in(state, fact.frame)
    frame.parked, frame.running = fact.until, None
    if fact.tries:
        frame.permit = None  # each try needs another one
        assert isinstance(fact.until, facts.ForTime)
        frame.tries, frame.until = fact.tries, fact.until.at
    frame.closed = fact.epoch
    if fact.stored:
        state.stored = True
    if isinstance(fact.until, ForDebugger):
        frame.stepping = False
        hold_run(state, state.runs[frame_parts(fact.frame)[0]], fact.until)


def _resumed(state: State, fact: facts.FrameResumed) -> None:
    owner, index = frame_parts(fact.frame)
    frame = state.runs[owner].frames[index]
    if fact.output is not None:
        frame.asked = _asked(frame.parked)
    if isinstance(frame.parked, facts.ForPermit):
        frame.permit = frame.parked
    frame.parked = frame.until = None
    frame.answer = fact.output
    if fact.run is not None:
        run = state.runs[fact.run]
        if fact.set:
            write(state, run, of_ctx(fact.set))
        if fact.stored:
            state.stored = True
        frame.stepping = frame.stepping or run.stepping
        del state.runs[fact.run], state.ended[fact.run]
        frame.block = keep(state, run, None) if run.event == "step.failed" else None


def _asked(until: facts.Until | None) -> dict[str, JSON] | None:
    """The input of a call of a block or a child: rules read it even if ctx has changed since (D19)."""
    match until:
        case facts.ForBlock(input=input) | facts.ForChild(workload=input) | facts.ForDocument(workload=input):
            return input
    return None


def _loop_done(state: State, fact: facts.LoopDone) -> None:
    run = state.runs[fact.run]
    if fact.set:
        write(state, run, of_ctx(fact.set))
    if fact.stored:
        state.stored = True
    run.picked = fact.picked
    _end(state, run, fact.output, "loop.done")


def _step_done(state: State, fact: facts.StepDone) -> None:
    run = state.runs[fact.run]
    output = fact.output
    if frame := run.frames.get(None):
        run.values, run.picked = frame.step, frame.picked
        run.stepping = frame.stepping
        output = output or (ok(frame.last) if frame.last else None)
    _end(state, run, output or Output(), "step.done")


def ok(output: Output) -> Output:
    """The output of a step that succeeded is ok, even if its last task failed and a rule continued (D30)."""
    return output if output.status == "ok" else msgspec.structs.replace(output, status="ok")


def _step_failed(state: State, fact: facts.StepFailed) -> None:
    if fact.run is None:
        for each in fact.tokens:
            token = _spend(state, each)
            state.spoiled[each] = Spoiled(token=token, error=fact.error)
            _break(state, token.step, fact.error)
        return
    run = state.runs[fact.run]
    output = fact.output
    if frame := run.frames.get(None):
        run.values, run.picked = frame.step, frame.picked
        run.stepping = frame.stepping
        output = output or frame.last
    if fact.picked is not None:
        run.picked = fact.picked
    if fact.stored:
        state.stored = True
    give_up_blocks(state, run)
    output = msgspec.structs.replace(output or Output(), status="error", error=fact.error)
    _end(state, run, output, "step.failed")


def _end(state: State, run: Run, output: Output, event: str) -> None:
    run.output, run.event = output, event
    if run.holds:
        for each in runs_around(state, run):
            unhold(state, each, run.holds)
    if run.compensates is not None:
        _compensated(state, run)
        return
    state.ended[run.id] = None
    if run.compensable and is_done(run):
        state.completed[run.id] = CompletedRun(step=run.step, input=run.input, values=run.values, output=output)


def is_done(run: Run) -> bool:
    """Has it done something that can be undone? Of a loop, a single iteration is enough."""
    return run.event != "step.failed" or (run.loop is not None and run.loop.succeeded > 0)


def _compensated(state: State, run: Run) -> None:
    """A compensation has ended. It is not routed: the next one follows."""
    assert state.compensation is not None
    assert run.output is not None
    del state.runs[run.id]
    if run.event == "step.failed":
        state.compensation.failed[run.id] = keep(state, run, run.output.error)


def _break(state: State, step: str, error: Failure) -> None:
    _count(state.broken, step, 1)
    if state.failure is None:
        state.failure, state.failed_step = error, step


def _next(state: State, fact: facts.NextEvaluated) -> None:
    run = state.runs.pop(fact.run)
    del state.ended[fact.run]
    _count(state.running_at, run.step, -1)
    assert run.output is not None
    if fact.set:
        write(state, run, of_ctx(fact.set))
    if fact.stored:
        state.stored = True
    for token in fact.tokens:
        _add_token(state, token)
        if run.stepping:
            state.stepping[token.id] = None
    state.last_output = run.output
    if fact.ended or run.step == "end":
        state.reached_end = run.output
    failed = run.event == "step.failed"
    failure = fact.error or (run.output.error if failed and not fact.tokens and not fact.ended else None)
    if failure is not None:
        _break(state, run.step, failure)
        state.failed[run.id] = keep(state, run, failure)
    elif failed or (run.loop is not None and run.loop.failed):
        state.mended[run.step] = keep(state, run, None)
        if failed:
            state.completed.pop(run.id, None)  # An arc has taken the failure: that is the author's way to undo it.


def _paused(state: State, _fact: facts.Paused) -> None:
    state.status = "paused"
    state.paused_at = state.at


def _unpaused(state: State, _fact: facts.Resumed) -> None:
    state.status = "running"
    assert state.paused_at is not None
    assert state.at is not None
    for run in state.runs.values():
        if run.timeout_at is not None:  # a pause postpones timeouts, but not deadlines (D33)
            # What is held since then is postponed when it is released.
            run.timeout_at += max((run.held_at or state.at) - state.paused_at, timedelta())
        fly(state, run)
    state.paused_at = None


def _cancelled(state: State, fact: facts.Cancelled) -> None:
    state.status = "cancelling"
    state.paused_at = None
    state.compensate = fact.compensate


def _compensating(state: State, fact: facts.Compensating) -> None:
    """Nothing else continues; runs that have not ended are stopped."""
    state.status = "running"
    _stop(state, fact.error)
    for run in list(state.runs.values()):  # They are done and were not routed.
        _count(state.running_at, run.step, -1)
        del state.runs[run.id], state.ended[run.id]
    state.compensation = Compensation(status=fact.status, error=fact.error)
    state.failure = fact.error


def _finished(state: State, fact: facts.Finished) -> None:
    """Tokens and the unfinished parts of runs are kept: a retry continues from there (D69)."""
    state.status = fact.status
    state.paused_at = state.held = None
    state.stepping = {}
    _stop(state, fact.error)
    state.end_output = fact.output
    state.failure = fact.error


def _stop(state: State, error: Failure | None) -> None:
    """Runs that have not succeeded end with the execution."""
    for run in [run for run in state.runs.values() if run.parent is None]:
        if run.event in ("step.done", "loop.done"):
            continue
        kept = keep(state, run, (run.output and run.output.error) or error)
        del state.runs[run.id]
        if state.compensation is not None and run.compensates is not None:
            state.compensation.failed[run.id] = kept
            continue
        state.failed[run.id] = kept
        _count(state.broken, run.step, 1)
        _count(state.running_at, run.step, -1)
        state.ended.pop(run.id, None)


def _retried(state: State, fact: facts.Retried) -> None:
    state.status = "running"
    state.permit = fact.permit
    state.end_output = None
    if state.compensation is not None:  # Nothing but its compensations can be retried.
        for name in fact.compensations:
            failed = state.compensation.again[name] = state.compensation.failed.pop(name)
            if fact.from_start:
                failed.frames = {}
        return
    for run in fact.runs:
        if run in state.failed:
            _count(state.broken, state.failed[run].step, -1)
    for each in fact.tokens:
        spoiled = state.spoiled.pop(each)
        _count(state.broken, spoiled.token.step, -1)
        _add_token(state, spoiled.token)
    left = [(run.failure, run.step) for run in state.failed.values() if run.id not in fact.runs]
    left += [(each.error, each.token.step) for each in state.spoiled.values()]
    state.failure, state.failed_step = left[0] if left else (None, None)


def _processed(state: State, fact: facts.Processed) -> None:
    if state.status in ("new", "running"):
        state.status = fact.status


_APPLIERS: dict[type, Applier] = {
    facts.Requested: _requested,
    facts.Evaluated: _evaluated,
    facts.Started: _started,
    facts.StepWaiting: _waiting,
    facts.StepScheduled: _scheduled,
    facts.PermitGranted: _permit_granted,
    facts.StepStarted: _step_started,
    facts.TaskStarted: _task_started,
    facts.TaskDone: _task_done,
    facts.FrameParked: _parked,
    facts.FrameResumed: _resumed,
    facts.FrameLost: _frame_lost,
    facts.LoopStarted: loop_started,
    facts.IterationDone: iteration_done,
    facts.IterationFailed: iteration_failed,
    facts.LoopDone: _loop_done,
    facts.StepDone: _step_done,
    facts.StepFailed: _step_failed,
    facts.NextEvaluated: _next,
    facts.Paused: _paused,
    facts.Resumed: _unpaused,
    facts.BreakpointSet: breakpoint_set,
    facts.BreakpointCleared: breakpoint_cleared,
    facts.HoldReleased: hold_released,
    facts.ScopeChanged: scope_changed,
    facts.Cancelled: _cancelled,
    facts.Compensating: _compensating,
    facts.Retried: _retried,
    facts.Finished: _finished,
    facts.Processed: _processed,
}
