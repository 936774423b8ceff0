"""A worker process: it takes the work of its pool from NATS and reports results. It accepts no connections.

`async with open_worker(options) as runtime:` runs it. On exit running calls may finish. A server can have a worker
in its own process: executions that the server owns need no messages then (ADR 21).
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from noetl import __version__
from noetl.adapters.nats.connection import NatsConnection
from noetl.adapters.nats.permissions import inbox_of
from noetl.adapters.nats.queue import NatsQueue
from noetl.background import BackgroundTasks
from noetl.clock import Clock, SystemClock
from noetl.control.playbooks import CompiledPlaybooks
from noetl.defaults import LEASE_S, POOL, WORKER_GRACE_S, WORKER_SLOTS
from noetl.errors import Unavailable
from noetl.link.client import LinkClient, LinkLogs, LinkPlaybooks
from noetl.link.feed import LinkFeed
from noetl.link.secret_channel import LinkSecrets
from noetl.link.workers import LinkWorkerRegistry, WorkerPoll
from noetl.ports import REPLY_TIMEOUT_S, FeedEvent, WorkerInfo
from noetl.runtime.adapters import open_shared_stores
from noetl.runtime.instrumentation import Instrumentation
from noetl.runtime.link_keys import ADVICE, link_keys, worker_identity
from noetl.runtime.settings import Settings
from noetl.runtime.written_calls import WrittenCalls
from noetl.telemetry.control_metrics import measure_loop_lag
from noetl.telemetry.logs import HiddenSecrets, redaction
from noetl.telemetry.measured import MeasuredLink, MeasuredQueue
from noetl.tool import AddressPolicy, Tools
from noetl.worker.calls import Toolbox, ToolRun
from noetl.worker.frame_driver import CURRENT_FRAME, LogLine
from noetl.worker.keychain import Keychain
from noetl.worker.refs import Lineage, Refs
from noetl.worker.worker import Worker, WorkerPorts

if TYPE_CHECKING:
    from noetl.runtime.server import ServerRuntime

ANNOUNCE_S = 5.0  # between two announcements of a worker to the registry
ANSWER_MIN_S = 2.5  # to wait for an answer, however short the lease is


class WorkerOptions(NamedTuple):
    """The connection and the identity of a worker process."""

    nats: str
    pool: str = POOL
    slots: int = WORKER_SLOTS
    name: str = ""
    labels: Mapping[str, str] = {}
    link_key: str | None = None
    lease_s: float = LEASE_S
    pool_key: str | None = None
    pool_keys: str | None = None  # of all pools, if the worker has the environment of a server

    def __repr__(self) -> str:
        return f"WorkerOptions({self.name}, {self.pool}, {self.slots})"


class WorkerRuntime:
    """One worker process with its slots."""

    def __init__(
        self,
        options: WorkerOptions,
        clock: Clock,
        *,
        on_error: Sequence[Callable[[BaseException], None]] = (),
        wrap: Callable[[WorkerPorts], WorkerPorts] = lambda ports: ports,
        server: ServerRuntime | None = None,
    ) -> None:
        """`on_error`: receive a bug in a background task. `wrap`: replaces ports, for tests with faults.

        `server`: in this process; None: the worker has its own process.
        """
        self.options = options
        settings = self._settings = Settings.from_environment()
        self.clock = clock
        self.name = options.name or f"{socket.gethostname()}-{clock.new_id()[-6:]}"
        keys = link_keys(options.link_key, options.pool_keys)
        identity = worker_identity(
            options.pool, options.pool_key, keys, clock, worker=self.name, held_frame=CURRENT_FRAME.get
        )
        self.isolated = identity is not None
        inbox = inbox_of(identity.pool) if identity is not None and identity.pool else ""
        self.connection = NatsConnection(options.nats, self.name, clock, inbox=inbox)
        policy = AddressPolicy.of_server(settings.networks)
        tools = Tools.installed(policy, settings.find_tool_user(), settings.tool_nice_level)
        programs = CompiledPlaybooks(LinkPlaybooks(self.connection, identity), tools.kinds())
        self.instruments = Instrumentation(clock, "worker") if server is None else server.instruments
        self._server = server
        metrics = self.instruments.metrics
        # A report to a dead server must be repeated to its successor: with short leases that comes soon.
        answer_s = min(REPLY_TIMEOUT_S, max(ANSWER_MIN_S, options.lease_s / 2))
        link = LinkClient(self.connection, programs, timeout_s=answer_s, identity=identity)
        self.link = MeasuredLink(link if server is None else server.link_for(link), metrics, clock)
        self.queue = NatsQueue(self.connection, options.pool, clock=clock)
        self.feed = LinkFeed(self.connection)
        self.registry = LinkWorkerRegistry(self.connection, clock, identity=identity)
        self.results = open_shared_stores(settings, options.nats, inbox)
        key = keys.server if identity is None else identity.key
        secrets = LinkSecrets(self.connection, key, self.name, CURRENT_FRAME.get, clock, identity=identity)
        keychain = Keychain(HiddenSecrets(secrets, redaction), clock)
        self.toolbox = Toolbox(tools, Refs(self.results, self.link), keychain, Lineage(self.link))
        self._calls = None if server is None else server.open_calls()
        log_call_bytes = settings.log_limits[0]
        logs = LinkLogs(self.connection, identity=identity) if log_call_bytes else None
        ports = WorkerPorts(self.link, MeasuredQueue(self.queue, metrics, clock), self.results, keychain, logs)
        self.worker = self._make_worker(wrap(ports), log_call_bytes)
        metrics.process.held.read_from(lambda: len(self.worker.drivers))
        self._background = BackgroundTasks(on_error)
        self._stop_metrics: Callable[[], None] | None = None

    def _make_worker(self, ports: WorkerPorts, log_call_bytes: int) -> Worker:
        run: ToolRun = self.toolbox
        if self._server is not None and self._calls is not None:
            run = WrittenCalls(run, self._calls.running, self._server.owners.owns)
        hooks = (self._publish_line,)
        return Worker(self.name, ports, run, self.clock, on_log_line=hooks, log_call_bytes=log_call_bytes)

    def _publish_line(self, line: LogLine) -> None:
        fields = {"frame": line.frame, "kind": line.kind, "words": line.text}
        self.feed.publish(FeedEvent(line.execution_id, line=fields))

    # Life cycle

    async def open(self) -> None:
        """Raises Unavailable or Rejected when it cannot start. Later outages are retried."""
        await self.connection.open()
        await WorkerPoll(self.connection).subscribe(self._on_poll)
        for _ in range(self.options.slots):
            self._background.spawn(self.worker.serve())
        self._background.spawn(self.worker.send_heartbeats(self.options.lease_s / 3))
        self._background.spawn(self._announce_repeatedly())
        if self._server is not None:
            self._server.own_slots.join(self.queue)
            if self._calls is not None:
                self._background.spawn(self._calls.report(self._server.link))
            return
        self._background.spawn(measure_loop_lag(self.instruments.metrics, self.clock))
        self._stop_metrics = self.instruments.serve_metrics(self._settings)
        if not self.isolated:
            self.instruments.log.warning("pools.not-isolated", pool=self.options.pool, advice=ADVICE)

    def _on_poll(self) -> None:
        """A new owner of executions polls all workers: announce this one and the frames that it holds."""
        self.worker.spawn(self._announce())
        self.worker.spawn(self.worker.send_heartbeat())

    async def _announce_repeatedly(self) -> None:
        while True:
            await self._announce()
            await self.clock.sleep(ANNOUNCE_S)

    async def _announce(self) -> None:
        info = WorkerInfo(
            name=self.name,
            pool=self.options.pool,
            slots=self.options.slots,
            busy=len(self.worker.drivers),
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            labels=dict(self.options.labels),
            leaving=self.worker.draining,
            at=self.clock.now(),
        )
        await self.registry.announce(info)

    async def close(self, grace_s: float = WORKER_GRACE_S) -> None:
        if self._server is not None:
            self._server.own_slots.leave()
        self.worker.stop_claiming()
        await self._announce()
        await self.queue.leave()
        await self.worker.drain(grace_s)
        await self._background.cancel()
        await self.toolbox.close()
        if self._calls is not None:
            self._calls.close()
        await self.worker.close()
        if self._stop_metrics is not None:
            self._stop_metrics()
        for each in (self.queue, self.feed, self.registry, self.results):
            with suppress(Unavailable):
                await each.close()
        await self.connection.close()


@asynccontextmanager
async def open_worker(
    options: WorkerOptions,
    clock: Clock | None = None,
    *,
    on_error: Sequence[Callable[[BaseException], None]] = (),
    server: ServerRuntime | None = None,
) -> AsyncIterator[WorkerRuntime]:
    runtime = WorkerRuntime(options, clock or SystemClock(), on_error=on_error, server=server)
    try:
        await runtime.open()
        yield runtime
    finally:
        await runtime.close()
