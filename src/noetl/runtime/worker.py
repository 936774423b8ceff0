"""A worker process: takes work of its pool from NATS, does it, reports. Nobody connects to it.

`async with open_worker(asked) as crew:` works; leaving it lets running calls end, and hands the rest back.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from noetl import __version__
from noetl.adapters.nats.connection import NatsConnection
from noetl.adapters.nats.queue import NatsQueue
from noetl.clock import Clock, SystemClock
from noetl.control.playbooks import Compiled
from noetl.errors import Unavailable
from noetl.link.client import LinkClient, LinkPlaybooks
from noetl.link.feed import LinkFeed
from noetl.link.secret_channel import LinkKey, LinkSecrets
from noetl.link.workers import LinkWorkerRegistry, WorkerPoll
from noetl.playbook.model import POOL
from noetl.ports import REPLY_TIMEOUT_S, FeedEvent, WorkerInfo
from noetl.runtime.background import BackgroundTasks
from noetl.runtime.instrumentation import Instrumentation
from noetl.runtime.result_stores import open_stores
from noetl.runtime.settings import networks
from noetl.telemetry.logs import redaction
from noetl.telemetry.loop_lag import watch_pulse
from noetl.telemetry.measured_ports import MeasuredLink, MeasuredQueue
from noetl.telemetry.redaction import HiddenSecrets
from noetl.tool import AddressPolicy, Tools
from noetl.worker.calls import Toolbox
from noetl.worker.frame_driver import HELD, LogLine
from noetl.worker.keychain import Keychain
from noetl.worker.refs import Refs
from noetl.worker.worker import Worker, WorkerPorts

SLOTS = 16
TELL_S = 5.0  # between two words of a worker about itself
GRACE_S = 10.0  # for running calls when it is told to go
LEASE_S = 30.0
ANSWER_MIN_S = 2.5  # for an answer, however short the lease is


class WorkerOptions(NamedTuple):
    """What it works for, and on what."""

    nats: str
    pool: str = POOL
    slots: int = SLOTS
    name: str = ""
    labels: Mapping[str, str] = {}
    link_key: str | None = None
    lease_s: float = LEASE_S

    def __repr__(self) -> str:
        return f"WorkerAsked({self.name}, {self.pool}, {self.slots})"


class WorkerRuntime:
    """One process with its slots."""

    def __init__(self, asked: WorkerOptions, clock: Clock) -> None:
        self.asked = asked
        self.clock = clock
        self.name = asked.name or f"{socket.gethostname()}-{clock.new_id()[-6:]}"
        self.connection = NatsConnection(asked.nats, self.name, clock)
        tools = Tools.installed(AddressPolicy.of_server(networks()))
        programs = Compiled(LinkPlaybooks(self.connection), tools.kinds())
        self.instruments = Instrumentation(clock, "worker")
        measures = self.instruments.measures
        # A report that went to a server that died is for the next one: with short leases that comes soon.
        answer_s = min(REPLY_TIMEOUT_S, max(ANSWER_MIN_S, asked.lease_s / 2))
        link = LinkClient(self.connection, programs, timeout_s=answer_s)
        self.link = MeasuredLink(link, measures, clock)
        self.queue = NatsQueue(self.connection, asked.pool, clock=clock)
        self.feed, self.roster = LinkFeed(self.connection), LinkWorkerRegistry(self.connection, clock)
        self.results = open_stores(asked.nats)
        key = LinkKey.parsed(asked.link_key) if asked.link_key else None
        secrets = LinkSecrets(self.connection, key, self.name, HELD.get, clock)
        keychain = Keychain(HiddenSecrets(secrets, redaction), clock)
        self.toolbox = Toolbox(tools, Refs(self.results, self.link), keychain)
        outside = WorkerPorts(self.link, MeasuredQueue(self.queue, measures, clock), self.results, keychain)
        self.worker = Worker(self.name, outside, self.toolbox, clock)
        self.worker.listen = self._hear
        measures.house.held.reads(lambda: len(self.worker.drives))
        self.chores = BackgroundTasks()
        self._hide: Callable[[], None] | None = None

    def _hear(self, said: LogLine) -> None:
        line = {"frame": said.frame, "kind": said.kind, "words": said.words}
        self.feed.publish(FeedEvent(said.execution_id, line=line))

    # Its life

    async def open(self) -> None:
        """Raises Unavailable or Rejected when it can not begin; later trouble passes."""
        await self.connection.open()
        await WorkerPoll(self.connection).subscribe(self._called)
        for _ in range(self.asked.slots):
            self.chores.run(self.worker.serve())
        self.chores.run(self.worker.beat(self.asked.lease_s / 3))
        self.chores.run(self._tell())
        self.chores.run(watch_pulse(self.instruments.measures, self.clock))
        self._hide = self.instruments.expose()

    def _called(self) -> None:
        """A server is new, or has taken executions over, and asks who is there and has what in hand."""
        self.worker.spawn(self.roster.announce(self._seen()))
        self.worker.spawn(self.worker.tell())

    async def _tell(self) -> None:
        while True:
            await self.roster.announce(self._seen())
            await self.clock.sleep(TELL_S)

    def _seen(self) -> WorkerInfo:
        return WorkerInfo(
            name=self.name,
            pool=self.asked.pool,
            slots=self.asked.slots,
            busy=len(self.worker.drives),
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            labels=dict(self.asked.labels),
            leaving=self.worker.leaving,
            at=self.clock.now(),
        )

    async def close(self, grace_s: float = GRACE_S) -> None:
        self.worker.leaving = True
        await self.roster.announce(self._seen())
        await self.queue.leave()
        await self.worker.leave(grace_s)
        await self.chores.end()
        await self.toolbox.close()
        if self._hide is not None:
            self._hide()
        for each in (self.queue, self.feed, self.roster, self.results):
            with suppress(Unavailable):
                await each.close()
        await self.connection.close()


@asynccontextmanager
async def open_worker(asked: WorkerOptions, clock: Clock | None = None) -> AsyncIterator[WorkerRuntime]:
    crew = WorkerRuntime(asked, clock or SystemClock())
    try:
        await crew.open()
        yield crew
    finally:
        await crew.close()
