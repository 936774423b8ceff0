"""CPU-bound work on threads, so that the event loop stays responsive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from noetl.server.errors import ApiError

P = ParamSpec("P")
T = TypeVar("T")
THREADS: Final = 2  # few, because result stores read and write on the same thread pool
WAITING_MAX: Final = 64


class CpuPool:
    """Limits how many checks, drawings and comparisons run at the same time."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(THREADS)
        self._waiting = 0

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Raises ApiError when too many requests wait."""
        if self._waiting >= WAITING_MAX:
            detail = f"{WAITING_MAX} other requests wait for the CPU: try again"
            raise ApiError(503, "busy", detail, {"Retry-After": "1"})
        self._waiting += 1
        try:
            async with self._slots:
                return await asyncio.to_thread(work, *args, **kwargs)
        finally:
            self._waiting -= 1
