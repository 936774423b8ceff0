"""Snapshots of states, and the limits of their sizes: an execution that grows without end is ended, not its process."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from noetl.control.live_execution import LiveExecution
from noetl.engine.snapshot import freeze_slices, schema, thaw
from noetl.engine.state import State
from noetl.errors import Rejected, Unavailable
from noetl.failpoints import failpoint
from noetl.output import Failure
from noetl.ports import EventStore, LogRow, Snapshot, encode_facts
from noetl.slices import in_slices

if TYPE_CHECKING:
    from noetl.control.executions import Control

GROWTH_FACTOR = 16  # times the last snapshot: snapshots stay a small fraction of all writes
OVERSHOOT = 8  # a state is measured again before it can be an eighth over its limit
TOTAL_OVERSHOOT = 16  # the sizes of all states are added up again before they can have grown by this part of the limit
MIB = 1 << 20


class Snapshots:
    """Saves the state of an execution when its log has grown, and checks the limits of its size.

    The limits are `limits.state_bytes` of a playbook, and that of all executions in this process.
    """

    def __init__(self, control: Control) -> None:
        self._control = control
        self._grown_bytes = 0  # of all logs, since the sizes were last added up

    def is_due(self, live: LiveExecution) -> bool:
        """Whether the log has grown enough since the last snapshot, or the state has to be measured."""
        if live.to_measure:
            return live.state.live and not live.abandoned
        if live.unsaved_bytes < live.due_bytes:
            return False
        limit, saved = live.program.limits["state_bytes"], live.saved_bytes
        growth = max(self._control.settings.snapshot_bytes, GROWTH_FACTOR * saved)
        live.due_bytes = min(growth, max(limit - saved, limit // OVERSHOOT))
        # A finished execution is read at most once more.
        return live.unsaved_bytes >= live.due_bytes and live.state.live and not live.abandoned

    async def save(self, live: LiveExecution) -> None:
        """After a commit, while the execution is busy: other executions continue, and its state does not change."""
        body = await in_slices(freeze_slices(live.state))
        live.unsaved_bytes, live.saved_bytes, live.due_bytes, live.to_measure = 0, len(body), 0, False
        self._control.spawn(self._save(live.id, Snapshot(live.state.seq, schema(), body)))
        limit = live.program.limits["state_bytes"]
        if live.saved_bytes > limit:
            reason = f"tokens, running steps and their values have {_size(live.saved_bytes)}"
            self._end(live, reason, "limits.state_bytes", limit)
        else:
            self.check_total()

    async def _save(self, execution_id: str, snapshot: Snapshot) -> None:
        failpoint("control.before-snapshot")
        with suppress(Unavailable):  # the log is complete without it
            await self._control.store.keep(execution_id, snapshot)

    def on_load(self, live: LiveExecution, stored: StoredState) -> None:
        """The size of a state that has been read counts like that of one that has grown here."""
        if live.state.live:
            live.saved_bytes = stored.saved_bytes
            self._grown_bytes += stored.saved_bytes
            self.on_growth(live, sum(len(encode_facts(row.facts)) for row in stored.rows))

    def on_growth(self, live: LiveExecution, size: int) -> None:
        """Facts of this size are in its state, and in its log after the commit."""
        live.unsaved_bytes += size
        self._grown_bytes += size
        if self._grown_bytes > self._control.settings.state_bytes // TOTAL_OVERSHOOT:
            self.check_total()

    def check_total(self) -> None:
        """End the largest execution if all of them together exceed the limit of the process.

        The size of a state is an upper bound until it is measured. So the largest one is measured first, and the check
        is repeated after that.
        """
        self._grown_bytes = 0
        limit = self._control.settings.state_bytes
        if not limit:
            return
        states = [each for each in self._control.executions.values() if each.state.live]
        used = sum(each.state_bytes for each in states)
        if used <= limit:
            return
        largest = max(states, key=lambda each: each.state_bytes)
        if largest.excess is not None or largest.to_measure:
            return  # it ends, or is measured, with its next commit
        if largest.unsaved_bytes:
            largest.to_measure = True
            self._control.spawn(self._submit(largest))
            return
        reason = f"the executions of this process have {_size(used)}, and this one has the most"
        self._end(largest, reason, "NOETL_STATE_BYTES", limit)

    def _end(self, live: LiveExecution, reason: str, name: str, limit: int) -> None:
        message = f"{reason}; the limit is {name} ({_size(limit)})"
        live.excess = Failure(kind="limit", message=message, details={"limit": name})
        self._control.spawn(self._submit(live))

    async def _submit(self, live: LiveExecution) -> None:
        """The next commit ends or measures it, even if nothing else happens."""
        with suppress(Rejected, Unavailable):  # it is measured again after a reload
            await self._control.submit(live, None, lambda: None)
        self.check_total()  # one may not be enough


def _size(count: int) -> str:
    return f"{count / MIB:,.0f} MiB" if count >= MIB else f"{count:,} bytes"


class StoredState(NamedTuple):
    """What the store has of an execution."""

    state: State | None  # of the last usable snapshot; None: there is none
    rows: list[LogRow]  # after the snapshot; without one, all of them
    saved_bytes: int  # size of the snapshot


async def read_snapshot(store: EventStore, execution_id: str) -> StoredState:
    snapshot = await store.snapshot(execution_id)
    if snapshot is not None and snapshot.schema == schema():
        with suppress(ValueError):  # a damaged snapshot: the log is complete
            state = thaw(snapshot.body)
            return StoredState(state, await store.read(execution_id, snapshot.seq), len(snapshot.body))
    return StoredState(None, await store.read(execution_id), 0)
