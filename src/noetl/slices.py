"""Long computations on the event loop, one slice at a time: other tasks have at least as much time meanwhile.

A thread does not help where a C function keeps Python's lock for as long as it runs.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Generator
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

SLICE_S: Final = 0.000_25  # of one computation; a small request needs some ten turns of the event loop
IDLE_S: Final = 0.000_1  # a shorter turn of the others means that they have nothing to do

# At most one slice in a turn of the event loop, however many computations there are.
_lanes: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = WeakKeyDictionary()


@types.coroutine
def turn() -> Generator[None, None, None]:
    """Give all other ready tasks one turn of the event loop."""
    yield


async def in_slices(work: Generator[None, None, T]) -> T:
    """The result of a computation that yields often."""
    loop = asyncio.get_running_loop()
    lane = _lanes.setdefault(loop, asyncio.Lock())
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
                await turn()
                before, now = now, loop.time()
                owed = owed - (now - before) if now - before > IDLE_S else 0
