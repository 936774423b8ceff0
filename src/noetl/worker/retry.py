"""Repeated requests to the owner of a frame, and the exception that ends the work on a frame."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from noetl.clock import Clock
from noetl.errors import Unavailable

T = TypeVar("T")
TRIES_MAX = 20
REPORT_TRIES_MAX = 200  # ten minutes: without a server a result is kept, and its call is not repeated
RETRY_S = 0.5  # more with each try


class Stopped(Exception):
    """The worker no longer holds the frame: the result of its call is discarded."""


async def retry(clock: Clock, work: Callable[[], Awaitable[T]], tries: int = TRIES_MAX) -> T:
    """Repeat a request while it is Unavailable. Raises Stopped after the last try."""
    for attempt in range(tries):
        try:
            return await work()
        except Unavailable:
            await clock.sleep(delay_s(attempt))
    raise Stopped


def delay_s(attempt: int) -> float:
    """Seconds after this failed try, counted from 0."""
    return RETRY_S * min(attempt + 1, 6)
