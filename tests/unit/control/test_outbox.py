"""The outbox of a server: pointers reach the queue even if it is not available for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from noetl.adapters.memory import MemoryQueue
from noetl.control.dispatch import REPEAT_S, Outbox
from noetl.errors import Unavailable
from noetl.ports import Pointer
from noetl.testing import FakeClock


class UnavailableQueue(MemoryQueue):
    """Fails for a number of writes."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures
        self.writes: list[list[int]] = []

    async def put(self, pointers: Sequence[Pointer]) -> None:
        self.writes.append([pointer.dispatch for pointer in pointers])
        if self.failures > 0:
            self.failures -= 1
            raise Unavailable("the queue does not answer")
        await super().put(pointers)


def pointer(frame: str, dispatch: int) -> Pointer:
    return Pointer("e", frame, dispatch, "default")


def run(failures: int, work: Callable[[Outbox, FakeClock], Awaitable[None]]) -> UnavailableQueue:
    queue, clock = UnavailableQueue(failures), FakeClock()

    async def main() -> None:
        outbox = Outbox(queue, clock)
        await outbox.put([pointer("a#1", 1), pointer("b#1", 2)])
        await clock.settle()
        await work(outbox, clock)

    asyncio.run(main())
    return queue


def test_pointers_whose_write_failed_are_written_again() -> None:
    async def work(_: Outbox, clock: FakeClock) -> None:
        for _round in range(3):
            clock.advance(REPEAT_S)
            await clock.settle()

    assert run(2, work).writes == [[1, 2], [1, 2], [1, 2]]


def test_only_the_newest_pointer_to_a_frame_is_written_again() -> None:
    async def work(outbox: Outbox, clock: FakeClock) -> None:
        await outbox.put([pointer("b#1", 3)])
        await outbox.put([pointer("c#1", 4)])
        clock.advance(REPEAT_S)
        await clock.settle()

    assert run(1, work).writes == [[1, 2], [1, 3, 4]]


def test_an_outbox_that_is_closed_does_not_repeat_a_failed_write() -> None:
    async def work(outbox: Outbox, clock: FakeClock) -> None:
        closing = asyncio.ensure_future(outbox.close())
        clock.advance(REPEAT_S)
        await closing

    assert run(100, work).writes == [[1, 2], [1, 2]]
