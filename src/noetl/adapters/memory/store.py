"""The log in memory, with the guarantees of the real ones: compare-and-set on seq, owner epochs, leases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from noetl.clock import Clock
from noetl.engine.state import LIVE, Status
from noetl.errors import Conflict, Fenced
from noetl.ids import partition_of
from noetl.ports import Append, LogRow, OwnedPartitions, Snapshot


class _Owner(NamedTuple):
    server: str
    epoch: int
    until: float


class MemoryStore:
    """An `EventStore` with `Partitions`, for the lifetime of the process."""

    def __init__(self, clock: Clock, partitions: int) -> None:
        self._clock = clock
        self._partitions = partitions
        self.rows: dict[str, list[LogRow]] = {}
        self._heads: dict[str, int] = {}
        self._statuses: dict[str, Status] = {}
        self._snapshots: dict[str, Snapshot] = {}
        self._live: dict[int, dict[str, None]] = {number: {} for number in range(partitions)}
        self._owners: dict[int, _Owner] = {}
        self._servers: dict[str, float] = {}

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        return [self._append(each) for each in appends]

    def _append(self, each: Append) -> Conflict | Fenced | None:
        partition = self._partition(each)
        owner = self._owners.get(partition)
        if owner is None or owner.epoch != each.owner:
            return Fenced(f"partition {partition} has another owner")
        head = self._heads.get(each.execution_id, 0)
        if each.first_seq != head + 1:
            return Conflict(f"{each.execution_id} is at seq {head}, not at {each.first_seq - 1}")
        self.rows.setdefault(each.execution_id, []).append(LogRow(each.first_seq, each.at, each.facts))
        self._heads[each.execution_id] = head + len(each.facts)
        self._statuses[each.execution_id] = each.status
        if each.status in LIVE:
            self._live[partition][each.execution_id] = None
        else:
            self._live[partition].pop(each.execution_id, None)
        return None

    def _partition(self, each: Append) -> int:
        return partition_of(each.execution_id, self._partitions)

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]:
        rows = self.rows.get(execution_id, [])
        last = float("inf") if up_to is None else up_to
        return [row for row in rows if row.first_seq + len(row.facts) - 1 > after and row.first_seq <= last]

    async def status(self, execution_id: str) -> Status | None:
        return self._statuses.get(execution_id)

    async def snapshot(self, execution_id: str) -> Snapshot | None:
        return self._snapshots.get(execution_id)

    async def keep(self, execution_id: str, snapshot: Snapshot) -> None:
        kept = self._snapshots.get(execution_id)
        if kept is None or kept.seq <= snapshot.seq or kept.schema != snapshot.schema:
            self._snapshots[execution_id] = snapshot

    async def live(self, partitions: Sequence[int]) -> list[tuple[str, int]]:
        found = (execution_id for partition in partitions for execution_id in self._live[partition])
        return [(execution_id, self._heads[execution_id]) for execution_id in found]

    async def own(self, server: str, partitions: Sequence[int], ttl_s: float) -> OwnedPartitions:
        epochs = {partition: self._own(partition, server, ttl_s) for partition in partitions}
        ours = {partition: epoch for partition, epoch in epochs.items() if epoch is not None}
        return OwnedPartitions(ours, self._clock.now())

    def _own(self, partition: int, server: str, ttl_s: float) -> int | None:
        now = self._clock.monotonic()
        owner = self._owners.get(partition)
        if owner is not None and owner.server != server and now < owner.until:
            return None
        # An expired lease gets a new epoch, even if no other server acquired it meanwhile.
        kept = owner is not None and owner.server == server and now < owner.until
        epoch = owner.epoch if owner and kept else (owner.epoch if owner else 0) + 1
        self._owners[partition] = _Owner(server, epoch, now + ttl_s)
        return epoch

    async def let_go(self, server: str, partitions: Sequence[int]) -> None:
        for partition in partitions:
            owner = self._owners.get(partition)
            if owner is not None and owner.server == server:
                # The new epoch refuses late appends of the last owner.
                self._owners[partition] = _Owner("", owner.epoch + 1, self._clock.monotonic())

    async def servers(self, server: str, ttl_s: float) -> list[str]:
        now = self._clock.monotonic()
        self._servers[server] = now + ttl_s
        return sorted(name for name, until in self._servers.items() if until > now)

    def owner(self, execution_id: str) -> str | None:
        """The server with the lease of the execution's partition."""
        owner = self._owners.get(partition_of(execution_id, self._partitions))
        return owner.server if owner and self._clock.monotonic() < owner.until else None

    def epoch(self, execution_id: str) -> int:
        """The current epoch of the execution's partition."""
        owner = self._owners.get(partition_of(execution_id, self._partitions))
        return owner.epoch if owner else 0
