"""The embedded house with the API in front: one process, one file, nothing else to install."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from noetl import __version__
from noetl.adapters.memory.feed import MemoryFeed
from noetl.clock import Clock, SystemClock
from noetl.config import networks
from noetl.control.live import Live
from noetl.engine import Event
from noetl.errors import NotFound, PlaybookError, Rejected, Unavailable
from noetl.net.program import POOL
from noetl.ports import Heard, WorkerSeen
from noetl.server.desk import Desk
from noetl.tool import AddressPolicy, Tools
from noetl.wiring.embedded import SLOTS, Disk, House, open_disk
from noetl.wiring.instruments import Instruments
from noetl.worker.drive import Said

LISTED = 1_000


class OneWorker:
    """Keeps the contract of Roster for a house with a worker of its own, which serves every pool."""

    def __init__(self, house: House) -> None:
        self._house = house

    def workers(self) -> list[WorkerSeen]:
        worker = self._house.worker
        return [
            WorkerSeen(
                name=worker.name,
                pool=POOL,
                slots=SLOTS,
                busy=len(worker.drives),
                host=socket.gethostname(),
                pid=os.getpid(),
                version=__version__,
                labels={},
                leaving=worker.leaving,
                at=self._house.clock.now(),
            )
        ]

    def slots(self, pool: str) -> int:  # noqa: ARG002  # all of them are for every pool
        return SLOTS


class LocalServer:
    """A house, and what the API needs of it."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        tools = Tools.installed(AddressPolicy.of_server(networks()))
        kinds = tools.kinds()
        self.house = House(disk, clock, tools, kinds=kinds, served=True)
        self.feed = MemoryFeed()
        self.instruments = Instruments(clock, "server")
        self.instruments.watch(self.house.control)
        self.house.watchers.append(self.instruments.see)
        self.house.watchers.append(self._see)
        self.house.listeners.append(self._hear)
        self.desk = Desk(
            link=self.house.control,
            store=disk.store,
            listing=disk.listing,
            catalog=disk.catalog,
            playbooks=self.house.playbooks,
            results=disk.results,
            secrets=disk.secrets,
            tokens=disk.tokens,
            feed=self.feed,
            roster=OneWorker(self.house),
            tools=tools,
            kinds=kinds,
            clock=clock,
            is_ready=lambda: True,
        )
        self._disk = disk

    def _see(self, live: Live, events: list[Event]) -> None:
        if events:
            self.feed.tell(Heard(live.id, events[-1].seq, not live.state.live))

    def _hear(self, said: Said) -> None:
        line = {"frame": said.frame, "kind": said.kind, "words": said.words}
        self.feed.tell(Heard(said.execution_id, line=line))

    async def take_up(self) -> None:
        """What was open when its process ended goes on here; what a process that lives has is left to it."""
        before: str | None = None
        while heads := await self._disk.listing.executions(LISTED, before=before, open_only=True):
            for head in heads:
                if not head.owner_alive:
                    with suppress(Rejected, NotFound, Unavailable, PlaybookError):
                        await self.house.take_up(head.execution_id)
            before = heads[-1].execution_id


@asynccontextmanager
async def open_local_server(path: Path, clock: Clock | None = None) -> AsyncIterator[LocalServer]:
    clock = clock or SystemClock()
    disk = open_disk(path, clock)
    server = LocalServer(disk, clock)
    server.house.open()
    try:
        server.instruments.trace("here", disk.store)
        await server.take_up()
        yield server
    finally:
        await server.instruments.close()
        await server.house.close()
        disk.close()
