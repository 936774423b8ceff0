"""Heartbeats of workers: they extend leases, and their answer lists the frames to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from noetl.control.live_execution import LiveExecution, is_open
from noetl.engine.commands import Report
from noetl.errors import NotFound, Rejected, Unavailable
from noetl.ids import frame_parts
from noetl.ports import Epoch, ReportAnswer

if TYPE_CHECKING:
    from noetl.control.executions import Control


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


async def _extend(
    control: Control, worker: str, execution_id: str, frames: dict[str, Epoch]
) -> list[tuple[str, str]]:
    try:
        live = await control.load(execution_id)
        # Between two commits: the end of a frame may not be committed yet. An execution that is always busy
        # is not skipped, or its longest calls would lose their leases.
        return await control.read(live, lambda: _frames_to_stop(control, live, worker, frames))
    except (Unavailable, NotFound, Rejected):
        return []  # we do not own it, or cannot read it now: that is no reason to stop the worker


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
