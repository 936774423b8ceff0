"""The beats of workers: what they have in hand stays theirs, what nobody waits for any more is stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from noetl.control.live import Live, is_due
from noetl.errors import NotFound, Rejected, Unavailable
from noetl.ids import frame_parts
from noetl.ports import Epoch

if TYPE_CHECKING:
    from noetl.control.executions import Control


async def take_beat(
    control: Control, worker: str, holds: Sequence[tuple[str, str, Epoch]]
) -> list[tuple[str, str]]:
    """The frames to stop. A new owner learns from beats who has what."""
    stop: list[tuple[str, str]] = []
    for execution_id, frame, epoch in holds:
        try:
            live = await control.live(execution_id)
        except (Unavailable, NotFound, Rejected):
            continue  # not ours, or not to be read just now: silence is no order to stop
        if live.busy:
            continue  # nor when the end of the frame may not be on record yet
        out = live.out.get(frame)
        if not live.state.live or (out and out.epoch > epoch) or _was_given_up(live, frame):
            stop.append((execution_id, frame))
        elif is_due(live, frame):
            control.dispatch.granted(live, frame, worker, epoch)
    return stop


def _was_given_up(live: Live, frame: str) -> bool:
    """Its run has ended without it: by a timeout, or with the execution."""
    run = live.state.runs.get(frame_parts(frame)[0])
    return run is None or run.output is not None
