"""Requests are counted and logged by route, without their query strings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from noetl.clock import SystemClock
from noetl.telemetry.logs import start_logging
from noetl.telemetry.measured import Message, Receive, RequestMetrics, Scope, Send
from noetl.telemetry.metrics import Metrics
from tests.unit.telemetry.test_logs import Lines


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers as the path says; a framework writes the route into the scope, and who asks."""
    if scope["type"] != "http":
        return
    path = scope["path"]
    if path == "/broken":
        raise ZeroDivisionError(path)
    if path != "/unknown":
        scope["path_template"] = "/executions/{id}" if path.startswith("/executions") else path
    scope["by"] = "ann"
    kind = b"text/event-stream" if path == "/stream" else b"application/json"
    status = 404 if path == "/unknown" else 200
    await send({"type": "http.response.start", "status": status, "headers": [(b"Content-Type", kind)]})
    await receive()
    await send({"type": "http.response.body", "body": b""})


def asked_for(scope: MutableMapping[str, Any]) -> str | None:
    by = scope.get("by")
    return by if isinstance(by, str) else None


class Asked:
    """A server that calls an application, with its metrics and log lines."""

    def __init__(self) -> None:
        self.metrics, self.lines = Metrics(), Lines()
        self.seen: list[int] = []  # how many requests were logged before the body was read

    def ask(self, path: str, method: str = "GET") -> None:
        watched = RequestMetrics(app, self.metrics, SystemClock(), asked_for)

        async def receive() -> Message:
            self.seen.append(len(self.lines.read_all()))
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            del message

        stop = start_logging(self.lines, "debug", pretty=False)
        try:
            scope = {"type": "http", "method": method, "path": path, "query_string": b"token=canary"}
            asyncio.run(watched(scope, receive, send))
        finally:
            stop()


def test_a_request_is_told_by_its_route_and_by_who_asked() -> None:
    asked = Asked()
    asked.ask("/executions/0199")
    (line,) = asked.lines.read_all()
    assert line.pop("ms") >= 0
    assert line.pop("at")
    assert line == {
        "event": "request.answered", "level": "debug", "area": "api", "method": "GET",
        "route": "/executions/{id}", "status": 200, "by": "ann",
    }  # fmt: skip
    assert list(asked.metrics.process.request_s.cells) == [("GET", "/executions/{id}", "200")]


def test_addresses_and_methods_that_nothing_answers_to_make_no_labels() -> None:
    asked = Asked()
    asked.ask("/unknown")
    asked.ask("/unknown", "BREW")
    assert list(asked.metrics.process.request_s.cells) == [("GET", "-", "404"), ("other", "-", "404")]


def test_what_falls_over_counts_as_500() -> None:
    asked = Asked()
    with pytest.raises(ZeroDivisionError):
        asked.ask("/broken")
    (line,) = asked.lines.read_all()
    assert (line["status"], line["level"]) == (500, "warning")


def test_machines_that_ask_for_health_are_quiet() -> None:
    asked = Asked()
    asked.ask("/health")
    assert [line["level"] for line in asked.lines.read_all()] == ["debug"]


def test_a_live_stream_is_told_of_when_it_begins() -> None:
    asked = Asked()
    asked.ask("/stream")
    assert asked.seen == [1]
    assert len(asked.lines.read_all()) == 1


def test_a_query_is_never_logged() -> None:
    asked = Asked()
    asked.ask("/executions/1")
    assert "canary" not in asked.lines.getvalue()


def test_what_is_no_request_goes_through() -> None:
    metrics = Metrics()

    async def nothing() -> Message:
        return json.loads("{}")

    async def nowhere(message: Message) -> None:
        del message

    asyncio.run(RequestMetrics(app, metrics, SystemClock())({"type": "lifespan"}, nothing, nowhere))
    assert metrics.process.request_s.cells == {}
