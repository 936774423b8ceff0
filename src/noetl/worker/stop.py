"""When a worker lets go of a frame: it is told to, or nobody takes what it has to say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from noetl.clock import Clock
from noetl.errors import Unavailable

T = TypeVar("T")
TRIES_MAX = 20
REPORT_TRIES_MAX = 200  # ten minutes: while no server is there, a result is kept, and its call not made again
RETRY_S = 0.5  # and more with every try


class Stopped(Exception):
    """The frame is not ours any more: what its call would give back is nobody's."""


async def insist(clock: Clock, work: Callable[[], Awaitable[T]], tries: int = TRIES_MAX) -> T:
    """The same again until it is answered, for a while. Raises Stopped when nobody answers."""
    for attempt in range(tries):
        try:
            return await work()
        except Unavailable:
            await clock.sleep(RETRY_S * min(attempt + 1, 6))
    raise Stopped
