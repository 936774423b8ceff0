"""Frames of a large execution do not fill the turns of the event loop while small executions run beside it."""

from __future__ import annotations

import asyncio

from noetl.slices import turn
from noetl.testing import FakeClock
from noetl.worker.fair_turns import CROWDED_S, FRAMES_MAX, FRAMES_MIN, TURN_S, FairTurns


async def begin(turns: FairTurns, execution_id: str, order: list[str]) -> None:
    if (waiter := turns.waiter(execution_id)) is not None:
        await waiter
    order.append(execution_id)


def test_a_lone_execution_does_not_wait() -> None:
    async def work() -> None:
        clock = FakeClock()
        turns = FairTurns(clock)
        for _ in range(3):
            turns.note("large")
        assert [turns.waiter("large") for _ in range(500)] == [None] * 500
        turns.note("small")
        assert None not in [turns.waiter("large") for _ in range(500)][100:]
        for _ in range(500):
            await turn()
        clock.advance(CROWDED_S * 2)
        assert [turns.waiter("large") for _ in range(500)] == [None] * 500, "the small one ended long ago"

    asyncio.run(work())


def test_a_small_execution_waits_for_few_frames_of_a_large_one() -> None:
    async def work() -> None:
        turns, order = FairTurns(FakeClock()), list[str]()
        turns.note("large")
        turns.note("small")
        large = [asyncio.ensure_future(begin(turns, "large", order)) for _ in range(200)]
        await turn()
        assert 0 < len(order) < 20
        await begin(turns, "small", order)
        assert order[-1] == "small"
        assert len(order) < 40
        await asyncio.gather(*large)
        assert len(order) == 201

    asyncio.run(work())


def test_long_turns_have_fewer_frames_and_none_is_lost_by_a_cancellation() -> None:
    async def work() -> None:
        clock, order = FakeClock(), list[str]()
        turns = FairTurns(clock)
        turns.note("a")
        turns.note("large")
        frames = [asyncio.ensure_future(begin(turns, "large", order)) for _ in range(100)]
        await turn()
        for frame in frames[50:60]:
            frame.cancel()
        begun = []
        while len(order) < 90:
            before = len(order)
            clock.advance(TURN_S * 2)
            await turn()
            begun.append(len(order) - before)
        assert max(begun[5:]) == 1, "at least one now and then, so that the execution continues"
        assert sum(begun[8:48]) == 40 * FRAMES_MIN
        assert all(frame.done() for frame in frames)

    asyncio.run(work())


def test_short_turns_have_more_frames() -> None:
    async def work() -> None:
        turns, order = FairTurns(FakeClock()), list[str]()
        turns.note("a")
        turns.note("large")
        frames = [asyncio.ensure_future(begin(turns, "large", order)) for _ in range(3 * FRAMES_MAX)]
        begun = []
        while not all(frame.done() for frame in frames):
            before = len(order)
            await turn()
            begun.append(len(order) - before)
        assert begun[-2] > begun[0]
        assert len(order) == 3 * FRAMES_MAX

    asyncio.run(work())
