"""Which executions are ours: partitions under leases among servers, single ones among processes on a file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from noetl.clock import Clock
from noetl.errors import Unavailable
from noetl.ids import partition_of
from noetl.ports import ExecutionOwnership, Partitions


class PartitionOwners:
    """One server's share: every n-th partition, where n is how many servers there are just now."""

    def __init__(self, store: Partitions, clock: Clock, server: str, *, ttl_s: float, count: int) -> None:
        self._store = store
        self._clock = clock
        self._server = server
        self._ttl_s = ttl_s
        self._count = count
        self._owned: dict[int, int] = {}  # partition → our epoch
        self._kept = clock.monotonic()  # when we last asked for them and were answered

    @property
    def owned(self) -> frozenset[int]:
        return frozenset(self._owned)

    async def keep(self, tell_time: Callable[[datetime], None]) -> None:
        """One round: keep our share, leave the rest to the others; and learn what time it is."""
        asked = self._clock.monotonic()
        try:
            servers = await self._store.servers(self._server, self._ttl_s)
            share = {number for number in range(self._count) if self._is_ours(number, servers)}
            if others := sorted(self._owned.keys() - share):
                for partition in others:
                    del self._owned[partition]
                await self._store.let_go(self._server, others)
            owned = await self._store.own(self._server, sorted(share), self._ttl_s)
        except Unavailable:
            # Leases run on the store's time; counted from before we asked, ours end no later than there.
            if asked > self._kept + self._ttl_s:
                self._owned.clear()
            return
        tell_time(owned.at)
        self._kept = asked
        self._owned = owned.epochs

    def _is_ours(self, partition: int, servers: list[str]) -> bool:
        return self._server in servers and servers[partition % len(servers)] == self._server

    async def leave(self) -> None:
        """The others need not wait until our leases run out."""
        ours = sorted(self._owned)
        self._owned.clear()
        with suppress(Unavailable):
            await self._store.let_go(self._server, ours)
            await self._store.servers(self._server, 0.0)

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
        try:
            return await self._store.live(sorted(self._owned))
        except Unavailable:
            return []  # the next sweep asks again


class HeldOwners:
    """One process among several on a file: it holds what it has started, and what it has taken over."""

    def __init__(self, holding: ExecutionOwnership) -> None:
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
