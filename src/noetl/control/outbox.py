"""An asynchronous outbox: a commit does not wait until the queue has stored its pointers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from noetl.errors import Unavailable
from noetl.ports import Claim, Pointer, WorkQueue

POINTERS_MAX = 100_000  # in the outbox; more are dropped, and the sweeper sends them again


class Outbox:
    """Implements WorkQueue. Pointers that arrive while the queue writes are sent together."""

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue
        self._unsent: list[Pointer] = []
        self._sending: asyncio.Task[None] | None = None

    async def put(self, pointers: Sequence[Pointer]) -> None:
        if len(self._unsent) < POINTERS_MAX:
            self._unsent += pointers
        if self._sending is None:
            self._sending = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        try:
            while self._unsent:
                pointers, self._unsent = self._unsent, []
                with suppress(Unavailable):  # the sweeper sends lost pointers again
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
