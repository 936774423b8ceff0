"""Heartbeats of workers, and the timers of executions."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from noetl.control.live_execution import LiveExecution, expire, is_open
from noetl.engine.commands import Command, Expire, Report, Wake
from noetl.engine.delegation import is_decision
from noetl.engine.facts import Fact, ForTime, FrameParked, StepScheduled, StepStarted
from noetl.errors import Conflict, Fenced, NotFound, PlaybookError, Rejected, Unavailable
from noetl.ids import frame_parts
from noetl.ports import Epoch, ReportAnswer

if TYPE_CHECKING:
    from noetl.control.executions import Control


AHEAD_S = 2.0  # leases that expire within this time after a sweep are watched
LAPSE_S = 0.1  # from the end of a lease until we act on it
# The next sweep tries again. PlaybookError: a tool of the playbook is not installed here.
TRANSIENT = (Unavailable, Rejected, NotFound, Conflict, Fenced, PlaybookError)


TIMED = frozenset({FrameParked, StepStarted, StepScheduled})  # facts that may name an instant


class Timers:
    """A heap of instants, and one task that sleeps until the first."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._heap: list[tuple[datetime, int, str, Command]] = []
        self._count = 0
        self._sleeper: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def on_fact(self, execution_id: str, fact: Fact) -> None:
        """Add a timer if a committed fact names an instant."""
        if isinstance(fact, StepStarted):
            if fact.timeout_at is not None:
                self._add(fact.timeout_at, execution_id, Expire(run=fact.run))
        elif isinstance(fact, StepScheduled):
            if fact.deadline_at is not None:
                self._add(fact.deadline_at, execution_id, Expire(run=fact.run))
        elif isinstance(fact, FrameParked) and isinstance(fact.until, ForTime):
            self._add(fact.until.at, execution_id, Wake(frame=fact.frame, call=fact.call))

    def _add(self, at: datetime, execution_id: str, command: Command) -> None:
        self._count += 1
        entry = (at, self._count, execution_id, command)
        heapq.heappush(self._heap, entry)
        if self._heap[0] is entry:
            if self._sleeper is not None:
                self._sleeper.cancel()
            self._sleeper = asyncio.ensure_future(self._sleep())

    async def _sleep(self) -> None:
        control = self._control
        while self._heap:
            wait = (self._heap[0][0] - control.now()).total_seconds()
            if wait > 0:
                await control.clock.sleep(wait)
                continue
            _, _, execution_id, command = heapq.heappop(self._heap)
            control.spawn(self._fire(execution_id, command))
        self._sleeper = None

    async def _fire(self, execution_id: str, command: Command) -> None:
        control = self._control
        with suppress(*TRANSIENT):
            if execution_id in control.executions or execution_id in control.idle:
                live = await control.load(execution_id)
                command = expire(live, command.run) if isinstance(command, Expire) else command
                await control.command(execution_id, command)

    def watch_leases(self) -> None:
        """Dispatch the frames of a lost worker as soon as its lease expires, without waiting for a sweep."""
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.ensure_future(self._watch_leases())

    async def _watch_leases(self) -> None:
        clock, dispatch, executions = self._control.clock, self._control.dispatch, self._control.executions
        ahead = clock.monotonic() + AHEAD_S
        while (until := dispatch.next_expiry(executions)) < ahead:
            await clock.sleep(max(0.0, until - clock.monotonic()))
            await clock.sleep(LAPSE_S)  # after a stall of ours: heartbeats that already arrived come first
            dispatch.requeue_expired(executions)
            await dispatch.pump()

    def close(self) -> None:
        for task in (self._sleeper, self._watcher):
            if task is not None:
                task.cancel()


async def handle_heartbeat(
    control: Control, worker: str, holds: Sequence[tuple[str, str, Epoch]]
) -> list[tuple[str, str]]:
    """The frames to stop. A new owner learns from heartbeats which worker holds which frame."""
    held: dict[str, dict[str, Epoch]] = {}
    for execution_id, frame, epoch in holds:
        held.setdefault(execution_id, {})[frame] = epoch
    # Concurrently: a slow commit of one execution must not cost the others their leases.
    stops = await asyncio.gather(*(_extend(control, worker, id, frames) for id, frames in held.items()))
    return [each for some in stops for each in some]


async def _extend(control: Control, worker: str, execution_id: str, frames: dict[str, Epoch]) -> list[tuple[str, str]]:
    try:
        live = await control.load(execution_id)
        # Between two commits: the end of a frame may not be committed yet. An execution that is always busy
        # is not skipped, or its longest calls would lose their leases.
        return await control.read(live, lambda: _frames_to_stop(control, live, worker, frames))
    except (Unavailable, NotFound, Rejected):
        return []  # we do not own it, or cannot read it now: the worker need not stop


def _frames_to_stop(
    control: Control, live: LiveExecution, worker: str, frames: dict[str, Epoch]
) -> list[tuple[str, str]]:
    stop: list[tuple[str, str]] = []
    for frame, epoch in frames.items():
        known = live.in_flight.get(frame)
        if not live.state.live or (known and known.epoch > epoch) or _has_run_ended(live, frame):
            stop.append((live.id, frame))
        elif is_open(live, frame):
            control.dispatch.mark_granted(live, frame, worker, epoch)
    return stop


def _has_run_ended(live: LiveExecution, frame: str) -> bool:
    """Its run ended without this frame: by a timeout, or with the execution."""
    if is_decision(frame):
        return not is_open(live, frame)
    run = live.state.runs.get(frame_parts(frame)[0])
    return run is None or run.output is not None


async def release_frame(control: Control, live: LiveExecution, report: Report) -> ReportAnswer:
    """A stopping worker returns a frame that it has not worked on: another worker may begin it at once."""

    def release() -> None:
        known = live.in_flight.get(report.frame)
        if known is not None and known.epoch == report.epoch:
            control.dispatch.release_and_requeue(live, report.frame)

    await control.read(live, release)
    await control.dispatch.pump()
    return ReportAnswer("stop", "back")
