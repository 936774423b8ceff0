"""Wrappers that time and count the calls of the event store, the queue, the link and the HTTP API.

They change no result. They log refusals that an operator should know.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from noetl.cache import BoundedCache
from noetl.clock import Clock
from noetl.engine.commands import Command, Report, Start
from noetl.engine.state import Status
from noetl.errors import Conflict, Fenced, NotFound, Rejected, Unavailable
from noetl.output import Output
from noetl.ports import (
    DIRECT,
    Append,
    Claim,
    Epoch,
    EventStore,
    Grant,
    Link,
    LogRow,
    Pointer,
    ReportAnswer,
    Snapshot,
    SnapshotOf,
    WorkQueue,
)
from noetl.telemetry.logs import OutageLog, get_logger
from noetl.telemetry.metrics import NONE, Metrics

T = TypeVar("T")
LATE: Final = frozenset({"fenced", "elsewhere", "gone"})  # reports of a worker that no longer holds the frame
PENDING_MAX: Final = 50_000  # pointers; the oldest is removed
APPENDS_MAX: Final = 1_000  # counted at once: less than a millisecond

log = get_logger("wire")


class PendingPointer(NamedTuple):
    pool: str
    since: float  # on our monotonic clock


class PendingPointers:
    """Pointers that no worker has claimed. The queue wrapper adds them, the link wrapper removes them."""

    def __init__(self) -> None:
        self._pointers: BoundedCache[tuple[str, str], PendingPointer] = BoundedCache(PENDING_MAX)

    def add(self, execution_id: str, frame: str, pool: str, now: float) -> None:
        """A repeated pointer counts from the first one."""
        key = (execution_id, frame)
        if key not in self._pointers:
            self._pointers.put(key, PendingPointer(pool, now))

    def remove(self, execution_id: str, frame: str) -> PendingPointer | None:
        return self._pointers.pop((execution_id, frame))

    def oldest(self, is_waiting: Callable[[str, str], bool]) -> dict[str, float]:
        """Pool → the time of its oldest pointer. Pointers that no longer wait are removed."""
        found: dict[str, float] = {}
        for key, pointer in self._pointers.items():
            if not is_waiting(*key):
                self._pointers.pop(key)
            else:
                found[pointer.pool] = min(pointer.since, found.get(pointer.pool, pointer.since))
        return found


class MeasuredStore:
    """Implements EventStore.

    Appends are counted later, many at once: in the path of each commit the meters would cost 2 % of short executions.
    """

    def __init__(self, store: EventStore, metrics: Metrics, clock: Clock) -> None:
        self._store = store
        self._meters = metrics.store
        self._monotonic = clock.monotonic
        self._seconds: list[float] = []  # of calls that are not counted yet
        self._sizes: list[int] = []  # facts of appends that are not counted yet
        self._refusals = 0  # of these appends
        metrics.registry.before_read.append(self.flush)

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        if len(self._seconds) >= APPENDS_MAX:
            self.flush()
        begun = self._monotonic()
        try:
            answers = await self._store.append(appends)
        except Unavailable:
            self._meters.appends.add("unavailable", len(appends))
            self._meters.unavailable.add("append")
            raise
        finally:
            self._seconds.append(self._monotonic() - begun)
        for append in appends:
            self._sizes.append(len(append.facts))
        if any(answers):
            for append, refused in zip(appends, answers, strict=True):
                if refused is not None:
                    self._refused(append, refused)
        return answers

    def flush(self) -> None:
        """Count all appends up to now."""
        calls, batch = self._meters.append_s.of(), self._meters.batch.of()
        for seconds in self._seconds:
            calls.observe(seconds)
        for size in self._sizes:
            batch.observe(size)
        self._meters.appends.add("ok", len(self._sizes) - self._refusals)
        self._seconds.clear()
        self._sizes.clear()
        self._refusals = 0

    def _refused(self, append: Append, refused: Conflict | Fenced) -> None:
        self._refusals += 1
        fenced = isinstance(refused, Fenced)
        self._meters.appends.add("fenced" if fenced else "conflict")
        if fenced:
            self._meters.stale.add()
        event = "append.fenced" if fenced else "append.conflict"
        log.warning(event, execution_id=append.execution_id, seq=append.first_seq, owner=append.owner)

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]:
        return await self._timed("read", self._store.read(execution_id, after, up_to))

    async def status(self, execution_id: str) -> Status | None:
        return await self._timed("status", self._store.status(execution_id))

    async def snapshot(self, execution_id: str, of: SnapshotOf = "state") -> Snapshot | None:
        return await self._timed("snapshot", self._store.snapshot(execution_id, of))

    async def keep(self, execution_id: str, snapshot: Snapshot, of: SnapshotOf = "state") -> None:
        await self._timed("keep", self._store.keep(execution_id, snapshot, of))

    async def _timed(self, operation: str, work: Awaitable[T]) -> T:
        begun = self._monotonic()
        try:
            return await work
        except Unavailable:
            self._meters.unavailable.add(operation)
            raise
        finally:
            self._meters.read_s.observe(self._monotonic() - begun, operation)


class MeasuredQueue:
    """Implements WorkQueue."""

    def __init__(
        self, queue: WorkQueue, metrics: Metrics, clock: Clock, pending: PendingPointers | None = None
    ) -> None:
        """`pending`: shared with the link wrapper of the same server, which sees when a frame begins."""
        self._queue = queue
        self._meters = metrics.queue
        self._pool = metrics.pool
        self._monotonic = clock.monotonic
        self._pending = pending

    async def put(self, pointers: Sequence[Pointer]) -> None:
        with self._timed("put"):
            await self._queue.put(pointers)
        now = self._monotonic()
        for pointer in pointers:
            pool = self._pool(pointer.pool)
            self._meters.put.values[pool] += 1
            if self._pending is not None:
                self._pending.add(pointer.execution_id, pointer.frame, pool, now)

    async def take(self, limit: int) -> list[Claim]:
        try:
            claims = await self._queue.take(limit)
        except Unavailable:
            self._meters.unavailable.add("take")
            raise
        for claim in claims:
            if claim.delivery == DIRECT:
                continue
            self._meters.taken.values[self._pool(claim.pointer.pool)] += 1
        return claims

    async def done(self, claim: Claim) -> None:
        if claim.delivery == DIRECT:
            return
        with self._timed("done"):
            await self._queue.done(claim)
        self._meters.done.values[self._pool(claim.pointer.pool)] += 1

    @contextmanager
    def _timed(self, operation: str) -> Iterator[None]:
        begun = self._monotonic()
        try:
            yield
        except Unavailable:
            self._meters.unavailable.add(operation)
            raise
        finally:
            self._meters.call_s.observe(self._monotonic() - begun, operation)


class MeasuredLink:
    """Implements Link: around Control on a server, around the network client in a worker."""

    def __init__(self, link: Link, metrics: Metrics, clock: Clock, pending: PendingPointers | None = None) -> None:
        self._link = link
        self._meters = metrics.link
        self._report_s = metrics.link.call_s.of("report")
        self._wait_s = metrics.queue.wait_s
        self._reason = metrics.reason
        self._monotonic = clock.monotonic
        self._pending = pending
        self._outage = OutageLog(log, clock, "link")

    async def begin(self, execution_id: str, frame: str, worker: str) -> Grant | None:
        grant = await self._timed("begin", self._link.begin(execution_id, frame, worker))
        if grant is None:
            self._meters.refused.add(("begin", "nothing"))
        elif self._pending is not None and (waited := self._pending.remove(execution_id, frame)) is not None:
            self._wait_s.observe(self._monotonic() - waited.since, waited.pool)
        return grant

    async def report(self, execution_id: str, report: Report, *, room: int = 0) -> ReportAnswer:
        begun = self._monotonic()
        try:
            answer = await self._link.report(execution_id, report, room=room)
        except (Unavailable, NotFound, Rejected) as error:
            self._refused("report", error)
            raise
        finally:
            self._report_s.observe(self._monotonic() - begun)
        self._outage.end()
        if answer.next:
            self._meters.handed_on.values[NONE] += len(answer.next)
        if answer.word == "stop" and answer.why != "over":
            self._meters.refused.add(("report", self._reason(answer.why)))
            write = log.warning if answer.why in LATE else log.debug
            write("report.refused", execution_id=execution_id, frame=report.frame, why=answer.why)
        return answer

    async def beat(self, worker: str, holds: Sequence[tuple[str, str, Epoch]]) -> list[tuple[str, str]]:
        stop = await self._timed("beat", self._link.beat(worker, holds))
        if stop:
            self._meters.stopped.add(by=len(stop))
            log.info("frames.stopped", worker=worker, frames=len(stop))
        return stop

    async def start(self, execution_id: str, digest: str, start: Start) -> None:
        await self._timed("start", self._link.start(execution_id, digest, start))

    async def command(self, execution_id: str, command: Command) -> None:
        await self._timed("command", self._link.command(execution_id, command))

    async def iterations(self, execution_id: str, run: str, only: range | None = None) -> list[Output | None]:
        return await self._timed("iterations", self._link.iterations(execution_id, run, only))

    async def parent(self, execution_id: str) -> str | None:
        return await self._timed("parent", self._link.parent(execution_id))

    async def _timed(self, operation: str, work: Awaitable[T]) -> T:
        begun = self._monotonic()
        try:
            answer = await work
        except (Unavailable, NotFound, Rejected) as error:
            self._refused(operation, error)
            raise
        finally:
            self._meters.call_s.observe(self._monotonic() - begun, operation)
        self._outage.end()
        return answer

    def _refused(self, operation: str, error: Unavailable | NotFound | Rejected) -> None:
        match error:  # adapters raise subclasses of these
            case Rejected(code=code):
                why = self._reason(code)
            case NotFound():
                why = "not-found"
            case _:
                why = "unavailable"
                self._outage.add(error)
        self._meters.refused.add((operation, why))


Scope: TypeAlias = Any  # each framework has its own type for the mappings of ASGI
Message: TypeAlias = Any
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

UNROUTED: Final = "-"  # no route has this path
QUIET: Final = frozenset({"/health", "/ready", "/metrics"})  # polled every few seconds
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

api_log = get_logger("api")


class RequestMetrics:
    """The outermost ASGI middleware, which also sees refused requests. It logs no query and no body."""

    def __init__(
        self,
        app: App,
        metrics: Metrics,
        clock: Clock,
        caller: Callable[[MutableMapping[str, Any]], str | None] = lambda _scope: None,
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
        write = api_log.debug if is_fine else api_log.warning if status >= 500 else api_log.info
        ms, by = round(spent * 1000, 2), self._caller(scope)
        write("request.answered", method=method, route=route, status=status, ms=ms, by=by)


def _is_stream(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in message.get("headers", ())
    )
