"""Background tasks of one owner: started together with their owner and cancelled with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence


class BackgroundTasks:
    """Keeps a reference to each running task: the event loop itself holds only weak references."""

    def __init__(self, on_error: Sequence[Callable[[BaseException], None]] = ()) -> None:
        """`on_error`: called with the exception of a task that fails. A failure is a bug of ours."""
        self._on_error = tuple(on_error)
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._discard)

    def _discard(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        # Without a handler the exception stays unretrieved, and asyncio logs it.
        if self._on_error and not task.cancelled() and (error := task.exception()) is not None:
            for handler in self._on_error:
                handler(error)

    async def cancel(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
