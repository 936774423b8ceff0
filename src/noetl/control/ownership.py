"""Which executions are ours: partitions under leases among servers, single ones among processes on a file."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from noetl.clock import Clock
from noetl.errors import Unavailable
from noetl.ids import partition_of
from noetl.ports import Holding, Partitions


class PartitionOwners:
    """One server's share. It prefers every n-th partition, and takes the others when nobody has them."""

    def __init__(
        self,
        store: Partitions,
        clock: Clock,
        server: str,
        *,
        share: tuple[int, int],
        ttl_s: float,
        count: int,
    ) -> None:
        self._store = store
        self._clock = clock
        self._server = server
        self._share = share  # (our number, number of servers)
        self._ttl_s = ttl_s
        self._count = count
        self._owned: dict[int, int] = {}  # partition → our epoch
        self._kept: dict[int, float] = {}
        self._rounds = 0

    async def keep(self, tell_time: Callable[[datetime], None]) -> None:
        """One round: keep what is ours, take what is nobody's; and learn what time it is."""
        number, servers = self._share
        self._rounds += 1
        for partition in range(self._count):
            preferred = partition % servers == number
            if preferred or partition in self._owned or self._rounds % 4 == 0:
                await self._keep_one(partition, tell_time)

    async def _keep_one(self, partition: int, tell_time: Callable[[datetime], None]) -> None:
        asked = self._clock.monotonic()
        try:
            owned = await self._store.own(partition, self._server, self._ttl_s)
        except Unavailable:
            # The lease runs on the store's time; counted from before we asked, ours ends no later than it.
            if asked > self._kept.get(partition, asked) + self._ttl_s:
                self._owned.pop(partition, None)
            return
        if owned is None:
            self._owned.pop(partition, None)
            return
        tell_time(owned.at)
        self._kept[partition] = asked
        self._owned[partition] = owned.epoch

    async def number(self, execution_id: str) -> int:
        partition = partition_of(execution_id, self._count)
        if partition not in self._owned:
            raise Unavailable(f"partition {partition} is not ours")
        return self._owned[partition]

    def keeps(self, execution_id: str, number: int) -> bool:
        return self._owned.get(partition_of(execution_id, self._count)) == number

    def lost(self, execution_id: str) -> None:
        self._owned.pop(partition_of(execution_id, self._count), None)

    def ended(self, execution_id: str) -> None:
        del execution_id

    async def open(self) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for partition in list(self._owned):
            try:
                found += await self._store.live(partition)
            except Unavailable:
                continue  # the next sweep asks again
        return found


class HeldOwners:
    """One process among several on a file: it holds what it has started, and what it has taken over."""

    def __init__(self, holding: Holding) -> None:
        self._holding = holding
        self._held: dict[str, int] = {}

    async def number(self, execution_id: str) -> int:
        number = self._held.get(execution_id)
        if number is None:
            number = self._held[execution_id] = await self._holding.hold(execution_id)
        return number

    def keeps(self, execution_id: str, number: int) -> bool:
        return self._held.get(execution_id) == number

    def lost(self, execution_id: str) -> None:
        self._held.pop(execution_id, None)

    def ended(self, execution_id: str) -> None:
        self._held.pop(execution_id, None)

    async def open(self) -> list[tuple[str, int]]:
        return [(execution_id, 0) for execution_id in self._held]
