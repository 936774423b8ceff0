"""News within one process: whoever listens has a queue of his own, and misses some when it is full."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from noetl.ports import FeedEvent

QUEUE_MAX: Final = 10_000  # news that one listener has not fetched yet


class MemoryFeed:
    """Keeps the contract of Feed."""

    def __init__(self) -> None:
        self._listeners: dict[str | None, set[asyncio.Queue[FeedEvent]]] = {}

    def tell(self, heard: FeedEvent) -> None:
        for whom in (heard.execution_id, None):
            for queue in self._listeners.get(whom, ()):
                if queue.full():
                    queue.get_nowait()  # what is newer says more
                queue.put_nowait(heard)

    @asynccontextmanager
    async def listen(self, execution_id: str | None = None) -> AsyncIterator[AsyncIterator[FeedEvent]]:
        queue: asyncio.Queue[FeedEvent] = asyncio.Queue(QUEUE_MAX)
        listeners = self._listeners.setdefault(execution_id, set())
        listeners.add(queue)
        try:
            yield _news(queue)
        finally:
            listeners.discard(queue)
            if not listeners and self._listeners.get(execution_id) is listeners:
                del self._listeners[execution_id]


async def _news(queue: asyncio.Queue[FeedEvent]) -> AsyncIterator[FeedEvent]:
    while True:
        yield await queue.get()
