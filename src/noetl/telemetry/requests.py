"""Requests to the API, counted and logged: method, route, status, time and who asked. No query and no body.

A middleware of plain ASGI; it stands outside of everything, so that what is refused is seen too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

from noetl.clock import Clock
from noetl.telemetry.logs import get_logger
from noetl.telemetry.metrics import Measures

Scope: TypeAlias = Any  # each framework has a type of its own for what ASGI calls mappings
Message: TypeAlias = Any
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

UNROUTED: Final = "-"  # nothing has that address
QUIET: Final = frozenset({"/health", "/ready", "/metrics"})  # asked every few seconds by machines
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

log = get_logger("api")


def nobody(_scope: MutableMapping[str, Any]) -> str | None:
    return None


class WatchedRequests:
    """Around an application."""

    def __init__(
        self,
        app: App,
        measures: Measures,
        clock: Clock,
        by: Callable[[MutableMapping[str, Any]], str | None] = nobody,
    ) -> None:
        """`by`: who asked, from the scope as it is when the answer has gone out."""
        self._app = app
        self._measures = measures
        self._monotonic = clock.monotonic
        self._by = by

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status, told = self._monotonic(), 500, False

        async def sent(message: Message) -> None:
            nonlocal status, told
            if message["type"] == "http.response.start":
                status = message["status"]
                if _is_stream(message) and not told:
                    told = True
                    self._tell(scope, status, begun)
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            if not told:
                self._tell(scope, status, begun)

    def _tell(self, scope: Scope, status: int, begun: float) -> None:
        spent = self._monotonic() - begun
        method = scope["method"] if scope["method"] in METHODS else "other"
        route = self._measures.route(scope.get("path_template") or UNROUTED)
        self._measures.house.request_s.see(spent, (method, route, str(status)))
        # What went well is in the metrics, and what it did is in the log of its execution: a line for each
        # would be a sixth of a busy server's time.
        is_fine = route in QUIET or status < 400
        tell = log.debug if is_fine else log.warning if status >= 500 else log.info
        tell(
            "request.answered",
            method=method,
            route=route,
            status=status,
            ms=round(spent * 1000, 2),
            by=self._by(scope),
        )


def _is_stream(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in message.get("headers", ())
    )
