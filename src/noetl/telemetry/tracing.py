"""Sends spans to OpenTelemetry: made from committed facts, sent in batches, dropped when there are too many.

An execution from another server is read from the log first; spans that ended there are not sent again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

import noetl
from noetl.cache import BoundedCache
from noetl.clock import Clock
from noetl.engine import Event, facts
from noetl.errors import Rejected, install_hint
from noetl.net.program import Program
from noetl.ports import EventStore
from noetl.telemetry.control_metrics import CommittedExecution
from noetl.telemetry.logs import get_logger
from noetl.telemetry.metrics import Metrics
from noetl.telemetry.spans import SpanData, SpanRef, Spans
from noetl.views.log import events_of

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

EXECUTIONS_MAX: Final = 5_000  # in memory; others are read from the log again when they continue
FACTS_MAX: Final = 100_000  # that wait for conversion
SPANS_MAX: Final = 20_000  # that wait for sending
BATCH: Final = 512
EVERY_S: Final = 1.0
FACTS_PER_TURN: Final = 200  # of the event loop
TIMEOUT_S: Final = 10.0  # for one batch, including retries
GRACE_S: Final = 3.0  # for the last spans
PATH: Final = "/v1/traces"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

log = get_logger("traces")


class SpanSink(Protocol):
    """The destination of spans."""

    def send(self, spans: Sequence[SpanData]) -> bool:
        """Send and wait; False: they were not accepted. Called in a thread."""
        ...

    def close(self) -> None: ...


class _Commit(NamedTuple):
    execution_id: str
    program: Program
    events: Sequence[Event]


class Tracing:
    """A commit hook of Control, and a task that makes spans and sends them."""

    def __init__(self, sink: SpanSink, store: EventStore, clock: Clock, metrics: Metrics) -> None:
        self._sink = sink
        self._store = store
        self._clock = clock
        self._results = metrics.process.spans
        self._commits: deque[_Commit] = deque()
        self._facts = 0  # in `_commits`
        self._followed: BoundedCache[str, Spans] = BoundedCache(EXECUTIONS_MAX)
        self._made: deque[SpanData] = deque()
        self._task: asyncio.Task[None] | None = None
        self._turn = 0  # facts since the last turn of other tasks

    def __call__(self, live: CommittedExecution, events: Sequence[Event]) -> None:
        """Only store the events: a commit must not wait for spans."""
        if not events:
            return
        if self._facts + len(events) > FACTS_MAX:
            self._results.add("dropped", len(events))  # approximately; the gap is noticed at the next commit
            return
        self._facts += len(events)
        self._commits.append(_Commit(live.id, live.program, events))

    def open(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Send the remaining spans, within a time limit."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await self.flush()
        await asyncio.to_thread(self._sink.close)

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(EVERY_S)
            await self.flush()

    async def flush(self) -> None:
        """Convert and send all commits up to now."""
        while self._commits:
            commit = self._commits.popleft()
            self._facts -= len(commit.events)
            try:
                await self._make(commit)
            except Exception as error:  # noqa: BLE001  # the main loop must survive one bad log
                # Without its beginning it has no spans; the next commit tries again.
                self._followed.pop(commit.execution_id)
                log.debug("spans.lost", execution_id=commit.execution_id, error=error)
            if len(self._made) >= BATCH:
                await self._send()
        while self._made:
            await self._send()

    async def _make(self, commit: _Commit) -> None:
        spans = self._followed.get(commit.execution_id)
        first = commit.events[0].seq
        if spans is None or spans.state.seq + 1 != first:
            spans = Spans(commit.execution_id, commit.program)
            for event in await self._before(commit.execution_id, first):
                spans.feed(event)
        self._followed.put(commit.execution_id, spans)
        for event in commit.events:
            self._add(spans.feed(event))
            self._turn += 1
            if self._turn >= FACTS_PER_TURN:
                self._turn = 0
                await self._clock.sleep(0)
        if isinstance(commit.events[-1].fact, facts.Processed):
            self._followed.pop(commit.execution_id)

    async def _before(self, execution_id: str, first: int) -> list[Event]:
        if first == 1:
            return []
        return [event for event in events_of(await self._store.read(execution_id)) if event.seq < first]

    def _add(self, spans: list[SpanData]) -> None:
        room = SPANS_MAX - len(self._made)
        self._made.extend(spans[:room])
        if len(spans) > room:
            self._results.add("dropped", len(spans) - room)

    async def _send(self) -> None:
        batch = [self._made.popleft() for _ in range(min(BATCH, len(self._made)))]
        sent = False
        try:
            sent = await asyncio.to_thread(self._sink.send, batch)
        except Exception as error:  # noqa: BLE001  # the same, for any exception of a library
            log.debug("spans.dropped", error=error)
        finally:
            self._results.add("sent" if sent else "dropped", len(batch))


def open_otlp(url: str, service: str, instance: str) -> OtlpSink:
    """OTLP over HTTP. Raises Rejected without the address, which may contain a token."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Rejected("bad-setting", "NOETL_TRACES must be a URL such as http://127.0.0.1:4318")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise Rejected("no-adapter", f"NOETL_TRACES requires an extra: {install_hint('traces')}") from error
    whole = url if parts.path.strip("/") else parts._replace(path=PATH).geturl()
    return OtlpSink(OTLPSpanExporter(endpoint=whole, timeout=TIMEOUT_S), service, instance)


class OtlpSink:
    """Implements SpanSink with any exporter of the SDK."""

    def __init__(self, exporter: SpanExporter, service: str, instance: str) -> None:
        from opentelemetry.sdk.resources import Resource

        self._exporter = exporter
        self._resource = Resource(
            {"service.name": service, "service.instance.id": instance, "service.version": noetl.__version__}
        )

    def send(self, spans: Sequence[SpanData]) -> bool:
        from opentelemetry.sdk.trace.export import SpanExportResult

        result = self._exporter.export(list(readable(spans, self._resource)))
        return result is SpanExportResult.SUCCESS

    def close(self) -> None:
        self._exporter.shutdown()


def readable(spans: Sequence[SpanData], resource: Resource) -> Iterator[ReadableSpan]:
    """Convert spans to the type that exporters of the SDK accept."""
    from opentelemetry.sdk.trace import Event as SdkEvent
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

    scope = InstrumentationScope("noetl", noetl.__version__)
    codes = {"ok": StatusCode.OK, "error": StatusCode.ERROR}

    def context(named: SpanRef) -> SpanContext:
        flags = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(named.trace_id, named.span_id, is_remote=False, trace_flags=flags)

    for span in spans:
        yield ReadableSpan(
            name=span.name,
            context=context(span.context),
            parent=context(span.parent) if span.parent is not None else None,
            resource=resource,
            attributes=span.attributes,
            events=[SdkEvent(each.name, each.attributes, _nanos(each.at)) for each in span.events],
            links=[Link(context(each)) for each in span.links],
            kind=SpanKind.CLIENT if span.kind == "client" else SpanKind.INTERNAL,
            status=Status(codes[span.status]),
            start_time=_nanos(span.begun_at),
            end_time=_nanos(span.ended_at),
            instrumentation_scope=scope,
        )


def _nanos(at: datetime) -> int:
    """In integers: a float would round the microseconds."""
    return ((at - _EPOCH) // _MICROSECOND) * 1000
