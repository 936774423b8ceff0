"""The beats of workers: what they have in hand stays theirs, what nobody waits for any more is stopped."""

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


async def take_beat(
    control: Control, worker: str, holds: Sequence[tuple[str, str, Epoch]]
) -> list[tuple[str, str]]:
    """The frames to stop. A new owner learns from beats who has what."""
    held: dict[str, dict[str, Epoch]] = {}
    for execution_id, frame, epoch in holds:
        held.setdefault(execution_id, {})[frame] = epoch
    # At the same time: one whose commit takes long must not cost the others their leases.
    stops = await asyncio.gather(*(_take(control, worker, id, frames) for id, frames in held.items()))
    return [each for some in stops for each in some]


async def _take(
    control: Control, worker: str, execution_id: str, frames: dict[str, Epoch]
) -> list[tuple[str, str]]:
    try:
        live = await control.live(execution_id)
        # Asked when no commit is out: the end of a frame may not be on record yet. An execution that is
        # always busy is not passed over, or its longest calls would lose their leases.
        return await control.look(live, lambda: _stopped(control, live, worker, frames))
    except (Unavailable, NotFound, Rejected):
        return []  # not ours, or not to be read just now: silence is no order to stop


def _stopped(
    control: Control, live: LiveExecution, worker: str, frames: dict[str, Epoch]
) -> list[tuple[str, str]]:
    stop: list[tuple[str, str]] = []
    for frame, epoch in frames.items():
        out = live.out.get(frame)
        if not live.state.live or (out and out.epoch > epoch) or _was_given_up(live, frame):
            stop.append((live.id, frame))
        elif is_open(live, frame):
            control.dispatch.granted(live, frame, worker, epoch)
    return stop


def _was_given_up(live: LiveExecution, frame: str) -> bool:
    """Its run has ended without it: by a timeout, or with the execution."""
    run = live.state.runs.get(frame_parts(frame)[0])
    return run is None or run.output is not None


async def take_back(control: Control, live: LiveExecution, report: Report) -> ReportAnswer:
    """The worker is leaving, and lets go of a frame that it does nothing for: others may have it at once."""

    def back() -> None:
        out = live.out.get(report.frame)
        if out is not None and out.epoch == report.epoch:
            control.dispatch.handed_back(live, report.frame)

    await control.look(live, back)
    await control.dispatch.pump()
    return ReportAnswer("stop", "back")
