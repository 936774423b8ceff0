"""Spans are sent as they end, by OTLP; what comes from another server is read from the log first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from noetl.engine import Event
from noetl.engine.facts import ForSignal, FrameParked
from noetl.errors import Rejected
from noetl.telemetry import tracing
from noetl.telemetry.spans import SpanData, trace_id
from noetl.telemetry.tracing import OtlpSink, Tracing, open_otlp
from tests.unit.telemetry.runtimes import ID, MeasuredRuntime, run_in, run_whole, spans_of
from tests.unit.telemetry.test_spans import FAILING, TWO
from tests.unit.tools.calls import server


class Kept:
    """A sink that keeps all spans; or, if shut, refuses them."""

    def __init__(self, *, shut: bool = False) -> None:
        self.spans: list[SpanData] = []
        self.shut = shut
        self.closed = False

    def send(self, spans: Sequence[SpanData]) -> bool:
        if self.shut:
            raise OSError("no server is there")
        self.spans += spans
        return True

    def close(self) -> None:
        self.closed = True


class FollowedExecution:
    """An execution as control tells of it."""

    def __init__(self, runtime: MeasuredRuntime) -> None:
        self.id = ID
        self.program = runtime.programs["p"]


def test_what_is_sent_while_it_runs_is_what_its_log_gives_afterwards() -> None:
    runtime, door = MeasuredRuntime(p=TWO), Kept()

    async def work(runtime: MeasuredRuntime) -> list[Event]:
        tracing = Tracing(door, runtime.store, runtime.clock, runtime.metrics)
        runtime.watchers.append(tracing)
        log = await runtime.whole("p")
        await tracing.close()
        return log

    log = run_in(runtime, work)
    assert door.spans == spans_of(ID, log, runtime.programs["p"])
    assert door.closed
    assert dict(runtime.metrics.process.spans.values) == {"sent": 5}


def test_an_execution_from_another_server_is_read_from_the_log_and_only_what_is_new_is_sent() -> None:
    runtime, log = run_whole(TWO)
    door = Kept()
    every = spans_of(ID, log, runtime.programs["p"])
    middle = next(place for place, event in enumerate(log) if event.seq == 7)

    async def work() -> None:
        tracing = Tracing(door, runtime.store, runtime.clock, runtime.metrics)
        tracing(FollowedExecution(runtime), log[middle:])
        await tracing.close()

    asyncio.run(work())
    assert 0 < len(door.spans) < len(every)
    assert door.spans == every[-len(door.spans) :]


def test_a_gap_is_read_from_the_log() -> None:
    runtime, log = run_whole(TWO)
    door = Kept()

    async def work() -> None:
        tracing = Tracing(door, runtime.store, runtime.clock, runtime.metrics)
        tracing(FollowedExecution(runtime), log[:3])
        tracing(FollowedExecution(runtime), log[-1:])
        await tracing.close()

    asyncio.run(work())
    assert [span.name for span in door.spans] == ["playbook t"]


def test_spans_that_nobody_takes_are_dropped_and_counted() -> None:
    runtime, log = run_whole(TWO)

    async def work() -> None:
        tracing = Tracing(Kept(shut=True), runtime.store, runtime.clock, runtime.metrics)
        tracing(FollowedExecution(runtime), log)
        await tracing.close()

    asyncio.run(work())
    assert dict(runtime.metrics.process.spans.values) == {"dropped": 5}


def test_more_facts_than_may_wait_are_dropped_and_counted() -> None:
    runtime, log = run_whole(TWO)
    door = Kept()

    async def work() -> None:
        following = Tracing(door, runtime.store, runtime.clock, runtime.metrics)
        following(FollowedExecution(runtime), log[:1] * tracing.FACTS_MAX)
        following(FollowedExecution(runtime), log)
        assert dict(runtime.metrics.process.spans.values) == {"dropped": len(log)}

    asyncio.run(work())


def test_a_log_that_can_not_be_read_costs_its_own_spans_only() -> None:
    runtime, log = run_whole(TWO)
    door = Kept()

    async def work() -> None:
        tracing = Tracing(door, runtime.store, runtime.clock, runtime.metrics)
        stray = [Event(9, log[0].at, FrameParked(frame="x#1", call=1, until=ForSignal(name="s")))]
        tracing(FollowedExecution(runtime), stray)
        tracing(FollowedExecution(runtime), log)
        await tracing.close()

    asyncio.run(work())
    assert len(door.spans) == 5


def test_an_exporter_of_the_sdk_gets_whole_spans() -> None:
    _, log = run_whole(FAILING)
    exporter = InMemorySpanExporter()
    door = OtlpSink(exporter, "noetl-server", "s1")
    spans = spans_of(ID, log)
    assert door.send(spans)
    finished = exporter.get_finished_spans()
    assert [span.name for span in finished] == [span.name for span in spans]
    call, root = finished[0], finished[-1]
    assert call.status.status_code is StatusCode.ERROR
    assert call.status.description is None
    assert call.start_time == _nanos(spans[0])
    assert root.context is not None
    assert root.context.trace_id == trace_id(ID)
    assert root.context.trace_flags.sampled
    assert root.kind is SpanKind.INTERNAL
    assert root.resource.attributes["service.name"] == "noetl-server"
    assert [event.name for event in finished[-2].events] == ["retry", "retry"]
    door.close()


def _nanos(span: SpanData) -> int:
    seconds, micros = int(span.begun_at.timestamp()), span.begun_at.microsecond
    return seconds * 1_000_000_000 + micros * 1_000


@asynccontextmanager
async def receiver(taken: list[ExportTraceServiceRequest]) -> AsyncIterator[str]:
    """Speaks OTLP over HTTP."""

    async def handler(request: web.Request) -> web.Response:
        assert (request.path, request.content_type) == ("/v1/traces", "application/x-protobuf")
        taken.append(ExportTraceServiceRequest.FromString(await request.read()))
        return web.Response(content_type="application/x-protobuf")

    async with server(handler) as url:
        yield url


def test_spans_reach_a_receiver_by_otlp() -> None:
    runtime = MeasuredRuntime(p=TWO)
    taken: list[ExportTraceServiceRequest] = []

    async def work(runtime: MeasuredRuntime) -> None:
        async with receiver(taken) as url:
            tracing = Tracing(open_otlp(url, "noetl-server", "s1"), runtime.store, runtime.clock, runtime.metrics)
            tracing.open()
            runtime.watchers.append(tracing)
            await runtime.whole("p")
            await tracing.close()

    run_in(runtime, work)
    spans = [
        span
        for request in taken
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert sorted(span.name for span in spans) == [
        "playbook t", "step b", "step start", "task first", "task last",
    ]  # fmt: skip
    assert {span.trace_id for span in spans} == {trace_id(ID).to_bytes(16)}
    named = {
        each.key: each.value.string_value
        for request in taken
        for resource in request.resource_spans
        for each in resource.resource.attributes
    }
    assert (named["service.name"], named["service.instance.id"]) == ("noetl-server", "s1")
    assert dict(runtime.metrics.process.spans.values) == {"sent": 5}


@pytest.mark.parametrize("url", ["", "localhost:4318", "ftp://host/", "http://", "grpc://secret@host:1"])
def test_an_address_that_is_none_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(Rejected, match="NOETL_TRACES must be a URL") as refused:
        open_otlp(url, "s", "i")
    assert "secret" not in str(refused.value)
