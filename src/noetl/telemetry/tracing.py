"""Spans on their way to OpenTelemetry: made from committed facts, sent in batches, dropped when too many.

An execution that comes from another server is read from the log first; what ended there is not sent again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

import noetl
from noetl.clock import Clock
from noetl.engine import Event, facts
from noetl.errors import Rejected, install_hint
from noetl.net.program import Program
from noetl.ports import EventStore
from noetl.telemetry.fact_metrics import Watched
from noetl.telemetry.logs import get_logger
from noetl.telemetry.metrics import Measures
from noetl.telemetry.spans import Context, SpanData, Spans
from noetl.views.log import events_of

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

EXECUTIONS_MAX: Final = 5_000  # followed at once; others are read from the log again when they go on
FACTS_MAX: Final = 100_000  # that wait to be made into spans
SPANS_MAX: Final = 20_000  # that wait to be sent
BATCH: Final = 512
EVERY_S: Final = 1.0
TURN: Final = 200  # facts in one turn of the loop
TIMEOUT_S: Final = 10.0  # for one batch, with all that is tried again
GRACE_S: Final = 3.0  # for the last ones
PATH: Final = "/v1/traces"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

log = get_logger("traces")


class Door(Protocol):
    """Where spans go."""

    def send(self, spans: Sequence[SpanData]) -> bool:
        """Waits until they are there; False: they are not. Called in a thread."""
        ...

    def close(self) -> None: ...


class _Told(NamedTuple):
    execution_id: str
    program: Program
    events: Sequence[Event]


class Tracing:
    """`watch` of control, and a task that makes spans and sends them."""

    def __init__(self, door: Door, store: EventStore, clock: Clock, measures: Measures) -> None:
        self._door = door
        self._store = store
        self._clock = clock
        self._results = measures.house.spans
        self._told: deque[_Told] = deque()
        self._facts = 0  # in `_told`
        self._followed: OrderedDict[str, Spans] = OrderedDict()
        self._made: deque[SpanData] = deque()
        self._task: asyncio.Task[None] | None = None
        self._turn = 0  # facts since others had theirs

    def __call__(self, live: Watched, events: Sequence[Event]) -> None:
        """Only remembered here: nobody waits for a span."""
        if not events:
            return
        if self._facts + len(events) > FACTS_MAX:
            self._results.add("dropped", len(events))  # about as many; the gap is seen when it goes on
            return
        self._facts += len(events)
        self._told.append(_Told(live.id, live.program, events))

    def open(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Send what there is, for a while."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await self.flush()
        await asyncio.to_thread(self._door.close)

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(EVERY_S)
            await self.flush()

    async def flush(self) -> None:
        """All that was told up to now, made into spans and sent."""
        while self._told:
            told = self._told.popleft()
            self._facts -= len(told.events)
            try:
                await self._make(told)
            except Exception as error:  # noqa: BLE001  # a service's main loop: it must not end by one log
                # Without its beginning nothing can be said of it; it is tried again when it goes on.
                self._followed.pop(told.execution_id, None)
                log.debug("spans.lost", execution_id=told.execution_id, error=error)
            if len(self._made) >= BATCH:
                await self._send()
        while self._made:
            await self._send()

    async def _make(self, told: _Told) -> None:
        spans = self._followed.get(told.execution_id)
        first = told.events[0].seq
        if spans is None or spans.state.seq + 1 != first:
            spans = Spans(told.execution_id, told.program)
            for event in await self._before(told.execution_id, first):
                spans.feed(event)
        self._followed[told.execution_id] = spans
        self._followed.move_to_end(told.execution_id)
        for event in told.events:
            self._add(spans.feed(event))
            self._turn += 1
            if self._turn >= TURN:
                self._turn = 0
                await self._clock.sleep(0)
        if isinstance(told.events[-1].fact, facts.Processed):
            del self._followed[told.execution_id]
        elif len(self._followed) > EXECUTIONS_MAX:
            self._followed.popitem(last=False)

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
            sent = await asyncio.to_thread(self._door.send, batch)
        except Exception as error:  # noqa: BLE001  # the same: whatever a library raises
            log.debug("spans.dropped", error=error)
        finally:
            self._results.add("sent" if sent else "dropped", len(batch))


def open_otlp(url: str, service: str, instance: str) -> OtlpDoor:
    """By OTLP over HTTP. Raises Rejected, which does not name the address: it may hold a token."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Rejected("bad-setting", "NOETL_TRACES must be a URL such as http://127.0.0.1:4318")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise Rejected("no-adapter", f"NOETL_TRACES needs an extra: {install_hint('traces')}") from error
    whole = url if parts.path.strip("/") else parts._replace(path=PATH).geturl()
    return OtlpDoor(OTLPSpanExporter(endpoint=whole, timeout=TIMEOUT_S), service, instance)


class OtlpDoor:
    """Keeps the contract of Door, with any exporter of the SDK."""

    def __init__(self, exporter: SpanExporter, service: str, instance: str) -> None:
        from opentelemetry.sdk.resources import Resource

        self._exporter = exporter
        self._resource = Resource(
            {
                "service.name": service,
                "service.instance.id": instance,
                "service.version": noetl.__version__,
            }
        )

    def send(self, spans: Sequence[SpanData]) -> bool:
        from opentelemetry.sdk.trace.export import SpanExportResult

        result = self._exporter.export(list(readable(spans, self._resource)))
        return result is SpanExportResult.SUCCESS

    def close(self) -> None:
        self._exporter.shutdown()


def readable(spans: Sequence[SpanData], resource: Resource) -> Iterator[ReadableSpan]:
    """As the SDK's exporters take them."""
    from opentelemetry.sdk.trace import Event as SdkEvent
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

    scope = InstrumentationScope("noetl", noetl.__version__)
    codes = {"ok": StatusCode.OK, "error": StatusCode.ERROR}

    def context(named: Context) -> SpanContext:
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
    """Without a float in between, which would round the microseconds."""
    return ((at - _EPOCH) // _MICROSECOND) * 1000
