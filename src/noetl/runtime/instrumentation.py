"""The telemetry of a server or a worker process: metrics, traces and the process log."""

from __future__ import annotations

import sys
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from noetl.clock import Clock
from noetl.control.executions import Control
from noetl.control.live_execution import LiveExecution
from noetl.control.sweeper import sweep
from noetl.engine import Event
from noetl.errors import Unavailable
from noetl.ports import EventStore, WorkerRegistry
from noetl.runtime.settings import Settings
from noetl.telemetry.control_metrics import FactMetrics, measured_sweep, read_control, read_workers
from noetl.telemetry.logs import OutageLog, OwnershipLog, get_logger, redaction, start_logging
from noetl.telemetry.measured import PendingPointers, RequestMetrics
from noetl.telemetry.metrics import Metrics, make_registry, serve_metrics
from noetl.telemetry.tracing import Tracing, open_otlp

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class Instrumentation:
    """The instruments of one process."""

    def __init__(self, clock: Clock, area: str) -> None:
        self.clock = clock
        self.log = get_logger(area)
        self.metrics, self.pending = Metrics(), PendingPointers()
        self.ownership = OwnershipLog(self.log)
        self._facts = FactMetrics(self.metrics)
        self._outage = OutageLog(self.log, clock, "store")
        self._tracing: Tracing | None = None

    def read_gauges(self, control: Control, workers: WorkerRegistry | None = None) -> None:
        """Read the gauges from Control and from the registry of workers."""
        read_control(self.metrics, control, self.clock, self.pending)
        self.metrics.process.timers.read_from(lambda: len(control.timers))
        if workers is not None:
            read_workers(self.metrics, workers)

    def on_commit(self, live: LiveExecution, events: list[Event]) -> None:
        if events:
            self._outage.end()
        self._facts(live, events)
        if self._tracing is not None:
            self._tracing(live, events)

    def on_unavailable(self, error: Unavailable) -> None:
        self._outage.add(error)

    async def sweep(self, control: Control) -> None:
        await measured_sweep(lambda: sweep(control), self.metrics, control, self.clock)

    def start_tracing(self, settings: Settings, name: str, store: EventStore) -> None:
        """Send executions as traces, if NOETL_TRACES is set. Raises Rejected."""
        if settings.traces:
            sink = open_otlp(settings.traces, "noetl-server", name)
            self._tracing = Tracing(sink, store, self.clock, self.metrics)
            self._tracing.open()

    async def close(self) -> None:
        if self._tracing is not None:
            await self._tracing.close()

    def registry(self) -> CollectorRegistry:
        return make_registry(self.metrics)

    def wrap(self, app: Any) -> RequestMetrics:
        """Measure the requests to an ASGI application."""
        return RequestMetrics(app, self.metrics, self.clock, _caller)

    def serve_metrics(self, settings: Settings) -> Callable[[], None] | None:
        """Serve the metrics of a worker, if NOETL_METRICS is set. Returns the function that stops it."""
        return serve_metrics(self.registry(), settings.metrics) if settings.metrics else None


def _caller(scope: MutableMapping[str, Any]) -> str | None:
    from noetl.server.auth import CALLER, Caller

    caller = (scope.get("state") or {}).get(CALLER)
    return caller.name if isinstance(caller, Caller) else None


def configure_logging(settings: Settings) -> Callable[[], None]:
    """Log to standard error, without the secrets of the settings. Returns the function that stops it.

    Raises Rejected for an unknown level.
    """
    pool_keys = [each.partition("=")[2] for each in settings.pool_keys.replace(",", " ").split()]
    own = (settings.key, settings.link_key, settings.pool_key, settings.token, settings.oidc_client_secret)
    for value in (*own, *pool_keys):
        redaction.hide(value)
    for url in (settings.database, settings.nats):
        with suppress(ValueError):
            if password := urlsplit(url).password:
                redaction.hide(password)
    return start_logging(sys.stderr, settings.log)
