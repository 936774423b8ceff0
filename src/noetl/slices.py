"""Long computations on the event loop, one slice at a time: other tasks have at least as much time meanwhile.

A thread does not help where a C function keeps Python's lock for as long as it runs.
"""

from __future__ import annotations

import asyncio
import sys
import time
import types
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

SLICE_S: Final = 0.000_25  # of one computation; a small request needs some ten turns of the event loop
IDLE_S: Final = 0.000_1  # a shorter turn of the others means that they have nothing to do
SWITCH_S: Final = 0.000_5  # Python's default is 5 ms, and a request needs many turns of the event loop
THREADS_EVERY_S: Final = 0.001  # of CPU time of the event loop
THREADS_WAKE_S: Final = 0.000_05  # for a thread to wake up and take Python's lock; the system makes it 0.1 ms


class _Shared:
    """What all computations on one event loop share."""

    def __init__(self) -> None:
        self.lane = asyncio.Lock()  # at most one slice in a turn of the event loop, however many computations there are
        self.threads_let_in_s = 0.0  # CPU time of this thread


_shared: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Shared]] = WeakKeyDictionary()
_usual_switch_s: Final = sys.getswitchinterval()
_computing: Final[set[_Handover]] = set()


def _of_loop(loop: asyncio.AbstractEventLoop) -> _Shared:
    found = _shared.get(loop)
    if found is None:
        found = _shared[loop] = _Shared()
    return found


@types.coroutine
def turn() -> Generator[None, None, None]:
    """Give all other ready tasks one turn of the event loop."""
    yield


@types.coroutine
def long_turn() -> Generator[None, None, None]:
    """The same after a part of a long computation, and now and then threads have a turn, too."""
    let_threads_in()
    yield


def let_threads_in() -> None:
    """Wait for a moment without Python's lock, now and then.

    A thread that waits for the lock asks for it only after a switch interval in which no thread has released it. An
    event loop that always has something to do releases it in each turn, but takes it back before the thread has woken
    up: the thread would wait for as long as the loop is busy.
    """
    shared = _of_loop(asyncio.get_running_loop())
    if time.thread_time() > shared.threads_let_in_s + THREADS_EVERY_S:
        time.sleep(THREADS_WAKE_S)
        shared.threads_let_in_s = time.thread_time()


class _Handover:
    """Lets threads in again and again."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._next()

    def _next(self) -> None:
        self._timer = self._loop.call_later(THREADS_EVERY_S, self._tick)

    def _tick(self) -> None:
        let_threads_in()
        self._next()

    def stop(self) -> None:
        self._timer.cancel()


@contextmanager
def computing_thread() -> Iterator[None]:
    """While a thread computes: it and the event loop wait for each other for a short time only."""
    handover = _Handover()
    _computing.add(handover)
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        handover.stop()
        _computing.remove(handover)
        if not _computing:
            sys.setswitchinterval(_usual_switch_s)


async def in_slices(work: Generator[None, None, T]) -> T:
    """The result of a computation that yields often."""
    loop = asyncio.get_running_loop()
    lane = _of_loop(loop).lane
    while True:
        async with lane:
            begun = now = loop.time()
            try:
                while now < begun + SLICE_S:
                    next(work)
                    now = loop.time()
            except StopIteration as end:
                result: T = end.value
                return result
            owed = now - begun
            while owed > 0:
                await long_turn()
                before, now = now, loop.time()
                owed = owed - (now - before) if now - before > IDLE_S else 0
