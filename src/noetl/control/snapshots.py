"""Snapshots: when a state is saved beside its log, and how an execution is read that has one."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from noetl.control.live_execution import LiveExecution
from noetl.engine import apply
from noetl.engine.snapshot import SCHEMA, freeze, thaw
from noetl.engine.state import State
from noetl.ports import EventStore, LogRow, Snapshot

GROWTH_TIMES = 4  # the size of the last snapshot: so that snapshots stay a fraction of what is written
FACT_BYTES = 200  # of an ordinary fact in the log


def save(live: LiveExecution, facts: int, growth_bytes: int) -> Snapshot | None:
    """So many more facts are on record: is it time for a snapshot?"""
    live.unsaved += facts
    if live.unsaved * FACT_BYTES < max(growth_bytes, GROWTH_TIMES * live.saved_bytes):
        return None
    if not live.state.live:
        return None  # it is read once more at most
    body = freeze(live.state)
    live.unsaved, live.saved_bytes = 0, len(body)
    return Snapshot(live.state.seq, SCHEMA, body)


def fold(state: State, rows: Iterable[LogRow]) -> None:
    """The state after these rows, from wherever it stands: nothing, or a snapshot."""
    for row in rows:
        for fact in row.facts[max(0, state.seq + 1 - row.first_seq) :]:
            apply(state, fact, row.at)


async def saved(store: EventStore, execution_id: str) -> tuple[State | None, list[LogRow]]:
    """The last snapshot that we can read, and the rows that follow it; None: all rows."""
    snapshot = await store.snapshot(execution_id)
    if snapshot is not None and snapshot.schema == SCHEMA:
        with suppress(ValueError):  # it is damaged: the log has it all
            return thaw(snapshot.body), await store.read(execution_id, snapshot.seq)
    return None, await store.read(execution_id)
