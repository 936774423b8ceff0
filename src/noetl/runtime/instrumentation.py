"""What a server or a worker shows of itself: metrics, traces and log lines, put around its ports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from noetl.clock import Clock
from noetl.control.executions import Control
from noetl.control.live_execution import LiveExecution
from noetl.control.sweeper import sweep
from noetl.engine import Event
from noetl.ports import EventStore, WorkerRegistry
from noetl.runtime.settings import DATABASE, LINK_KEY, LOG, METRICS, NATS, TOKEN, TRACES
from noetl.telemetry.control_gauges import read_control, read_roster
from noetl.telemetry.fact_metrics import Seen
from noetl.telemetry.logs import get_logger, redaction, start_logging
from noetl.telemetry.loop_lag import measured_sweep
from noetl.telemetry.metrics import Measures
from noetl.telemetry.pending import Pending
from noetl.telemetry.prometheus import make_registry, serve_metrics
from noetl.telemetry.requests import WatchedRequests
from noetl.telemetry.tracing import Tracing, open_otlp
from noetl.telemetry.transitions import Ownership, Trouble

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_HIDDEN = ("NOETL_KEY", LINK_KEY, TOKEN)


class Instrumentation:
    """One of each for a process."""

    def __init__(self, clock: Clock, area: str) -> None:
        self.clock = clock
        self.log = get_logger(area)
        self.measures, self.pending = Measures(), Pending()
        self._seen = Seen(self.measures)
        self._trouble = Trouble(self.log, clock, "store")
        self.ownership = Ownership(self.log)
        self._tracing: Tracing | None = None

    def watch(self, control: Control, roster: WorkerRegistry | None = None) -> None:
        """Gauges are read from control, and its trouble is told."""
        control.trouble = self._trouble.tell
        read_control(self.measures, control, self.clock, self.pending)
        self.measures.house.timers.reads(lambda: len(control.timers))
        if roster is not None:
            read_roster(self.measures, roster)

    def see(self, live: LiveExecution, events: list[Event]) -> None:
        """What is on record."""
        if events:
            self._trouble.over()
        self._seen(live, events)
        if self._tracing is not None:
            self._tracing(live, events)

    async def sweep(self, control: Control) -> None:
        await measured_sweep(lambda: sweep(control), self.measures, control, self.clock)

    def trace(self, name: str, store: EventStore, environment: Mapping[str, str] = os.environ) -> None:
        """Executions become traces, if someone wants them."""
        if url := environment.get(TRACES):
            self._tracing = Tracing(open_otlp(url, "noetl-server", name), store, self.clock, self.measures)
            self._tracing.open()

    async def close(self) -> None:
        if self._tracing is not None:
            await self._tracing.close()

    def registry(self) -> CollectorRegistry:
        return make_registry(self.measures)

    def around(self, app: Any) -> WatchedRequests:
        return WatchedRequests(app, self.measures, self.clock, _caller)

    def expose(self, environment: Mapping[str, str] = os.environ) -> Callable[[], None] | None:
        """A worker's metrics, where they are asked for: else it has no port. What is returned ends it."""
        address = environment.get(METRICS)
        return serve_metrics(self.registry(), address) if address else None


def _caller(scope: MutableMapping[str, Any]) -> str | None:
    from noetl.server.auth import CALLER, Caller

    caller = (scope.get("state") or {}).get(CALLER)
    return caller.name if isinstance(caller, Caller) else None


def begin_log(environment: Mapping[str, str] = os.environ) -> Callable[[], None]:
    """To standard error, without what is secret. What is returned ends it. Raises Rejected."""
    for name in _HIDDEN:
        if value := environment.get(name):
            redaction.hide(value)
    for name in (DATABASE, NATS):
        with suppress(ValueError):
            if password := urlsplit(environment.get(name, "")).password:
                redaction.hide(password)
    return start_logging(sys.stderr, environment.get(LOG) or "info")
