"""Ctrl-C and SIGTERM: the first requests a clean stop, the second an immediate one. Neither loses data."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):
    """A signal requests that the command stops."""


class Interrupts:
    """Handles the signals inside `with`; `on_first` is called at the first one."""

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._on_first = on_first
        self.first = asyncio.Event()
        self.second = asyncio.Event()

    def __enter__(self) -> Interrupts:
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            loop.add_signal_handler(each, self._received)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            loop.remove_signal_handler(each)

    def _received(self) -> None:
        if self.first.is_set():
            self.second.set()
            return
        self.first.set()
        self._on_first()

    async def unless(self, work: Coroutine[object, object, T]) -> T:
        """Await it. Raises Interrupted at the first signal."""
        return await self._race(work, self.first)

    async def unless_again(self, work: Coroutine[object, object, T]) -> T:
        """Await it. Raises Interrupted at the second signal."""
        return await self._race(work, self.second)

    async def _race(self, work: Coroutine[object, object, T], stop: asyncio.Event) -> T:
        doing = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            raise Interrupted
        finally:
            for each in (doing, stopping):
                each.cancel()
            await asyncio.gather(doing, stopping, return_exceptions=True)
