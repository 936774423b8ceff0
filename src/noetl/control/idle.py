"""Executions that only wait, for a signal or for an instant, are not kept in memory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from noetl.control.live_execution import LiveExecution
from noetl.engine.facts import ForSignal, ForTime
from noetl.engine.state import Frame, Run, Status

FACTS_MAX = 1_000  # an execution with more stays in memory, because loading it again takes long


class IdleExecution(NamedTuple):
    """What is kept of it."""

    owner: int  # our number
    seq: int  # of its last fact
    status: Status
    due: datetime | None  # its first instant; None: it waits for signals only


def idle_execution(live: LiveExecution, now: datetime, after_s: float) -> IdleExecution | None:
    """None: it has to stay in memory. `after_s`: how long it must have been waiting, and must be going to wait."""
    state, program = live.state, live.program
    if state.status not in ("running", "paused") or live.agenda or live.in_flight or any(live.ready.values()):
        return None
    # Limits and notifications look at the executions in memory.
    if program.limited or program.notifications or state.seq > FACTS_MAX:
        return None
    if state.at is None or now < state.at + timedelta(seconds=after_s):
        return None
    instants: list[datetime] = []
    for run in state.runs.values():
        if run.output is not None:
            continue
        frames = list(_open_frames(run))
        if not frames or not all(frame and isinstance(frame.parked, ForSignal | ForTime) for frame in frames):
            return None
        instants += [frame.parked.at for frame in frames if frame and isinstance(frame.parked, ForTime)]
        instants += [at for at in (run.timeout_at, run.deadline_at) if at is not None]
    due = min(instants, default=None)
    if due is not None and due < now + timedelta(seconds=after_s):
        return None
    return IdleExecution(live.owner, state.seq, state.status, due)


def _open_frames(run: Run) -> Iterator[Frame | None]:
    """None: the frame has not begun."""
    if run.loop is not None:
        yield from (run.frames.get(index) for index in run.loop.flying)
    elif not run.looped:
        yield run.frames.get(None)
