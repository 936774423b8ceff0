"""News of executions on plain subjects of NATS: told once in a while, heard by whoever listens just then."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec
from msgspec import Struct
from nats.aio.msg import Msg

from noetl.adapters.nats.connection import Connection
from noetl.adapters.nats.wire import name_in_subject
from noetl.errors import Unavailable
from noetl.output import JSON
from noetl.ports import Heard

SUBJECT: Final = "noetl.news"
GATHER_S: Final = 0.03  # what is told of one execution within this goes out as one message
LINES_MAX: Final = 200  # of one execution in one message; the oldest are dropped
TOLD_MAX: Final = 20_000  # executions with news that wait to be told
UNREAD_MAX: Final = 2_000  # news that wait for one who listens; the oldest are dropped


class _News(Struct):
    id: str
    seq: int = 0
    over: bool = False
    lines: list[dict[str, JSON]] = []


_encode = msgspec.json.Encoder().encode
_news = msgspec.json.Decoder(_News).decode


class NatsFeed:
    """Keeps the contract of Feed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._told: dict[str, _News] = {}
        self._telling: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def tell(self, heard: Heard) -> None:
        news = self._told.get(heard.execution_id)
        if news is None:
            while len(self._told) >= TOLD_MAX:
                del self._told[next(iter(self._told))]
            news = self._told[heard.execution_id] = _News(heard.execution_id)
        news.seq = max(news.seq, heard.seq)
        news.over = news.over or heard.over
        if heard.line is not None:
            news.lines.append(heard.line)
            del news.lines[:-LINES_MAX]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_S, self._go)

    def _go(self) -> None:
        self._timer = None
        told, self._told = self._told, {}
        self._telling = asyncio.ensure_future(self._publish(list(told.values())))

    async def _publish(self, told: list[_News]) -> None:
        with suppress(Unavailable):  # the log has it all; lines are nobody's loss
            for news in told:
                for body in _bodies(news, self._connection.message_bytes):
                    await self._connection.publish(f"{SUBJECT}.{name_in_subject(news.id)}", body)

    @asynccontextmanager
    async def listen(self, execution_id: str | None = None) -> AsyncIterator[AsyncIterator[Heard]]:
        """It is heard from when this begins. Raises Unavailable."""
        unread: deque[Heard] = deque(maxlen=UNREAD_MAX)
        came = asyncio.Event()

        def hear(message: Msg) -> None:
            unread.extend(_heard(message.data, execution_id))
            came.set()

        name = "*" if execution_id is None else name_in_subject(execution_id)
        listening = await self._connection.subscribe(f"{SUBJECT}.{name}", hear)
        try:
            await self._connection.settle()
            yield _read(unread, came)
        finally:
            await self._connection.unsubscribe(listening)

    async def close(self) -> None:
        """What waits to be told is told now."""
        if self._timer is not None:
            self._timer.cancel()
            self._go()
        if self._telling is not None:
            await self._telling


async def _read(unread: deque[Heard], came: asyncio.Event) -> AsyncIterator[Heard]:
    while True:
        while unread:
            yield unread.popleft()
        came.clear()
        await came.wait()


def _bodies(news: _News, most: int) -> list[bytes]:
    """Nearly always one. Lines that are too large for any message are dropped."""
    body = _encode(news)
    if len(body) <= most:
        return [body]
    alone = [_encode({"id": news.id, "lines": [line]}) for line in news.lines]
    seq = _encode({"id": news.id, "seq": news.seq, "over": news.over})
    return [each for each in (seq, *alone) if len(each) <= most]


def _heard(body: bytes, wanted: str | None) -> list[Heard]:
    try:
        id, seq, over, lines = msgspec.structs.astuple(_news(body))
    except (msgspec.DecodeError, RecursionError):
        return []
    if wanted not in (None, id):
        return []
    told = [Heard(id, line=line) for line in lines]
    return [*told, Heard(id, seq, over)] if seq else told
