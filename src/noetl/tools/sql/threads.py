"""Threads for database calls that block. A call can be cancelled: it is stopped, and its end is awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")
STOP_S = 0.02  # between two requests to stop: a database loses one that arrives before a statement begins


class StoppableThreads:
    """A thread pool. The threads are started when they are needed."""

    def __init__(self, size: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(size, thread_name_prefix=name)

    async def run(self, work: Callable[[], T], stop: Callable[[], None]) -> T:
        """Run `work` in a thread. If this call is cancelled, `stop` is called until the thread has finished.

        Only then is the cancellation passed on, so that the caller can remove files that the thread uses.
        """
        submitted = self._executor.submit(work)
        running = asyncio.wrap_future(submitted)
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError:
            submitted.cancel()  # has an effect only if no thread has begun with it
            while not running.done():
                stop()
                with suppress(asyncio.CancelledError):  # the thread cannot be abandoned
                    await asyncio.wait((running,), timeout=STOP_S)
            if not running.cancelled():
                running.exception()  # marks it as retrieved; the call ends as cancelled
            raise
        return running.result()

    def close(self) -> None:
        """Wait for running calls and end the threads."""
        self._executor.shutdown()
