"""Holds: what breakpoints, releases and changes by hand do to the state. The part of `apply` for debugging."""

from __future__ import annotations

from datetime import timedelta

from noetl.engine import facts
from noetl.engine.facts import ForDebugger
from noetl.engine.loop_state import frame_in
from noetl.engine.scopes import of_ctx, put, split, write
from noetl.engine.state import Breakpoint, Frame, Run, State
from noetl.ids import frame_parts
from noetl.output import JSON


def breakpoint_set(state: State, fact: facts.BreakpointSet) -> None:
    state.breakpoints[fact.place] = Breakpoint(when=fact.when, once=fact.once, error=fact.error)


def breakpoint_cleared(state: State, fact: facts.BreakpointCleared) -> None:
    state.breakpoints.pop(fact.place, None)


def hold_run(state: State, run: Run, hold: ForDebugger) -> None:
    """The run, or one of its frames, is held: the timeouts of all runs around it stand still."""
    for each in (run, *runs_around(state, run)):
        each.holds += 1
        if each.held_at is None:
            each.held_at = state.at
    known = state.breakpoints.get(hold.breakpoint or "")
    if known is not None and known.once:
        del state.breakpoints[hold.breakpoint or ""]


def unhold(state: State, run: Run, count: int = 1) -> None:
    """Holds of the run are over. The last one postpones its timeout by the time that no pause covers."""
    run.holds -= count
    if run.holds or run.held_at is None:
        return
    assert state.at is not None
    if run.timeout_at is not None:
        run.timeout_at += max((state.paused_at or state.at) - run.held_at, timedelta())
    run.held_at = None


def runs_around(state: State, run: Run) -> list[Run]:
    """The runs whose frames have called the block, the nearest first."""
    found: list[Run] = []
    while run.parent is not None and (caller := state.runs.get(frame_parts(run.parent)[0])) is not None:
        found.append(caller)
        run = caller
    return found


def hold_released(state: State, fact: facts.HoldReleased) -> None:
    owner, index = frame_parts(fact.at)
    run = state.runs[owner]
    for each in (run, *runs_around(state, run)):
        unhold(state, each)
    if run.hold is None:
        frame = run.frames[index]
        frame.parked, frame.released, frame.stepping = None, True, fact.step
        return
    run.hold = None
    if not fact.step:
        return
    if not run.looped:
        frame = frame_in(state, fact.at)
        frame.stepping = frame.released = True
        return
    run.step_at = 0 if run.loop is None else next(iter(run.loop.flying), None)
    if run.step_at in run.frames:  # of a retry
        run.frames[run.step_at].stepping = True


def scope_changed(state: State, fact: facts.ScopeChanged) -> None:
    owner, index = frame_parts(fact.at)
    run = state.runs[owner]
    frame = None if run.hold is not None else run.frames[index]
    for target, value in fact.set.items():
        scope, path = split(target)
        if frame is None:
            if scope == "step":
                run.values = put(run.values, path, value)
            else:
                run.ctx = put(run.ctx, path, value)
        else:
            set_in(frame, scope, path, value)
    if writes := of_ctx(fact.set):
        if frame is not None and run.loop is not None and run.loop.parallel:
            frame.written = {**frame.written, **writes}
        else:
            write(state, run, writes)


def set_in(frame: Frame, scope: str, path: tuple[str, ...], value: JSON) -> None:
    if scope == "iter":
        frame.iter = put(frame.iter, path, value)
    elif scope == "step":
        frame.step = put(frame.step, path, value)
    else:
        frame.ctx = put(frame.ctx, path, value)
