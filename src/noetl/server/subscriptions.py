"""Subscriptions of the feed, and the subscribers of a stream with their bounded queues."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from types import TracebackType
from typing import Final, NamedTuple

import msgspec
from litestar.types import HTTPResponseBodyEvent, HTTPResponseStartEvent, Receive, Scope, Send

from noetl.engine.state import LIVE, Status
from noetl.errors import NotFound, Unavailable
from noetl.output import JSON
from noetl.ports import Feed, FeedEvent
from noetl.server.committed_logs import LogWatch
from noetl.server.services import Services

POLL_S: Final = 2.0  # a Feed may lose events, so the log is also polled at this interval
LINES_MAX: Final = 1_000  # lines of tools that wait to be sent; older ones are dropped
CHANGED_MAX: Final = 10_000  # executions with pending updates


class FeedUpdates(NamedTuple):
    """What has happened since the last look."""

    seqs: dict[str, int]  # execution → the least length of its log
    ended: bool  # one of the executions has ended
    lines: list[dict[str, JSON]]


class FeedSubscription:
    """Collects the feed events of one execution, or of all. Use it with `async with`."""

    def __init__(self, feed: Feed, execution_id: str | None = None, *, lines: bool = True) -> None:
        """`lines`: also those that tools write."""
        self._events: AbstractAsyncContextManager[AsyncIterator[FeedEvent]] = feed.subscribe(execution_id, lines=lines)
        self._changed = asyncio.Event()
        self._seqs: dict[str, int] = {}
        self._ended = False
        self._lines: deque[dict[str, JSON]] = deque(maxlen=LINES_MAX)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> FeedSubscription:
        events = await self._events.__aenter__()
        self._task = asyncio.ensure_future(self._collect(events))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._events.__aexit__(None, None, None)

    async def _collect(self, events: AsyncIterator[FeedEvent]) -> None:
        with suppress(Unavailable):  # then there are no events, and polling still finds the changes
            async for event in events:
                if event.line is not None:
                    self._lines.append(event.line)
                elif event.execution_id in self._seqs or len(self._seqs) < CHANGED_MAX:
                    seq = self._seqs.get(event.execution_id, 0)
                    self._seqs[event.execution_id] = max(seq, event.seq)
                    self._ended = self._ended or event.over
                self._changed.set()

    def wake(self) -> None:
        """Make `updates` return at once."""
        self._changed.set()

    async def ended(self, timeout_s: float, *, or_grown: bool) -> bool:
        """As of a `LogWatch`. It always returns when the log has grown."""
        del or_grown
        return (await self.updates(timeout_s)).ended

    async def updates(self, timeout_s: float) -> FeedUpdates:
        """The updates since the last call, as soon as there are any; empty after the timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        self._changed.clear()
        updates = FeedUpdates(self._seqs, self._ended, list(self._lines))
        self._seqs, self._ended = {}, False
        self._lines.clear()
        return updates


class CompletionWaiters:
    """All requests that wait for the end of an execution. They return when the server stops."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._subscriptions: set[FeedSubscription | LogWatch] = set()
        self._closed = False

    def close(self) -> None:
        self._closed = True
        for subscription in self._subscriptions:
            subscription.wake()

    @asynccontextmanager
    async def waiter(self, execution_id: str, wait_s: float) -> AsyncIterator[CompletionWaiter]:
        """To be entered before the execution starts, so that its end cannot be missed."""
        if not wait_s:
            yield CompletionWaiter(self._services, execution_id, 0.0, None)
            return
        async with self._subscribed(execution_id) as subscription:
            self._subscriptions.add(subscription)
            try:
                yield CompletionWaiter(self._services, execution_id, wait_s, subscription, lambda: self._closed)
            finally:
                self._subscriptions.discard(subscription)

    @asynccontextmanager
    async def _subscribed(self, execution_id: str) -> AsyncIterator[FeedSubscription | LogWatch]:
        """To our own commits, if this server is the owner: they need no feed."""
        committed = self._services.committed
        if committed.owns(execution_id):
            with committed.watch(execution_id) as watch:
                yield watch
            return
        async with FeedSubscription(self._services.feed, execution_id, lines=False) as subscription:
            yield subscription


class CompletionWaiter:
    """One request that waits for the end of an execution; without a subscription it does not wait."""

    def __init__(
        self,
        services: Services,
        execution_id: str,
        wait_s: float,
        subscription: FeedSubscription | LogWatch | None,
        is_closed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._services = services
        self._id = execution_id
        self._subscription = subscription
        self._until = services.clock.monotonic() + wait_s
        self._is_closed = is_closed

    def restart(self, wait_s: float) -> None:
        """Wait for so long from now on."""
        self._until = self._services.clock.monotonic() + wait_s

    async def status(self) -> Status:
        """The current status. Raises NotFound."""
        status = await self._services.store.status(self._id)
        if status is None:
            raise NotFound(f"no execution {self._id}")
        return status

    async def has_ended(self, *, is_new: bool, found: Callable[[], Awaitable[bool]] | None = None) -> bool:
        """Wait; True: it has ended in time. `is_new`: it has just started, so its status need not be read.

        `found` is called when the log has grown; True from it ends the wait, too.
        """
        if self._subscription is None:
            return False
        if not is_new and await self.status() not in LIVE:
            return True
        while (left_s := self._until - self._services.clock.monotonic()) > 0 and not self._is_closed():
            # A Feed may lose events, and another server may become the owner, so the status is also polled.
            if await self._end_reported(min(left_s, POLL_S), found) or await self.status() not in LIVE:
                return True
        return False

    async def _end_reported(self, timeout_s: float, found: Callable[[], Awaitable[bool]] | None) -> bool:
        assert self._subscription is not None
        until = self._services.clock.monotonic() + timeout_s
        while (left_s := until - self._services.clock.monotonic()) > 0 and not self._is_closed():
            ended = await self._subscription.ended(left_s, or_grown=found is not None)
            if ended or (found is not None and await found()):
                return True
        return False


QUEUE_BYTES_MAX: Final = 4 << 20  # queued for one subscriber; all subscribers share the bytes themselves
QUEUE_MAX: Final = 1_000
SEND_S: Final = 30.0  # a subscriber that accepts no data for this time is disconnected
RECONNECT: Final = b"retry: 1000\n\n"  # asks the client to reconnect after a second
HEARTBEAT: Final = b":\n\n"  # a comment, so that proxies do not close an idle connection

_encode = msgspec.json.Encoder().encode


def sse_message(event: str, value: object, seq: int | None = None) -> bytes:
    """One message of a stream. Encoded JSON never contains a line break."""
    id = b"" if seq is None else b"id: %d\n" % seq
    return b"%sevent: %s\ndata: %s\n\n" % (id, event.encode(), _encode(value))


_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class Subscriber:
    """The queue of one subscriber."""

    __slots__ = ("_bytes", "_changed", "_chunks", "closed")

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self.closed = False  # it accepts no more chunks

    def push(self, chunk: bytes) -> None:
        if self.closed or not chunk:
            return
        too_much = self._bytes + len(chunk) > QUEUE_BYTES_MAX or len(self._chunks) >= QUEUE_MAX
        if too_much and self._chunks:
            self._chunks.clear()
            self.finish(RECONNECT)
            return
        self._chunks.append(chunk)
        self._bytes += len(chunk)
        self._changed.set()

    def heartbeat(self) -> None:
        """Only when the queue is empty: other data serves the same purpose."""
        if not self._chunks:
            self.push(HEARTBEAT)

    def finish(self, last: bytes = b"") -> None:
        """End the stream after the queued chunks and this one."""
        if not self.closed:
            self.closed = True
            self._chunks.append(last)
            self._changed.set()

    def disconnect(self) -> None:
        """The client is gone."""
        self._chunks.clear()
        self.closed = True
        self._changed.set()

    async def next(self) -> bytes:
        """The next chunk; empty at the end of the stream."""
        while not self._chunks:
            if self.closed:
                return b""
            self._changed.clear()
            await self._changed.wait()
        chunk = self._chunks.popleft()
        self._bytes -= len(chunk)
        return chunk


class SubscriberResponse:
    """The response to a subscriber. It lasts until the client disconnects or the stream ends."""

    def __init__(self, chunks: Callable[[Subscriber], AsyncIterator[bytes]], send_s: float = SEND_S) -> None:
        self._chunks = chunks
        self._send_s = send_s

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        subscriber = Subscriber()
        chunks = self._chunks(subscriber)
        # An error raised before the first chunk becomes an ordinary error response.
        first = await anext(chunks, b"")
        watching = asyncio.ensure_future(_watch_disconnect(receive, subscriber))
        try:
            start: HTTPResponseStartEvent = {
                "type": "http.response.start", "status": 200, "headers": _HEADERS,
            }  # fmt: skip
            await send(start)
            await self._send(send, first, more=True)
            async for chunk in chunks:
                await self._send(send, chunk, more=True)
            await self._send(send, b"", more=False)
        except TimeoutError:
            return  # the client accepts no data: the connection is closed
        finally:
            subscriber.disconnect()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await close_source(chunks)

    async def _send(self, send: Send, body: bytes, *, more: bool) -> None:
        async with asyncio.timeout(self._send_s):
            await send_body(send, body, more=more)


async def _watch_disconnect(receive: Receive, subscriber: Subscriber) -> None:
    await disconnected(receive)
    subscriber.disconnect()


async def disconnected(receive: Receive) -> None:
    """Return when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        continue


async def close_source(chunks: AsyncIterator[bytes]) -> None:
    """Let a generator release what it has open."""
    close = getattr(chunks, "aclose", None)
    if close is not None:
        await close()


async def send_body(send: Send, body: bytes, *, more: bool) -> None:
    message: HTTPResponseBodyEvent = {"type": "http.response.body", "body": body, "more_body": more}
    await send(message)
