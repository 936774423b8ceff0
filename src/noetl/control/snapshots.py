"""Snapshots: when a state is saved beside its log, and how an execution with a snapshot is read."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from noetl.control.live_execution import LiveExecution
from noetl.engine import apply
from noetl.engine.snapshot import SCHEMA, freeze, thaw
from noetl.engine.state import State
from noetl.ports import EventStore, LogRow, Snapshot

GROWTH_FACTOR = 4  # times the last snapshot: snapshots stay a fraction of all writes
FACT_BYTES = 200  # of an ordinary fact in the log


def next_snapshot(live: LiveExecution, facts: int, growth_bytes: int) -> Snapshot | None:
    """The snapshot to save after `facts` more facts; None: it is too early for one."""
    live.unsaved += facts
    if live.unsaved * FACT_BYTES < max(growth_bytes, GROWTH_FACTOR * live.saved_bytes):
        return None
    if not live.state.live:
        return None  # an ended execution is read at most once more
    body = freeze(live.state)
    live.unsaved, live.saved_bytes = 0, len(body)
    return Snapshot(live.state.seq, SCHEMA, body)


def fold(state: State, rows: Iterable[LogRow]) -> None:
    """Apply the rows to a state, which is empty or comes from a snapshot."""
    for row in rows:
        for fact in row.facts[max(0, state.seq + 1 - row.first_seq) :]:
            apply(state, fact, row.at)


async def read_snapshot(store: EventStore, execution_id: str) -> tuple[State | None, list[LogRow]]:
    """The last usable snapshot and the rows after it. Without a snapshot: None and all rows."""
    snapshot = await store.snapshot(execution_id)
    if snapshot is not None and snapshot.schema == SCHEMA:
        with suppress(ValueError):  # a damaged snapshot: the log is complete
            return thaw(snapshot.body), await store.read(execution_id, snapshot.seq)
    return None, await store.read(execution_id)
