"""News of executions, gathered for whoever looks from time to time; and waiting until one has ended."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from types import TracebackType
from typing import Final, NamedTuple

from noetl.engine.state import LIVE, Status
from noetl.errors import NotFound, Unavailable
from noetl.output import JSON
from noetl.ports import Feed, FeedEvent
from noetl.server.services import Services

POLL_S: Final = 2.0  # a Feed may lose news: so often the log is looked at without any
LINES_MAX: Final = 1_000  # words of tools that wait to be passed on; older ones are lost
CHANGED_MAX: Final = 10_000  # executions of which there is news


class News(NamedTuple):
    seqs: dict[str, int]  # execution → its log reaches to here at least
    over: bool  # one of them has ended
    lines: list[dict[str, JSON]]


class Ear:
    """Listens to one execution, or to all. `async with` it."""

    def __init__(self, feed: Feed, execution_id: str | None = None) -> None:
        self._listening: AbstractAsyncContextManager[AsyncIterator[FeedEvent]] = feed.subscribe(execution_id)
        self._stirred = asyncio.Event()
        self._seqs: dict[str, int] = {}
        self._over = False
        self._lines: deque[dict[str, JSON]] = deque(maxlen=LINES_MAX)
        self._pump: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Ear:
        news = await self._listening.__aenter__()
        self._pump = asyncio.ensure_future(self._gather(news))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._pump is not None
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)
        await self._listening.__aexit__(None, None, None)

    async def _gather(self, news: AsyncIterator[FeedEvent]) -> None:
        with suppress(Unavailable):  # then there is silence, and the log is looked at all the same
            async for heard in news:
                if heard.line is not None:
                    self._lines.append(heard.line)
                elif heard.execution_id in self._seqs or len(self._seqs) < CHANGED_MAX:
                    seq = self._seqs.get(heard.execution_id, 0)
                    self._seqs[heard.execution_id] = max(seq, heard.seq)
                    self._over = self._over or heard.over
                self._stirred.set()

    def stir(self) -> None:
        """Whoever waits shall look."""
        self._stirred.set()

    async def hear(self, at_most_s: float) -> News:
        """What has come since the last time, as soon as there is something; or silence."""
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                await self._stirred.wait()
        self._stirred.clear()
        news = News(self._seqs, self._over, list(self._lines))
        self._seqs, self._over = {}, False
        self._lines.clear()
        return news


class Waits:
    """Requests that wait for the end of an execution. They are let go when the server stops."""

    def __init__(self, desk: Services) -> None:
        self._desk = desk
        self._ears: set[Ear] = set()
        self._closed = False

    def close(self) -> None:
        self._closed = True
        for ear in self._ears:
            ear.stir()

    @asynccontextmanager
    async def waiting(self, execution_id: str, wait_s: float) -> AsyncIterator[Waiting]:
        """From before it starts, so that its end is not missed."""
        if not wait_s:
            yield Waiting(self._desk, execution_id, 0.0, None)
            return
        async with Ear(self._desk.feed, execution_id) as ear:
            self._ears.add(ear)
            try:
                yield Waiting(self._desk, execution_id, wait_s, ear, lambda: self._closed)
            finally:
                self._ears.discard(ear)


class Waiting:
    """One request that waits, or that only looks."""

    def __init__(
        self,
        desk: Services,
        execution_id: str,
        wait_s: float,
        ear: Ear | None,
        is_closed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._desk = desk
        self._id = execution_id
        self._ear = ear
        self._until = desk.clock.monotonic() + wait_s
        self._is_closed = is_closed

    async def status(self) -> Status:
        """How it stands. Raises NotFound."""
        status = await self._desk.store.status(self._id)
        if status is None:
            raise NotFound(f"no execution {self._id}")
        return status

    async def has_ended(self, *, is_new: bool) -> bool:
        """It has, within the time. `is_new`: it has just begun, so news come before a look at it."""
        if self._ear is None:
            return False
        if not is_new and await self.status() not in LIVE:
            return True
        while (left_s := self._until - self._desk.clock.monotonic()) > 0 and not self._is_closed():
            # A Feed may lose news: from time to time the log is looked at without any.
            if await self._heard_of_its_end(min(left_s, POLL_S)) or await self.status() not in LIVE:
                return True
        return False

    async def _heard_of_its_end(self, at_most_s: float) -> bool:
        assert self._ear is not None
        until = self._desk.clock.monotonic() + at_most_s
        while (left_s := until - self._desk.clock.monotonic()) > 0 and not self._is_closed():
            if (await self._ear.hear(left_s)).over:
                return True
        return False
