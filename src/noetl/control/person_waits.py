"""Which `wait` tasks of an execution wait for a signal, so that lists can show what a person has to decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from noetl.control.live_execution import LiveExecution
from noetl.control.log_pages import read_slices
from noetl.engine import Event
from noetl.engine.facts import (
    Cancelled,
    Finished,
    ForSignal,
    FrameParked,
    FrameResumed,
    IterationFailed,
    Retried,
    StepFailed,
)
from noetl.engine.state import State
from noetl.ports import EventStore, PersonWait

TITLE_CHARS_MAX = 300  # in a list; the log has all of it
_CHANGES = (Cancelled, Finished, FrameParked, FrameResumed, IterationFailed, Retried, StepFailed)


def person_waits(live: LiveExecution, events: Sequence[Event]) -> tuple[PersonWait, ...] | None:
    """What the execution waits for after these events. None: they have not changed it."""
    if not any(isinstance(event.fact, _CHANGES) for event in events):
        return None
    since = {each.frame: each.since for each in live.waits} | _parked_at(events)
    found = _waits(live.state, since) if live.state.live else ()
    if found == live.waits and live.state.live:
        return None
    live.waits = found
    return live.waits


async def read_waits(store: EventStore, state: State) -> tuple[PersonWait, ...]:
    """What a loaded execution waits for. Only the log says since when."""
    found = _waits(state, {})
    if not found:
        return ()
    since: dict[str, datetime | None] = {}
    async for events in read_slices(store, state.execution_id):
        since |= _parked_at(events)
    return _waits(state, since)


def _parked_at(events: Iterable[Event]) -> dict[str, datetime | None]:
    return {event.fact.frame: event.at for event in events if isinstance(event.fact, FrameParked)}


def _waits(state: State, since: Mapping[str, datetime | None]) -> tuple[PersonWait, ...]:
    return tuple(
        PersonWait(
            frame=frame.id, signal=frame.parked.name, title=frame.parked.title[:TITLE_CHARS_MAX],
            since=since.get(frame.id),
        )
        for run in state.runs.values() if run.output is None
        for frame in run.frames.values() if isinstance(frame.parked, ForSignal)
    )  # fmt: skip
