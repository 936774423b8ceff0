"""The embedded runtime with the API: one process on one file."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from noetl import __version__
from noetl.adapters.memory import MemoryFeed
from noetl.background import BackgroundTasks
from noetl.clock import Clock, SystemClock
from noetl.control.current_work import current_work, share_waits
from noetl.control.live_execution import LiveExecution
from noetl.control.message_triggers import MessageTriggers
from noetl.control.refusals import Refusal
from noetl.control.run_records import RecordsOfEnded
from noetl.control.triggers import Triggers
from noetl.defaults import EMBEDDED_SLOTS, POOL
from noetl.engine import Event
from noetl.engine.facts import Requested
from noetl.playbook.kinds import Kinds
from noetl.ports import CurrentWork, ExecutionFilter, ExecutionHead, FeedEvent, WorkerInfo
from noetl.runtime.embedded import EMBEDDED_WORKER, EmbeddedRuntime, LocalStore, RuntimeHooks, open_local_store
from noetl.runtime.instrumentation import Instrumentation
from noetl.runtime.messages import LazyMessages
from noetl.runtime.settings import Settings
from noetl.server.committed_logs import CommittedLogs
from noetl.server.services import Services
from noetl.telemetry.measured import MeasuredStore
from noetl.tool import AddressPolicy, Tools
from noetl.views.log import events_of
from noetl.views.pools import ShareWait
from noetl.worker.frame_driver import LogLine
from noetl.worker.keychain import Keychain

PAGE = 1_000  # executions that are listed at once
ADOPT_S = 1.0  # the start waits so long until open executions are taken over


class EmbeddedWorkerRegistry:
    """Implements WorkerRegistry for an embedded runtime, whose only worker serves every pool."""

    def __init__(self, runtime: EmbeddedRuntime) -> None:
        self._runtime = runtime

    def workers(self) -> list[WorkerInfo]:
        worker = self._runtime.worker
        return [
            WorkerInfo(
                name=worker.name,
                pool=POOL,
                slots=EMBEDDED_SLOTS,
                busy=len(worker.drivers),
                host=socket.gethostname(),
                pid=os.getpid(),
                version=__version__,
                labels={},
                leaving=worker.draining,
                at=self._runtime.clock.now(),
            )
        ]

    def slots(self, pool: str) -> int:  # noqa: ARG002  # all of them are for every pool
        return EMBEDDED_SLOTS


def _installed_tools(settings: Settings, *, served: bool) -> Tools:
    """Raises Rejected."""
    user = settings.find_tool_user()
    if not served:
        return Tools.installed(user=user)
    return Tools.installed(AddressPolicy.of_server(settings.networks), user, settings.tool_nice_level)


class LocalServer:
    """An embedded runtime, and the services of its API.

    `served`: the authors of playbooks do not own the machine, so that playbooks may reach less.
    """

    def __init__(self, storage: LocalStore, clock: Clock, *, served: bool = True, nats: str | None = None) -> None:
        """`nats`: the address of the server's NATS, for triggers; None: it has none."""
        settings = Settings.from_environment()
        tools = _installed_tools(settings, served=served)
        kinds, committed = tools.kinds(), CommittedLogs(storage.store)
        self.feed, self.instruments = MemoryFeed(), Instrumentation(clock, "server")
        store = MeasuredStore(storage.store, self.instruments.metrics, clock)
        self._records = RecordsOfEnded(store, clock)
        hooks = RuntimeHooks(
            on_commit=(self.instruments.on_commit, committed.on_commit, self._publish_commit, self._records.on_commit),
            on_log_line=(self._publish_line,),
            on_unavailable=(self.instruments.on_unavailable,),
        )
        self.runtime = EmbeddedRuntime(storage, clock, tools, store=store, kinds=kinds, served=served, hooks=hooks)
        control = self.runtime.control
        self.instruments.read_gauges(control)
        ports = (storage.triggers, self.runtime.playbooks, control, store)
        self.triggers = Triggers(*ports, clock, now=control.now, owns=lambda _id: True)
        self._fetch_secret = Keychain(self.runtime.providers, clock).get
        self._messages = LazyMessages(nats, AddressPolicy.of_server(settings.networks), clock)
        self._message_triggers = MessageTriggers(self.triggers, self._messages, self._fetch_secret, clock)
        self._storage = storage
        self._served = served
        self._background = BackgroundTasks()
        self.services = self._make_services(tools, kinds, committed, clock)

    def _make_services(self, tools: Tools, kinds: Kinds, committed: CommittedLogs, clock: Clock) -> Services:
        storage, control = self._storage, self.runtime.control
        return Services(
            link=control,
            store=storage.store,
            committed=committed,
            listing=storage.listing,
            catalog=storage.catalog,
            playbooks=self.runtime.playbooks,
            results=storage.results,
            secrets=storage.secrets,
            tokens=storage.tokens,
            sessions=storage.sessions,
            audit=storage.audit,
            logs=storage.logs,
            feed=self.feed,
            workers=EmbeddedWorkerRegistry(self.runtime),
            tools=tools,
            kinds=kinds,
            clock=clock,
            record_refusal=self._refuse,
            is_ready=lambda: True,
            delete=storage.retention.delete,
            triggers=self.triggers,
            fetch_secret=self._fetch_secret,
            saved=storage.saved,
            limits=storage.limits,
            current_work=self._current_work,
            share_of=control.dispatch.share_of,
            share_waits=self._share_waits,
            resume_orphan=self._adopt,
        )

    def _publish_commit(self, live: LiveExecution, events: list[Event]) -> None:
        if events:
            self.feed.publish(FeedEvent(live.id, events[-1].seq, not live.state.live))

    async def _refuse(self, refusal: Refusal) -> str:
        id = await self.runtime.refuse(refusal)
        self.feed.publish(FeedEvent(id, 1, over=True))
        return id

    def _publish_line(self, line: LogLine) -> None:
        fields = {"frame": line.frame, "kind": line.kind, "words": line.text}
        self.feed.publish(FeedEvent(line.execution_id, line=fields))

    def open(self) -> None:
        """Triggers act on a server; `noetl ui` shows them."""
        self.runtime.open()
        if self._served:
            self._background.spawn(self.triggers.run())
            self._background.spawn(self._message_triggers.run())

    async def close(self) -> None:
        await self._background.cancel()
        await self._records.close()
        await self._messages.close()
        await self.instruments.close()
        await self.runtime.close()

    async def adopt_open_soon(self) -> None:
        """A server with many open executions answers requests while it still takes them over."""
        adoption = asyncio.ensure_future(self._adopt_open())
        await asyncio.wait({adoption}, timeout=ADOPT_S)
        if adoption.done():
            adoption.result()
        else:
            self._background.spawn(_finish(adoption))

    async def _adopt_open(self) -> None:
        """Continue open executions without a live owner.

        `noetl ui` continues only executions that the API started; others continue with `noetl resume`.
        """
        before: str | None = None
        while heads := await self._storage.listing.executions(PAGE, ExecutionFilter(open_only=True), before=before):
            orphans = [
                head.execution_id
                for head in heads
                if not head.owner_alive and (self._served or await self._was_started_by_api(head))
            ]
            await self.runtime.adopt_all(orphans)
            before = heads[-1].execution_id

    async def _was_started_by_api(self, head: ExecutionHead) -> bool:
        """Whether the API, which records the caller, started the execution or its parent."""
        while head.parent is not None:
            head = await self._storage.listing.head(head.parent.partition("/")[0])
        [request, *_] = events_of(await self._storage.store.read(head.execution_id, 0, 1))
        return isinstance(request.fact, Requested) and request.fact.by is not None

    async def _adopt(self, execution_id: str) -> None:
        await self.runtime.adopt(execution_id)

    async def _current_work(self) -> CurrentWork:
        return current_work(self.runtime.control)

    async def _share_waits(self, execution_id: str) -> Sequence[ShareWait]:
        return share_waits(self.runtime.control, execution_id)


async def _finish(task: asyncio.Future[None]) -> None:
    await task


@asynccontextmanager
async def open_local_server(
    path: Path, clock: Clock | None = None, *, served: bool = True, nats: str | None = None
) -> AsyncIterator[LocalServer]:
    clock = clock or SystemClock()
    storage = open_local_store(path, clock)
    server = LocalServer(storage, clock, served=served, nats=nats)
    server.open()
    try:
        server.instruments.start_tracing(Settings.from_environment(), EMBEDDED_WORKER, storage.store)
        await server.adopt_open_soon()
        yield server
    finally:
        await server.close()
        storage.close()
