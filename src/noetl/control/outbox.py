"""Pointers on their way behind our back: a commit need not wait until the queue has written them down."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from noetl.errors import Unavailable
from noetl.ports import Claim, Pointer, WorkQueue

POSTED_MAX = 100_000  # pointers that wait; more are dropped, and the sweeper puts them again


class Outbox:
    """A queue for whoever puts: what gathers while the queue writes goes out together. It takes nothing."""

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue
        self._waiting: list[Pointer] = []
        self._sending: asyncio.Task[None] | None = None

    async def put(self, pointers: Sequence[Pointer]) -> None:
        if len(self._waiting) < POSTED_MAX:
            self._waiting += pointers
        if self._sending is None:
            self._sending = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        try:
            while self._waiting:
                pointers, self._waiting = self._waiting, []
                with suppress(Unavailable):  # lost on the way: the sweeper puts them again
                    await self._queue.put(pointers)
        finally:
            self._sending = None

    async def take(self, limit: int) -> list[Claim]:
        return await self._queue.take(limit)

    async def done(self, claim: Claim) -> None:
        await self._queue.done(claim)

    async def close(self) -> None:
        if self._sending is not None:
            await self._sending
