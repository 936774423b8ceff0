"""Timers fire commands at recorded instants. The sweeper finds instants that were missed."""

from __future__ import annotations

import asyncio
import heapq
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from noetl.engine.commands import Command, Expire, Wake
from noetl.engine.facts import Fact, ForTime, FrameParked, StepScheduled, StepStarted
from noetl.errors import Conflict, Fenced, NotFound, Rejected, Unavailable

if TYPE_CHECKING:
    from noetl.control.executions import Control

AHEAD_S = 2.0  # leases that expire within this time after a sweep are watched
LAPSE_S = 0.1  # from the end of a lease until we act on it
TRANSIENT = (Unavailable, Rejected, NotFound, Conflict, Fenced)  # the next sweep tries again


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
        match fact:
            case FrameParked(until=ForTime(at=at), frame=frame, call=call):
                self._add(at, execution_id, Wake(frame=frame, call=call))
            case StepStarted(timeout_at=datetime() as at, run=run):
                self._add(at, execution_id, Expire(run=run))
            case StepScheduled(deadline_at=datetime() as at, run=run):
                self._add(at, execution_id, Expire(run=run))

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
        with suppress(*TRANSIENT):
            if execution_id in self._control.executions:
                await self._control.command(execution_id, command)

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
