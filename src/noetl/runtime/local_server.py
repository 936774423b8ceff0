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
from noetl.control.live_execution import LiveExecution
from noetl.control.refusals import Refusal
from noetl.engine import Event
from noetl.engine.facts import Requested
from noetl.errors import NotFound, PlaybookError, Rejected, Unavailable
from noetl.playbook.model import POOL
from noetl.ports import ExecutionHead, FeedEvent, WorkerInfo
from noetl.runtime.embedded import SLOTS, EmbeddedRuntime, LocalStore, open_local_store
from noetl.runtime.instrumentation import Instrumentation
from noetl.runtime.settings import networks
from noetl.server.services import Services
from noetl.tool import AddressPolicy, Tools
from noetl.views.log import events_of
from noetl.worker.frame_driver import LogLine

LISTED = 1_000


class OneWorker:
    """Keeps the contract of Roster for a house with a worker of its own, which serves every pool."""

    def __init__(self, house: EmbeddedRuntime) -> None:
        self._house = house

    def workers(self) -> list[WorkerInfo]:
        worker = self._house.worker
        return [
            WorkerInfo(
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
    """A house, and what the API needs of it.

    `served`: who writes the playbooks is not who owns the machine, so that they may reach less.
    """

    def __init__(self, disk: LocalStore, clock: Clock, *, served: bool = True) -> None:
        tools = Tools.installed(AddressPolicy.of_server(networks())) if served else Tools.installed()
        kinds = tools.kinds()
        self.house = EmbeddedRuntime(disk, clock, tools, kinds=kinds, served=served)
        self.feed = MemoryFeed()
        self.instruments = Instrumentation(clock, "server")
        self.instruments.watch(self.house.control)
        self.house.watchers.append(self.instruments.see)
        self.house.watchers.append(self._see)
        self.house.listeners.append(self._hear)
        self.desk = Services(
            link=self.house.control,
            store=disk.store,
            listing=disk.listing,
            catalog=disk.catalog,
            playbooks=self.house.playbooks,
            results=disk.results,
            secrets=disk.secrets,
            tokens=disk.tokens,
            feed=self.feed,
            workers=OneWorker(self.house),
            tools=tools,
            kinds=kinds,
            clock=clock,
            record_refusal=self._refuse,
            is_ready=lambda: True,
            resume_orphan=self._take_up,
        )
        self._disk = disk
        self._served = served

    def _see(self, live: LiveExecution, events: list[Event]) -> None:
        if events:
            self.feed.publish(FeedEvent(live.id, events[-1].seq, not live.state.live))

    async def _refuse(self, refusal: Refusal) -> str:
        id = await self.house.refuse(refusal)
        self.feed.publish(FeedEvent(id, 1, over=True))
        return id

    def _hear(self, said: LogLine) -> None:
        line = {"frame": said.frame, "kind": said.kind, "words": said.words}
        self.feed.publish(FeedEvent(said.execution_id, line=line))

    async def take_up_open(self) -> None:
        """What was open when its process ended goes on here; what a process that lives has is left to it.

        So is what `noetl run` began, when somebody only wants to look: it goes on when they say so.
        """
        before: str | None = None
        while heads := await self._disk.listing.executions(LISTED, before=before, open_only=True):
            for head in heads:
                if not head.owner_alive and (self._served or await self._was_asked_here(head)):
                    with suppress(Rejected, NotFound, Unavailable, PlaybookError):
                        await self.house.take_up(head.execution_id)
            before = heads[-1].execution_id

    async def _was_asked_here(self, head: ExecutionHead) -> bool:
        """By the API, which says who asked; or it is a child of such a one."""
        while head.parent is not None:
            head = await self._disk.listing.head(head.parent.partition("/")[0])
        [request, *_] = events_of(await self._disk.store.read(head.execution_id, 0, 1))
        return isinstance(request.fact, Requested) and request.fact.by is not None

    async def _take_up(self, execution_id: str) -> None:
        await self.house.take_up(execution_id)


@asynccontextmanager
async def open_local_server(
    path: Path, clock: Clock | None = None, *, served: bool = True
) -> AsyncIterator[LocalServer]:
    clock = clock or SystemClock()
    disk = open_local_store(path, clock)
    server = LocalServer(disk, clock, served=served)
    server.house.open()
    try:
        server.instruments.trace("here", disk.store)
        await server.take_up_open()
        yield server
    finally:
        await server.instruments.close()
        await server.house.close()
        disk.close()
