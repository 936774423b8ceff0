"""A deterministic event loop: virtual time, a queue a process, a seed that picks who is next.

Inside one process asyncio is first come, first served, and so is this; only the order between them is drawn.
Nothing real is reachable from it: no socket, no thread, no clock.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import inspect
import random
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

PROCESS: contextvars.ContextVar[str] = contextvars.ContextVar("PROCESS", default="world")
STEPS_MAX = 2_000_000


class Stuck(Exception):
    """Nothing can run and nothing is timed: the simulated world stands still."""


class _Handle:
    __slots__ = ("args", "callback", "context", "gone")

    def __init__(
        self, callback: Callable[..., object], args: tuple[object, ...], context: contextvars.Context
    ) -> None:
        self.callback, self.args, self.context, self.gone = callback, args, context, False

    def cancel(self) -> None:
        self.gone = True

    def cancelled(self) -> bool:
        return self.gone


class SimLoop(asyncio.AbstractEventLoop):
    """Runs exactly one handle at a time, of a process that the seed picks."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.steps = 0
        self.errors: list[dict[str, Any]] = []
        self._now = 0.0
        self._count = 0
        self._queues: dict[str, deque[_Handle]] = {}
        self._timers: list[tuple[float, int, _Handle]] = []
        self._dead: set[str] = set()
        self._paused: dict[str, float] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self._graveyard: list[object] = []  # kept: a coroutine that is collected would run its finally blocks
        self._over = False

    def time(self) -> float:
        return self._now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._over

    def is_closed(self) -> bool:
        return self._over

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        return task

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: contextvars.Context | None = None
    ) -> Any:
        handle = _Handle(callback, args, context or contextvars.copy_context())
        self._enqueue(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: object,
        context: contextvars.Context | None = None,
    ) -> Any:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: object,
        context: contextvars.Context | None = None,
    ) -> Any:
        handle = _Handle(callback, args, context or contextvars.copy_context())
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def spawn(self, process: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start something inside a simulated process."""
        context = contextvars.copy_context()
        context.run(PROCESS.set, process)
        return self.create_task(work, context=context)

    def kill(self, process: str) -> None:
        """kill -9: what waits is dropped, and no finally block runs."""
        self._dead.add(process)
        self._graveyard.append(self._queues.pop(process, None))

    def pause(self, process: str, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after a while: the fault that finds missing fences."""
        self._paused[process] = self._now + seconds

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        events._set_running_loop(self)
        try:
            task = self.spawn("world", work)
            while not task.done():
                self._step()
            return task.result()
        finally:
            self._over = True
            self._bury()
            events._set_running_loop(None)
            self._queues.clear()
            self._timers.clear()

    def _bury(self) -> None:
        """The world is over: what never got to run is put away quietly."""
        for task in self._tasks:
            work = task.get_coro()
            if not task.done() and inspect.iscoroutine(work):
                with suppress(BaseException):
                    work.close()

    def crashes(self) -> list[BaseException]:
        """What ended tasks that nobody was waiting for, or that somebody was: none of it should be ours."""
        ended = [task for task in self._tasks if task.done() and not task.cancelled()]
        return [error for task in ended if (error := task.exception()) is not None]

    def _enqueue(self, handle: _Handle) -> None:
        process = handle.context.get(PROCESS, "world")
        if self._over or process in self._dead:
            self._graveyard.append(handle)
        else:
            self._queues.setdefault(process, deque()).append(handle)

    def _step(self) -> None:
        runnable = [name for name, queue in self._queues.items() if queue and not self._is_paused(name)]
        if not runnable:
            self._advance()
            return
        name = runnable[0] if len(runnable) == 1 else runnable[self.dice.randrange(len(runnable))]
        handle = self._queues[name].popleft()
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise Stuck("the world goes round without end")
        if not handle.gone:
            handle.context.run(handle.callback, *handle.args)

    def _is_paused(self, process: str) -> bool:
        until = self._paused.get(process)
        if until is not None and until <= self._now:
            del self._paused[process]
            until = None
        return until is not None

    def _advance(self) -> None:
        """Nobody can run: time goes on to the next timer, or to the end of a pause."""
        ends = [until for name, until in self._paused.items() if self._queues.get(name)]
        while self._timers and self._timers[0][2].gone:
            heapq.heappop(self._timers)
        if self._timers:
            ends.append(self._timers[0][0])
        if not ends:
            raise Stuck("nothing can run, and nothing is timed")
        self._now = max(self._now, min(ends))
        while self._timers and self._timers[0][0] <= self._now:
            self._enqueue(heapq.heappop(self._timers)[2])
