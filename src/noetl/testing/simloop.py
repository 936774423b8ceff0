"""A deterministic event loop: virtual time, a queue a process, a seed that picks who is next.

Inside one process asyncio is first come, first served, and so is this; only the order between them is drawn.
Nothing real is reachable from it: no socket, no thread, no clock.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
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
        self._ready: dict[str, deque[_Handle]] = {}  # of these the queues that hold something
        self._timers: list[tuple[float, int, _Handle | asyncio.Future[None]]] = []
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

    def sleeping(self, seconds: float) -> asyncio.Future[None]:
        """Done after so long. It is no step of its own: whoever waits for it goes on at that moment."""
        done: asyncio.Future[None] = asyncio.Future(loop=self)
        self._count += 1
        heapq.heappush(self._timers, (self._now + seconds, self._count, done))
        return done

    def spawn(self, process: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start something inside a simulated process."""
        context = contextvars.copy_context()
        context.run(PROCESS.set, process)
        return self.create_task(work, context=context)

    def kill(self, process: str) -> None:
        """kill -9: what waits is dropped, and no finally block runs."""
        self._dead.add(process)
        self._ready.pop(process, None)
        self._graveyard.append(self._queues.pop(process, None))

    def pause(self, process: str, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after a while: the fault that finds missing fences."""
        self._paused[process] = self._now + seconds

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        events._set_running_loop(self)
        collects = gc.isenabled()
        gc.disable()  # a world is small and gone soon: to look for garbage in it costs a third of the time
        try:
            task = self.spawn("world", work)
            while not task.done():
                self._step()
            return task.result()
        finally:
            self._over = True
            self._bury()
            events._set_running_loop(None)
            if collects:
                gc.enable()
            self._queues.clear()
            self._ready.clear()
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
            return
        queue = self._queues.get(process)
        if queue is None:
            queue = self._queues[process] = deque()
        if not queue:
            self._ready[process] = queue
        queue.append(handle)

    def _step(self) -> None:
        runnable = list(self._ready) if not self._paused else self._not_paused()
        if not runnable:
            self._advance()
            return
        name = runnable[0] if len(runnable) == 1 else runnable[int(self.dice.random() * len(runnable))]
        queue = self._ready[name]
        handle = queue.popleft()
        if not queue:
            del self._ready[name]
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise Stuck("the world goes round without end")
        if not handle.gone:
            handle.context.run(handle.callback, *handle.args)

    def _not_paused(self) -> list[str]:
        now, paused = self._now, self._paused
        return [name for name in self._ready if paused.get(name, now) <= now]

    def _advance(self) -> None:
        """Nobody can run: time goes on to the next timer, or to the end of a pause."""
        timers = self._timers
        if self._paused:
            self._paused = {name: until for name, until in self._paused.items() if until > self._now}
        ends = [until for name, until in self._paused.items() if name in self._ready]
        while timers and _is_gone(timers[0][2]):
            heapq.heappop(timers)
        if timers:
            ends.append(timers[0][0])
        if not ends:
            raise Stuck("nothing can run, and nothing is timed")
        self._now = max(self._now, min(ends))
        while timers and timers[0][0] <= self._now:
            due = heapq.heappop(timers)[2]
            if isinstance(due, _Handle):
                self._enqueue(due)
            elif not due.done():
                due.set_result(None)


def _is_gone(due: _Handle | asyncio.Future[None]) -> bool:
    return due.gone if isinstance(due, _Handle) else due.done()
