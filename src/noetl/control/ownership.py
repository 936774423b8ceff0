"""Ownership of executions: leased partitions among servers, single executions among processes on one file."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime

from noetl.clock import Clock
from noetl.engine.commands import Command, Report, Start
from noetl.errors import Unavailable
from noetl.ids import partition_of
from noetl.output import Output
from noetl.ports import Epoch, ExecutionOwnership, Grant, Link, Partitions, ReportAnswer


class PartitionOwners:
    """One server's share: every n-th partition, where n is the current number of servers."""

    def __init__(
        self,
        store: Partitions,
        clock: Clock,
        server: str,
        *,
        ttl_s: float,
        count: int,
        before_release: Callable[[frozenset[int]], Awaitable[None]] | None = None,
    ) -> None:
        """`before_release`: called with the partitions that we keep, before the others are released."""
        self._store = store
        self._clock = clock
        self._server = server
        self._ttl_s = ttl_s
        self._count = count
        self._before_release = before_release
        self._owned: dict[int, int] = {}  # partition → our epoch
        self._kept: frozenset[int] | None = None  # while we release the others
        self._renewed = clock.monotonic()  # start of the last successful renewal

    @property
    def owned(self) -> frozenset[int]:
        return frozenset(self._owned)

    def owns(self, execution_id: str) -> bool:
        """Whether new requests are for this server."""
        return partition_of(execution_id, self._count) in (self._owned if self._kept is None else self._kept)

    async def renew(self, set_time: Callable[[datetime], None]) -> None:
        """One round: renew our share, release other partitions, and pass on the store's time."""
        begun = self._clock.monotonic()
        try:
            servers = await self._store.servers(self._server, self._ttl_s)
            share = {number for number in range(self._count) if self._is_in_share(number, servers)}
            if others := sorted(self._owned.keys() - share):
                await self._release(others)
            owned = await self._store.own(self._server, sorted(share), self._ttl_s)
        except Unavailable:
            # Leases run on the store's time. Counted from before the request, ours end no later than there.
            if begun > self._renewed + self._ttl_s:
                self._owned.clear()
            return
        set_time(owned.at)
        self._renewed = begun
        self._owned = owned.epochs

    async def _release(self, partitions: list[int]) -> None:
        """Requests that this server has received are still committed; new ones wait for the next owner."""
        self._kept = frozenset(self._owned.keys() - partitions)
        try:
            if self._before_release is not None:
                await self._before_release(self._kept)
        finally:
            self._kept = None
            for partition in partitions:
                self._owned.pop(partition, None)
        await self._store.let_go(self._server, partitions)

    def _is_in_share(self, partition: int, servers: list[str]) -> bool:
        return self._server in servers and servers[partition % len(servers)] == self._server

    async def leave(self) -> None:
        """Release everything: the other servers need not wait until our leases expire."""
        self._owned.clear()
        with suppress(Unavailable):
            # All: a round may have been cancelled before it released some.
            await self._store.let_go(self._server, range(self._count))
            await self._store.servers(self._server, 0.0)

    async def number(self, execution_id: str, *, is_new: bool = False) -> int:
        del is_new
        partition = partition_of(execution_id, self._count)
        if partition not in self._owned:
            raise Unavailable(f"this server does not own partition {partition}")
        return self._owned[partition]

    def is_current(self, execution_id: str, number: int) -> bool:
        return self._owned.get(partition_of(execution_id, self._count)) == number

    def on_fenced(self, execution_id: str) -> None:
        self._owned.pop(partition_of(execution_id, self._count), None)

    def on_ended(self, execution_id: str) -> None:
        del execution_id

    async def open_executions(self) -> list[tuple[str, int]]:
        try:
            return await self._store.live(sorted(self._owned))
        except Unavailable:
            return []  # the next sweep asks again


class ExecutionOwners:
    """One process among several on a file: it owns the executions that it started or took over."""

    def __init__(self, ownership: ExecutionOwnership) -> None:
        self._ownership = ownership
        self._owned: dict[str, int] = {}

    async def number(self, execution_id: str, *, is_new: bool = False) -> int:
        number = self._owned.get(execution_id)
        if number is None:
            number = self._owned[execution_id] = await self._ownership.hold(execution_id, is_new=is_new)
        return number

    def is_current(self, execution_id: str, number: int) -> bool:
        return self._owned.get(execution_id) == number

    def on_fenced(self, execution_id: str) -> None:
        self._owned.pop(execution_id, None)

    def on_ended(self, execution_id: str) -> None:
        self._owned.pop(execution_id, None)

    async def open_executions(self) -> list[tuple[str, int]]:
        return [(execution_id, 0) for execution_id in self._owned]


class OwnerLink:
    """Implements Link on a server: a direct call for our own executions, the network for all others.

    Control itself needs this link, so that the link resolves Control when it is first used.
    """

    def __init__(self, local: Callable[[], Link], remote: Link, owns: Callable[[str], bool]) -> None:
        self._local = local
        self._remote = remote
        self._owns = owns
        self._running: set[asyncio.Future[None]] = set()  # requests that our executions have not answered yet

    def _to(self, execution_id: str) -> Link:
        return self._local() if self._owns(execution_id) else self._remote

    async def begin(self, execution_id: str, frame: str, worker: str) -> Grant | None:
        return await self._to(execution_id).begin(execution_id, frame, worker)

    async def report(self, execution_id: str, report: Report, *, room: int = 0) -> ReportAnswer:
        return await self._to(execution_id).report(execution_id, report, room=room)

    async def beat(self, worker: str, holds: Sequence[tuple[str, str, Epoch]]) -> list[tuple[str, str]]:
        return await self._remote.beat(worker, holds)

    async def start(self, execution_id: str, digest: str, start: Start) -> None:
        await self._ask(execution_id, lambda link: link.start(execution_id, digest, start))

    async def command(self, execution_id: str, command: Command) -> None:
        await self._ask(execution_id, lambda link: link.command(execution_id, command))

    async def _ask(self, execution_id: str, request: Callable[[Link], Awaitable[None]]) -> None:
        if not self._owns(execution_id):
            return await request(self._remote)
        running = asyncio.get_running_loop().create_future()
        self._running.add(running)
        try:
            await request(self._local())
        finally:
            self._running.remove(running)
            running.set_result(None)

    async def finish(self, timeout_s: float) -> None:
        """Wait for the requests that our executions have received so far, before they get another owner."""
        if self._running:
            await asyncio.wait(self._running, timeout=timeout_s)

    async def iterations(self, execution_id: str, run: str, only: range | None = None) -> list[Output | None]:
        return await self._local().iterations(execution_id, run, only)

    async def parent(self, execution_id: str) -> str | None:
        return await self._local().parent(execution_id)
