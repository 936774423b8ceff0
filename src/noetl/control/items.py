"""Loops that can not start by themselves: their items are too many for the log, or lie behind a Ref (D44)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from noetl.control.live import Live
from noetl.engine import Event
from noetl.engine.facts import Fact, StepScheduled
from noetl.engine.loops import ToRead, ToStore, loop_started


def unstarted(live: Live, events: Iterable[Event]) -> Iterator[str]:
    """Runs that were scheduled just now and whose loop has not started, though all else has been decided."""
    scheduled = (
        event.fact.run for event in events if isinstance(event.fact, StepScheduled) and event.fact.loop
    )
    return still_unstarted(live, scheduled)


def still_unstarted(live: Live, runs: Iterable[str]) -> Iterator[str]:
    for name in runs:
        run = live.state.runs.get(name)
        if run is None or run.output is not None or run.loop is not None or live.state.status != "running":
            continue
        if live.program.pipeline(run.step, block=run.block).loop is not None:
            yield name


def opened(live: Live, name: str, at: datetime) -> Fact | ToStore | ToRead | None:
    """None: there is nothing to be done."""
    run = live.state.runs.get(name)
    if live.busy or live.given_up or run is None or run.loop is not None or run.output is not None:
        return None
    return loop_started(live.program, live.state, run, at)
