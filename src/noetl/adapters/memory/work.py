"""The work queue, feed and worker registry in memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from noetl.clock import Clock
from noetl.errors import Unavailable
from noetl.ports import Claim, FeedEvent, Pointer, QueueTraits, WorkerInfo


class MemoryQueue:
    """A `WorkQueue` for one process, which runs the frames of all pools. A pointer is delivered once."""

    traits = QueueTraits(durable=False, redelivers=False, separates_pools=False)

    def __init__(self) -> None:
        self._waiting: deque[Pointer] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._deliveries = 0
        self._leaving = self.closed = False

    async def put(self, pointers: Sequence[Pointer]) -> None:
        self._waiting.extend(pointers)
        for _ in range(len(pointers)):
            self._wake_one()

    def _wake_one(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    async def take(self, limit: int) -> list[Claim]:
        if self._leaving:
            raise Unavailable("the work queue is closed")
        while not self._waiting and not self._leaving:
            taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker.done() and not taker.cancelled():
                    self._wake_one()  # a pointer was meant for this taker: another one must take it
                raise
        claims: list[Claim] = []
        while self._waiting and len(claims) < limit and not self._leaving:
            self._deliveries += 1
            claims.append(Claim(self._waiting.popleft(), self._deliveries))
        return claims

    async def done(self, claim: Claim) -> None:
        del claim

    async def leave(self) -> None:
        self._leaving = True
        for _ in range(len(self._takers)):
            self._wake_one()

    async def close(self) -> None:
        await self.leave()
        self.closed = True

    def wipe(self) -> None:
        """Forget everything, like a broker that has lost its disk."""
        self._waiting.clear()


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


EXPIRY_S: Final = 15.0


class MemoryWorkerRegistry:
    """A `WorkerRegistry` for one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, WorkerInfo] = {}

    def announce(self, worker: WorkerInfo) -> None:
        self._seen[worker.name] = worker

    def workers(self) -> list[WorkerInfo]:
        oldest = self._clock.now() - timedelta(seconds=EXPIRY_S)
        self._seen = {name: worker for name, worker in self._seen.items() if worker.at >= oldest}
        return [worker for _, worker in sorted(self._seen.items())]

    def slots(self, pool: str) -> int:
        return sum(each.slots for each in self.workers() if each.pool == pool and not each.leaving)
