"""The feed within one process: each subscriber has a queue, and loses the oldest events when it is full."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from noetl.ports import FeedEvent

QUEUE_MAX: Final = 10_000  # unread events of one subscriber


class MemoryFeed:
    """A `Feed` for one process."""

    def __init__(self) -> None:
        self._subscribers: dict[str | None, set[asyncio.Queue[FeedEvent]]] = {}

    def publish(self, event: FeedEvent) -> None:
        for execution_id in (event.execution_id, None):
            for queue in self._subscribers.get(execution_id, ()):
                if queue.full():
                    queue.get_nowait()  # newer events are more useful
                queue.put_nowait(event)

    @asynccontextmanager
    async def subscribe(self, execution_id: str | None = None) -> AsyncIterator[AsyncIterator[FeedEvent]]:
        queue: asyncio.Queue[FeedEvent] = asyncio.Queue(QUEUE_MAX)
        subscribers = self._subscribers.setdefault(execution_id, set())
        subscribers.add(queue)
        try:
            yield _events(queue)
        finally:
            subscribers.discard(queue)
            if not subscribers and self._subscribers.get(execution_id) is subscribers:
                del self._subscribers[execution_id]


async def _events(queue: asyncio.Queue[FeedEvent]) -> AsyncIterator[FeedEvent]:
    while True:
        yield await queue.get()
