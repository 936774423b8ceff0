"""FakeClock: when sleeps end, what they record, and which ids and numbers it gives."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

from noetl.clock import Clock
from noetl.testing import FakeClock

START = datetime(2026, 11, 16, tzinfo=UTC)


async def note(clock: Clock, seconds: float, notes: list[tuple[float, float]]) -> None:
    await clock.sleep(seconds)
    notes.append((seconds, clock.monotonic()))


def test_time_stands_still_until_the_test_advances_it() -> None:
    clock = FakeClock(START)
    assert (clock.now(), clock.monotonic()) == (START, 0.0)
    clock.advance(90)
    assert (clock.now(), clock.monotonic()) == (START + timedelta(seconds=90), 90.0)


def test_a_sleep_ends_when_the_clock_reaches_its_end() -> None:
    async def work() -> None:
        clock = FakeClock()
        sleeping = asyncio.create_task(clock.sleep(60))
        await clock.settle()
        clock.advance(59.9)
        await clock.settle()
        assert (sleeping.done(), clock.sleepers) == (False, 1)
        clock.advance(0.1)
        await sleeping
        assert (clock.waits, clock.sleepers) == ([60], 0)

    asyncio.run(work())


def test_sleeps_that_are_over_end_in_order_and_see_the_new_time() -> None:
    async def work() -> list[tuple[float, float]]:
        clock, notes = FakeClock(), list[tuple[float, float]]()
        tasks = [asyncio.create_task(note(clock, seconds, notes)) for seconds in (3, 1, 2)]
        await clock.settle()
        clock.advance(10)
        await asyncio.gather(*tasks)
        return notes

    assert asyncio.run(work()) == [(1, 10), (2, 10), (3, 10)]


def test_with_auto_advance_each_sleep_ends_at_its_own_instant() -> None:
    async def work() -> list[tuple[float, float]]:
        clock, notes = FakeClock(auto_advance=True), list[tuple[float, float]]()
        await asyncio.gather(*(note(clock, seconds, notes) for seconds in (3_600, 1, 2)))
        return notes

    assert asyncio.run(work()) == [(1, 1), (2, 2), (3_600, 3_600)]


def test_a_cancelled_sleep_does_not_move_the_clock() -> None:
    async def work() -> None:
        clock = FakeClock(auto_advance=True)
        long = asyncio.create_task(clock.sleep(1_000))
        await clock.sleep(0)
        long.cancel()
        await clock.sleep(1)
        await clock.settle()
        assert clock.monotonic() == 1.0

    asyncio.run(work())


def test_auto_advance_waits_for_work_that_holds_the_clock() -> None:
    async def work() -> None:
        clock, done = FakeClock(auto_advance=True), asyncio.Event()

        async def hold() -> float:
            with clock.hold():
                await done.wait()
                before = clock.monotonic()
                await clock.sleep(5)  # a sleep of the work itself moves the clock
                return before

        holding = asyncio.create_task(hold())
        sleeping = asyncio.create_task(clock.sleep(60))
        await clock.settle()
        await clock.settle()
        assert (clock.monotonic(), sleeping.done()) == (0.0, False)
        done.set()
        assert await holding == 0.0
        await sleeping
        assert clock.monotonic() == 60.0

    asyncio.run(work())


def test_each_reading_may_take_time_and_is_counted() -> None:
    clock = FakeClock(tick_s=0.5)
    assert [clock.monotonic() for _ in range(3)] == [0.5, 1.0, 1.5]
    assert clock.readings == 3


def test_ids_and_random_numbers_depend_on_the_seed_alone() -> None:
    first, same, other = FakeClock(seed=1), FakeClock(seed=1), FakeClock(seed=2)
    ids = [first.new_id() for _ in range(3)]
    assert ids == [same.new_id() for _ in range(3)]
    assert other.new_id() not in ids
    assert ids == sorted(set(ids))
    assert {UUID(each).version for each in ids} == {7}
    assert first.chance() == same.chance() != other.chance()


def test_ids_sort_by_time() -> None:
    clock = FakeClock()
    early = clock.new_id()
    clock.advance(1)
    assert early < clock.new_id()
