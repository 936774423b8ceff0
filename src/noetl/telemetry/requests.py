"""Counts and logs API requests: method, route, status, duration and caller. No query and no body.

It is the outermost ASGI middleware, so that it also sees refused requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

from noetl.clock import Clock
from noetl.telemetry.logs import get_logger
from noetl.telemetry.metrics import Metrics

Scope: TypeAlias = Any  # each framework has its own type for the mappings of ASGI
Message: TypeAlias = Any
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

UNROUTED: Final = "-"  # no route has this path
QUIET: Final = frozenset({"/health", "/ready", "/metrics"})  # polled every few seconds
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

log = get_logger("api")


def unknown_caller(_scope: MutableMapping[str, Any]) -> str | None:
    return None


class RequestMetrics:
    """Wraps an ASGI application."""

    def __init__(
        self,
        app: App,
        metrics: Metrics,
        clock: Clock,
        caller: Callable[[MutableMapping[str, Any]], str | None] = unknown_caller,
    ) -> None:
        """`caller`: the name of the caller, from the scope after the response."""
        self._app = app
        self._metrics = metrics
        self._monotonic = clock.monotonic
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status, recorded = self._monotonic(), 500, False

        async def sent(message: Message) -> None:
            nonlocal status, recorded
            if message["type"] == "http.response.start":
                status = message["status"]
                if _is_stream(message) and not recorded:
                    recorded = True
                    self._record(scope, status, begun)
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            if not recorded:
                self._record(scope, status, begun)

    def _record(self, scope: Scope, status: int, begun: float) -> None:
        spent = self._monotonic() - begun
        method = scope["method"] if scope["method"] in METHODS else "other"
        route = self._metrics.route(scope.get("path_template") or UNROUTED)
        self._metrics.process.request_s.observe(spent, (method, route, str(status)))
        # Successful requests are in the metrics, and their effects in the event log: a line for each would
        # cost a sixth of the time of a busy server.
        is_fine = route in QUIET or status < 400
        write = log.debug if is_fine else log.warning if status >= 500 else log.info
        write(
            "request.answered",
            method=method,
            route=route,
            status=status,
            ms=round(spent * 1000, 2),
            by=self._caller(scope),
        )


def _is_stream(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in message.get("headers", ())
    )
