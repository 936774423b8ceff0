"""The sweeper and the timers: what was lost is put again, what is due in time is woken."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta

from noetl.control.children import (
    BY_PARENT,
    CANCEL_CHILD,
    PAUSE_CHILD,
    RESUME_CHILD,
    Waiting,
    children,
    output_of,
)
from noetl.control.executions import Control
from noetl.control.live_execution import LiveExecution
from noetl.control.snapshots import fold
from noetl.control.timers import PASSING
from noetl.engine.commands import Close, Command, Expire, Wake
from noetl.engine.facts import ForTime, Paused
from noetl.engine.state import LIVE, Frame, State, Status

LOADED_AT_ONCE = 64
GRACE_S = 10.0  # for calls of a cancelled execution


async def sweep(control: Control) -> None:
    """Every execution of ours that has not ended: lost work, children, timers."""
    found = await control.owners.open()
    for execution_id, head in found:
        control.drop_if_behind(execution_id, head)
    await _load(control, [execution_id for execution_id, _ in found if execution_id not in control.lives])
    for execution_id, _ in found:
        with suppress(*PASSING):
            await _sweep_one(control, await control.live(execution_id))
    _forget(control)
    control.dispatch.recount(control.lives)
    await control.dispatch.pump()
    control.timers.watch()


async def _load(control: Control, execution_ids: list[str]) -> None:
    """Many at once: a server that begins or takes over must not read them one after the other."""
    for first in range(0, len(execution_ids), LOADED_AT_ONCE):
        some = execution_ids[first : first + LOADED_AT_ONCE]
        await asyncio.gather(*(_load_one(control, execution_id) for execution_id in some))


async def _load_one(control: Control, execution_id: str) -> None:
    with suppress(*PASSING):
        await control.live(execution_id)


async def _sweep_one(control: Control, live: LiveExecution) -> None:
    if live.busy:
        return
    await control.nudge(live)
    await control.loops.sweep(live)
    for command in _timely(control, live):
        await control.command(live.id, command)
    for waiting in children(live.state):
        await _ask_after(control, live, waiting)
    if not live.busy:
        control.dispatch.gather_all(live)


def _timely(control: Control, live: LiveExecution) -> list[Command]:
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


def _may_close(control: Control, live: LiveExecution) -> bool:
    """Children end first, running calls get a while to report (D68); then there is nothing to wait for."""
    if children(live.state):
        return False
    now = control.clock.monotonic()
    held = any(out.worker and now < out.until for out in live.out.values())
    assert live.state.at is not None
    return not held or control.now() >= live.state.at + timedelta(seconds=GRACE_S)


def _is_over(frame: Frame, now: datetime) -> bool:
    return isinstance(frame.parked, ForTime) and frame.parked.at <= now


async def _ask_after(control: Control, live: LiveExecution, waiting: Waiting) -> None:
    """A lost start is made up for, and so is a lost wake."""
    child = waiting.child
    status = await control.store.status(child.execution_id)
    if status is None:
        await control.relatives.start(live.state, waiting)
        return
    if status not in LIVE:
        state, _ = await _folded(control, child.execution_id)
        wake = Wake(frame=waiting.frame, output=output_of(state), call=waiting.call)
        await control.command(live.id, wake)
        return
    with suppress(*PASSING):
        await control.live(child.execution_id)  # its process may be dead: then it is ours to go on with
    if (command := await _to_child(control, live.state, child.execution_id, status)) is not None:
        await control.relatives.tell(child.execution_id, command)


async def _to_child(control: Control, parent: State, child: str, status: Status) -> Command | None:
    """What a child should have been told, and perhaps was not. Its own pauses are its own."""
    if parent.status == "cancelling":
        return None if status == "cancelling" else CANCEL_CHILD
    if parent.status == "paused" and status == "running":
        return PAUSE_CHILD
    if parent.status == "running" and status == "paused":
        _, pauses = await _folded(control, child)
        return RESUME_CHILD if pauses[-1].by == BY_PARENT else None
    return None


async def _folded(control: Control, execution_id: str) -> tuple[State, list[Paused]]:
    """A child's end, and who paused it when: from its log, whoever owns it."""
    state, rows = State(execution_id=execution_id), await control.store.read(execution_id)
    fold(state, rows)
    return state, [fact for row in rows for fact in row.facts if isinstance(fact, Paused)]


def _forget(control: Control) -> None:
    """What has ended, or is no longer ours, needs no memory."""
    for execution_id, live in list(control.lives.items()):
        if live.busy:
            continue
        if not live.state.live:
            control.owners.ended(execution_id)
            del control.lives[execution_id]
        elif not control.owners.keeps(execution_id, live.owner):
            del control.lives[execution_id]
