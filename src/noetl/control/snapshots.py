"""Snapshots of states, and the limits of their sizes: an execution that grows without end is ended, not its process."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from noetl.control.live_execution import LiveExecution
from noetl.engine.snapshot import freeze, freeze_slices, schema, thaw
from noetl.engine.state import State
from noetl.errors import Rejected, Unavailable
from noetl.failpoints import failpoint
from noetl.output import Failure
from noetl.ports import EventStore, LogRow, Snapshot
from noetl.slices import in_slices

if TYPE_CHECKING:
    from noetl.control.executions import Control

GROWTH_FACTOR = 16  # times the last snapshot: snapshots stay a small fraction of all writes
OVERSHOOT = 8  # a state is measured again before it can be an eighth over its limit
MEASURED_MAX = 8  # states that one check measures: other executions wait meanwhile
MIB = 1 << 20


class Snapshots:
    """Saves the state of an execution when its log has grown, and checks the limits of its size.

    The limits are `limits.state_bytes` of a playbook, and that of all executions in this process.
    """

    def __init__(self, control: Control) -> None:
        self._control = control

    def is_due(self, live: LiveExecution) -> bool:
        """Whether the log has grown enough since the last snapshot."""
        if live.unsaved_bytes < live.due_bytes:
            return False
        limit, saved = live.program.limits["state_bytes"], live.saved_bytes
        growth = max(self._control.settings.snapshot_bytes, GROWTH_FACTOR * saved)
        live.due_bytes = min(growth, max(limit - saved, limit // OVERSHOOT))
        # A finished execution is read at most once more.
        return live.unsaved_bytes >= live.due_bytes and live.state.live and not live.abandoned

    async def save(self, live: LiveExecution) -> None:
        """After a commit, while the execution is busy: other executions continue, and its state does not change."""
        self._take(live, await in_slices(freeze_slices(live.state)))
        limit = live.program.limits["state_bytes"]
        if live.saved_bytes > limit:
            reason = f"tokens, running steps and their values have {_size(live.saved_bytes)}"
            self._end(live, reason, "limits.state_bytes", limit)
        elif total := self._control.settings.state_bytes:
            self._check_all(live, total)

    def _take(self, live: LiveExecution, body: bytes) -> None:
        live.unsaved_bytes, live.saved_bytes, live.due_bytes = 0, len(body), 0
        self._control.spawn(self._save(live.id, Snapshot(live.state.seq, schema(), body)))

    async def _save(self, execution_id: str, snapshot: Snapshot) -> None:
        failpoint("control.before-snapshot")
        with suppress(Unavailable):  # the log is complete without it
            await self._control.store.keep(execution_id, snapshot)

    def _check_all(self, measured: LiveExecution, limit: int) -> None:
        """`measured`: its state is committed, although it is busy."""
        states = [each for each in self._control.executions.values() if each.state.live]
        for _ in range(MEASURED_MAX):
            used = sum(each.state_bytes for each in states)
            if used <= limit:
                return
            largest = max(states, key=lambda each: each.state_bytes)
            if not largest.unsaved_bytes:
                reason = f"the executions of this process have {_size(used)}, and this one has the most"
                self._end(largest, reason, "NOETL_STATE_BYTES", limit)
                return
            if largest.busy and largest is not measured:
                return  # facts of it may not be committed yet: it is measured after that commit
            self._take(largest, freeze(largest.state))

    def _end(self, live: LiveExecution, reason: str, name: str, limit: int) -> None:
        message = f"{reason}; the limit is {name} ({_size(limit)})"
        live.excess = Failure(kind="limit", message=message, details={"limit": name})
        self._control.spawn(self._submit(live))

    async def _submit(self, live: LiveExecution) -> None:
        """The next commit ends it, even if nothing else happens."""
        with suppress(Rejected, Unavailable):  # it is measured again after a reload
            await self._control.submit(live, None, lambda: None)


def _size(count: int) -> str:
    return f"{count / MIB:,.0f} MiB" if count >= MIB else f"{count:,} bytes"


async def read_snapshot(store: EventStore, execution_id: str) -> tuple[State | None, list[LogRow]]:
    """The last usable snapshot and the rows after it. Without a snapshot: None and all rows."""
    snapshot = await store.snapshot(execution_id)
    if snapshot is not None and snapshot.schema == schema():
        with suppress(ValueError):  # a damaged snapshot: the log is complete
            return thaw(snapshot.body), await store.read(execution_id, snapshot.seq)
    return None, await store.read(execution_id)
