"""Limits by key that all executions share (D113): their keys, and the permits that an execution holds or waits for.

The store decides who gets a permit. The log records that something waits, and that it continues.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from noetl.engine import facts
from noetl.engine.facts import Fact, ForPermit
from noetl.engine.scopes import moment
from noetl.engine.state import Frame, Run, State
from noetl.engine.stored import NeedsValues, ensure_readable
from noetl.ids import frame_parts, permit_frame, permit_id
from noetl.net.program import CompiledConcurrency, CompiledLimit, Program
from noetl.output import JSON, Failure
from noetl.template.compile import TemplateError, Value, json_text
from noetl.template.values import Moment

KEY_CHARS_MAX = 200


class BadKey(Exception):
    """The key of a limit cannot be used."""


class Permit(NamedTuple):
    """A permit that an execution holds or waits for."""

    id: str  # "": of the execution itself; else the run, or the frame with its call
    key: str  # "" also for an execution that does not wait
    limit: CompiledLimit | CompiledConcurrency
    waits: bool


def key_of(value: Value, scope: dict[str, JSON], seed: Moment | None) -> str:
    """Raises BadKey."""
    try:
        key = value(scope, seed)
    except TemplateError as error:
        raise BadKey(f"it cannot be evaluated: {error}") from None
    if key is None or key == "" or isinstance(key, dict | list):
        raise BadKey(f"it must be text or a number, and it is {json_text(key)[:40] or 'empty'}")
    text = json_text(key)
    if len(text) > KEY_CHARS_MAX:
        raise BadKey(f"it has {len(text):,} characters, and the limit is {KEY_CHARS_MAX}")
    if not text.isprintable():
        raise BadKey("it contains characters that cannot be printed")
    return text


def run_waits(program: Program, state: State, run: Run, at: datetime) -> Fact:
    """A run of a step with a limit waits for its permit before anything of it begins."""
    limit = program.pipeline(run.step, block=run.block).limit
    assert limit is not None
    scope: dict[str, JSON] = {
        "workload": state.workload,
        "ctx": run.ctx,
        "saved": state.saved,
        "execution_id": state.execution_id,
        "input": run.input,
    }
    try:
        if state.stored:
            ensure_readable(limit.key, scope)
        key = key_of(limit.key, scope, moment(limit.key, at, f"{run.id}/limit"))
    except (BadKey, NeedsValues) as error:
        reason = str(error) if isinstance(error, BadKey) else "it reads a value over 64 KiB"
        return facts.StepFailed(run=run.id, error=Failure(kind="template", message=f'key of "{run.step}": {reason}'))
    token = run.tokens[-1] if run.tokens else ""
    return facts.StepWaiting(token=token, limit=limit.words, key=key, run=run.id)


def is_waiting(run: Run) -> bool:
    """Whether nothing of the run may begin, because it is held, or has no permit yet."""
    return run.hold is not None or (run.limited and not run.permitted)


def frame_permit(frame: Frame) -> str:
    """The id of the permit for the next call: each try of it needs another one."""
    return permit_id(frame.id, frame.calls + 1, frame.tries[-1]["try"] if frame.tries else 0)


def permit_of(program: Program, state: State, id: str) -> Permit | None:
    """None: the execution neither holds it nor waits for it."""
    if not state.live:
        return None
    if id == state.permit:
        concurrency = program.concurrency
        return None if concurrency is None else Permit(id, state.held or "", concurrency, state.held is not None)
    run = state.runs.get(id)
    if run is not None:
        return _of_run(program, run)
    owner, index = frame_parts(permit_frame(id))
    run = state.runs.get(owner)
    frame = run.frames.get(index) if run is not None and run.output is None else None
    found = None if run is None or frame is None else _of_frame(program, run, frame)
    return found if found is not None and found.id == id else None


def permits_of(program: Program, state: State) -> list[Permit]:
    """All permits that the execution holds or waits for."""
    found = [permit_of(program, state, state.permit)]
    for run in state.runs.values() if state.live else ():
        if run.output is None:
            found.append(_of_run(program, run))
            found += [_of_frame(program, run, frame) for frame in run.frames.values()]
    return [each for each in found if each is not None]


def _of_run(program: Program, run: Run) -> Permit | None:
    limit = program.pipeline(run.step, block=run.block).limit
    if limit is None or run.key is None or run.output is not None:
        return None
    return Permit(run.id, run.key, limit, not run.permitted)


def _of_frame(program: Program, run: Run, frame: Frame) -> Permit | None:
    waits = isinstance(frame.parked, ForPermit)
    held = frame.parked if isinstance(frame.parked, ForPermit) else frame.permit
    if held is None or frame.pc < 0:
        return None
    limit = program.pipeline(run.step, block=run.block).tasks[frame.pc].limit
    return None if limit is None else Permit(frame_permit(frame), held.key, limit, waits)
