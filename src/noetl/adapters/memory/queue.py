"""A work queue in memory: first come, first served, nothing kept."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from noetl.ports import Claim, Pointer


class MemoryQueue:
    """Keeps the contract of WorkQueue; a pointer that was taken is gone."""

    def __init__(self) -> None:
        self._waiting: deque[Pointer] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._deliveries = 0

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
        while not self._waiting:
            taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker.done() and not taker.cancelled():
                    self._wake_one()  # it was our turn, and we are gone: somebody else comes
                raise
        claims: list[Claim] = []
        while self._waiting and len(claims) < limit:
            self._deliveries += 1
            claims.append(Claim(self._waiting.popleft(), self._deliveries))
        return claims

    async def done(self, claim: Claim) -> None:
        del claim

    def wipe(self) -> None:
        """Forget everything, as a broker that lost its disk."""
        self._waiting.clear()
