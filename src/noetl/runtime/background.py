"""What a process does beside its main work, for as long as it lives: one task each, ended together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine


class BackgroundTasks:
    """None of them ever ends by itself: one that does has fallen, and whoever watches is told."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self.fell: Callable[[BaseException], None] | None = None  # told of a bug of ours

    def run(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and self.fell is not None:
            self.fell(error)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
