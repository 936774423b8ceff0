"""A deterministic event loop with virtual time: a seed determines which simulated process runs next.

Inside one process callbacks run in the order of asyncio: first in, first out. Only the order of processes
is random. The loop gives no access to sockets, threads or the real clock.
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


class SimulationStuck(Exception):
    """The simulation makes no progress: no callback is ready and no timer is set, or it runs without end."""


class _Handle:
    __slots__ = ("args", "callback", "context", "is_cancelled")

    def __init__(self, callback: Callable[..., object], args: tuple[object, ...], context: contextvars.Context) -> None:
        self.callback, self.args, self.context, self.is_cancelled = callback, args, context, False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled


class _Process:
    """The ready callbacks of one simulated process, in order."""

    __slots__ = ("dead", "name", "paused_until", "queue")

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: deque[_Handle] = deque()
        self.dead = False
        self.paused_until: float | None = None  # None: it is not paused


PROCESS: contextvars.ContextVar[_Process] = contextvars.ContextVar("PROCESS")


class SimLoop(asyncio.AbstractEventLoop):
    """Runs one callback at a time, of a process that the seed determines."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.steps = 0
        self.crashes: list[BaseException] = []  # exceptions that ended tasks
        self._now = 0.0
        self._count = 0
        self._processes: dict[str, _Process] = {}
        self._ready: list[_Process] = []  # with ready callbacks, and not paused
        self._timers: list[tuple[float, int, _Handle | asyncio.Future[None] | _Process]] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._dropped: list[object] = []  # kept, because a coroutine runs its finally blocks when it is collected
        self._closed = False

    def time(self) -> float:
        return self._now

    def process_name(self) -> str:
        """The name of the running process."""
        return PROCESS.get().name

    get_debug = staticmethod(bool)  # False: every future calls it, so it must be cheap

    def is_running(self) -> bool:
        return not self._closed

    def is_closed(self) -> bool:
        return self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        del context  # a simulation that ends leaves tasks and results that no task awaits

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
        self, delay: float, callback: Callable[..., object], *args: object, context: contextvars.Context | None = None
    ) -> Any:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: object, context: contextvars.Context | None = None
    ) -> Any:
        handle = _Handle(callback, args, contextvars.copy_context() if context is None else context)
        self._set_timer(when, handle)
        return handle

    def run_in_executor(self, executor: object, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """There are no threads: the work is done at once, and the process continues in a later step."""
        del executor
        done: asyncio.Future[T] = asyncio.Future(loop=self)
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  # it belongs to the task that waits
            done.set_exception(error)
        return done

    def sleeping(self, seconds: float) -> asyncio.Future[None]:
        """Done after this many virtual seconds. The waiting task continues without a step in between."""
        done: asyncio.Future[None] = asyncio.Future(loop=self)
        self._set_timer(self._now + seconds, done)
        return done

    def _set_timer(self, when: float, due: _Handle | asyncio.Future[None] | _Process) -> None:
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, due))

    def spawn(self, process: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        context = contextvars.copy_context()
        context.run(PROCESS.set, self._process(process))
        return self.create_task(work, context=context)

    def _process(self, name: str) -> _Process:
        if name not in self._processes:
            self._processes[name] = _Process(name)
        return self._processes[name]

    def kill(self, process: str) -> None:
        """Like kill -9: waiting callbacks are dropped, and no finally block runs."""
        killed = self._process(process)
        killed.dead = True
        if killed in self._ready:
            self._ready.remove(killed)

    def pause(self, process: str, seconds: float) -> None:
        """Like SIGSTOP with a later SIGCONT: this fault finds missing fences."""
        paused = self._process(process)
        paused.paused_until = self._now + seconds
        self._set_timer(paused.paused_until, paused)
        if paused in self._ready:
            self._ready.remove(paused)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        events._set_running_loop(self)
        collects = gc.isenabled()
        gc.disable()  # a simulation is small and short: garbage collection takes a third of its time
        try:
            task = self.spawn("main", work)
            self._run_until(task)
            return task.result()
        finally:
            self._closed = True
            self._close_tasks()
            events._set_running_loop(None)
            if collects:
                gc.enable()

    def _close_tasks(self) -> None:
        """Close the tasks that have not ended, and record the exceptions of the others."""
        for task in self._tasks:
            work = task.get_coro()
            if task.done():
                if not task.cancelled() and (error := task.exception()) is not None:
                    self.crashes.append(error)
            elif inspect.iscoroutine(work):
                with suppress(BaseException):
                    work.close()
        for leftovers in (self._tasks, self._processes, self._ready, self._timers, self._dropped):
            leftovers.clear()

    def _enqueue(self, handle: _Handle) -> None:
        process = handle.context.get(PROCESS)
        if process is None or process.dead or self._closed:
            self._dropped.append(handle)
            return
        queue = process.queue
        if not queue and process.paused_until is None:
            self._ready.append(process)
        queue.append(handle)

    def _run_until(self, task: asyncio.Task[Any]) -> None:
        ready, random_number = self._ready, self.random.random
        while not task.done():
            if not ready:
                self._advance()
                continue
            index = int(random_number() * len(ready)) if len(ready) > 1 else 0
            queue = ready[index].queue
            handle = queue.popleft()
            if not queue:
                del ready[index]
            self.steps += 1
            if self.steps > STEPS_MAX:
                raise SimulationStuck(f"no end after {STEPS_MAX:,} steps")
            if not handle.is_cancelled:
                handle.context.run(handle.callback, *handle.args)

    def _advance(self) -> None:
        """No callback is ready: virtual time moves to the next timer or the end of a pause."""
        timers = self._timers
        if not timers:
            raise SimulationStuck("no callback is ready, and no timer is set")
        now = self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= now:
            due = heapq.heappop(timers)[2]
            if isinstance(due, asyncio.Future):
                if not due.done():
                    due.set_result(None)
            elif isinstance(due, _Process):
                self._end_pause(due)
            elif not due.is_cancelled:
                self._enqueue(due)

    def _end_pause(self, process: _Process) -> None:
        """Continue a paused process, unless its pause was extended."""
        if process.paused_until is None or process.paused_until > self._now:
            return
        process.paused_until = None
        if process.queue and not process.dead:
            self._ready.append(process)
