"""A server among others: its share of all executions on PostgreSQL, reached over NATS, and the API.

`async with open_server(asked) as house:` serves; leaving it hands its share to the others at once.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import NamedTuple

from noetl.adapters.nats.connection import NatsConnection
from noetl.adapters.nats.queue import NatsQueue
from noetl.adapters.postgres.catalog import PostgresCatalog
from noetl.adapters.postgres.database import open_postgres
from noetl.adapters.postgres.listing import PostgresListing
from noetl.adapters.postgres.retention import PostgresRetention
from noetl.adapters.postgres.secrets import PostgresSecretRows
from noetl.adapters.postgres.store import PostgresStore
from noetl.adapters.postgres.tokens import PostgresTokens
from noetl.adapters.secrets.keys import KeyFile
from noetl.adapters.secrets.providers import Providers
from noetl.adapters.secrets.sources import SourcePolicy
from noetl.adapters.secrets.stored import StoredSecrets
from noetl.clock import Clock, SystemClock
from noetl.control.deps import ControlPorts, ControlSettings
from noetl.control.executions import Control
from noetl.control.live_execution import LiveExecution
from noetl.control.outbox import Outbox
from noetl.control.owner_link import OwnerLink
from noetl.control.ownership import PartitionOwners
from noetl.control.playbooks import Playbooks
from noetl.control.refusals import Refusal, record
from noetl.control.retention import forget
from noetl.engine import Event
from noetl.errors import Unavailable
from noetl.ids import partition_of
from noetl.link.client import LinkClient
from noetl.link.feed import LinkFeed
from noetl.link.messages import PARTITIONS
from noetl.link.secret_channel import LinkKey, SecretServer
from noetl.link.server import LinkServer
from noetl.link.workers import LinkWorkerRegistry, WorkerPoll
from noetl.ports import FeedEvent
from noetl.runtime.background import BackgroundTasks
from noetl.runtime.instrumentation import Instrumentation
from noetl.runtime.result_stores import open_stores
from noetl.runtime.settings import secret_sources
from noetl.server.services import Services
from noetl.telemetry.logs import redaction
from noetl.telemetry.loop_lag import watch_pulse
from noetl.telemetry.measured_ports import MeasuredLink, MeasuredQueue, MeasuredStore
from noetl.telemetry.metrics import Measures
from noetl.telemetry.pending import Pending
from noetl.telemetry.redaction import HiddenSecrets
from noetl.tool import Tools
from noetl.worker.keychain import Keychain

LEASE_S = 30.0  # of a frame, and of our share of the partitions
SWEEP_S = 2.0
FORGET_S = 3_600.0
SHARE_S = 1.0  # at most, until what another server has let go of is seen and taken
SETTLE_S = 2.0  # for workers to tell a new owner what they have in hand
WINDOW_MIN = 16  # pointers at once to a pool that we have heard of no worker of


class ServerOptions(NamedTuple):
    """Where things are, and who we are."""

    database: str  # postgresql://…
    nats: str
    name: str = ""
    link_key: str | None = None
    lease_s: float = LEASE_S
    keep_days: float | None = None  # that executions are kept after their end; None: for ever

    def __repr__(self) -> str:
        return f"ServerAsked({self.name})"


class MeasuredOwner(MeasuredLink):
    """Control, timed; and what of its executions the link needs to know."""

    def __init__(self, control: Control, measures: Measures, clock: Clock, pending: Pending) -> None:
        super().__init__(control, measures, clock, pending)
        self.live = control.live


class ServerRuntime:
    """Everything that one server is made of. The API stands on its `desk`."""

    def __init__(self, asked: ServerOptions, clock: Clock) -> None:
        self.clock = clock
        self.name = asked.name or socket.gethostname()
        self.identity = f"{self.name}#{clock.new_id()[-8:]}"  # of this process: its leases are no other's
        self._is_named = bool(asked.name)
        self._lease_s = asked.lease_s
        self._keep_days = asked.keep_days
        self.database = open_postgres(asked.database, clock)
        self.connection = NatsConnection(asked.nats, self.name, clock)
        self.store = PostgresStore(self.database, PARTITIONS)
        self.instruments = Instrumentation(clock, "server")
        measures = self.instruments.measures
        self._measured = MeasuredStore(self.store, measures, clock)
        self.queue = NatsQueue(self.connection, clock=clock)
        self.posting = Outbox(self.queue)
        self.feed, self.roster = LinkFeed(self.connection), LinkWorkerRegistry(self.connection, clock)
        self._roll = WorkerPoll(self.connection)
        self.results = open_stores(asked.nats)
        self.secrets = StoredSecrets(PostgresSecretRows(self.database), KeyFile(), clock)
        self.providers = Providers(self.secrets, clock, policy=SourcePolicy.of_server(*secret_sources()))
        self._hidden = HiddenSecrets(self.providers, redaction)
        self.tools = Tools.installed()
        self.kinds = self.tools.kinds()
        self.catalog = PostgresCatalog(self.database)
        self.playbooks = Playbooks(self.catalog, self.kinds)
        self.owners = PartitionOwners(self.store, clock, self.identity, ttl_s=asked.lease_s, count=PARTITIONS)
        self.control = self._control(asked)
        key = LinkKey.parsed(asked.link_key) if asked.link_key else None
        link = MeasuredOwner(self.control, measures, clock, self.instruments.pending)
        self.answering = LinkServer(self.connection, link, self.catalog, SecretServer(key, self._hidden))
        self.chores = BackgroundTasks()
        self.ready = False

    def _control(self, asked: ServerOptions) -> Control:
        resend_s = asked.lease_s / 3  # a pointer may be with a worker that died before it asked for the frame
        settings = ControlSettings(lease_s=asked.lease_s, resend_s=resend_s, settle_s=min(SETTLE_S, resend_s))
        instruments, clock = self.instruments, self.clock
        queue = MeasuredQueue(self.posting, instruments.measures, clock, instruments.pending)
        reach = ControlPorts(self._measured, queue, self.results)
        control = Control(reach, self.playbooks, self.owners, clock, settings)
        self.link = OwnerLink(control, LinkClient(self.connection, self.playbooks), self._is_ours)
        control.relatives.link = self.link
        control.probe = Keychain(self._hidden, clock).probed
        instruments.watch(control, self.roster)
        instruments.measures.house.partitions.reads(lambda: len(self.owners.owned))
        control.watch, control.roll_call = self._see, self._roll.send
        control.dispatch.window = lambda pool: max(WINDOW_MIN, 2 * self.roster.slots(pool))
        return control

    @property
    def desk(self) -> Services:
        return Services(
            link=self.link,
            store=self.store,
            listing=PostgresListing(self.database),
            catalog=self.catalog,
            playbooks=self.playbooks,
            results=self.results,
            secrets=self.secrets,
            tokens=PostgresTokens(self.database),
            feed=self.feed,
            workers=self.roster,
            tools=self.tools,
            kinds=self.kinds,
            clock=self.clock,
            record_refusal=self._refuse,
            is_ready=lambda: self.ready and self.connection.connected,
        )

    def _is_ours(self, execution_id: str) -> bool:
        return partition_of(execution_id, PARTITIONS) in self.owners.owned

    def _see(self, live: LiveExecution, events: list[Event]) -> None:
        self.instruments.see(live, events)
        if events:
            self.feed.publish(FeedEvent(live.id, events[-1].seq, not live.state.live))

    async def _refuse(self, refusal: Refusal) -> str:
        """Under an id that is ours to write, whoever else there is."""
        if not self.owners.owned:
            raise Unavailable("this server has no share of the executions yet")
        while not self._is_ours(id := self.clock.new_id()):
            continue
        await record(self._measured, self.owners, id, self.control.now(), refusal)
        self.feed.publish(FeedEvent(id, 1, over=True))
        return id

    # Its life

    async def open(self) -> None:
        """Raises Unavailable or Rejected when it can not begin; later trouble passes."""
        await self.connection.open()
        await self.queue.open()
        await self.roster.open()
        self._roll.send()  # so that we know of workers before they tell of themselves again
        await self.answering.open()
        if self._is_named:
            await self._relieve()
        await self._keep()
        self.chores.run(self._own())
        self.chores.run(self._sweep())
        if self._keep_days is not None:
            self.chores.run(self._forget(timedelta(days=self._keep_days)))
        self.chores.run(watch_pulse(self.instruments.measures, self.clock))
        self.instruments.trace(self.name, self.store)
        self.ready = True

    async def _relieve(self) -> None:
        """Whoever gives a server a name has one of that name: another process with it has died."""
        for other in await self.store.servers(self.identity, self._lease_s):
            if other != self.identity and other.rpartition("#")[0] == self.name:
                await self.store.let_go(other, range(PARTITIONS))
                await self.store.servers(other, 0.0)

    async def _own(self) -> None:
        while True:
            await self.clock.sleep(min(self._lease_s / 3, SHARE_S))
            await self._keep()

    async def _keep(self) -> None:
        """One round of ownership. What is new to us is read at once, and does not wait for the sweeper."""
        before = self.owners.owned
        await self.owners.keep(self.control.set_time)
        self.instruments.ownership.see(self.owners.owned)
        with suppress(Unavailable):
            await self.answering.follow(self.owners.owned)
        if self.owners.owned - before:
            await self.instruments.sweep(self.control)

    async def _sweep(self) -> None:
        while True:
            await self.clock.sleep(min(SWEEP_S, self._lease_s / 10))
            await self.instruments.sweep(self.control)

    async def _forget(self, keep: timedelta) -> None:
        """One server does it for all: whoever has the first partition."""
        retention = PostgresRetention(self.database)
        while True:
            if 0 in self.owners.owned:
                with suppress(Unavailable):
                    stores = [each.store for each in self.results.offered]
                    done = await forget(retention, stores, self.control.now() - keep)
                    if done.executions:
                        self.instruments.log.info("executions.forgotten", **done._asdict())
            await self.clock.sleep(FORGET_S)

    async def close(self) -> None:
        """Hand everything over: nothing of ours is lost, and nobody waits for our leases."""
        self.ready = False
        await self.chores.end()
        with suppress(Unavailable):
            await self.answering.close()
        await self.owners.leave()
        self.control.timers.close()
        await self.instruments.close()
        for each in (self.posting, self.queue, self.feed, self.roster, self.providers, self.results):
            with suppress(Unavailable):
                await each.close()
        await self.connection.close()
        await self.store.close()
        await self.database.close()


@asynccontextmanager
async def open_server(asked: ServerOptions, clock: Clock | None = None) -> AsyncIterator[ServerRuntime]:
    house = ServerRuntime(asked, clock or SystemClock())
    try:
        await house.open()
        yield house
    finally:
        await house.close()
