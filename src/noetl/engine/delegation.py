"""Decisions that workers make for control, because they read or make values in the result store (D91).

A decision names one decision: `fetch#2!route`, `fetch#2>0!token`, `merge!join`, `fetch#2!loop`, `fetch#2!end`.
The worker gets the part of the state that the decision reads, fills in the stored values, and decides with the
same functions as control. Control accepts the decision if nothing that it depends on has changed since.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from noetl.engine import facts
from noetl.engine.admission import admitted, fire, of_token
from noetl.engine.facts import Fact
from noetl.engine.loops import ToRead, ToStore, loop_done, loop_started
from noetl.engine.moves import Decision, Delegation, FramePlace, Work
from noetl.engine.routing import answer, route
from noetl.engine.scopes import ctx_misfit, of_ctx, patched
from noetl.engine.snapshot import freeze
from noetl.engine.state import Frame, Run, State
from noetl.engine.stored import ITEMS_LIMIT, marks_on
from noetl.ids import frame_parts
from noetl.net.program import CompiledPipeline, Program, Write
from noetl.output import JSON, Failure, Output
from noetl.playbook.model import INLINE_BYTES_MAX
from noetl.template.compile import Template, Value

_encoded = msgspec.json.Encoder().encode
Refs: TypeAlias = Iterator[dict[str, JSON]]


def is_decision(frame: str) -> bool:
    """Is it the name of a decision, and not that of a frame?"""
    return "!" in frame


def is_pending(state: State, decision: str) -> bool:
    """Is the decision still to be made?"""
    subject, _, kind = decision.rpartition("!")
    run = state.runs.get(subject)
    match kind:
        case "token":
            return subject in state.tokens and state.compensation is None
        case "join":
            return subject in state.joins and state.compensation is None
        case "route":
            return run is not None and run.output is not None
        case "loop":
            return run is not None and run.output is None and run.loop is None
        case "end":
            return run is not None and run.output is None
    return False


def pipeline_of(program: Program, state: State, decision: str) -> CompiledPipeline:
    """The step or the block that the decision is about; its workers make the decision."""
    subject, _, kind = decision.rpartition("!")
    if kind == "join":
        return program.steps[subject].pipeline
    if kind == "token":
        return program.steps[state.tokens[subject].step].pipeline
    run = state.runs[subject]
    return program.pipeline(run.step, block=run.block)


def decision_work(program: Program, state: State, decision: str) -> Work:
    """The work of the worker that makes the decision."""
    part = _part_of(state, decision)
    delegation = Delegation(decision, _digest(program, part, decision), freeze(part))
    place = FramePlace(
        execution_id=state.execution_id, workload={}, input={}, iter=None, decides=Decision(delegation, program),
        origins=state.origins,
    )  # fmt: skip
    return Work(pipeline_of(program, state, decision), Frame(id=decision), place)


def decide(program: Program, state: State, decision: str, at: datetime) -> Fact | ToStore | ToRead | None:
    """The decision, as control would make it with all values at hand; None: a token is not admitted."""
    subject, _, kind = decision.rpartition("!")
    program = program._replace(has_values=True, limits={**program.limits, ITEMS_LIMIT: INLINE_BYTES_MAX})
    match kind:
        case "token":
            return of_token(program, state, state.tokens[subject])
        case "join":
            return fire(program, state, subject, at)
        case "route":
            run = state.runs[subject]
            return route(program, state, run, at) if run.parent is None else answer(program, state, run, at)
        case "loop":
            return loop_started(program, state, state.runs[subject], at)
        case _:
            return loop_done(program, state, state.runs[subject])


def accepted(program: Program, state: State, decision: str, fact: Fact | None, error: Failure | None) -> list[Fact]:
    """The facts of a decision that a worker has made; `error`: why it could not read the values."""
    subject, _, kind = decision.rpartition("!")
    if error is not None:
        fact = _failed(state, decision, error)
    match fact:
        case facts.StepScheduled() if kind in ("token", "join"):
            tokens = (state.tokens[subject],) if kind == "token" else _arrived(state, subject)
            step = program.steps[tokens[0].step]
            return [admitted(program, state, step, tokens, fact.input)]
        case facts.StepWaiting() if subject in state.waiting:
            return []
        case facts.NextEvaluated(set=written) if failure := ctx_misfit(patched(state.ctx, of_ctx(written))):
            return [facts.NextEvaluated(run=subject, error=failure)]
        case facts.LoopDone(set=written) if failure := ctx_misfit(patched(state.ctx, of_ctx(written))):
            return [facts.StepFailed(run=subject, error=failure, output=fact.output)]
    return [] if fact is None else [fact]


def is_current(program: Program, state: State, decision: str, digest: str) -> bool:
    """Has nothing changed that the decision depends on?"""
    return is_pending(state, decision) and decision_digest(program, state, decision) == digest


def decision_digest(program: Program, state: State, decision: str) -> str:
    """A digest of what the decision depends on."""
    return _digest(program, _part_of(state, decision), decision)


def refs_read(program: Program, state: State, decision: str) -> Refs:
    """The Refs of the values that the decision may read."""
    paths = [read.path for value in _values(program, state, decision) for read in value.reads]
    for ctx in _contexts(state):
        for path in paths:
            if path[0] == "ctx":
                yield from marks_on(ctx, path[1:])
        for write in _writes(program, state, decision):
            yield from marks_on(ctx, write.path, below=False)
    for run in state.runs.values():
        loop = run.loop
        pieces = [] if loop is None else [[each.folded, each.unfolded] for each in loop.pieces.values()]
        frames = [frame.iter for frame in run.frames.values()]
        yield from marks_on([run.input, run.values, run.picked, frames, loop and loop.items, pieces], ())
        for target in loop.reduce if loop is not None else ():
            yield from marks_on(loop.start if loop is not None else {}, tuple(target.split(".")))
    for token in state.tokens.values():
        yield from marks_on([token.input, token.event], ())
    yield from marks_on(state.workload, ())


def _writes(program: Program, state: State, decision: str) -> list[Write]:
    """The writes to ctx that the decision may make."""
    subject, _, kind = decision.rpartition("!")
    if kind != "route":
        return []
    run = state.runs[subject]
    arcs = () if run.block else program.steps[run.step].arcs
    made = (*program.pipeline(run.step, block=run.block).set, *(write for arc in arcs for write in arc.set))
    return [write for write in made if write.scope == "ctx"]


def _contexts(state: State) -> Iterator[dict[str, JSON]]:
    yield state.ctx
    for run in state.runs.values():
        yield run.ctx
        for frame in run.frames.values():
            yield frame.ctx


def _part_of(state: State, decision: str) -> State:
    """The part of the state that the decision reads."""
    subject, _, kind = decision.rpartition("!")
    part = State(
        execution_id=state.execution_id,
        origins=state.origins,
        status="running",
        level=state.level,
        workload=state.workload,
        ctx=state.ctx,
        saved=state.saved,
        firings=state.firings,
        fired=state.fired,
    )
    if kind == "token":
        part.tokens = {subject: state.tokens[subject]}
    elif kind == "join":
        part.joins = {subject: state.joins[subject]}
        part.tokens = {token.id: token for token in _arrived(state, subject)}
    else:
        part.runs = {run.id: run for run in _with_callers(state, subject)}
    return part


def _with_callers(state: State, name: str) -> Iterator[Run]:
    """The run, and the runs whose frames have called it, with these frames only."""
    run = state.runs[name]
    yield run
    while run.parent is not None:
        owner, index = frame_parts(run.parent)
        run = replace(state.runs[owner], frames={index: state.runs[owner].frames[index]})
        yield run


def _arrived(state: State, join: str) -> tuple[facts.Token, ...]:
    return tuple(state.tokens[token] for token in state.joins[join])


def _digest(program: Program, part: State, decision: str) -> str:
    """A digest of what may change: the names of ctx that the decision reads, and the tokens of a join."""
    reads = [read.path for value in _values(program, part, decision) for read in value.reads]
    names = {path[1:2] for path in reads if path[0] == "ctx"}
    names.update(write.path[:1] for write in _writes(program, part, decision))
    ctx = part.ctx if () in names else {str(name): part.ctx.get(str(name)) for (name,) in sorted(names)}
    return hashlib.sha256(_encoded([decision, ctx, list(part.tokens)])).hexdigest()


def _values(program: Program, state: State, decision: str) -> Iterable[Value | Template]:
    """The values and templates that the decision may evaluate."""
    kind = decision.rpartition("!")[2]
    pipeline = pipeline_of(program, state, decision)
    found: list[Value | Template | bool | str | None] = []
    if kind in ("token", "join"):
        step = program.steps[pipeline.name]
        found += [guard.when for guard in step.admit or ()]
        if kind == "join":
            found.append(pipeline.input)
    elif kind == "loop" and pipeline.loop is not None:
        found += [pipeline.loop.items, pipeline.loop.width]
    elif kind == "route":
        found += [write.value for write in pipeline.set]
        arcs = () if pipeline.block else program.steps[pipeline.name].arcs
        for arc in arcs:
            found += [arc.when, arc.target, *(write.value for write in arc.set)]
        if arcs:
            found += [step.pipeline.input for step in program.steps.values()]
    return [each for each in found if isinstance(each, Value | Template)]


def _failed(state: State, decision: str, error: Failure) -> Fact:
    subject, _, kind = decision.rpartition("!")
    match kind:
        case "token" | "join":
            tokens = (subject,) if kind == "token" else tuple(state.joins[subject])
            return facts.StepFailed(tokens=tokens, error=error)
        case "route":
            run = state.runs[subject]
            if run.parent is None:
                return facts.NextEvaluated(run=subject, error=error)
            output = Output(status="error", error=error)
            return facts.FrameResumed(frame=run.parent, output=output, run=subject)
        case _:
            return facts.StepFailed(run=subject, error=error)
