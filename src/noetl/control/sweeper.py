"""The sweeper: it repeats lost messages of all open executions and fires timers that were missed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from noetl.control.children import (
    BY_PARENT,
    PAUSE_CHILD,
    RESUME_CHILD,
    ChildCall,
    cancel_child,
    child_calls,
    child_output,
)
from noetl.control.executions import Control
from noetl.control.heartbeats import TRANSIENT
from noetl.control.idle import idle_execution
from noetl.control.live_execution import LiveExecution, expire, fold
from noetl.defaults import CANCEL_GRACE_S
from noetl.engine.commands import Close, Command, Wake
from noetl.engine.facts import ForTime, Paused
from noetl.engine.state import LIVE, Frame, State, Status

LOADED_AT_ONCE = 64
SWEPT_AT_ONCE = 1_000  # that are in memory at the same time, if they only wait


async def sweep(control: Control) -> None:
    """For each execution of ours that has not ended: lost work, children, timers."""
    found = await control.owners.open_executions()
    for execution_id, head in found:
        control.drop_if_behind(execution_id, head)
    awake = [id for id, _ in found if not _is_idle(control, id)]
    # After a start all of them are awake: those that only wait leave memory before the next ones are loaded.
    for first in range(0, len(awake), SWEPT_AT_ONCE):
        await _sweep_some(control, awake[first : first + SWEPT_AT_ONCE])
    await control.limits.sweep()
    await control.notifications.sweep()
    control.idle = {id: each for id, each in control.idle.items() if control.owners.is_current(id, each.owner)}
    _unload(control, list(control.executions))
    control.snapshots.check_total()
    control.dispatch.reconcile(control.executions)
    await control.dispatch.pump()
    control.timers.watch_leases()


async def load_all(control: Control, execution_ids: Sequence[str]) -> None:
    """Many at once: a server that starts or takes over must not read them one after the other."""
    for first in range(0, len(execution_ids), LOADED_AT_ONCE):
        some = execution_ids[first : first + LOADED_AT_ONCE]
        await asyncio.gather(*(_load_one(control, execution_id) for execution_id in some))
        await control.dispatch.pump()


async def adopt(control: Control, execution_ids: Sequence[str]) -> None:
    """Load executions and continue them. Those that only wait leave memory at once, however many there are."""
    await _sweep_some(control, execution_ids)
    await control.dispatch.pump()


async def _sweep_some(control: Control, execution_ids: Sequence[str]) -> None:
    await load_all(control, [each for each in execution_ids if each not in control.executions])
    for execution_id in execution_ids:
        with suppress(*TRANSIENT):
            await _sweep_one(control, await control.load(execution_id))
    _unload(control, execution_ids)


async def _load_one(control: Control, execution_id: str) -> None:
    with suppress(*TRANSIENT):
        await control.load(execution_id)


async def _sweep_one(control: Control, live: LiveExecution) -> None:
    if live.busy:
        return
    await control.decide_rest(live)
    await control.loops.sweep(live)
    for command in _commands_due(control, live):
        await control.command(live.id, command)
    for waiting in child_calls(live.state):
        await _check_child(control, live, waiting)
    if not live.busy:
        control.dispatch.enqueue_all(live)


def _commands_due(control: Control, live: LiveExecution) -> list[Command]:
    """The commands of passed instants. A paused execution receives them after it is resumed (D67)."""
    now = control.now()
    if live.state.status == "cancelling":
        return [Close()] if _may_close(control, live) else []
    if live.state.status != "running":
        return []
    found: list[Command] = []
    for run in live.state.runs.values():
        if run.output is not None:
            continue
        timeout_at = None if run.holds else run.timeout_at
        ends = [each for each in (timeout_at, run.deadline_at) if each is not None]
        if ends and min(ends) <= now:
            found.append(expire(live, run.id))
            continue
        waits = [frame for frame in run.frames.values() if isinstance(frame.parked, ForTime)]
        found += [Wake(frame=frame.id, call=frame.calls + 1) for frame in waits if _is_over(frame, now)]
    return found


def _may_close(control: Control, live: LiveExecution) -> bool:
    """Children end first, and running calls get a grace period to report (D68)."""
    if child_calls(live.state):
        return False
    now = control.clock.monotonic()
    held = any(each.worker and now < each.until for each in live.in_flight.values())
    assert live.state.at is not None
    return not held or control.now() >= live.state.at + timedelta(seconds=CANCEL_GRACE_S)


def _is_over(frame: Frame, now: datetime) -> bool:
    return isinstance(frame.parked, ForTime) and frame.parked.at <= now


async def _check_child(control: Control, live: LiveExecution, waiting: ChildCall) -> None:
    """Repeat a lost start, a lost wake or a lost command."""
    child = waiting.child
    status = await control.store.status(child.execution_id)
    if status is None:
        await control.children.start(live.state, waiting)
        return
    if status not in LIVE:
        state, _ = await _read_child(control, child.execution_id)
        wake = Wake(frame=waiting.frame, output=child_output(state), call=waiting.call)
        await control.command(live.id, wake)
        return
    with suppress(*TRANSIENT):
        await control.load(child.execution_id)  # if its process is dead, we take it over
    if (command := await _missed_command(control, live.state, child.execution_id, status)) is not None:
        await control.children.send(child.execution_id, command)


async def _missed_command(control: Control, parent: State, child: str, status: Status) -> Command | None:
    """A command that the child has not received. A pause of the child itself stays."""
    if parent.status == "cancelling":
        return None if status == "cancelling" else cancel_child(compensate=parent.compensate)
    if parent.status == "paused" and status == "running":
        return PAUSE_CHILD
    if parent.status == "running" and status == "paused":
        _, pauses = await _read_child(control, child)
        return RESUME_CHILD if pauses[-1].by == BY_PARENT else None
    return None


async def _read_child(control: Control, execution_id: str) -> tuple[State, list[Paused]]:
    """The state of a child and its pauses, from its log: another server may own it."""
    state, rows = State(execution_id=execution_id), await control.store.read(execution_id)
    fold(state, rows)
    return state, [fact for row in rows for fact in row.facts if isinstance(fact, Paused)]


def _is_idle(control: Control, execution_id: str) -> bool:
    """Whether there is nothing to do for an execution that is not in memory."""
    idle = control.idle.get(execution_id)
    return idle is not None and (idle.due is None or idle.due > control.now())


def _unload(control: Control, execution_ids: Sequence[str]) -> None:
    """Remove those from memory that have ended, that we no longer own, or that only wait."""
    is_current, now, after_s = control.owners.is_current, control.now(), control.settings.idle_s
    for execution_id in execution_ids:
        live = control.executions.get(execution_id)
        if live is None or live.busy:
            continue
        if not live.state.live:
            control.owners.on_ended(execution_id)
            del control.executions[execution_id]
        elif not is_current(execution_id, live.owner):
            del control.executions[execution_id]
        elif not live.inbox and (idle := idle_execution(live, now, after_s)) is not None:
            live.abandoned = True  # somebody may still have a reference to it
            del control.executions[execution_id]
            control.idle[execution_id] = idle
