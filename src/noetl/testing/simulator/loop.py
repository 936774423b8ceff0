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


class _Process:
    """What one simulated process is to do next, in order."""

    __slots__ = ("dead", "paused_until", "queue")

    def __init__(self) -> None:
        self.queue: deque[_Handle] = deque()
        self.dead = False
        self.paused_until: float | None = None  # None: it runs


PROCESS: contextvars.ContextVar[_Process] = contextvars.ContextVar("PROCESS")


class SimLoop(asyncio.AbstractEventLoop):
    """Runs exactly one handle at a time, of a process that the seed picks."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.steps = 0
        self.crashes: list[BaseException] = []  # what ended tasks: none of it should be ours
        self._now = 0.0
        self._count = 0
        self._processes: dict[str, _Process] = {}
        self._ready: list[_Process] = []  # those that have something to do and are not paused
        self._timers: list[tuple[float, int, _Handle | asyncio.Future[None] | _Process]] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._graveyard: list[object] = []  # kept: a coroutine that is collected would run its finally blocks
        self._over = False

    def time(self) -> float:
        return self._now

    get_debug = staticmethod(bool)  # False, and at no cost: every future asks

    def is_running(self) -> bool:
        return not self._over

    def is_closed(self) -> bool:
        return self._over

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        del context  # a world that ends leaves tasks and answers behind that nobody asks for

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
        handle = _Handle(callback, args, contextvars.copy_context() if context is None else context)
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
        handle = _Handle(callback, args, contextvars.copy_context() if context is None else context)
        self._set_timer(when, handle)
        return handle

    def sleeping(self, seconds: float) -> asyncio.Future[None]:
        """Done after so long. It is no step of its own: whoever waits for it goes on at that moment."""
        done: asyncio.Future[None] = asyncio.Future(loop=self)
        self._set_timer(self._now + seconds, done)
        return done

    def _set_timer(self, when: float, due: _Handle | asyncio.Future[None] | _Process) -> None:
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, due))

    def spawn(self, process: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start something inside a simulated process."""
        context = contextvars.copy_context()
        context.run(PROCESS.set, self._process(process))
        return self.create_task(work, context=context)

    def _process(self, name: str) -> _Process:
        if name not in self._processes:
            self._processes[name] = _Process()
        return self._processes[name]

    def kill(self, process: str) -> None:
        """kill -9: what waits is dropped, and no finally block runs."""
        killed = self._process(process)
        killed.dead = True
        if killed in self._ready:
            self._ready.remove(killed)

    def pause(self, process: str, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after a while: the fault that finds missing fences."""
        paused = self._process(process)
        paused.paused_until = self._now + seconds
        self._set_timer(paused.paused_until, paused)
        if paused in self._ready:
            self._ready.remove(paused)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        events._set_running_loop(self)
        collects = gc.isenabled()
        gc.disable()  # a world is small and gone soon: to look for garbage in it costs a third of the time
        try:
            task = self.spawn("world", work)
            self._run_until(task)
            return task.result()
        finally:
            self._over = True
            self._bury()
            events._set_running_loop(None)
            if collects:
                gc.enable()

    def _bury(self) -> None:
        """The world is over: what never got to run is put away quietly, and nothing is left to collect."""
        for task in self._tasks:
            work = task.get_coro()
            if task.done():
                if not task.cancelled() and (error := task.exception()) is not None:
                    self.crashes.append(error)
            elif inspect.iscoroutine(work):
                with suppress(BaseException):
                    work.close()
        for leftovers in (self._tasks, self._processes, self._ready, self._timers, self._graveyard):
            leftovers.clear()

    def _enqueue(self, handle: _Handle) -> None:
        process = handle.context.get(PROCESS)
        if process is None or process.dead or self._over:
            self._graveyard.append(handle)
            return
        queue = process.queue
        if not queue and process.paused_until is None:
            self._ready.append(process)
        queue.append(handle)

    def _run_until(self, task: asyncio.Task[Any]) -> None:
        ready, random_number = self._ready, self.dice.random
        while not task.done():
            if not ready:
                self._advance()
                continue
            place = int(random_number() * len(ready)) if len(ready) > 1 else 0
            queue = ready[place].queue
            handle = queue.popleft()
            if not queue:
                del ready[place]
            self.steps += 1
            if self.steps > STEPS_MAX:
                raise Stuck("the world goes round without end")
            if not handle.gone:
                handle.context.run(handle.callback, *handle.args)

    def _advance(self) -> None:
        """Nobody can run: time goes on to the next timer, or to the end of a pause."""
        timers = self._timers
        if not timers:
            raise Stuck("nothing can run, and nothing is timed")
        now = self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= now:
            due = heapq.heappop(timers)[2]
            if isinstance(due, asyncio.Future):
                if not due.done():
                    due.set_result(None)
            elif isinstance(due, _Process):
                self._go_on(due)
            elif not due.gone:
                self._enqueue(due)

    def _go_on(self, process: _Process) -> None:
        """A pause is over, unless it was made longer since."""
        if process.paused_until is None or process.paused_until > self._now:
            return
        process.paused_until = None
        if process.queue and not process.dead:
            self._ready.append(process)
