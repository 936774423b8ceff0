"""News of executions on plain subjects of NATS: told once in a while, heard by whoever listens just then.

How far logs have grown is told by partition, for many executions in one message: a server on which many wait
hears a few messages, and asks NATS for nothing more. What tools say goes only to those who follow them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct
from nats.aio.msg import Msg

from noetl.adapters.nats.connection import Connection, Listening
from noetl.errors import Unavailable
from noetl.ids import partition_of
from noetl.link.messages import PARTITIONS, name_in_subject
from noetl.output import JSON
from noetl.ports import FeedEvent

NEWS: Final = "noetl.news"  # and the number of a partition
WORDS: Final = "noetl.words"  # and the name of an execution
GATHER_S: Final = 0.03  # what is told within this after a message goes out as the next one
LINES_MAX: Final = 200  # of one execution in one message; the oldest are dropped
TOLD_MAX: Final = 20_000  # executions with news that wait to be told
UNREAD_MAX: Final = 2_000  # news that wait for one who listens; the oldest are dropped


class _Words(Struct):
    """What tools said, in order."""

    id: str
    lines: list[dict[str, JSON]]


class _Told:
    """What waits to be told of an execution."""

    def __init__(self) -> None:
        self.seq, self.over = 0, False
        self.lines: deque[dict[str, JSON]] = deque(maxlen=LINES_MAX)


_News: TypeAlias = tuple[str, int, bool]  # execution, its log reaches to here, it has ended
_encode = msgspec.json.Encoder().encode
_news = msgspec.json.Decoder(list[_News]).decode
_words = msgspec.json.Decoder(_Words).decode


class NatsFeed:
    """Keeps the contract of Feed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._told: dict[str, _Told] = {}
        self._telling: asyncio.Task[None] | None = None
        self._timer: asyncio.Handle | None = None
        self._places: dict[str, _Place] = {}  # by subject

    def tell(self, heard: FeedEvent) -> None:
        told = self._told.get(heard.execution_id)
        if told is None:
            while len(self._told) >= TOLD_MAX:
                del self._told[next(iter(self._told))]
            told = self._told[heard.execution_id] = _Told()
        told.seq = max(told.seq, heard.seq)
        told.over = told.over or heard.over
        if heard.line is not None:
            told.lines.append(heard.line)
        if self._timer is None:  # after a silence nobody need wait
            self._timer = asyncio.get_running_loop().call_soon(self._go)

    def _go(self) -> None:
        self._timer = None
        if self._told:
            told, self._told = self._told, {}
            self._telling = asyncio.ensure_future(self._publish(told))
            self._timer = asyncio.get_running_loop().call_later(GATHER_S, self._go)

    async def _publish(self, told: dict[str, _Told]) -> None:
        news: dict[int, list[_News]] = {}
        most = self._connection.message_bytes
        with suppress(Unavailable):  # the log has it all; lines are nobody's loss
            for id, each in told.items():
                for body in _said(id, list(each.lines), most):
                    await self._connection.publish(_of_words(id), body)
                if each.seq:
                    news.setdefault(_partition(id), []).append((id, each.seq, each.over))
            for partition, some in news.items():
                for body in _split(some, most):
                    await self._connection.publish(f"{NEWS}.{partition}", body)

    @asynccontextmanager
    async def listen(self, execution_id: str | None = None) -> AsyncIterator[AsyncIterator[FeedEvent]]:
        """It is heard from when this begins. Raises Unavailable."""
        reader = _Reader(execution_id)
        words = f"{WORDS}.*" if execution_id is None else _of_words(execution_id)
        news = f"{NEWS}.{'*' if execution_id is None else _partition(execution_id)}"
        async with self._joined(words, _words_heard, reader), self._joined(news, _news_heard, reader):
            yield reader.read()

    @asynccontextmanager
    async def _joined(
        self, subject: str, heard: Callable[[bytes], Iterator[FeedEvent]], reader: _Reader
    ) -> AsyncIterator[None]:
        place = self._places.get(subject)
        if place is None:
            place = self._places[subject] = _Place(self._connection, subject, heard)
        place.readers.setdefault(reader.wants, {})[reader] = None
        try:
            await place.open(settled=heard is _news_heard)
            yield
        finally:
            del place.readers[reader.wants][reader]
            if not place.readers[reader.wants]:
                del place.readers[reader.wants]
            if not place.readers:
                del self._places[subject]
                await place.close()

    async def close(self) -> None:
        """What waits to be told is told now."""
        if self._timer is not None:
            self._timer.cancel()
        if self._telling is not None:
            await self._telling
        await self._publish(self._told)


class _Reader:
    """One who listens."""

    def __init__(self, wants: str | None) -> None:
        self.wants = wants  # an execution; None: all of them
        self._unread: deque[FeedEvent] = deque(maxlen=UNREAD_MAX)
        self._came = asyncio.Event()

    def hear(self, heard: FeedEvent) -> None:
        self._unread.append(heard)
        self._came.set()

    async def read(self) -> AsyncIterator[FeedEvent]:
        while True:
            while self._unread:
                yield self._unread.popleft()
            self._came.clear()
            await self._came.wait()


class _Place:
    """A subject, and all of us who listen there: NATS is asked for it once."""

    def __init__(
        self, connection: Connection, subject: str, heard: Callable[[bytes], Iterator[FeedEvent]]
    ) -> None:
        self._connection, self._subject, self._heard = connection, subject, heard
        self.readers: dict[str | None, dict[_Reader, None]] = {}  # by what they want
        self._opening = asyncio.Lock()
        self._listening: Listening | None = None

    async def open(self, *, settled: bool) -> None:
        """`settled`: not over before NATS knows of it. Raises Unavailable."""
        async with self._opening:
            if self._listening is None:
                listening = await self._connection.subscribe(self._subject, self._hear)
                if settled:
                    await self._connection.settle()
                self._listening = listening

    async def close(self) -> None:
        if self._listening is not None:
            await self._connection.drop(self._listening)

    def _hear(self, message: Msg) -> None:
        with suppress(msgspec.DecodeError, RecursionError):  # then it is not one of ours
            for heard in self._heard(message.data):
                for wants in (heard.execution_id, None):
                    for reader in self.readers.get(wants, ()):
                        reader.hear(heard)


def _partition(execution_id: str) -> int:
    return partition_of(execution_id, PARTITIONS)


def _of_words(execution_id: str) -> str:
    return f"{WORDS}.{name_in_subject(execution_id)}"


def _said(id: str, lines: list[dict[str, JSON]], most: int) -> list[bytes]:
    """Nearly always one. Lines that are too large for any message are dropped."""
    body = _encode(_Words(id, lines)) if lines else b""
    bodies = [body] if len(body) <= most else [_encode(_Words(id, [line])) for line in lines]
    return [each for each in bodies if 0 < len(each) <= most]


def _split(news: list[_News], most: int) -> Iterator[bytes]:
    """In as many messages as it takes."""
    body = _encode(news)
    if len(body) <= most:
        yield body
    elif len(news) > 1:
        half = len(news) // 2
        yield from _split(news[:half], most)
        yield from _split(news[half:], most)


def _news_heard(body: bytes) -> Iterator[FeedEvent]:
    for id, seq, over in _news(body):
        yield FeedEvent(id, seq, over)


def _words_heard(body: bytes) -> Iterator[FeedEvent]:
    words = _words(body)
    for line in words.lines:
        yield FeedEvent(words.id, line=line)
