"""What happens on this server now: the frames that workers hold, and the frames that wait for a worker."""

from __future__ import annotations

from typing import NamedTuple

from noetl.control.executions import Control
from noetl.control.live_execution import LiveExecution
from noetl.ids import frame_parts

FRAMES_MAX = 2_000  # that are listed; all are counted


class FrameAtWork(NamedTuple):
    """A frame that a worker holds."""

    execution_id: str
    path: str  # of the playbook
    frame: str
    task: str | None  # None: its call is younger than half a second, so that it is not in the log
    worker: str
    since_s: float  # seconds ago


class PoolBacklog(NamedTuple):
    """The frames of a pool that no worker has begun."""

    waiting: int
    oldest_s: float | None  # how long the first of them has waited in the queue; None: none has been sent there


class CurrentWork(NamedTuple):
    """Of the executions of this server."""

    frames: tuple[FrameAtWork, ...]
    backlog: dict[str, PoolBacklog]  # by pool


def current_work(control: Control) -> CurrentWork:
    """Now. The cost depends on the frames of all executions in memory."""
    now = control.clock.monotonic()
    frames: list[FrameAtWork] = []
    waiting: dict[str, int] = {}
    oldest: dict[str, float] = {}
    for live in list(control.executions.values()):
        for pool, ready in live.ready.items():
            waiting[pool] = waiting.get(pool, 0) + len(ready)
        for name, each in live.in_flight.items():
            if not each.worker:
                waiting[each.pool] = waiting.get(each.pool, 0) + 1
                oldest[each.pool] = max(oldest.get(each.pool, 0.0), now - each.at)
            elif len(frames) < FRAMES_MAX:
                path = live.program.playbook.path
                frames.append(FrameAtWork(live.id, path, name, _task(live, name), each.worker, now - each.at))
    backlog = {pool: PoolBacklog(count, oldest.get(pool)) for pool, count in sorted(waiting.items()) if count}
    return CurrentWork(tuple(frames), backlog)


def _task(live: LiveExecution, name: str) -> str | None:
    run_id, index = frame_parts(name)
    run = live.state.runs.get(run_id)
    frame = run.frames.get(index) if run is not None else None
    return frame.running.task if frame is not None and frame.running is not None else None
