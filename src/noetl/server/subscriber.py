"""One follower of a stream: a bounded queue of bytes that others hold too, and the answer that sends them.

Whoever reads too slowly is sent away with a hint, and takes up where he was by Last-Event-ID.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final

from litestar.types import HTTPResponseBodyEvent, HTTPResponseStartEvent, Receive, Scope, Send

QUEUE_BYTES_MAX: Final = 4 << 20  # that wait for one follower; the bytes themselves are shared by all
QUEUE_MAX: Final = 1_000
SEND_S: Final = 30.0  # a follower who takes nothing for so long is gone
RETRY: Final = b"retry: 1000\n\n"  # come back in a second
BEAT: Final = b":\n\n"  # a comment, so that nobody in between takes the connection for dead

_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class Subscriber:
    """What waits to be sent to one who follows."""

    __slots__ = ("_bytes", "_chunks", "_stirred", "over")

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._bytes = 0
        self._stirred = asyncio.Event()
        self.over = False  # nothing more is taken

    def offer(self, chunk: bytes) -> None:
        if self.over or not chunk:
            return
        too_much = self._bytes + len(chunk) > QUEUE_BYTES_MAX or len(self._chunks) >= QUEUE_MAX
        if too_much and self._chunks:
            self._chunks.clear()
            self.finish(RETRY)
            return
        self._chunks.append(chunk)
        self._bytes += len(chunk)
        self._stirred.set()

    def beat(self) -> None:
        """Only where nothing else waits."""
        if not self._chunks:
            self.offer(BEAT)

    def finish(self, last: bytes = b"") -> None:
        """What waits is still sent, and then this."""
        if not self.over:
            self.over = True
            self._chunks.append(last)
            self._stirred.set()

    def leave(self) -> None:
        """Nobody reads any more."""
        self._chunks.clear()
        self.over = True
        self._stirred.set()

    async def next(self) -> bytes:
        """Empty: it is over."""
        while not self._chunks:
            if self.over:
                return b""
            self._stirred.clear()
            await self._stirred.wait()
        chunk = self._chunks.popleft()
        self._bytes -= len(chunk)
        return chunk


class SubscriberResponse:
    """The answer to one who follows: it lasts until he leaves, or there is nothing more to come."""

    def __init__(self, chunks: Callable[[Subscriber], AsyncIterator[bytes]], send_s: float = SEND_S) -> None:
        self._chunks = chunks
        self._send_s = send_s

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        follower = Subscriber()
        chunks = self._chunks(follower)
        # What is refused is refused before anything is sent: then it is an answer like any other.
        first = await anext(chunks, b"")
        gone = asyncio.ensure_future(_watch(receive, follower))
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
            return  # he takes nothing any more: the connection is closed on him
        finally:
            follower.leave()
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
            aclose = getattr(chunks, "aclose", None)
            if aclose is not None:
                await aclose()

    async def _send(self, send: Send, body: bytes, *, more: bool) -> None:
        message: HTTPResponseBodyEvent = {"type": "http.response.body", "body": body, "more_body": more}
        async with asyncio.timeout(self._send_s):
            await send(message)


async def _watch(receive: Receive, follower: Subscriber) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    follower.leave()
