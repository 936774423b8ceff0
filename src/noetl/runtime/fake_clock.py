"""A virtual clock: time passes when its owner says so, or at once whenever all tasks wait.

It implements `noetl.clock.Clock`. It reads no real time and its random numbers have a seed, so that a test
gives the same result on every machine, however busy the machine is.
"""

from __future__ import annotations

import asyncio
import heapq
import random  # noqa: TID251  # the generator has a seed
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
IDLE_ROUNDS: Final = 50  # rounds of the event loop without a new sleep: then all tasks wait for something

_HELD: ContextVar[bool] = ContextVar("noetl.testing.held", default=False)  # whether the task holds the clock


class FakeClock:
    """Virtual time. `waits` lists the seconds of every `sleep`, in the order of the calls.

    `start` is the first value of `now()`; `monotonic()` begins with 0.
    `auto_advance`: as soon as all tasks wait, the clock jumps to the end of the next sleep. Without it, only
    `advance` moves the clock.
    `tick_s`: each call of `monotonic()` moves the clock by this much, as if work took time.
    `seed` determines the ids and the random numbers.

        clock = FakeClock()
        sleeper = asyncio.create_task(clock.sleep(60))
        await clock.settle()  # the task runs until it sleeps
        clock.advance(60)
        await sleeper
    """

    def __init__(
        self, start: datetime = START, *, auto_advance: bool = False, tick_s: float = 0.0, seed: int = 0
    ) -> None:
        self.waits: list[float] = []
        self.readings = 0  # calls of monotonic()
        self._start = start
        self._auto_advance = auto_advance
        self._tick_s = tick_s
        self._random = random.Random(seed)
        self._elapsed_s = 0.0
        self._ids = 0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []  # a heap, by the end of the sleep
        self._sleeps = 0  # so far; it orders sleeps that end at the same instant
        self._holds = 0  # tasks during whose work time stands still
        self._advancing: asyncio.Task[None] | None = None

    # The protocol Clock

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed_s)

    def monotonic(self) -> float:
        self.readings += 1
        self._elapsed_s += self._tick_s
        return self._elapsed_s

    def chance(self) -> float:
        return self._random.random()

    def new_id(self) -> str:
        """A UUIDv7: ids sort by the time of the call; clocks with the same seed give the same ids."""
        self._ids += 1
        millis = int(self.now().timestamp() * 1000)
        low = 0b10 << 62 | self._ids << 32 | self._random.getrandbits(32)
        return str(UUID(int=(millis << 16 | 0x7 << 12) << 64 | low))

    async def sleep(self, seconds: float) -> None:
        """Return when the clock has moved by `seconds`."""
        self.waits.append(seconds)
        if seconds <= 0:
            await _yield()
            return
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleeps += 1
        heapq.heappush(self._sleepers, (self._elapsed_s + seconds, self._sleeps, end))
        with self._released():
            self._advance_when_idle()
            await end

    # For tests

    @property
    def sleepers(self) -> int:
        """The number of sleeps that have not ended."""
        return sum(not end.done() for _, _, end in self._sleepers)

    def advance(self, seconds: float) -> None:
        """Move the clock. Sleeps that are over return in the order of their ends, and see the new time."""
        self._elapsed_s += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed_s:
            end = heapq.heappop(self._sleepers)[2]
            if not end.done():
                end.set_result(None)

    async def settle(self) -> None:
        """Let the other tasks run until all of them wait: for a sleep, for a result, for another task.

        A task that waits for a thread, a process or the network counts as waiting.
        """
        rounds, sleeps = 0, self._sleeps
        while rounds < IDLE_ROUNDS:
            await _yield()
            rounds = rounds + 1 if sleeps == self._sleeps else 0
            sleeps = self._sleeps

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Stop `auto_advance` while the current task does real work. Its own sleeps still end."""
        token = _HELD.set(True)
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            _HELD.reset(token)
            self._advance_when_idle()

    @contextmanager
    def _released(self) -> Iterator[None]:
        """A task that sleeps on the clock does no work: its hold is lifted for the time of the sleep."""
        held = _HELD.get()
        self._holds -= held
        try:
            yield
        finally:
            self._holds += held

    def _advance_when_idle(self) -> None:
        if self._auto_advance and self._sleepers and (self._advancing is None or self._advancing.done()):
            self._advancing = asyncio.get_running_loop().create_task(self._advance_to_next())

    async def _advance_to_next(self) -> None:
        while self._sleepers:
            await self.settle()
            if self._holds:
                return  # the end of the hold calls _advance_when_idle
            while self._sleepers and self._sleepers[0][2].done():  # cancelled
                heapq.heappop(self._sleepers)
            if self._sleepers:
                self.advance(self._sleepers[0][0] - self._elapsed_s)


async def _yield() -> None:
    """Let the other tasks run once."""
    await asyncio.sleep(0)  # noqa: TID251  # no time passes
