"""What happens now: the frames that workers hold, and the frames that wait for a worker."""

from __future__ import annotations

from collections.abc import Iterable

from noetl.control.executions import Control
from noetl.control.live_execution import LiveExecution
from noetl.ids import frame_parts
from noetl.ports import CurrentWork, FrameAtWork, PoolBacklog
from noetl.views.pools import ShareWait

FRAMES_MAX = 2_000  # of one server that are listed
ALL_FRAMES_MAX = 20_000  # of all servers that are listed


def current_work(control: Control) -> CurrentWork:
    """Of the executions of this server. The cost depends on the frames of all executions in memory."""
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


def share_waits(control: Control, execution_id: str) -> list[ShareWait]:
    """What an execution of this server waits for because it holds its share of a pool's slots."""
    live = control.executions.get(execution_id)
    return [] if live is None else control.dispatch.share_waits(live)


def joined_work(works: Iterable[CurrentWork]) -> CurrentWork:
    """The work of several servers."""
    frames: list[FrameAtWork] = []
    backlog: dict[str, PoolBacklog] = {}
    complete = True
    for work in works:
        frames += work.frames[: ALL_FRAMES_MAX - len(frames)]
        complete = complete and work.complete
        for pool, more in work.backlog.items():
            known = backlog.get(pool, PoolBacklog())
            ages = [each for each in (known.oldest_s, more.oldest_s) if each is not None]
            backlog[pool] = PoolBacklog(known.waiting + more.waiting, max(ages, default=None))
    return CurrentWork(tuple(frames), dict(sorted(backlog.items())), complete)


def _task(live: LiveExecution, name: str) -> str | None:
    run_id, index = frame_parts(name)
    run = live.state.runs.get(run_id)
    frame = run.frames.get(index) if run is not None else None
    return frame.running.task if frame is not None and frame.running is not None else None
