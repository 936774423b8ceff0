"""The sweeper and the timers: what was lost is put again, what is due in time is woken."""

from __future__ import annotations

from datetime import datetime, timedelta

from noetl.control.executions import Control
from noetl.control.family import (
    BY_PARENT,
    CANCEL_CHILD,
    PAUSE_CHILD,
    RESUME_CHILD,
    Waiting,
    child_start,
    children,
    output_of,
)
from noetl.control.items import unstarted
from noetl.control.live import Live
from noetl.engine import apply
from noetl.engine.commands import Close, Command, Expire, Wake
from noetl.engine.facts import ForTime, Paused
from noetl.engine.state import Frame, State
from noetl.errors import Conflict, Fenced, NotFound, Rejected, Unavailable
from noetl.ids import partition_of
from noetl.ports import Row

GRACE_S = 10.0  # for calls of a cancelled execution
_PASSING = (Unavailable, Rejected, NotFound, Conflict, Fenced)  # the next sweep tries again


async def sweep(control: Control) -> None:
    """Every owned execution that has not ended: lost work, children, timers."""
    for partition in list(control.owned):
        try:
            open_ = await control.store.live(partition)
        except Unavailable:
            continue
        for execution_id, head in open_:
            if partition not in control.owned:
                break
            try:
                control.drop_if_behind(execution_id, head)
                live = await control.live(execution_id)
                await _sweep_one(control, live)
            except _PASSING:
                continue
    _forget(control)


async def _sweep_one(control: Control, live: Live) -> None:
    if live.busy:
        return
    await control.nudge(live)
    for run in list(unstarted(live, list(live.state.runs))):
        await control.store_items(live, run)
    for command in _timely(control, live):
        await control.command(live.state.execution_id, command)
    for waiting in children(live.state):
        await _ask_after(control, live, waiting)
    if not live.busy:
        await control.dispatch(live)


def _timely(control: Control, live: Live) -> list[Command]:
    """What the passing of time makes happen. A paused execution takes it up when it is resumed (D67)."""
    now = control.now()
    if live.state.status == "cancelling":
        return [Close()] if _may_close(control, live) else []
    if live.state.status != "running":
        return []
    found: list[Command] = []
    for run in live.state.runs.values():
        if run.output is not None:
            continue
        ends = [each for each in (run.timeout_at, run.deadline_at) if each is not None]
        if ends and min(ends) <= now:
            found.append(Expire(run=run.id))
            continue
        waits = [frame for frame in run.frames.values() if isinstance(frame.parked, ForTime)]
        found += [Wake(frame=frame.id, call=frame.calls + 1) for frame in waits if _is_over(frame, now)]
    return found


def _may_close(control: Control, live: Live) -> bool:
    """Children end first, running calls get a while to report (D68); then there is nothing to wait for."""
    if children(live.state):
        return False
    held = any(control.clock.monotonic() < lease.until for lease in live.leases.values())
    assert live.state.at is not None
    return not held or control.now() >= live.state.at + timedelta(seconds=GRACE_S)


def _is_over(frame: Frame, now: datetime) -> bool:
    return isinstance(frame.parked, ForTime) and frame.parked.at <= now


async def _ask_after(control: Control, live: Live, waiting: Waiting) -> None:
    """A lost start is made up for, and so is a lost wake."""
    child = waiting.child
    rows = await control.store.read(child.execution_id)
    if not rows:
        assert control.link is not None
        await control.link.start(child.execution_id, child.path, child_start(live.state, waiting))
        return
    state = State(execution_id=child.execution_id)
    for row in rows:
        for fact in row.facts:
            apply(state, fact, row.at)
    if not state.live:
        wake = Wake(frame=waiting.frame, output=output_of(state), call=waiting.call)
        await control.command(live.state.execution_id, wake)
        return
    if (command := _to_child(live.state, state, rows)) is not None:
        assert control.link is not None
        await control.link.command(child.execution_id, command)


def _to_child(parent: State, child: State, rows: list[Row]) -> Command | None:
    """What a child should have been told, and perhaps was not. Its own pauses are its own."""
    if parent.status == "cancelling":
        return None if child.status == "cancelling" else CANCEL_CHILD
    if parent.status == "paused" and child.status == "running":
        return PAUSE_CHILD
    pauses = [fact for row in rows for fact in row.facts if isinstance(fact, Paused)]
    if parent.status == "running" and child.status == "paused" and pauses[-1].by == BY_PARENT:
        return RESUME_CHILD
    return None


def _forget(control: Control) -> None:
    """What has ended, or is no longer ours, needs no memory."""
    for execution_id, live in list(control.lives.items()):
        partition = partition_of(execution_id, control.settings.partitions)
        if not live.busy and (not live.state.live or control.owned.get(partition) != live.owner):
            del control.lives[execution_id]
