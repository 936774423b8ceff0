"""A cancelled database call ends only after its thread has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event

import pytest

from noetl.tools.sql.threads import StoppableThreads


class Work:
    """Blocks its thread until it was asked often enough to stop."""

    def __init__(self, stops: int) -> None:
        self.started, self.ended = Event(), Event()
        self._stops = stops
        self._stopped = Event()

    def run(self) -> None:
        self.started.set()
        self._stopped.wait(60)
        self.ended.set()
        raise ValueError("interrupted")

    def stop(self) -> None:
        self._stops -= 1
        if self._stops <= 0:
            self._stopped.set()


def with_threads(use: Callable[[StoppableThreads], None], size: int = 1) -> None:
    threads = StoppableThreads(size, "test")
    try:
        use(threads)
    finally:
        threads.close()


def test_the_result_and_the_error_of_the_work_are_returned() -> None:
    def use(threads: StoppableThreads) -> None:
        assert asyncio.run(threads.run(lambda: 7, lambda: None)) == 7
        with pytest.raises(ZeroDivisionError):
            asyncio.run(threads.run(lambda: 1 // 0, lambda: None))

    with_threads(use)


def test_a_cancelled_call_asks_again_until_the_thread_has_ended() -> None:
    """A database can lose an interrupt, so the first ones are ignored here."""
    work = Work(stops=3)

    async def go(threads: StoppableThreads) -> None:
        running = asyncio.create_task(threads.run(work.run, work.stop))
        await asyncio.to_thread(work.started.wait, 60)
        running.cancel()
        await asyncio.wait((running,))
        assert running.cancelled()
        assert work.ended.is_set()

    with_threads(lambda threads: asyncio.run(go(threads)))


def test_work_that_has_not_started_is_dropped_when_it_is_cancelled() -> None:
    first, second = Work(stops=1), Work(stops=1)

    async def go(threads: StoppableThreads) -> None:
        running = asyncio.create_task(threads.run(first.run, first.stop))
        await asyncio.to_thread(first.started.wait, 60)
        waiting = asyncio.create_task(threads.run(second.run, second.stop))
        await asyncio.wait((waiting,), timeout=0)  # lets it begin to wait
        waiting.cancel()
        await asyncio.wait((waiting,))
        assert not second.started.is_set()
        running.cancel()
        await asyncio.wait((running,))

    with_threads(lambda threads: asyncio.run(go(threads)))
    assert not second.started.is_set()
