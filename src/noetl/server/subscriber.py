"""One subscriber of a stream: a bounded queue of shared chunks, and the response that sends them.

A subscriber that reads too slowly is asked to reconnect; it then continues after its Last-Event-ID.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final

from litestar.types import HTTPResponseBodyEvent, HTTPResponseStartEvent, Receive, Scope, Send

QUEUE_BYTES_MAX: Final = 4 << 20  # queued for one subscriber; all subscribers share the bytes themselves
QUEUE_MAX: Final = 1_000
SEND_S: Final = 30.0  # a subscriber that accepts no data for this time is disconnected
RECONNECT: Final = b"retry: 1000\n\n"  # asks the client to reconnect after a second
HEARTBEAT: Final = b":\n\n"  # a comment, so that proxies do not close an idle connection

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
        disconnected = asyncio.ensure_future(_watch_disconnect(receive, subscriber))
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
            disconnected.cancel()
            await asyncio.gather(disconnected, return_exceptions=True)
            aclose = getattr(chunks, "aclose", None)
            if aclose is not None:
                await aclose()

    async def _send(self, send: Send, body: bytes, *, more: bool) -> None:
        message: HTTPResponseBodyEvent = {"type": "http.response.body", "body": body, "more_body": more}
        async with asyncio.timeout(self._send_s):
            await send(message)


async def _watch_disconnect(receive: Receive, subscriber: Subscriber) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    subscriber.disconnect()
