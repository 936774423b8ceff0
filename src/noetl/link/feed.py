"""The feed of execution events over a transport: published in batches, received by current subscribers only.

Progress of logs is published per partition, for many executions in one message, so a server with many waiting
clients needs few subscriptions. Output lines of tools go only to subscribers of their execution.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from noetl.cache import BoundedCache
from noetl.errors import Unavailable
from noetl.ids import partition_of
from noetl.link.messages import PARTITIONS, name_in_subject
from noetl.output import JSON
from noetl.ports import FeedEvent, Message, Subscription, Transport

PROGRESS_SUBJECT: Final = "noetl.news"  # plus the number of a partition
LINES_SUBJECT: Final = "noetl.words"  # plus the name of an execution
BATCH_S: Final = 0.03  # events within this time after a message go into the next message
LINES_MAX: Final = 200  # of one execution in one message; the oldest are dropped
PENDING_MAX: Final = 20_000  # executions with unpublished events; the oldest are dropped
UNREAD_MAX: Final = 2_000  # events that wait for one subscriber; the oldest are dropped


class _Lines(Struct):
    """Output lines of tools, in order."""

    id: str
    lines: list[dict[str, JSON]]


class _Pending:
    """The unpublished events of one execution."""

    def __init__(self) -> None:
        self.seq, self.over = 0, False
        self.lines: deque[dict[str, JSON]] = deque(maxlen=LINES_MAX)


_Progress: TypeAlias = tuple[str, int, bool]  # execution, last known seq of its log, whether it has ended
_Decode: TypeAlias = Callable[[bytes], Iterator[FeedEvent]]
_encode = msgspec.json.Encoder().encode
_decode_progress = msgspec.json.Decoder(list[_Progress]).decode
_decode_lines = msgspec.json.Decoder(_Lines).decode


class LinkFeed:
    """A `Feed` over a transport."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._pending: BoundedCache[str, _Pending] = BoundedCache(PENDING_MAX)
        self._sending: asyncio.Task[None] | None = None
        self._timer: asyncio.Handle | None = None
        self._topics: dict[str, _Topic] = {}  # by subject

    def publish(self, event: FeedEvent) -> None:
        pending = self._pending.peek(event.execution_id)
        if pending is None:
            pending = self._pending.put(event.execution_id, _Pending())
        pending.seq = max(pending.seq, event.seq)
        pending.over = pending.over or event.over
        if event.line is not None:
            pending.lines.append(event.line)
        if self._timer is None:  # no message was sent lately, so this event need not wait
            self._timer = asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._timer = None
        if self._pending:
            pending, self._pending = self._pending, BoundedCache(PENDING_MAX)
            self._sending = asyncio.ensure_future(self._send(pending))
            self._timer = asyncio.get_running_loop().call_later(BATCH_S, self._flush)

    async def _send(self, pending: BoundedCache[str, _Pending]) -> None:
        progress: dict[int, list[_Progress]] = {}
        limit = self._transport.payload_limit
        with suppress(Unavailable):  # the log has all progress; lost lines are acceptable
            for id, each in pending.items():
                for body in _split_lines(id, list(each.lines), limit):
                    await self._transport.publish(_lines_subject(id), body)
                if each.seq:
                    progress.setdefault(_partition(id), []).append((id, each.seq, each.over))
            for partition, some in progress.items():
                for body in _split_progress(some, limit):
                    await self._transport.publish(f"{PROGRESS_SUBJECT}.{partition}", body)

    @asynccontextmanager
    async def subscribe(
        self, execution_id: str | None = None, *, lines: bool = True
    ) -> AsyncIterator[AsyncIterator[FeedEvent]]:
        reader = _Reader(execution_id)
        lines_subject = f"{LINES_SUBJECT}.*" if execution_id is None else _lines_subject(execution_id)
        progress = f"{PROGRESS_SUBJECT}.{'*' if execution_id is None else _partition(execution_id)}"
        with_lines = self._joined(lines_subject, _lines_of, reader) if lines else nullcontext()
        async with with_lines, self._joined(progress, _progress_of, reader):
            yield reader.read()

    @asynccontextmanager
    async def _joined(self, subject: str, decode: _Decode, reader: _Reader) -> AsyncIterator[None]:
        topic = self._topics.get(subject)
        if topic is None:
            topic = self._topics[subject] = _Topic(self._transport, subject, decode)
        topic.readers.setdefault(reader.execution_id, {})[reader] = None
        try:
            await topic.open(flush=decode is _progress_of)
            yield
        finally:
            del topic.readers[reader.execution_id][reader]
            if not topic.readers[reader.execution_id]:
                del topic.readers[reader.execution_id]
            if not topic.readers:
                del self._topics[subject]
                await topic.close()

    async def close(self) -> None:
        """Publish the pending events."""
        if self._timer is not None:
            self._timer.cancel()
        if self._sending is not None:
            await self._sending
        await self._send(self._pending)


class _Reader:
    """One subscriber."""

    def __init__(self, execution_id: str | None) -> None:
        self.execution_id = execution_id  # None: all executions
        self._unread: deque[FeedEvent] = deque(maxlen=UNREAD_MAX)
        self._received = asyncio.Event()

    def add(self, event: FeedEvent) -> None:
        self._unread.append(event)
        self._received.set()

    async def read(self) -> AsyncIterator[FeedEvent]:
        while True:
            while self._unread:
                yield self._unread.popleft()
            self._received.clear()
            await self._received.wait()


class _Topic:
    """A subject and its subscribers in this process: they share one subscription of the transport."""

    def __init__(self, transport: Transport, subject: str, decode: _Decode) -> None:
        self._transport, self._subject, self._decode = transport, subject, decode
        self.readers: dict[str | None, dict[_Reader, None]] = {}  # by execution
        self._opening = asyncio.Lock()
        self._subscription: Subscription | None = None

    async def open(self, *, flush: bool) -> None:
        """`flush`: return when the subscription is active for other processes. Raises Unavailable."""
        async with self._opening:
            if self._subscription is None:
                subscription = await self._transport.subscribe(self._subject, self._receive)
                if flush:
                    await self._transport.flush()
                self._subscription = subscription

    async def close(self) -> None:
        if self._subscription is not None:
            await self._subscription.drop()

    def _receive(self, message: Message) -> None:
        with suppress(msgspec.DecodeError, RecursionError):  # another program uses our subject
            for event in self._decode(message.data):
                for execution_id in (event.execution_id, None):
                    for reader in self.readers.get(execution_id, ()):
                        reader.add(event)


def _partition(execution_id: str) -> int:
    return partition_of(execution_id, PARTITIONS)


def _lines_subject(execution_id: str) -> str:
    return f"{LINES_SUBJECT}.{name_in_subject(execution_id)}"


def _split_lines(id: str, lines: list[dict[str, JSON]], limit: int) -> list[bytes]:
    """Nearly always one message. Lines that are too large for any message are dropped."""
    body = _encode(_Lines(id, lines)) if lines else b""
    bodies = [body] if len(body) <= limit else [_encode(_Lines(id, [line])) for line in lines]
    return [each for each in bodies if 0 < len(each) <= limit]


def _split_progress(progress: list[_Progress], limit: int) -> Iterator[bytes]:
    """As many messages as are necessary."""
    body = _encode(progress)
    if len(body) <= limit:
        yield body
    elif len(progress) > 1:
        half = len(progress) // 2
        yield from _split_progress(progress[:half], limit)
        yield from _split_progress(progress[half:], limit)


def _progress_of(body: bytes) -> Iterator[FeedEvent]:
    for id, seq, over in _decode_progress(body):
        yield FeedEvent(id, seq, over)


def _lines_of(body: bytes) -> Iterator[FeedEvent]:
    message = _decode_lines(body)
    for line in message.lines:
        yield FeedEvent(message.id, line=line)
