"""Command → the facts that it makes true, or Rejected. Reads the state, never writes it."""

from __future__ import annotations

from datetime import datetime, timedelta

from noetl.engine import facts
from noetl.engine.commands import Cancel, Close, Command, Expire, Pause, Report, Resume, Signal, Start, Wake
from noetl.engine.facts import Fact, ForSignal, Token
from noetl.engine.state import Run, State
from noetl.errors import Rejected
from noetl.ids import START_TOKEN, frame_parts
from noetl.net.program import Program
from noetl.net.template import TemplateError
from noetl.output import Failure, Output
from noetl.playbook.spec import merge


class Recorded(Exception):
    """The report repeats what is on record: it is answered, and nothing is written."""


def accept(program: Program, state: State, command: Command, at: datetime) -> list[Fact]:
    if isinstance(command, Start):
        return _start(program, state, command)
    if not state.live:
        raise Rejected("execution-over", f"the execution has ended: {state.status}")
    match command:
        case Report():
            return _report(program, state, command, at)
        case Wake(frame=frame, output=output):
            return _wake(state, frame, output)
        case Signal(name=name, data=data):
            return _signal(state, name, Output(data=data))
        case Expire(run=run):
            return _expire(state, run, at)
        case Pause(by=by):
            if state.status != "running":
                raise Rejected("not-running", f"the execution is {state.status}")
            return [facts.Paused(by=by)]
        case Resume(by=by):
            if state.status != "paused":
                raise Rejected("not-paused", f"the execution is {state.status}")
            return [facts.Resumed(by=by)]
        case Cancel(reason=reason, by=by):
            if state.status == "cancelling":
                raise Rejected("already-cancelled", "the execution is being cancelled")
            return [facts.Cancelled(reason=reason, by=by)]
        case Close():
            return _close(state)


def _start(program: Program, state: State, command: Start) -> list[Fact]:
    if state.status != "new":
        raise Rejected("already-started", f"{state.execution_id} is on record")
    playbook = program.playbook
    requested = facts.Requested(
        path=playbook.path, digest=program.digest, workload=command.workload, parent=command.parent,
        depth=command.depth, by=command.by,
    )  # fmt: skip
    workload = merge(playbook.workload, command.workload)
    error = command.error
    input = {}
    if error is None and command.depth > program.limits["depth"]:
        error = Failure(
            kind="limit", message=f"children are nested deeper than limits.depth ({program.limits['depth']})"
        )
    if error is None:
        scope = {"workload": workload, "ctx": {}, "execution_id": state.execution_id}
        try:
            input = program.steps[playbook.entry].pipeline.input(scope)
        except TemplateError as broken:
            error = Failure(kind="template", message=str(broken))
    if error is not None:
        return [requested, facts.Evaluated(error=error), facts.Processed(status="error")]
    token = Token(id=START_TOKEN, step=playbook.entry, input=input)
    return [requested, facts.Evaluated(), facts.Started(workload=workload, token=token)]


def _report(program: Program, state: State, report: Report, at: datetime) -> list[Fact]:
    owner, index = frame_parts(report.frame)
    run = state.runs.get(owner)
    if run is None or run.output is not None:
        raise Recorded
    if run.loop is not None and index not in run.loop.flying:
        raise Recorded
    frame = run.frames.get(index)
    position, epoch, parked = (frame.calls, frame.epoch, frame.parked) if frame else (0, None, None)
    if epoch is not None and report.epoch < epoch:
        raise Rejected("fenced", f"{report.frame} is in newer hands")
    if report.position < position or parked is not None or (frame is not None and frame.pc < 0):
        raise Recorded
    if report.position > position:
        raise Rejected("ahead", f"{report.frame} stands at {position}, and not at {report.position}")
    made: list[Fact] = []
    if not run.started and (report.facts or report.parked):
        timeout = program.pipeline(run.step, block=run.block).timeout_s
        ends = None if timeout is None else (report.started_at or at) + timedelta(seconds=timeout)
        made.append(facts.StepStarted(run=owner, timeout_at=ends))
    made += report.facts
    if report.parked is not None:
        made.append(report.parked)
    return made


def _wake(state: State, frame: str, output: Output | None) -> list[Fact]:
    owner, index = frame_parts(frame)
    run = state.runs.get(owner)
    parked = run.frames.get(index) if run and run.output is None else None
    if parked is None or parked.parked is None:
        raise Recorded
    return [facts.FrameResumed(frame=frame, output=output)]


def _signal(state: State, name: str, output: Output) -> list[Fact]:
    woken = [
        frame.id
        for run in state.runs.values()
        for frame in run.frames.values()
        if isinstance(frame.parked, ForSignal) and frame.parked.name == name
    ]
    if not woken:
        raise Rejected("nobody-waits", f'nothing waits for the signal "{name}"')
    return [facts.FrameResumed(frame=frame, output=output) for frame in woken]


def _expire(state: State, run_id: str, at: datetime) -> list[Fact]:
    run = state.runs.get(run_id)
    if run is None or run.output is not None:
        raise Recorded
    ends = [each for each in (run.timeout_at, run.deadline_at) if each is not None]
    if not ends or at < min(ends):
        raise Rejected("not-yet", f"the time of {run_id} is not up")
    error = Failure(kind="timeout", message=f"{run_id} took too long", retryable=True)
    return [*_give_up_blocks(state, run, error), facts.StepFailed(run=run_id, error=error, output=Output())]


def _give_up_blocks(state: State, run: Run, error: Failure) -> list[Fact]:
    """Runs of blocks that this run's frames have called end with it."""
    inside = [each for each in state.runs if each.startswith((f"{run.id}/", f"{run.id}["))]
    return [facts.StepFailed(run=each, error=error, output=Output()) for each in reversed(inside)]


def _close(state: State) -> list[Fact]:
    if state.status != "cancelling":
        raise Rejected("not-cancelled", f"the execution is {state.status}")
    error = Failure(kind="cancelled", message="the execution was cancelled")
    open_ = [run.id for run in state.runs.values() if run.output is None]
    given_up: list[Fact] = [
        facts.StepFailed(run=run, error=error, output=Output()) for run in reversed(open_)
    ]
    return [*given_up, facts.Finished(status="cancelled", error=error), facts.Processed(status="cancelled")]
