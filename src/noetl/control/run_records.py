"""Run records of long logs: a copy of them is stored, and the next reader folds only the facts after it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import cache
from typing import Final

import noetl
from noetl.background import BackgroundTasks
from noetl.clock import Clock
from noetl.control.live_execution import LiveExecution
from noetl.control.log_pages import ReadableLog, read_runs
from noetl.engine import Event
from noetl.engine.facts import Finished
from noetl.errors import Damaged, Unavailable
from noetl.ports import EventStore, Snapshot
from noetl.slices import in_slices
from noetl.views.runs import Runs
from noetl.views.stored_runs import freeze_runs, schema, thaw_runs

STORED_FACTS_MIN: Final = 50_000  # facts since the last copy: about a quarter of a second of reading
STORED_GROWTH: Final = 4  # and at least this part of the facts in it
ENDED_S: Final = 10.0  # after the end: a client that waits for it reads the log at once, and stores the copy
STORED_RUNS_MAX: Final = 20_000  # runs of steps; more would make a copy of many megabytes


@cache
def records_schema() -> str:
    """Another version of NoETL may compute other records from the same facts, so it ignores the copies of this one."""
    return f"{noetl.__version__} {schema()}"


class RunRecords:
    """Reads the run records of one store."""

    def __init__(self, store: EventStore, log: ReadableLog | None = None) -> None:
        """`log`: what has been committed to the store, if it can be read faster than there."""
        self._store = store
        self._log = log or store

    async def read(self, execution_id: str, up_to: int | None = None) -> Runs:
        """At the end of the log or after a fact; empty for an unknown execution. Raises Damaged."""
        runs = await self._stored(execution_id, up_to) or Runs(execution_id)
        await self.update(runs, up_to)
        return runs

    async def update(self, runs: Runs, up_to: int | None = None) -> None:
        """Fold the facts since then. Raises Damaged."""
        await read_runs(self._log, runs, up_to)
        grown = runs.state.seq - runs.stored
        if grown >= max(STORED_FACTS_MIN, runs.stored // STORED_GROWTH) and len(runs.steps) <= STORED_RUNS_MAX:
            body = await in_slices(freeze_runs(runs))
            runs.stored = runs.state.seq
            with suppress(Unavailable):  # the log is complete without it
                await self._store.keep(
                    runs.state.execution_id, Snapshot(runs.stored, records_schema(), body), "records"
                )

    async def _stored(self, execution_id: str, up_to: int | None) -> Runs | None:
        snapshot = await self._store.snapshot(execution_id, "records")
        if snapshot is None or snapshot.schema != records_schema() or (up_to is not None and snapshot.seq > up_to):
            return None
        with suppress(ValueError):  # a damaged copy: the log is complete
            return thaw_runs(snapshot.body)
        return None


class RecordsOfEnded:
    """Reads long logs a moment after their executions have ended on this server, one at a time."""

    def __init__(self, store: EventStore, clock: Clock) -> None:
        self._records = RunRecords(store)
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._background = BackgroundTasks()

    def on_commit(self, live: LiveExecution, events: list[Event]) -> None:
        if live.state.seq >= STORED_FACTS_MIN and any(type(event.fact) is Finished for event in events):
            self._background.spawn(self._read(live.id))

    async def _read(self, execution_id: str) -> None:
        await self._clock.sleep(ENDED_S)
        async with self._one_at_a_time:
            with suppress(Unavailable, Damaged):  # the first reader sees the error, or reads the whole log
                await self._records.read(execution_id)

    async def close(self) -> None:
        await self._background.cancel()
