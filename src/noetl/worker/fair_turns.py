"""Shares the turns of the event loop between executions: a frame of a small one waits for few frames of a large one.

All ready frames run in one turn of the event loop. Beside an execution with 60 frames, every turn of a small execution
would take as long as 60 frames, and it needs several turns.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from noetl.clock import Clock

CROWDED_S: Final = 0.1  # after frames of different executions have run: then a lone execution is not slowed down
TURN_S: Final = 0.000_2  # a longer turn of the event loop means that fewer frames of an execution may begin a task
FRAMES_MIN: Final = 0.25  # in a turn: one in four turns
FRAMES_MAX: Final = 64


class FairTurns:
    """Limits how many frames of one execution begin a task in a turn, while others run beside it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = ""  # the execution whose frame began last; "": none yet
        self._crowded_until = 0.0  # on the clock
        self._limit = 8.0  # frames of one execution in a turn, on average
        self._whole = 8  # in this turn
        self._rest = 0.0  # less than a frame, for the next turns
        self._begun: dict[str, int] = {}  # execution → frames that have begun a task in this turn
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # by execution, in order
        self._turned: float | None = None  # when this turn began; None: turns are not counted

    def note(self, execution_id: str) -> None:
        """A frame of this execution begins."""
        if execution_id != self._last:
            if self._last:
                self._crowded_until = self._clock.monotonic() + CROWDED_S
            self._last = execution_id

    def waiter(self, execution_id: str) -> asyncio.Future[None] | None:
        """What a frame of this execution must wait for before it begins a task; None: it may begin now."""
        now = self._clock.monotonic()
        if now >= self._crowded_until and not self._waiting:
            return None
        loop = asyncio.get_running_loop()
        if self._turned is None:
            self._turned = now
            loop.call_soon(self._next_turn)
        begun = self._begun.get(execution_id, 0)
        if begun < max(1, self._whole) and execution_id not in self._waiting:
            self._begun[execution_id] = begun + 1
            return None
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(execution_id, deque()).append(waiter)
        return waiter

    def _next_turn(self) -> None:
        assert self._turned is not None
        now = self._clock.monotonic()
        if now - self._turned > TURN_S:
            self._limit = max(FRAMES_MIN, self._limit / 2)
        else:
            self._limit = min(FRAMES_MAX, self._limit + min(1, self._limit))
        due = self._rest + self._limit
        self._whole = int(due)
        self._rest = due - self._whole
        self._begun.clear()
        for execution_id, waiting in list(self._waiting.items()):
            while waiting and self._begun.get(execution_id, 0) < self._whole:
                waiter = waiting.popleft()
                if not waiter.done():  # its frame was not cancelled
                    waiter.set_result(None)
                    self._begun[execution_id] = self._begun.get(execution_id, 0) + 1
            if not waiting:
                del self._waiting[execution_id]
        if self._begun or self._waiting:
            self._turned = now
            asyncio.get_running_loop().call_soon(self._next_turn)
        else:
            self._turned = None
