"""Command → the facts that it makes, or Rejected. Reads the state, never writes it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from noetl.engine import facts
from noetl.engine.admission import over_limit
from noetl.engine.breakpoints import accept_debug, first_breakpoints, hold_before
from noetl.engine.commands import (
    Cancel,
    Close,
    Command,
    Decide,
    EndLoop,
    Exceed,
    Expire,
    Fork,
    Lose,
    Pause,
    Permitted,
    Report,
    Resume,
    Retry,
    Signal,
    Start,
    StartLoop,
    Wake,
)
from noetl.engine.compensation import ending
from noetl.engine.delegation import accepted, is_current
from noetl.engine.facts import Fact, ForBlock, ForDebugger, ForPermit, ForSignal, ForTime, TaskStarted, Token
from noetl.engine.limits import BadKey, key_of, permit_of
from noetl.engine.loops import ToRead, ToStore, awaits_reading, digest_of, loop_done, loop_output, loop_started
from noetl.engine.parking import answered
from noetl.engine.retry import called
from noetl.engine.scopes import deadline, has_ref, moment
from noetl.engine.state import Frame, Run, State
from noetl.engine.stored import NeedsValues, ensure_readable, ref_of, stored_key_in
from noetl.engine.workloads import ref_fault, stored_fault
from noetl.errors import InputError, InputProblem, Rejected
from noetl.ids import START_TOKEN, frame_parts, permit_frame, run_id
from noetl.net.program import Program
from noetl.output import JSON, STORED, Failure, Output
from noetl.playbook.model import COMPENSATE, INLINE_BYTES_MAX
from noetl.playbook.spec import merge
from noetl.template.compile import TemplateError


class Recorded(Exception):
    """The report repeats what is in the log: it is answered, and nothing is written."""


def accept(program: Program, state: State, command: Command, at: datetime) -> list[Fact]:
    if isinstance(command, Report):  # most commands are reports
        _ensure_live(state)
        return _report(program, state, command, at)
    if isinstance(command, Start):
        return _start(program, state, command, at)
    if isinstance(command, Fork):
        _ensure_new(state)
        first = command.facts[0]
        parent = first.parent if isinstance(first, facts.Requested) else None
        return [*command.facts, *first_breakpoints(program, state, command.breakpoints, parent)]
    if isinstance(command, Retry):
        return _retry(program, state, command, at)
    _ensure_live(state)
    match command:
        case StartLoop():
            return _start_loop(program, state, command, at)
        case EndLoop():
            return _end_loop(program, state, command)
        case Decide():
            return _decide(program, state, command)
        case Wake():
            return _wake(state, command, at)
        case Signal():
            return _signal(state, command)
        case Lose():
            return _lose(program, state, command)
        case Permitted(permit=permit):
            return _permitted(program, state, permit)
        case Expire():
            return _expire(program, state, command, at)
        case Pause(by=by):
            if state.status != "running":
                raise Rejected("not-running", f"the execution is {state.status}")
            return [facts.Paused(by=by)]
        case Resume(by=by):
            if state.status != "paused":
                raise Rejected("not-paused", f"the execution is {state.status}")
            return [facts.Resumed(by=by)]
        case Cancel(reason=reason, by=by, compensate=compensate):
            if state.status == "cancelling":
                raise Rejected("already-cancelled", "the execution is being cancelled")
            if compensate and state.compensation is not None:
                raise Rejected("already-compensating", "its completed steps are being compensated already")
            return [facts.Cancelled(reason=reason, by=by, compensate=compensate)]
        case Close():
            return _close(program, state)
        case Exceed(error=error):
            return [facts.Finished(status="error", error=error), facts.Processed(status="error")]
    return accept_debug(program, state, command)


def _start(program: Program, state: State, command: Start, at: datetime) -> list[Fact]:
    _ensure_new(state)
    stored = stored_key_in(command.workload)
    if stored and command.parent is None:
        raise Rejected("reserved-name", f'the workload contains the key "{STORED}", which is reserved')
    if command.ctx:
        _check_ctx(command.ctx)
    playbook = program.playbook
    requested = facts.Requested(
        path=playbook.path, digest=program.digest, workload=command.workload, parent=command.parent,
        depth=command.depth, by=command.by, stored=stored, level=command.level, ctx=command.ctx,
        labels=command.labels, fork=command.fork,
    )  # fmt: skip
    defaults = playbook.workload if program.inputs is None else program.inputs.defaults
    entry = program.steps[playbook.entry]
    error = command.error or (stored_fault(defaults, command.workload) if stored else None)
    if program.inputs is None:
        workload = merge(defaults, command.workload)
    else:
        workload, problems = program.inputs.fit(command.workload, _is_stored, program.folder)
        if problems and command.parent is None:
            raise InputError(problems)
        error = error or (_misfit(problems) if problems else None)
    if error is None:
        error = ref_fault(defaults, command.workload, workload, is_child=command.parent is not None)
    input = {}
    if error is None and command.depth > program.limits["depth"]:
        message = f"children are nested deeper than limits.depth ({program.limits['depth']})"
        error = Failure(kind="limit", message=message, details={"limit": "depth"})
    if error is None and not entry.join:
        scope = {
            "workload": workload, "ctx": command.ctx, "saved": command.saved, "execution_id": state.execution_id
        }  # fmt: skip
        try:
            input = entry.pipeline.input(scope, moment(entry.pipeline.input, at, f"{START_TOKEN}/input"))
        except TemplateError as broken:
            error = Failure(kind="template", message=f'input of "{entry.name}": {broken}')
    if error is not None:
        return [requested, facts.Evaluated(error=error), facts.Processed(status="error")]
    token = Token(id=START_TOKEN, step=playbook.entry, input=input, deadline_at=deadline(entry.pipeline, at))
    started = facts.Started(workload=workload, token=token, saved=command.saved)
    return [
        requested,
        facts.Evaluated(keychain=command.keychain),
        started,
        *first_breakpoints(program, state, command.breakpoints, command.parent),
        *_held(program, command.held, START_TOKEN),
    ]


def _held(program: Program, key: str | None, token: str = "") -> list[Fact]:
    """The whole execution waits for a permit (D113)."""
    if key is None or program.concurrency is None:
        return []
    return [facts.StepWaiting(token=token, limit=program.concurrency.words, key=key)]


def concurrency_key(program: Program, execution_id: str, command: Start, at: datetime) -> str | Failure | None:
    """The key of the limit of executions that a start needs; "" if all executions share it (D113).

    None: the inputs do not fit, so that it cannot start.
    """
    if program.inputs is None:
        workload = merge(program.playbook.workload, command.workload)
    else:
        workload, problems = program.inputs.fit(command.workload, _is_stored, program.folder)
        if problems:
            return None
    concurrency = program.concurrency
    if concurrency is None or concurrency.key is None:
        return ""
    scope: dict[str, JSON] = {
        "workload": workload, "ctx": command.ctx, "saved": command.saved, "execution_id": execution_id
    }  # fmt: skip
    try:
        ensure_readable(concurrency.key, scope)
        return key_of(concurrency.key, scope, moment(concurrency.key, at, "concurrency"))
    except NeedsValues:
        reason = "it reads a value over 64 KiB"
    except BadKey as error:
        reason = str(error)
    return Failure(kind="template", message=f"key of executor.spec.policy.concurrency: {reason}")


def _permitted(program: Program, state: State, id: str) -> list[Fact]:
    permit = permit_of(program, state, id)
    if permit is None or not permit.waits:
        raise Recorded
    if id == state.permit:
        return [facts.PermitGranted()]
    if id in state.runs:
        return [facts.PermitGranted(run=id)]
    return [facts.FrameResumed(frame=permit_frame(id))]


def _ensure_live(state: State) -> None:
    if not state.live:
        raise Rejected("execution-over", f"the execution has ended: {state.status}")


def _ensure_new(state: State) -> None:
    if state.status != "new":
        raise Rejected("already-started", f"{state.execution_id} already exists")


def _check_ctx(ctx: dict[str, JSON]) -> None:
    """The first values of ctx are small data. Raises Rejected."""
    for name, value in ctx.items():
        if not name.isidentifier():
            raise Rejected("bad-ctx", f'"{name[:40]}" cannot be a name in ctx: use letters, digits and _')
        if has_ref({name: value}):
            raise Rejected("bad-ctx", f'ctx.{name} contains a Ref: pass it in the workload, and assign it with "set"')
    if stored_key_in(ctx):
        raise Rejected("reserved-name", f'ctx contains the key "{STORED}", which is reserved')
    if (size := len(msgspec.json.encode(ctx))) > INLINE_BYTES_MAX:
        message = (
            f"ctx has {size:,} bytes, and a request may give {INLINE_BYTES_MAX:,}: pass large values in the workload"
        )
        raise Rejected("bad-ctx", message)


def _is_stored(value: JSON) -> bool:
    return ref_of(value) is not None


def _misfit(problems: Sequence[InputProblem]) -> Failure:
    """Why a child cannot start: its caller gives other inputs than it declares (D104)."""
    message = f"the inputs do not fit: {'; '.join(map(str, problems))}"
    fields: list[JSON] = [{"name": each.name, "message": each.message} for each in problems]
    return Failure(kind="input", message=message, details={"fields": fields})


def _report(program: Program, state: State, report: Report, at: datetime) -> list[Fact]:
    run, frame = _open_frame(state, report.frame)
    _fence(report, frame)
    made: list[Fact] = []
    if not run.started and (report.facts or report.parked or report.started_at):
        made.append(_step_started(program, state, run, report.started_at or at))
    if report.facts:
        first, *others = report.facts
        stamp = None if frame is not None and frame.epoch == report.epoch else report.epoch
        made += [first if first.epoch == stamp else replace(first, epoch=stamp), *others]
    if report.running is not None:
        made += _task_started(report, report.running, frame)
    if report.parked is not None:
        made.append(replace(report.parked, epoch=report.epoch if report.epoch > (0, 0) else None))
    if report.answer is not None:
        made.append(facts.FrameResumed(frame=report.frame, output=report.answer))
    return made


def _open_frame(state: State, id: str) -> tuple[Run, Frame | None]:
    """The run and, if it has facts in the log, the frame. Raises Recorded when the frame has ended."""
    owner, index = frame_parts(id)
    run = state.runs.get(owner)
    if run is None or run.output is not None:
        raise Recorded
    if (index is not None) if run.loop is None else index not in run.loop.flying:
        raise Recorded
    return run, run.frames.get(index)


def _task_started(report: Report, running: TaskStarted, frame: Frame | None) -> list[Fact]:
    """Nothing for a repeated report."""
    same = frame is not None and frame.epoch == report.epoch
    if same and not report.facts and frame is not None and frame.running is not None:
        return []
    return [running if same or report.facts else replace(running, epoch=report.epoch)]


def _lose(program: Program, state: State, command: Lose) -> list[Fact]:
    run, frame = _open_frame(state, command.frame)
    if run.looped and run.loop is None:
        raise Recorded  # the worker read the items of the loop, which is not a call
    if frame is not None:
        if frame.epoch is not None and command.epoch < frame.epoch:
            raise Recorded  # another worker has reported since
        if frame.parked is not None or frame.pc < 0 or (frame.closed and command.epoch <= frame.closed):
            raise Recorded
    task = program.pipeline(run.step, block=run.block).tasks[frame.pc if frame is not None else 0]
    running = frame.running if frame is not None else None
    return [
        facts.FrameLost(
            frame=command.frame,
            call=frame.calls + 1 if frame is not None else 1,
            task=task.name,
            worker=command.worker,
            epoch=command.epoch,
            started_at=running.started_at if running is not None else None,
            held=command.held,
        )
    ]


def _fence(report: Report, frame: Frame | None) -> None:
    """Positions and epochs fence reports: a repeat is in the log already, and an older grant is rejected."""
    position = frame.calls if frame else 0
    if frame is not None:
        if frame.epoch is not None and report.epoch < frame.epoch:
            raise Rejected("fenced", f"{report.frame} has been granted to another worker since")
        if frame.parked is not None or frame.pc < 0 or (frame.closed and report.epoch <= frame.closed):
            raise Recorded
    if report.position < position:
        raise Recorded
    if report.position > position:
        raise Rejected("ahead", f"{report.frame} is at position {position}, not at {report.position}")
    waits = report.parked is not None and not report.facts and isinstance(report.parked.until, ForSignal)
    if waits and frame is not None and frame.answer is not None:  # the frame was granted before its wait ended
        raise Rejected("fenced", f"{report.frame} has received its signal already")


def _step_started(program: Program, state: State, run: Run, started_at: datetime) -> Fact:
    timeout = program.pipeline(run.step, block=run.block).timeout_s
    if state.paused_at is not None:
        started_at = min(started_at, state.paused_at)  # The end of the pause postpones it by the whole pause.
    ends = None if timeout is None else started_at + timedelta(seconds=timeout)
    return facts.StepStarted(run=run.id, timeout_at=ends)


def _start_loop(program: Program, state: State, command: StartLoop, at: datetime) -> list[Fact]:
    run = state.runs.get(command.run)
    if run is None or run.output is not None or run.loop is not None:
        raise Recorded
    if state.status != "running":
        raise Rejected("not-running", f"the execution is {state.status}")
    try:
        start = loop_started(program, state, run, at)
    except NeedsValues:
        raise Rejected("changed", f"the items of {command.run} are in the result store now") from None
    match start:
        case ToStore(items, started):
            same = digest_of(items) == command.digest
        case ToRead(ref, started):
            same = ref == command.source
        case fact:
            return [fact]
    if not same:
        raise Rejected("changed", f"the items of {command.run} differ from those that were stored")
    if command.error is not None:
        return [facts.StepFailed(run=run.id, error=command.error)]
    if command.count > program.limits["iterations"]:
        return [ending(state, over_limit(program, "iterations", command.count))]
    return [replace(started, count=command.count, items=command.items, ref=command.ref)]


def _end_loop(program: Program, state: State, command: EndLoop) -> list[Fact]:
    run = state.runs.get(command.run)
    if run is None or run.output is not None or not awaits_reading(program, run):
        raise Recorded
    if state.status != "running":
        raise Rejected("not-running", f"the execution is {state.status}")
    fact = loop_done(program, state, run)
    assert isinstance(fact, facts.LoopDone | facts.StepFailed)
    stored = (*fact.stored, "output.data") if command.stored else fact.stored
    return [replace(fact, picked=command.picked, stored=stored)]


def _decide(program: Program, state: State, command: Decide) -> list[Fact]:
    """A decision that is no longer current makes no fact: it is tried again."""
    if state.status != "running":
        raise Rejected("not-running", f"the execution is {state.status}")
    if not is_current(program, state, command.decision, command.digest):
        return []
    return accepted(program, state, command.decision, command.fact, command.error)


def _wake(state: State, wake: Wake, at: datetime) -> list[Fact]:
    owner, index = frame_parts(wake.frame)
    run = state.runs.get(owner)
    frame = run.frames.get(index) if run and run.output is None else None
    if frame is None or frame.parked is None or isinstance(frame.parked, ForBlock | ForPermit | ForDebugger):
        raise Recorded
    if wake.call is not None and wake.call != frame.calls + 1:
        raise Recorded
    if isinstance(frame.parked, ForTime) and at < frame.parked.at:
        raise Rejected("not-yet", f"{wake.frame} waits until {frame.parked.at.isoformat()}")
    output = wake.output
    if output is None and isinstance(frame.parked, ForTime) and frame.until is None:
        output = Output()  # a `wait` task has parked it, not the delay between two attempts
    return [facts.FrameResumed(frame=wake.frame, output=output)]


def _signal(state: State, signal: Signal) -> list[Fact]:
    woken = [
        (frame.id, frame.parked)
        for run in state.runs.values()
        if run.output is None
        for frame in run.frames.values()
        if isinstance(frame.parked, ForSignal) and frame.parked.name == signal.name and signal.frame in (None, frame.id)
    ]
    if not woken:
        where = "" if signal.frame is None else f" in {signal.frame}"
        raise Rejected("nobody-waits", f'nothing waits for the signal "{signal.name}"{where}')
    return [
        facts.FrameResumed(frame=frame, output=Output(data=answered(parked, signal.data)), by=signal.by)
        for frame, parked in woken
    ]


def _expire(program: Program, state: State, command: Expire, at: datetime) -> list[Fact]:
    run = state.runs.get(command.run)
    if run is None or run.output is not None:
        raise Recorded
    timeout = None if state.paused_at or run.holds else run.timeout_at  # The end of it postpones the timeout (D33).
    ends = [each for each in (timeout, run.deadline_at) if each is not None]
    if not ends or at < min(ends):
        raise Rejected("not-yet", f"the time of {command.run} has not passed")
    error = Failure(kind="timeout", message=_expired(command, by_timeout=timeout == min(ends)), retryable=True)
    return _given_up(program, state, run, error)


def _expired(command: Expire, *, by_timeout: bool) -> str:
    if by_timeout and command.timeout_s is not None:
        return f"{command.run} timed out after {command.timeout_s:g} s (lifecycle.timeout_s)"
    if not by_timeout and command.deadline_s is not None:
        return f"{command.run} timed out {command.deadline_s:g} s after its token was made (lifecycle.deadline_s)"
    # The commands of 0.1 in tests/replay do not have the seconds.
    return f"{command.run} took longer than its lifecycle.{'timeout_s' if by_timeout else 'deadline_s'} allows"


def _given_up(program: Program, state: State, run: Run, error: Failure) -> list[Fact]:
    """A run ends; the runs of blocks that its frames have called end before it."""
    made: list[Fact] = []
    for frame in run.frames.values():
        inner = state.runs.get(called(frame) or "")
        if inner is not None and inner.output is None:
            made += _given_up(program, state, inner, error)
    output = Output()
    if run.loop is not None and (run.compensable or run.loop.failures is not None):
        # Its compensation reads what the iterations have returned, and arcs read which have failed.
        output = loop_output(program.pipeline(run.step, block=run.block), state, run)
    return [*made, facts.StepFailed(run=run.id, error=error, output=output)]


def _close(program: Program, state: State) -> list[Fact]:
    if state.status != "cancelling":
        raise Rejected("not-cancelled", f"the execution is {state.status}")
    message = "the execution was cancelled"
    if state.compensation is not None and state.compensation.status == "error":
        message += f" while its steps were compensated, after: {state.compensation.error.message}"
    error = Failure(kind="cancelled", message=message)
    made: list[Fact] = []
    stopped: list[str] = []
    for run in state.runs.values():
        if run.parent is None and run.output is None:
            made += _given_up(program, state, run, error)
            if run.compensable and run.loop is not None and run.loop.succeeded:
                stopped.append(run.id)
    end = ending(state, facts.Finished(status="cancelled", error=error), stopped=stopped)
    processed = [facts.Processed(status="cancelled")] if isinstance(end, facts.Finished) else []
    return [*made, end, *processed]


def _retry_compensations(program: Program, state: State, retry: Retry) -> list[Fact]:
    """What was undone cannot continue; only compensations that failed or were stopped are repeated (D116)."""
    assert state.compensation is not None
    failed = [
        id
        for id, run in state.compensation.failed.items()
        if retry.step in (None, run.step.removesuffix(f"/{COMPENSATE}"))
    ]
    if not failed and (retry.step is not None or not state.completed):
        reason = "its completed steps were compensated, so it cannot continue; run it again"
        raise Rejected("compensated", reason)
    from_start = retry.from_start and bool(failed)
    retried = facts.Retried(compensations=tuple(failed), from_start=from_start, by=retry.by, permit=retry.permit)
    return [retried, *_held(program, retry.held)]


def _nothing_to_retry(state: State, step: str | None) -> str:
    if not state.firings and state.failure is not None:
        return f"it never started: {state.failure.message}; fix that and run it again"
    if step is not None:
        return f'there is nothing to retry in "{step}"'
    handled = "to retry a handled failure, name its step: noetl retry ID --step STEP"
    return f"there is nothing to retry; {handled}"


def _with_iterations(runs: list[Run], named: tuple[int, ...], step: str | None) -> dict[str, tuple[int, ...]]:
    """The runs in which all these iterations failed, each with the iterations that run again.

    (): no other iteration failed, so that the loop continues as after any retry. Raises Rejected.
    """
    wanted, reasons = sorted(set(named)), []
    found: dict[str, tuple[int, ...]] = {}
    for run in runs:
        reason = _cannot_retry(run, wanted)
        if reason is None:
            assert run.loop is not None
            all_failed = sum(end - first for first, end in run.loop.again) == len(wanted)
            found[run.id] = () if all_failed else tuple(wanted)
        else:
            reasons.append(f"{run.id}: {reason}")
    if not found:
        raise Rejected("nothing-failed", "; ".join(reasons) or f'there is no failed loop in "{step}"')
    return found


def _cannot_retry(run: Run, wanted: list[int]) -> str | None:
    """Why these iterations of a failed run cannot run again on their own; None: they can."""
    loop = run.loop
    if loop is None:
        return "it has no loop, or its loop did not start; retry the step"
    if loop.conflict is not None:
        return "its iterations wrote different values, so all of them must run again; retry the step"
    if loop.unended:
        return "it ended while iterations were running; retry the step"
    for index in wanted:
        if index >= loop.count:
            return f"it has {loop.count:,} iterations, and no iteration {index}"
        if index >= loop.frontier:
            return f"iteration {index} has not begun; retry the step"
        if not any(first <= index < end for first, end in loop.again):
            return f"iteration {index} has not failed"
    return None


def _retry(program: Program, state: State, retry: Retry, at: datetime) -> list[Fact]:
    """Retry every unhandled failure, or all failures of the named step (D69)."""
    if state.live:
        raise Rejected("not-over", f"the execution is {state.status}")
    if retry.step is not None and retry.step not in program.steps:
        raise Rejected("unknown-step", f'the playbook has no step "{retry.step}"')
    if retry.iterations and (retry.step is None or state.compensation is not None):
        why = "name their step" if retry.step is None else "its completed steps were compensated"
        raise Rejected("bad-retry", f"single iterations cannot be retried: {why}")
    if state.compensation is not None:
        return _retry_compensations(program, state, retry)
    runs = [run for run in state.failed.values() if retry.step in (None, run.step)]
    tokens = [id for id, each in state.spoiled.items() if retry.step in (None, each.token.step)]
    if retry.step is not None and not runs and not tokens and retry.step in state.mended:
        runs = [state.mended[retry.step]]
    if not runs and not tokens and (retry.step is not None or state.status != "cancelled"):
        raise Rejected("nothing-failed", _nothing_to_retry(state, retry.step))
    chosen: dict[str, tuple[int, ...]] = {run.id: () for run in runs}
    if retry.iterations:
        chosen = _with_iterations(runs, retry.iterations, retry.step)
        runs, tokens = [run for run in runs if run.id in chosen], []
    names = tuple(run.id for run in runs)
    retried = facts.Retried(runs=names, tokens=tuple(tokens), by=retry.by, permit=retry.permit)
    made: list[Fact] = [retried]
    firings = dict(state.firings)
    for run in runs:
        firings[run.step] = firings.get(run.step, 0) + 1
        pipeline = program.steps[run.step].pipeline
        made.append(
            facts.StepScheduled(
                run=run_id(run.step, firings[run.step]),
                step=run.step,
                input=run.input,
                deadline_at=deadline(pipeline, at),
                loop=pipeline.loop is not None,
                compensable=program.steps[run.step].source.compensate is not None,
                retry_of=run.id,
                from_start=retry.from_start,
                iterations=chosen[run.id],
                limited=pipeline.limit is not None,
                hold=hold_before(state, pipeline, run.input, state.ctx) if state.breakpoints else None,
            )
        )
    return [*made, *_held(program, retry.held)]
