"""Envelopes: the public form of a log, one event per line (D75). One fact may give several envelopes.

Some are derived from the fact and the state: `task.started` of a quick call, `token.enqueued`, `ctx.patched` and
`loop.iteration.started`. They are in chronological order, so a task starts before it is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from noetl.engine import Event, apply, facts
from noetl.engine.facts import Fact
from noetl.engine.state import State
from noetl.ids import call_id, frame_id, frame_parts, trace_id
from noetl.output import JSON
from noetl.views.log import instant

Source: TypeAlias = Literal["server", "worker"]
Entity: TypeAlias = Literal[
    "playbook", "workflow", "step", "task", "loop", "next", "frame", "token", "execution"
]  # D89
EnvelopeStatus: TypeAlias = Literal["in_progress", "success", "error", "skipped", "paused"]

# Names in the specification that differ from the fact's name in camel case.
_ALIASES = {"task.done": "TaskProcessed", "loop.iteration.done": "LoopIterationCompleted"}
_BY_WORKER = frozenset({"task.started", "task.done", "step.started", "frame.parked"})
_ENDED: dict[str, EnvelopeStatus] = {"ok": "success", "error": "error", "cancelled": "error", "skipped": "skipped"}


class Envelope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event for people and programs. The specification defines the names of the fields."""

    event_id: str  # "<execution_id>/<seq>", or "<execution_id>/<seq>.<part>"
    execution_id: str
    trace_id: str = ""  # of its OpenTelemetry trace: derived from the execution id (D66)
    seq: int
    part: int = 0  # 0: the fact itself; others are derived from it
    timestamp: str
    source: Source
    name: str
    alias: str
    entity: Entity
    entity_id: str
    status: EnvelopeStatus
    data: dict[str, JSON]  # of a fact: everything that was recorded
    step_run_id: str | None = None
    task_run_id: str | None = None
    iteration_id: str | None = None
    task_label: str | None = None
    attempt: int | None = None


class _About(NamedTuple):
    entity: Entity
    id: str
    status: EnvelopeStatus
    run: str | None = None
    call: str | None = None
    iteration: str | None = None
    task: str | None = None
    attempt: int | None = None


class _Derived(NamedTuple):
    name: str
    about: _About
    data: dict[str, JSON]


class Envelopes:
    """Turns events into envelopes, in order. It can follow a growing log.

    It starts with a new log, or with the state after an earlier event, which it then owns.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self._trace = trace_id(state.execution_id)
        self._stamped: tuple[datetime | None, str] = (None, "")

    def of(self, events: Iterable[Event]) -> Iterator[Envelope]:
        for event in events:
            yield from self.feed(event)

    def feed(self, event: Event) -> list[Envelope]:
        """The envelopes of one more event."""
        state, fact = self.state, event.fact
        ctx = state.ctx
        in_flight = _in_flight(state, fact)
        about = _about(state, fact)  # Before the fact is applied, while what it ends still exists.
        shown = _is_running(state, fact)
        apply(state, fact, event.at)
        derived = list(_tokens(state, fact))
        if state.ctx is not ctx:  # Mappings are never changed in place: a write makes a new one.
            derived.append(_patched(state, fact))
        derived += _iterations(state, in_flight)
        data = msgspec.to_builtins(fact)
        name = data.pop("fact")
        if "output" in data:
            data["output"] = {"status": "ok", **data["output"]}  # The encoding omits an ok status.
        if isinstance(fact, facts.StepWaiting) and (step := _waiting_step(state, fact)) is not None:
            data["step"] = step
        made = [self._made(event, 0, _Derived(name, about, data))]
        if isinstance(fact, facts.TaskDone) and fact.started_at is not None and not shown and not fact.kept:
            started = _Derived("task.started", about._replace(status="in_progress"), {"task": fact.task})
            made.insert(0, self._made(Event(event.seq, fact.started_at, event.fact), 1, started))
        made += [self._made(event, part, each) for part, each in enumerate(derived, len(made))]
        return made

    def _made(self, event: Event, part: int, each: _Derived) -> Envelope:
        name, about, data = each
        execution_id = self.state.execution_id
        if self._stamped[0] is not event.at:
            self._stamped = (event.at, instant(event.at))
        return Envelope(
            event_id=f"{execution_id}/{event.seq}.{part}" if part else f"{execution_id}/{event.seq}",
            execution_id=execution_id,
            trace_id=self._trace,
            seq=event.seq,
            part=part,
            timestamp=self._stamped[1],
            source="worker" if name in _BY_WORKER else "server",
            name=name,
            alias=alias(name),
            entity=about.entity,
            entity_id=about.id,
            status=about.status,
            data=data,
            step_run_id=about.run,
            task_run_id=about.call,
            iteration_id=about.iteration,
            task_label=about.task,
            attempt=about.attempt,
        )


@cache
def alias(name: str) -> str:
    """The name in the specification: `step.done` is StepDone."""
    return _ALIASES.get(name) or "".join(map(str.capitalize, name.split(".")))


def _is_running(state: State, fact: Fact) -> bool:
    """Whether the log has the start of the call that is done now: it is shown once (D75)."""
    if not isinstance(fact, facts.TaskDone):
        return False
    run, index = frame_parts(fact.frame)
    frame = state.runs[run].frames.get(index)
    return frame is not None and frame.running is not None


def _in_flight(state: State, fact: Fact) -> dict[str, int]:
    """Runs of which the fact may schedule iterations, with the number of iterations that stay in flight."""
    match fact:
        case facts.IterationDone(run=run) | facts.IterationFailed(run=run):
            loop = state.runs[run].loop
            return {run: len(loop.flying) - 1 if loop is not None else 0}
        case facts.LoopStarted(run=run) | facts.StepScheduled(run=run, retry_of=str()):
            return {run: 0}
        case facts.Resumed():
            return {run.id: len(run.loop.flying) for run in state.runs.values() if run.loop is not None}
    return {}


def _iterations(state: State, in_flight: dict[str, int]) -> Iterator[_Derived]:
    """New iterations are last in the window, so the cost depends only on their number."""
    for run, before in in_flight.items():
        loop = state.runs[run].loop
        flying = loop.flying if loop is not None else {}
        for index in [*islice(reversed(flying), len(flying) - before)][::-1]:
            frame = frame_id(run, index)
            about = _About("loop", frame, "in_progress", run=run, iteration=frame)
            yield _Derived("loop.iteration.started", about, {"run": run, "index": index})


def _tokens(state: State, fact: Fact) -> Iterator[_Derived]:
    match fact:
        case facts.Started(token=token):
            yield _Derived("token.enqueued", _About("token", token.id, "in_progress"), _plain(state, token))
        case facts.NextEvaluated(tokens=tokens, run=run):
            for token in tokens:
                about = _About("token", token.id, "in_progress", run=run)
                yield _Derived("token.enqueued", about, _plain(state, token))


def _plain(state: State, token: facts.Token) -> dict[str, JSON]:
    """The token, with the playbook and the parent execution that it belongs to (D66)."""
    data: dict[str, JSON] = msgspec.to_builtins(token)
    data["playbook"] = state.digest
    if state.parent is not None:
        data["parent"] = state.parent
    return data


def _patched(state: State, fact: Fact) -> _Derived:
    """Only effective writes: those of a parallel iteration take effect when its loop is done (D47)."""
    written: dict[str, JSON] = getattr(fact, "set", {})
    if isinstance(fact, facts.Requested):
        written = {f"ctx.{name}": value for name, value in fact.ctx.items()}
    data = {target: value for target, value in written.items() if target.startswith("ctx.")}
    about = _About("execution", state.execution_id, "success", run=_run_of(fact))
    return _Derived("ctx.patched", about, {"set": data})


def _run_of(fact: Fact) -> str | None:
    match fact:
        case facts.TaskDone(frame=frame) | facts.FrameResumed(frame=frame):
            return frame_parts(frame)[0]
        case facts.LoopDone(run=run) | facts.NextEvaluated(run=run):
            return run
        case facts.ScopeChanged(at=at):
            return frame_parts(at)[0]
    return None


def _about(state: State, fact: Fact) -> _About:
    match fact:
        case facts.TaskDone():
            return _of_task(fact, _ENDED[fact.status])
        case facts.TaskStarted():
            return _of_task(fact, "in_progress")
        case facts.FrameParked(frame=frame, call=call):
            run, index = frame_parts(frame)
            iteration = frame if index is not None else None
            return _About("frame", frame, "paused", run=run, call=call_id(frame, call), iteration=iteration)
        case facts.FrameLost(frame=frame, call=call, task=task):
            run, index = frame_parts(frame)
            iteration = frame if index is not None else None
            return _About("frame", frame, "error", run, call_id(frame, call), iteration, task)
        case facts.FrameResumed(frame=frame):
            run, index = frame_parts(frame)
            iteration = frame if index is not None else None
            return _About("frame", frame, "in_progress", run=run, iteration=iteration)
        case facts.IterationDone(run=run, index=index) | facts.IterationFailed(run=run, index=index):
            frame = frame_id(run, index)
            status: EnvelopeStatus = "success" if isinstance(fact, facts.IterationDone) else "error"
            return _About("loop", frame, status, run=run, iteration=frame)
        case facts.LoopStarted(run=run):
            return _About("loop", run, "in_progress", run=run)
        case facts.LoopDone(run=run):
            return _About("loop", run, "success", run=run)
        case facts.StepScheduled(run=run) | facts.StepStarted(run=run):
            return _About("step", run, "in_progress", run=run)
        case facts.StepDone(run=run):
            return _About("step", run, "success", run=run)
        case facts.StepFailed(run=str(run)):
            return _About("step", run, "error", run=run)
        case facts.StepFailed(tokens=tokens):  # Without a run: the admission could not be evaluated (D16).
            return _About("step", state.tokens[tokens[0]].step, "error")
        case facts.StepWaiting(run=str(run)):
            return _About("step", run, "paused", run=run)
        case facts.StepWaiting(limit=str()):
            return _About("execution", state.execution_id, "paused")
        case facts.StepWaiting(token=token):
            return _About("token", token, "paused")
        case facts.PermitGranted(run=str(run)):
            return _About("step", run, "in_progress", run=run)
        case facts.HoldReleased(at=at) | facts.ScopeChanged(at=at):
            run, index = frame_parts(at)
            return _About("frame", at, "in_progress", run=run, iteration=at if index is not None else None)
        case facts.NextEvaluated(run=run, error=error):
            return _About("next", run, "success" if error is None else "error", run=run)
    return _of_execution(state, fact)


def _waiting_step(state: State, fact: facts.StepWaiting) -> str | None:
    """None: the execution was retried, and waits as a whole."""
    if fact.run is not None:
        return state.runs[fact.run].step
    return state.tokens[fact.token].step if fact.token in state.tokens else None


def _of_task(fact: facts.TaskStarted | facts.TaskDone, status: EnvelopeStatus) -> _About:
    frame, call = fact.frame, call_id(fact.frame, fact.call)
    run, index = frame_parts(frame)
    iteration = frame if index is not None else None
    return _About("task", call, status, run, call, iteration, fact.task, fact.attempt)


def _of_execution(state: State, fact: Fact) -> _About:
    """Facts about the execution, not about a step."""
    match fact:
        case facts.Requested(path=path):
            return _About("playbook", path, "in_progress")
        case facts.Evaluated(error=error):
            return _About("playbook", state.path, "success" if error is None else "error")
        case facts.Started():
            return _About("workflow", state.execution_id, "in_progress")
        case facts.Finished(status=status):
            return _About("workflow", state.execution_id, _ENDED[status])
        case facts.Processed(status=status):
            return _About("playbook", state.path, _ENDED[status])
        case facts.Paused():
            return _About("execution", state.execution_id, "paused")
    return _About("execution", state.execution_id, "in_progress")
