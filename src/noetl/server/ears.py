"""News of executions, gathered for whoever looks from time to time; and waiting until one has ended."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import Final, NamedTuple

from noetl.engine.state import LIVE, Status
from noetl.errors import NotFound, Unavailable
from noetl.output import JSON
from noetl.ports import Feed, Heard
from noetl.server.desk import Desk

POLL_S: Final = 2.0  # a Feed may lose news: so often the log is looked at without any
LINES_MAX: Final = 1_000  # words of tools that wait to be passed on; older ones are lost
CHANGED_MAX: Final = 10_000  # executions of which there is news
RECORD_S: Final = 10.0  # within this a start that was made elsewhere is on record
LOOK_S: Final = 0.02  # between two looks at an execution whose log grows quickly


class News(NamedTuple):
    seqs: dict[str, int]  # execution → its log reaches to here at least
    lines: list[dict[str, JSON]]


class Ear:
    """Listens to one execution, or to all. `async with` it."""

    def __init__(self, feed: Feed, execution_id: str | None = None) -> None:
        self._listening: AbstractAsyncContextManager[AsyncIterator[Heard]] = feed.listen(execution_id)
        self._stirred = asyncio.Event()
        self._seqs: dict[str, int] = {}
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

    async def _gather(self, news: AsyncIterator[Heard]) -> None:
        with suppress(Unavailable):  # then there is silence, and the log is looked at all the same
            async for heard in news:
                if heard.line is not None:
                    self._lines.append(heard.line)
                elif heard.execution_id in self._seqs or len(self._seqs) < CHANGED_MAX:
                    seq = self._seqs.get(heard.execution_id, 0)
                    self._seqs[heard.execution_id] = max(seq, heard.seq)
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
        news = News(self._seqs, list(self._lines))
        self._seqs = {}
        self._lines.clear()
        return news


class Waits:
    """Requests that wait for the end of an execution. They are let go when the server stops."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._ears: set[Ear] = set()
        self._closed = False

    def close(self) -> None:
        self._closed = True
        for ear in self._ears:
            ear.stir()

    async def end_of(self, execution_id: str, wait_s: float) -> Status:
        """How it stands when it has ended, or when the time is up. Raises NotFound."""
        status = await self._until(execution_id, wait_s, lambda status: status not in (None, *LIVE))
        if status is None:
            raise NotFound(f"no execution {execution_id}")
        return status

    async def record_of(self, execution_id: str) -> Status:
        """Someone else has started it at the same time: it is on record in a moment. Raises Unavailable."""
        status = await self._until(execution_id, RECORD_S, lambda status: status is not None)
        if status is None:
            raise Unavailable(f"{execution_id} is not on record yet: ask again")
        return status

    async def _until(
        self, execution_id: str, wait_s: float, enough: Callable[[Status | None], bool]
    ) -> Status | None:
        desk = self._desk
        status = await desk.store.status(execution_id)
        if not wait_s or enough(status):
            return status
        async with Ear(desk.feed, execution_id) as ear:
            self._ears.add(ear)
            try:
                until = desk.clock.monotonic() + wait_s
                while not enough(status := await desk.store.status(execution_id)):
                    left_s = until - desk.clock.monotonic()
                    if left_s <= 0 or self._closed:
                        break
                    await ear.hear(min(left_s, POLL_S))
                    await desk.clock.sleep(min(left_s, LOOK_S))
                return status
            finally:
                self._ears.discard(ear)
