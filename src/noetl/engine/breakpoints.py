"""Breakpoints: where an execution is held so that someone can look at it, change values, and let it continue.

A breakpoint before a step holds the run, before anything of it begins. One before a task parks the frame, which
then holds no worker. Both are in the log, so a held execution survives its processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from noetl.engine import facts
from noetl.engine.commands import Change, ClearBreakpoint, Release, SetBreakpoint
from noetl.engine.facts import Fact, ForDebugger, Token
from noetl.engine.scopes import at_path, ctx_misfit, has_ref, misfit, patched, split
from noetl.engine.state import Frame, Run, State
from noetl.engine.stored import ROOTS, NeedsValues, ScopePath, ensure_readable, ref_of, stored_bytes
from noetl.errors import Rejected
from noetl.ids import frame_parts
from noetl.net.program import CompiledPipeline, CompiledTask, Program
from noetl.net.scopes import READABLE
from noetl.output import JSON
from noetl.playbook.model import INLINE_BYTES_MAX
from noetl.template.compile import BadTemplate, Template, TemplateError, compile_template

if TYPE_CHECKING:
    from noetl.engine.moves import Work

ANYWHERE = "*"  # the place of a breakpoint that holds the next step or task
CHILD = "/"  # `load/fetch`: the place `fetch` in the playbooks that step `load` calls
BREAKPOINTS_MAX = 100
CONDITION_CHARS_MAX = 4_096
CHANGES_MAX = 100  # values in one command
TARGET = re.compile(r"(ctx|step|iter)(\.[A-Za-z_][A-Za-z0-9_-]*)+")
_READ_ONLY = ("index", "parent")  # of iter
_BEFORE_A_STEP = READABLE["step limit"]
_BEFORE_A_TASK = READABLE["task limit"] | {"output"}


class Hold(NamedTuple):
    """A run or a frame that is held."""

    at: str  # its id
    run: Run
    frame: Frame | None  # None: the run is held before it begins
    why: ForDebugger


def holds_of(state: State) -> Iterator[Hold]:
    """Everything that is held, in the order of scheduling."""
    for run in state.runs.values() if state.live else ():
        if not run.holds or run.output is not None:
            continue
        if run.hold is not None:
            yield Hold(run.id, run, None, run.hold)
        for frame in run.frames.values():
            if isinstance(frame.parked, ForDebugger):
                yield Hold(frame.id, run, frame, frame.parked)


def hold_at(state: State, at: str) -> Hold:
    """Raises Rejected."""
    run = state.runs.get(frame_parts(at)[0])
    for each in holds_of(state) if run is not None and run.holds else ():
        if each.at == at:
            return each
    raise Rejected("not-held", f'"{at[:200]}" is not held')


# Places


def author_step(pipeline: str) -> str:
    """The step or block that the author wrote: the body of a list of loops, and a compensation, belong to a step."""
    return pipeline.partition("/")[0]


def places(program: Program) -> Iterator[str]:
    """All places that a breakpoint can name."""
    for name in dict.fromkeys(pipeline.name for pipeline in program.pipelines):
        yield name
        yield from (f"{name}.{task}" for task in _tasks(program, name))


def _tasks(program: Program, name: str) -> list[str]:
    """The tasks of a step or a block, also those of its compensation."""
    return list(dict.fromkeys(task.name for task in _source_tasks(program, name)))


def _source_tasks(program: Program, name: str) -> Iterator[CompiledTask]:
    found = [*program.blocks.values(), *(step.pipeline for step in program.steps.values())]
    return (task for each in found if author_step(each.name) == name for task in each.source_tasks)


def _check_place(program: Program, place: str) -> None:
    """The part of a place that is in a child is checked when the child starts."""
    step, is_in_child, rest = place.partition(CHILD)
    known = list(places(program))
    if is_in_child:
        callers = [each for each in known if "." not in each and _calls_playbooks(program, each)]
        if step not in callers:
            hint = f"those that do: {', '.join(callers[:20])}" if callers else "no step does"
            raise Rejected("unknown-place", f'the step "{step[:200]}" calls no playbook; {hint}')
        if not rest:
            raise Rejected("unknown-place", f'"{place[:200]}" names no step of the playbook that "{step}" calls')
        return
    if place == ANYWHERE or place in known:
        return
    from difflib import get_close_matches

    near = get_close_matches(place, known, 1)
    step = place.partition(".")[0]
    others = [each for each in known if each.startswith(f"{step}.")] or [each for each in known if "." not in each]
    hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(others[:20])}"
    raise Rejected("unknown-place", f'the playbook has no step or task "{place[:200]}"; {hint}')


def _calls_playbooks(program: Program, name: str) -> bool:
    return any(task.kind == "playbook" for task in _source_tasks(program, name))


@lru_cache(maxsize=256)
def condition(text: str) -> Template:
    """Raises BadTemplate."""
    return compile_template(text)


def _checked_condition(program: Program, place: str, text: str) -> str:
    """The condition as a template. Raises Rejected."""
    written = text.strip()
    if len(written) > CONDITION_CHARS_MAX:
        raise Rejected("bad-condition", f"a condition has at most {CONDITION_CHARS_MAX:,} characters")
    if "{{" not in written:
        written = f"{{{{ {written} }}}}"
    try:
        template = condition(written)
    except BadTemplate as error:
        raise Rejected("bad-condition", "; ".join(fault.message for fault in error.faults)) from None
    if not template.typed:
        raise Rejected("bad-condition", "a condition is one expression: {{ iter.index == 17 }}")
    if template.calls:
        raise Rejected("bad-condition", f"a condition cannot call {', '.join(sorted(template.calls))}()")
    if CHILD in place:
        return written  # the child knows the names
    step, _, task = place.partition(".")
    names = _BEFORE_A_TASK | set(_tasks(program, step)) if task or place == ANYWHERE else _BEFORE_A_STEP
    for read in template.reads:
        if read.path and read.path[0] not in names:
            known = ", ".join(sorted(names))
            raise Rejected("bad-condition", f'"{read.path[0]}" is not known here; a condition can read {known}')
    return written


# Where something is held


def _hit(key: str, when: str | None, place: str, scope: Mapping[str, JSON]) -> ForDebugger | None:
    """The hold of a breakpoint, if its condition is true. A condition that cannot be evaluated holds, too."""
    if when is None:
        return ForDebugger(place=place, breakpoint=key)
    template = condition(when)
    try:
        ensure_readable(template, scope)
        return ForDebugger(place=place, breakpoint=key) if template.holds(scope) else None
    except TemplateError as error:
        reason = error.message
    except NeedsValues:
        reason = "it reads a value over 64 KiB, which is not in the log"
    return ForDebugger(place=place, breakpoint=key, error=reason)


def hold_before(
    state: State,
    pipeline: CompiledPipeline,
    input: dict[str, JSON],
    ctx: dict[str, JSON],
    tokens: Iterable[Token] = (),
) -> ForDebugger | None:
    """Whether a run that is scheduled now is held before it begins."""
    name = pipeline.name
    if author_step(name) != name:
        return None  # its tasks are held
    if any(token.id in state.stepping for token in tokens):
        return ForDebugger(place=name)
    scope = {
        "workload": state.workload,
        "ctx": ctx,
        "saved": state.saved,
        "execution_id": state.execution_id,
        "input": input,
    }
    for key in (name, ANYWHERE):
        known = state.breakpoints.get(key)
        if known is not None and known.error is not None:
            return ForDebugger(place=name, breakpoint=key, error=known.error)
        if known is not None and (hold := _hit(key, known.when, name, scope)) is not None:
            return hold
    return None


def breaks_of(state: State, pipeline: CompiledPipeline) -> dict[str, str | None] | None:
    """Place → condition of the breakpoints in the tasks of a pipeline; None: there are none."""
    prefix = f"{author_step(pipeline.name)}."
    found = {
        place: each.when for place, each in state.breakpoints.items() if place == ANYWHERE or place.startswith(prefix)
    }
    return found or None


def may_hold_tasks(state: State) -> bool:
    """Whether a worker may have to hold a frame before one of its tasks."""
    if any(place == ANYWHERE or "." in place for place in state.breakpoints if CHILD not in place):
        return True
    open_runs = (run for run in state.runs.values() if run.output is None)
    return any(run.step_at is not None or any(each.stepping for each in run.frames.values()) for run in open_runs)


def paths_of_conditions(breaks: dict[str, str | None] | None) -> Iterator[tuple[ScopePath, bool]]:
    """The paths that the conditions read: a worker gets the stored values there."""
    for when in (breaks or {}).values():
        if when is not None:
            yield from ((read.path, True) for read in condition(when).reads if read.path[0] in ROOTS)


def hold_at_task(work: Work, task: CompiledTask, scope: Mapping[str, JSON]) -> ForDebugger | None:
    """Whether the frame is held before its next call."""
    pipeline, frame, around = work.pipeline, work.frame, work.place
    if pipeline.tasks is not pipeline.source_tasks or frame.released or frame.tries:
        return None
    place = f"{author_step(pipeline.name)}.{task.name}"
    if frame.stepping:
        return ForDebugger(place=place)
    for key in (place, ANYWHERE):
        if around.breaks is not None and key in around.breaks:
            hold = _hit(key, around.breaks[key], place, scope)
            if hold is not None:
                return hold
    return None


# Commands


def accept_debug(
    program: Program, state: State, command: SetBreakpoint | ClearBreakpoint | Release | Change
) -> list[Fact]:
    match command:
        case SetBreakpoint():
            return [set_breakpoint(program, state, command)]
        case ClearBreakpoint():
            return _clear_breakpoint(state, command)
        case Release():
            return _release(state, command)
        case Change():
            return [_change(state, command)]


def set_breakpoint(program: Program, state: State, command: SetBreakpoint) -> Fact:
    _check_place(program, command.place)
    if command.place not in state.breakpoints and len(state.breakpoints) >= BREAKPOINTS_MAX:
        raise Rejected("too-many-breakpoints", f"an execution has at most {BREAKPOINTS_MAX} breakpoints")
    when = None if command.when is None else _checked_condition(program, command.place, command.when)
    return facts.BreakpointSet(place=command.place, when=when, once=command.once, by=command.by)


def first_breakpoints(
    program: Program, state: State, wanted: Iterable[SetBreakpoint], parent: str | None
) -> Iterator[Fact]:
    """Those of a new execution. One of its parent that does not fit holds the child at once, and says why."""
    for each in wanted:
        try:
            yield set_breakpoint(program, state, each)
        except Rejected as error:
            if parent is None:
                raise
            yield facts.BreakpointSet(
                place=ANYWHERE, once=True, by=each.by, error=str(error).removeprefix(f"{error.code}: ")
            )


def breakpoints_for_child(state: State, frame: str, by: str) -> tuple[SetBreakpoint, ...]:
    """The breakpoints in a child that the frame calls."""
    prefix = f"{author_step(state.runs[frame_parts(frame)[0]].step)}{CHILD}"
    return tuple(
        SetBreakpoint(place=place.removeprefix(prefix), when=each.when, once=each.once, by=by)
        for place, each in state.breakpoints.items()
        if place.startswith(prefix)
    )


def _clear_breakpoint(state: State, command: ClearBreakpoint) -> list[Fact]:
    if command.place is None:
        return [facts.BreakpointCleared(place=place, by=command.by) for place in state.breakpoints]
    if command.place not in state.breakpoints:
        raise Rejected("no-breakpoint", f'there is no breakpoint at "{command.place[:200]}"')
    return [facts.BreakpointCleared(place=command.place, by=command.by)]


def _release(state: State, command: Release) -> list[Fact]:
    if state.status == "cancelling":
        raise Rejected("already-cancelled", "the execution is being cancelled")
    held = list(holds_of(state)) if command.at is None else [hold_at(state, command.at)]
    if not held:
        raise Rejected("not-held", "nothing is held")
    return [facts.HoldReleased(at=each.at, step=command.step, by=command.by) for each in held]


def _change(state: State, command: Change) -> Fact:
    hold = hold_at(state, command.at)
    if not 0 < len(command.set) <= CHANGES_MAX:
        raise Rejected("bad-change", f"1 to {CHANGES_MAX} values can be changed at once")
    for target, value in command.set.items():
        _check_change(state, hold, target, value)
    ctx = {target[4:]: value for target, value in command.set.items() if target.startswith("ctx.")}
    if ctx and (failure := ctx_misfit(patched(state.ctx, ctx))) is not None:
        raise Rejected("bad-change", failure.message)
    return facts.ScopeChanged(at=command.at, set=command.set, by=command.by)


def _check_change(state: State, hold: Hold, target: str, value: JSON) -> None:
    if not TARGET.fullmatch(target):
        reason = "name a value of ctx, step or iter, such as ctx.total"
        raise Rejected("bad-change", f'"{target[:200]}" cannot be changed: {reason}')
    scope, path = split(target)
    run, frame = hold.run, hold.frame
    if scope == "iter" and (frame is None or run.loop is None):
        raise Rejected("bad-change", f'"{target}" cannot be changed: {hold.at} is not an iteration')
    if scope == "iter" and path[0] in _READ_ONLY:
        raise Rejected("bad-change", f'"{target}" cannot be changed: iter.{path[0]} is read-only')
    if stored_bytes(value):
        raise Rejected("bad-change", f"a value has at most {INLINE_BYTES_MAX:,} bytes as JSON, and no key $stored")
    if has_ref(value):
        raise Rejected("bad-change", f'"{target}" cannot be changed: a Ref cannot be written by hand')
    if (failure := misfit(target, value, state.execution_id)) is not None:
        raise Rejected("bad-change", f'"{target}" cannot be changed: {failure.message}')
    if frame is None:
        values = run.ctx if scope == "ctx" else run.values
    else:
        values = {"ctx": frame.ctx, "step": frame.step, "iter": frame.iter}[scope]
    for depth in range(1, len(path)):
        if ref_of(at_path(values, path[:depth])) is not None:
            raise Rejected("bad-change", f'"{target}" cannot be changed: the value around it is in the result store')
