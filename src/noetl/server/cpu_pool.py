"""Work that takes a processor and no waiting: on threads, a few at once, so that the engine goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from noetl.server.errors import Refused

P = ParamSpec("P")
T = TypeVar("T")
AT_ONCE: Final = 2  # the threads are not ours alone: result stores read and write on them
WAITING_MAX: Final = 64


class CpuPool:
    """Checks, drawings, comparisons, reasons."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def do(self, work: Callable[P, T], *values: P.args, **named: P.kwargs) -> T:
        """Raises Refused when too many wait."""
        if self._waiting >= WAITING_MAX:
            raise Refused(
                503, "busy", f"{WAITING_MAX} others wait for the same: try again", {"Retry-After": "1"}
            )
        self._waiting += 1
        try:
            async with self._places:
                return await asyncio.to_thread(work, *values, **named)
        finally:
            self._waiting -= 1
