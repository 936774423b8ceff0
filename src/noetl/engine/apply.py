"""Fact → state: the only code that changes a State. It knows no playbook and decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import TypeAlias

import msgspec

from noetl.engine import facts
from noetl.engine.facts import Fact, TaskDone
from noetl.engine.landing import fly, fold_in
from noetl.engine.state import Frame, Loop, Run, State
from noetl.ids import frame_id, frame_parts
from noetl.output import JSON, Failure, Output

RESULTS_BYTES_MAX = 65_536  # results of a loop that are kept to be its data (D30); more lie in the log
Applier: TypeAlias = Callable[..., None]  # each takes the state and its own fact
_encoded = msgspec.json.Encoder().encode


def apply(state: State, fact: Fact, at: datetime) -> None:
    """The state after one more fact."""
    state.seq += 1
    state.at = at
    _APPLIERS[type(fact)](state, fact)


def put(values: dict[str, JSON], path: tuple[str, ...], value: JSON) -> dict[str, JSON]:
    """The same mapping with one value changed; what others hold of it stays as it was."""
    first, *rest = path
    if not rest:
        return {**values, first: value}
    inner = values.get(first)
    return {**values, first: put(inner if isinstance(inner, dict) else {}, tuple(rest), value)}


@lru_cache(maxsize=4096)
def _split(target: str) -> tuple[str, tuple[str, ...]]:
    scope, *path = target.split(".")
    return scope, tuple(path)


def fresh_frame(run: Run, index: int | None) -> Frame:
    """A frame of which nothing is on record yet."""
    return Frame(id=frame_id(run.id, index), index=index, ctx=run.ctx, step=run.values)


def frame_of(run: Run, index: int | None) -> Frame:
    return run.frames.get(index) or fresh_frame(run, index)


def sink_of(state: State, run: Run) -> Frame | None:
    """The frame of a parallel iteration that writes to ctx go to; None: the execution's own ctx (D47)."""
    while run.parent is not None:
        owner, index = frame_parts(run.parent)
        run = state.runs[owner]
        if run.loop is not None and run.loop.parallel:
            return run.frames[index]
    return None


def advance(frame: Frame, fact: TaskDone) -> None:
    """One call in the life of a frame; the worker's own copy goes the same way."""
    frame.calls = fact.call
    frame.answer = frame.until = None
    for target, value in fact.set.items():
        scope, path = _split(target)
        if scope == "iter":
            frame.iter = put(frame.iter, path, value)
        elif scope == "step":
            frame.step = put(frame.step, path, value)
        else:
            frame.ctx = put(frame.ctx, path, value)
    if fact.epoch is not None:
        frame.epoch = fact.epoch
    if fact.directive == "retry" and fact.next >= 0:
        frame.attempt += 1
        frame.until = fact.until
        return
    frame.pc = fact.next
    frame.attempt = 1
    frame.entries += 1
    if fact.output is not None:
        frame.last = fact.output
        frame.prev = fact.output.data
        if fact.keep:
            frame.outputs = {**frame.outputs, fact.task: fact.output.view()}
    if fact.next < 0:
        frame.picked = fact.picked
        if fact.directive == "fail" or fact.error is not None:
            frame.last_error = fact.error or (fact.output.error if fact.output else None)


def _requested(state: State, fact: facts.Requested) -> None:
    state.status = "running"
    state.path, state.digest, state.parent, state.depth = fact.path, fact.digest, fact.parent, fact.depth


def _evaluated(state: State, fact: facts.Evaluated) -> None:
    state.failure = fact.error


def _started(state: State, fact: facts.Started) -> None:
    state.workload = fact.workload
    _add_token(state, fact.token)


def _add_token(state: State, token: facts.Token) -> None:
    state.tokens[token.id] = token
    state.fresh[token.id] = None


def _waiting(state: State, fact: facts.StepWaiting) -> None:
    state.fresh.pop(fact.token, None)
    if fact.join:
        state.joins.setdefault(state.tokens[fact.token].step, []).append(fact.token)
    else:
        state.waiting[fact.token] = fact.reads


def _scheduled(state: State, fact: facts.StepScheduled) -> None:
    for token in fact.tokens:
        _spend(state, token)
    run = Run(
        id=fact.run,
        step=fact.step,
        block=fact.parent is not None,
        parent=fact.parent,
        tokens=fact.tokens,
        input=fact.input,
        ctx=state.ctx,
        scheduled_at=state.at,
        deadline_at=fact.deadline_at,
    )
    if fact.parent is not None:
        owner, index = frame_parts(fact.parent)
        caller = state.runs[owner].frames[index]
        run.ctx = caller.ctx
        caller.blocks = {**caller.blocks, fact.step: caller.blocks.get(fact.step, 0) + 1}
    else:
        state.firings[fact.step] = state.firings.get(fact.step, 0) + 1
    state.fired += 1
    state.runs[fact.run] = run


def _spend(state: State, token: str) -> None:
    step = state.tokens.pop(token).step
    state.fresh.pop(token, None)
    state.waiting.pop(token, None)
    if token in state.joins.get(step, ()):
        state.joins[step].remove(token)
        if not state.joins[step]:
            del state.joins[step]


def _step_started(state: State, fact: facts.StepStarted) -> None:
    run = state.runs[fact.run]
    run.started = True
    run.timeout_at = fact.timeout_at


def _task_done(state: State, fact: TaskDone) -> None:
    owner, index = frame_parts(fact.frame)
    run = state.runs[owner]
    frame = run.frames.get(index)
    if frame is None:
        frame = run.frames[index] = fresh_frame(run, index)
    advance(frame, fact)
    frame.parked = None
    writes = {target[4:]: value for target, value in fact.set.items() if target.startswith("ctx.")}
    if writes:
        if run.loop is not None and run.loop.parallel:
            frame.written = {**frame.written, **writes}
        else:
            _write(state, run, writes)


def _write(state: State, run: Run, writes: dict[str, JSON]) -> None:
    """Writes to ctx take effect: in the execution, or in the parallel iteration that they belong to."""
    sink = sink_of(state, run)
    if sink is None:
        patch(state, writes)
        return
    sink.written = {**sink.written, **writes}
    for path, value in writes.items():
        sink.ctx = put(sink.ctx, tuple(path.split(".")), value)


def patch(state: State, writes: dict[str, JSON]) -> None:
    """Change ctx, and let tokens that wait for what changed be tried again (D35)."""
    for path, value in writes.items():
        parts = tuple(path.split("."))
        state.ctx = put(state.ctx, parts, value)
        for token, reads in list(state.waiting.items()):
            if any(read[: len(parts)] == parts[: len(read)] for read in reads):
                del state.waiting[token]
                state.fresh[token] = None


def _parked(state: State, fact: facts.FrameParked) -> None:
    owner, index = frame_parts(fact.frame)
    run = state.runs[owner]
    frame = run.frames.setdefault(index, fresh_frame(run, index))
    frame.parked = fact.until


def _resumed(state: State, fact: facts.FrameResumed) -> None:
    owner, index = frame_parts(fact.frame)
    frame = state.runs[owner].frames[index]
    frame.parked = frame.until = None
    frame.answer = fact.output
    if fact.run is not None:
        run = state.runs.pop(fact.run)
        del state.ended[fact.run]
        if fact.set:
            writes = {target[4:]: value for target, value in fact.set.items() if target.startswith("ctx.")}
            _write(state, run, writes)
        # The caller goes on with what the block has written, outside parallel iterations as well.
        sink = sink_of(state, run)
        frame.ctx = frame.ctx if sink is frame else sink.ctx if sink else state.ctx


def _loop_started(state: State, fact: facts.LoopStarted) -> None:
    run = state.runs[fact.run]
    loop = Loop(
        count=fact.count, width=fact.width, parallel=fact.parallel, items=fact.items, ref=fact.ref,
        reduce=fact.reduce, start=run.ctx,
    )  # fmt: skip
    run.loop = loop
    while len(loop.flying) < loop.width and loop.frontier < loop.count:
        fly(loop)


def _iteration_done(state: State, fact: facts.IterationDone) -> None:
    run, frame, loop = _landed(state, fact.run, fact.index)
    loop.succeeded += 1
    data = frame.last.data if frame.last else None
    if loop.results is not None and data is not None:
        loop.result_bytes += len(_encoded(data))
        loop.results = {} if loop.results is None else loop.results
        loop.results[fact.index] = data
        if loop.result_bytes > RESULTS_BYTES_MAX:
            loop.results = None
    if not loop.parallel:
        run.values = frame.step
        run.ctx = sink.ctx if (sink := sink_of(state, run)) else state.ctx
    else:
        fold_in(loop, fact.index, frame.written)
    fly(loop)


def _iteration_failed(state: State, fact: facts.IterationFailed) -> None:
    run, _, loop = _landed(state, fact.run, fact.index)
    loop.failed += 1
    loop.error = loop.error or fact.error
    loop.stopped = loop.stopped or fact.stop
    if loop.parallel:
        fold_in(loop, fact.index, {})
    else:
        run.ctx = sink.ctx if (sink := sink_of(state, run)) else state.ctx
    fly(loop)


def _landed(state: State, run_id: str, index: int) -> tuple[Run, Frame, Loop]:
    run = state.runs[run_id]
    assert run.loop is not None
    frame = run.frames.pop(index, None) or fresh_frame(run, index)
    del run.loop.flying[index]
    return run, frame, run.loop


def _loop_done(state: State, fact: facts.LoopDone) -> None:
    run = state.runs[fact.run]
    if fact.set:
        _write(state, run, {target[4:]: value for target, value in fact.set.items()})
    _end(state, run, fact.output, "loop.done")


def _step_done(state: State, fact: facts.StepDone) -> None:
    run = state.runs[fact.run]
    output = fact.output
    if frame := run.frames.get(None):
        run.values, run.picked = frame.step, frame.picked
        output = output or (ok(frame.last) if frame.last else None)
    _end(state, run, output or Output(), "step.done")


def ok(output: Output) -> Output:
    """The boundary's status is its own: ok, even if the last task's error was continued (D30)."""
    return output if output.status == "ok" else msgspec.structs.replace(output, status="ok")


def _step_failed(state: State, fact: facts.StepFailed) -> None:
    if fact.run is None:
        assert fact.token is not None
        step = state.tokens[fact.token].step
        _spend(state, fact.token)
        _break(state, step, fact.error)
        return
    run = state.runs[fact.run]
    output = fact.output
    if frame := run.frames.get(None):
        run.values, run.picked = frame.step, frame.picked
        output = output or frame.last
    output = msgspec.structs.replace(output or Output(), status="error", error=fact.error)
    _end(state, run, output, "step.failed")


def _end(state: State, run: Run, output: Output, event: str) -> None:
    run.output, run.event = output, event
    run.frames, run.loop = {}, None
    state.ended[run.id] = None


def _break(state: State, step: str, error: Failure) -> None:
    state.broken[step] = None
    if state.failure is None:
        state.failure, state.failed_step = error, step


def _next(state: State, fact: facts.NextEvaluated) -> None:
    run = state.runs.pop(fact.run)
    del state.ended[fact.run]
    assert run.output is not None
    step_writes = {target[5:]: value for target, value in fact.set.items() if target.startswith("step.")}
    for path, value in step_writes.items():
        run.values = put(run.values, tuple(path.split(".")), value)
    writes = {target[4:]: value for target, value in fact.set.items() if target.startswith("ctx.")}
    if writes:
        _write(state, run, writes)
    for token in fact.tokens:
        _add_token(state, token)
    state.last_output = run.output
    if fact.ended or run.step == "end":
        state.end_output = run.output
    failure = fact.error or (
        run.output.error if run.output.status == "error" and not fact.tokens and not fact.ended else None
    )
    if failure is not None:
        _break(state, run.step, failure)


def _paused(state: State, _fact: facts.Paused) -> None:
    state.status = "paused"
    state.paused_at = state.at


def _unpaused(state: State, _fact: facts.Resumed) -> None:
    state.status = "running"
    assert state.paused_at is not None
    assert state.at is not None
    for run in state.runs.values():
        if run.timeout_at is not None:  # a pause moves timeouts, and no deadlines (D33)
            run.timeout_at += state.at - state.paused_at
    state.paused_at = None


def _cancelled(state: State, _fact: facts.Cancelled) -> None:
    state.status = "cancelling"


def _finished(state: State, fact: facts.Finished) -> None:
    state.status = fact.status
    state.tokens, state.fresh, state.waiting, state.joins = {}, {}, {}, {}
    state.runs, state.ended = {}, {}
    state.end_output = fact.output
    state.failure = fact.error


def _processed(state: State, fact: facts.Processed) -> None:
    if state.status in ("new", "running"):
        state.status = fact.status


_APPLIERS: dict[type, Applier] = {
    facts.Requested: _requested,
    facts.Evaluated: _evaluated,
    facts.Started: _started,
    facts.StepWaiting: _waiting,
    facts.StepScheduled: _scheduled,
    facts.StepStarted: _step_started,
    facts.TaskDone: _task_done,
    facts.FrameParked: _parked,
    facts.FrameResumed: _resumed,
    facts.LoopStarted: _loop_started,
    facts.IterationDone: _iteration_done,
    facts.IterationFailed: _iteration_failed,
    facts.LoopDone: _loop_done,
    facts.StepDone: _step_done,
    facts.StepFailed: _step_failed,
    facts.NextEvaluated: _next,
    facts.Paused: _paused,
    facts.Resumed: _unpaused,
    facts.Cancelled: _cancelled,
    facts.Finished: _finished,
    facts.Processed: _processed,
}
