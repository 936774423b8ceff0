"""One server of a cluster: its share of all executions on PostgreSQL, connected by NATS, and the API.

`async with open_server(options) as runtime:` runs it. On exit the other servers take over its share at once.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import NamedTuple

from noetl.adapters.nats.connection import NatsConnection
from noetl.adapters.nats.messages import NatsMessages
from noetl.adapters.nats.queue import NatsQueue
from noetl.adapters.nats.results import NatsResults
from noetl.adapters.postgres.audit import PostgresAudit
from noetl.adapters.postgres.catalog import PostgresCatalog
from noetl.adapters.postgres.database import open_postgres
from noetl.adapters.postgres.limits import PostgresLimits
from noetl.adapters.postgres.logs import PostgresLogs
from noetl.adapters.postgres.saved import PostgresSaved
from noetl.adapters.postgres.secrets import PostgresSecretRows, PostgresTokens
from noetl.adapters.postgres.sessions import PostgresSessions
from noetl.adapters.postgres.store import PostgresListing, PostgresRetention, PostgresStore
from noetl.adapters.postgres.triggers import PostgresTriggers
from noetl.adapters.secrets.providers import CredentialProviders
from noetl.adapters.secrets.sources import SourcePolicy
from noetl.adapters.secrets.stored import KeyFile, StoredSecrets
from noetl.background import BackgroundTasks
from noetl.clock import Clock, SystemClock
from noetl.control.current_work import current_work, joined_work, share_waits
from noetl.control.deps import ControlHooks, ControlPorts, ControlSettings
from noetl.control.dispatch import Outbox
from noetl.control.executions import Control
from noetl.control.live_execution import LiveExecution
from noetl.control.message_triggers import MessageTriggers
from noetl.control.ownership import OwnerLink, PartitionOwners
from noetl.control.playbooks import Playbooks
from noetl.control.refusals import Refusal, record_refusal
from noetl.control.retention import delete_expired, delete_results
from noetl.control.run_records import RecordsOfEnded
from noetl.control.saved import SavedAtStart
from noetl.control.triggers import Triggers
from noetl.defaults import LEASE_S, SETTLE_S, SWEEP_S
from noetl.engine import Event
from noetl.errors import Unavailable
from noetl.link.client import LinkClient, OtherServers
from noetl.link.feed import LinkFeed
from noetl.link.keys import SERVER, LinkGuard, LinkIdentity, LinkKey
from noetl.link.messages import PARTITIONS
from noetl.link.secret_channel import SecretServer
from noetl.link.server import RELEASE_S, LinkServer
from noetl.link.workers import LinkWorkerRegistry, WorkerPoll
from noetl.ports import CurrentWork, FeedEvent, Link, Pointer
from noetl.runtime.adapters import open_shared_stores
from noetl.runtime.instrumentation import Instrumentation
from noetl.runtime.link_keys import ADVICE, RefusedRequests, link_keys
from noetl.runtime.settings import Settings
from noetl.runtime.written_calls import ServerCalls
from noetl.server.committed_logs import CommittedLogs
from noetl.server.log_readers import pool_load
from noetl.server.services import Services
from noetl.telemetry.control_metrics import measure_loop_lag
from noetl.telemetry.logs import HiddenSecrets, redaction
from noetl.telemetry.measured import MeasuredLink, MeasuredQueue, MeasuredStore, PendingPointers
from noetl.telemetry.metrics import Metrics
from noetl.tool import AddressPolicy, Tools
from noetl.views.pools import ShareWait
from noetl.worker.keychain import Keychain

RETENTION_S = 3_600.0  # between two rounds that delete old executions
RENEW_S = 1.0  # maximum between two renewals, to take over partitions of servers that send no message
OWNERSHIP_SUBJECT = "noetl.owners"  # empty messages: a server has joined, or has released partitions
TAKEOVER_S = 1.0  # the start waits so long until open executions are taken over
WINDOW_MIN = 16  # pointers at once for a pool without known workers


class ServerOptions(NamedTuple):
    """The services and the identity of a server."""

    database: str  # postgresql://…
    nats: str
    name: str = ""
    link_key: str | None = None
    lease_s: float = LEASE_S
    keep_days: float | None = None  # that finished executions are kept; None: forever
    pool_keys: str | None = None  # of all pools; None: pools are not isolated

    def __repr__(self) -> str:
        return f"ServerOptions({self.name})"


class MeasuredOwner(MeasuredLink):
    """Control with metrics. The link server also needs the loaded executions, and the values in their workloads."""

    def __init__(self, control: Control, metrics: Metrics, clock: Clock, pending: PendingPointers) -> None:
        super().__init__(control, metrics, clock, pending)
        self.load, self.results = control.load, control.results


class OwnSlots:
    """The free slots of a worker in this process: a pointer reaches them without NATS."""

    def __init__(self) -> None:
        self._queue: NatsQueue | None = None  # None: there is no worker

    def join(self, queue: NatsQueue) -> None:
        self._queue = queue

    def leave(self) -> None:
        self._queue = None

    def use(self, pointer: Pointer) -> bool:
        """False: no slot is free."""
        return self._queue is not None and self._queue.give(pointer)


class ServerRuntime:
    """All parts of one server. The API uses its `services`."""

    def __init__(
        self, options: ServerOptions, clock: Clock, *, on_error: Sequence[Callable[[BaseException], None]] = ()
    ) -> None:
        """`on_error`: receive a bug in a background task."""
        self.clock = clock
        settings = self._settings = Settings.from_environment()
        self.name, self._is_named = options.name or socket.gethostname(), bool(options.name)
        self.identity = f"{self.name}#{clock.new_id()[-8:]}"  # of this process and its leases
        self._lease_s, self._keep_days = options.lease_s, options.keep_days
        self._database, self.database = options.database, open_postgres(options.database, clock)
        self.connection = NatsConnection(options.nats, self.name, clock)
        self.store = PostgresStore(self.database, PARTITIONS)
        self.instruments = Instrumentation(clock, "server")
        self._measured = MeasuredStore(self.store, self.instruments.metrics, clock)
        self._records = RecordsOfEnded(self._measured, clock)
        self.queue = NatsQueue(self.connection, clock=clock)
        self.outbox = Outbox(self.queue, clock)
        self.own_slots = OwnSlots()
        self.feed = LinkFeed(self.connection)
        keys = link_keys(options.link_key, options.pool_keys)
        guard = self._guard = LinkGuard(keys, clock)
        identity = LinkIdentity(SERVER, keys.server, clock) if guard.isolates and keys.server else None
        self.registry = LinkWorkerRegistry(self.connection, clock, guard=guard)
        self._poll = WorkerPoll(self.connection)
        self.results = open_shared_stores(settings, options.nats)
        self.secrets = self._open_secrets()
        policy = SourcePolicy.of_server(*settings.secret_sources)
        self.providers = CredentialProviders(self.secrets, clock, policy=policy)
        self._hidden = HiddenSecrets(self.providers, redaction)
        self.tools = Tools.installed()
        self.kinds = self.tools.kinds()
        self.catalog = PostgresCatalog(self.database)
        self.limits = PostgresLimits(self.database)
        self.logs = PostgresLogs(self.database, settings.log_limits[1])
        self.playbooks = Playbooks(self.catalog, self.kinds)
        self.owners = self._make_owners()
        self._ownership_changed = asyncio.Event()  # on another server
        self._sweep_soon, self._swept = asyncio.Event(), asyncio.Event()  # it owns new partitions; it has swept once
        self._committed = CommittedLogs(self.store, self.owners.owns)
        others = LinkClient(self.connection, self.playbooks, identity=identity)
        self._other_servers = OtherServers(self.connection, identity)
        self.link = OwnerLink(lambda: self.control, others, self.owners.owns)
        self.control = self._make_control(options)
        self.instruments.read_gauges(self.control, self.registry)
        self.instruments.metrics.process.partitions.read_from(lambda: len(self.owners.owned))
        self.triggers = self._make_triggers()
        self._message_triggers = self._make_message_triggers(settings)
        self.link_server = self._make_link_server(keys.server)
        self._background = BackgroundTasks(on_error)
        self.ready = False

    def _open_secrets(self) -> StoredSecrets:
        rows, inputs = PostgresSecretRows(self.database), PostgresSecretRows(self.database, "secret_inputs")
        return StoredSecrets(rows, inputs, KeyFile(), self.clock)

    def _make_owners(self) -> PartitionOwners:
        ports = self.store, self.clock, self.identity
        return PartitionOwners(*ports, ttl_s=self._lease_s, count=PARTITIONS, before_release=self._stop_answering)

    def _make_control(self, options: ServerOptions) -> Control:
        resend_s = options.lease_s / 3  # a worker may die between claiming a pointer and beginning its frame
        settings = ControlSettings(
            lease_s=options.lease_s,
            resend_s=resend_s,
            settle_s=min(SETTLE_S, resend_s),
            public_url=self._settings.public_url.rstrip("/"),
            slot_reserve=self._settings.slot_reserve_share,
            state_bytes=self._settings.state_bytes_max,
        )
        instruments, clock = self.instruments, self.clock
        queue = MeasuredQueue(self.outbox, instruments.metrics, clock, instruments.pending)
        hooks = ControlHooks(
            on_commit=(instruments.on_commit, self._committed.on_commit, self._publish_commit, self._records.on_commit),
            on_unavailable=(instruments.on_unavailable,),
            on_load=(self._poll.send,),
            on_start=(Keychain(self._hidden, clock).resolve_for_start, SavedAtStart(PostgresSaved(self.database))),
            window=lambda pool: max(WINDOW_MIN, 2 * self.registry.slots(pool)),
            is_full=self._is_full,
            use_own_slot=self.own_slots.use,
        )
        ports = ControlPorts(self._measured, queue, self.results, self.link, self.limits, self.store)
        return Control(ports, self.playbooks, self.owners, clock, settings, hooks=hooks)

    def _is_full(self, pool: str, held: int) -> bool:
        """Whether the pool has workers, and all their slots are busy: here, or by their last announcements."""
        slots = self.registry.slots(pool)  # cached, unlike the load
        return 0 < slots <= held or 0 < slots <= pool_load(self.registry, pool).busy

    def _make_triggers(self) -> Triggers:
        store, control = PostgresTriggers(self.database), self.control
        ports = (store, self.playbooks, self.link, self._measured)
        return Triggers(*ports, self.clock, now=control.now, owns=self.owners.owns)

    def _make_message_triggers(self, settings: Settings) -> MessageTriggers:
        messages = NatsMessages(self.connection, AddressPolicy.of_server(settings.networks), self.clock)
        return MessageTriggers(self.triggers, messages, Keychain(self._hidden, self.clock).get, self.clock)

    def _make_link_server(self, key: LinkKey | None) -> LinkServer:
        instruments = self.instruments
        owner = MeasuredOwner(self.control, instruments.metrics, self.clock, instruments.pending)
        on_refused = RefusedRequests(instruments.log, self.clock)
        secrets = SecretServer(key, self._hidden)
        return LinkServer(
            self.connection,
            owner,
            self.catalog,
            secrets,
            self._guard,
            logs=self.logs,
            on_refused=on_refused,
            current_work=lambda: current_work(self.control),
            share_waits=lambda id: share_waits(self.control, id),
            owned=lambda: self.owners.owned,
        )

    def open_calls(self) -> ServerCalls | None:
        """For a worker in this process. None: the folder cannot be written, and a call can end the server again."""
        try:
            return ServerCalls(self._database, self.clock, self.instruments.log)
        except Unavailable as error:
            advice = "a call that ends this server is repeated without a limit: make the folder writable"
            self.instruments.log.warning("calls.not-written", reason=str(error), advice=advice)
            return None

    def link_for(self, remote: Link) -> Link:
        """For a worker in this process. `remote`: reaches the executions of other servers as that worker."""
        return OwnerLink(lambda: self.control, remote, self.owners.owns)

    @property
    def services(self) -> Services:
        return Services(
            link=self.link,
            store=self.store,
            committed=self._committed,
            listing=PostgresListing(self.database),
            catalog=self.catalog,
            playbooks=self.playbooks,
            results=self.results,
            secrets=self.secrets,
            tokens=PostgresTokens(self.database),
            sessions=PostgresSessions(self.database),
            audit=PostgresAudit(self.database),
            logs=self.logs,
            feed=self.feed,
            workers=self.registry,
            tools=self.tools,
            kinds=self.kinds,
            clock=self.clock,
            record_refusal=self._refuse,
            is_ready=lambda: self.ready and self.connection.connected,
            delete=self._delete,
            triggers=self.triggers,
            fetch_secret=Keychain(self._hidden, self.clock).get,
            saved=PostgresSaved(self.database),
            limits=self.limits,
            current_work=self._current_work,
            share_of=self.control.dispatch.share_of,
            share_waits=self._share_waits,
        )

    async def _current_work(self) -> CurrentWork:
        own = current_work(self.control)
        return joined_work([own, *await self._other_servers.work(self.owners.owned)])

    async def _share_waits(self, execution_id: str) -> Sequence[ShareWait]:
        if self.owners.owns(execution_id):
            return share_waits(self.control, execution_id)
        return await self._other_servers.share_waits(execution_id) if self._settings.slot_reserve_share else ()

    def _publish_commit(self, live: LiveExecution, events: list[Event]) -> None:
        if events:
            self.feed.publish(FeedEvent(live.id, events[-1].seq, not live.state.live))

    async def _refuse(self, refusal: Refusal) -> str:
        """Record a refused request under an id in our share of the partitions."""
        if not self.owners.owned:
            raise Unavailable("this server owns no partitions yet")
        while not self.owners.owns(id := self.clock.new_id()):
            continue
        await record_refusal(self._measured, self.owners, id, self.control.now(), refusal)
        self.feed.publish(FeedEvent(id, 1, over=True))
        return id

    async def _delete(self, execution_ids: Sequence[str]) -> list[str]:
        """Their results are deleted in the background: a store lists them one by one."""
        gone = await PostgresRetention(self.database).delete(execution_ids)
        if gone:
            self._background.spawn(self._delete_results(set(gone)))
        return gone

    async def _delete_results(self, gone: set[str]) -> None:
        for each in self.results.offered:
            with suppress(Unavailable):  # they stay: the age limit of the store deletes them
                await delete_results(each.store, gone)

    # Life cycle

    async def open(self) -> None:
        """Raises Unavailable or Rejected when it cannot start. Later outages are retried."""
        await self.connection.open()
        await self.queue.open()
        if self._guard.isolates:
            await self._create_buckets()
        else:
            self.instruments.log.warning("pools.not-isolated", advice=ADVICE)
        await self.registry.open()
        self._poll.send()  # to know the workers before their next announcements
        await self.link_server.open()
        await self.connection.subscribe(OWNERSHIP_SUBJECT, lambda _: self._ownership_changed.set())
        if self._is_named:
            await self._release_former_leases()
        await self._renew()
        await self._publish_ownership()  # the other servers release our share
        self._background.spawn(self._renew_repeatedly())
        self._background.spawn(self._sweep_repeatedly())
        with suppress(TimeoutError):  # a server with many open executions serves while it still takes them over
            async with asyncio.timeout(TAKEOVER_S):
                await self._swept.wait()
        self._background.spawn(self.triggers.run())
        self._background.spawn(self._message_triggers.run())
        if self._keep_days is not None:
            self._background.spawn(self._delete_expired(timedelta(days=self._keep_days)))
        self._background.spawn(measure_loop_lag(self.instruments.metrics, self.clock))
        self.instruments.start_tracing(self._settings, self.name, self.store)
        self.ready = True

    async def _create_buckets(self) -> None:
        """Workers of isolated pools may not create them."""
        for each in self.results.offered:
            if isinstance(each.store, NatsResults):
                await each.store.create()

    async def _release_former_leases(self) -> None:
        """A given name is unique: an earlier process with this name is dead, and its leases are released."""
        for other in await self.store.servers(self.identity, self._lease_s):
            if other != self.identity and other.rpartition("#")[0] == self.name:
                await self.store.let_go(other, range(PARTITIONS))
                await self.store.servers(other, 0.0)

    async def _renew_repeatedly(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(self._lease_s / 3, RENEW_S)):
                    await self._ownership_changed.wait()
            self._ownership_changed.clear()
            await self._renew()

    async def _renew(self) -> None:
        """One round of ownership. New partitions are swept at once, and meanwhile leases are renewed."""
        before = self.owners.owned
        await self.owners.renew(self.control.set_time)
        self.instruments.ownership.update(self.owners.owned)
        with suppress(Unavailable):
            await self.link_server.follow(self.owners.owned)
        if before - self.owners.owned:
            await self._publish_ownership()
        if self.owners.owned - before:
            self._sweep_soon.set()

    async def _stop_answering(self, kept: frozenset[int]) -> None:
        finishing = asyncio.ensure_future(self.link.finish(RELEASE_S))
        with suppress(Unavailable):
            await self.link_server.release(kept)
        await finishing

    async def _publish_ownership(self) -> None:
        """The other servers need not wait for their next round. A lost message costs that time only."""
        with suppress(Unavailable):
            await self.connection.publish(OWNERSHIP_SUBJECT, b"")

    async def _sweep_repeatedly(self) -> None:
        while True:
            self._sweep_soon.clear()
            await self.instruments.sweep(self.control)
            self._swept.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(SWEEP_S, self._lease_s / 10)):
                    await self._sweep_soon.wait()

    async def _delete_expired(self, keep: timedelta) -> None:
        """One server does it for all: the owner of the first partition."""
        retention = PostgresRetention(self.database)
        while True:
            if 0 in self.owners.owned:
                with suppress(Unavailable):
                    stores = [each.store for each in self.results.offered]
                    done = await delete_expired(retention, stores, self.control.now() - keep)
                    if done.executions:
                        self.instruments.log.info("executions.forgotten", **done._asdict())
            await self.clock.sleep(RETENTION_S)

    async def close(self) -> None:
        """Release everything: nothing is lost, and the other servers need not wait for our leases."""
        self.ready = False
        await self._background.cancel()
        await self._records.close()
        with suppress(Unavailable):
            await self.link_server.close()
        await self.owners.leave()
        await self._publish_ownership()
        self.control.timers.close()
        await self.instruments.close()
        for each in (self.outbox, self.queue, self.feed, self.registry, self.providers, self.results):
            with suppress(Unavailable):
                await each.close()
        await self.connection.close()
        await self.store.close()
        await self.database.close()


@asynccontextmanager
async def open_server(
    options: ServerOptions, clock: Clock | None = None, *, on_error: Sequence[Callable[[BaseException], None]] = ()
) -> AsyncIterator[ServerRuntime]:
    runtime = ServerRuntime(options, clock or SystemClock(), on_error=on_error)
    try:
        await runtime.open()
        yield runtime
    finally:
        await runtime.close()
