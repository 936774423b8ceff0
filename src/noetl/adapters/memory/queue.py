"""A work queue in memory: first in, first out, nothing stored."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from noetl.errors import Unavailable
from noetl.ports import Claim, Pointer, QueueTraits


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
