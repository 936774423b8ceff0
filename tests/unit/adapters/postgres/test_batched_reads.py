"""Questions that come at the same time go together, and each gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from noetl.adapters.postgres.database import STATEMENTS_MAX, BatchedReads
from noetl.errors import Unavailable
from noetl.slices import turn


class Slow:
    """Answers each batch when the test calls `go` with its number."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.gates: list[asyncio.Event] = []
        self.error: BaseException | None = None

    async def answer(self, questions: list[str]) -> list[str]:
        self.asked.append(questions)
        self.gates.append(gate := asyncio.Event())
        await gate.wait()
        if self.error is not None:
            raise self.error
        return [each.upper() for each in questions]

    async def go(self, number: int) -> None:
        while len(self.gates) <= number:
            await turn()
        self.gates[number].set()


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(bounded())


def test_what_comes_while_statements_are_out_goes_together_and_the_same_is_asked_once() -> None:
    async def work() -> None:
        slow = Slow()
        gathering = BatchedReads(slow.answer, batch_max=3)
        first = []
        for number in range(STATEMENTS_MAX):
            first.append(asyncio.create_task(gathering.read("a")))
            while len(slow.asked) <= number:
                await turn()
        others = [asyncio.create_task(gathering.read(each)) for each in ("b", "c", "b", "d", "e")]
        await turn()
        for number in range(STATEMENTS_MAX + 2):
            await slow.go(number)
        assert await asyncio.gather(*first) == ["A"] * STATEMENTS_MAX
        assert await asyncio.gather(*others) == ["B", "C", "B", "D", "E"]
        assert slow.asked == [["a"]] * STATEMENTS_MAX + [["b", "c", "d"], ["e"]]

    run(work())


def test_whoever_asks_again_as_soon_as_he_is_answered_is_answered_again() -> None:
    async def at_once(questions: list[int]) -> list[int]:
        return questions

    async def again_and_again(gathering: BatchedReads[int, int]) -> list[int]:
        return [await gathering.read(number) for number in range(50)]

    async def work() -> None:
        gathering = BatchedReads(at_once, batch_max=1)
        told = await asyncio.gather(*(again_and_again(gathering) for _ in range(2 * STATEMENTS_MAX)))
        assert told == [list(range(50))] * 2 * STATEMENTS_MAX

    run(work())


def test_nobody_joins_a_statement_that_is_out() -> None:
    async def work() -> None:
        slow = Slow()
        gathering = BatchedReads(slow.answer)
        early = asyncio.create_task(gathering.read("a"))
        while not slow.asked:
            await turn()
        late = asyncio.create_task(gathering.read("a"))
        await slow.go(1)
        assert await late == "A"
        assert not early.done()
        await slow.go(0)
        assert await early == "A"

    run(work())


def test_when_the_database_is_away_all_who_asked_hear_it_and_the_next_one_is_asked_anew() -> None:
    async def work() -> None:
        slow = Slow()
        slow.error = Unavailable("away")
        gathering = BatchedReads(slow.answer)
        asking = [asyncio.create_task(gathering.read(each)) for each in ("a", "b")]
        await slow.go(0)
        told = await asyncio.gather(*asking, return_exceptions=True)
        assert [str(each) for each in told] == ["away", "away"]
        assert told[0] is not told[1]
        slow.error = None
        again = asyncio.create_task(gathering.read("a"))
        await slow.go(1)
        assert await again == "A"

    run(work())


def test_whoever_goes_away_costs_the_others_nothing() -> None:
    async def work() -> None:
        slow = Slow()
        gathering = BatchedReads(slow.answer)
        gone, stays = (asyncio.create_task(gathering.read("a")) for _ in range(2))
        while not slow.asked:
            await turn()
        gone.cancel()
        await slow.go(0)
        assert await stays == "A"
        with pytest.raises(asyncio.CancelledError):
            await gone

    run(work())


def test_at_the_end_nobody_waits_for_ever() -> None:
    async def work() -> None:
        slow = Slow()
        gathering = BatchedReads(slow.answer, batch_max=1)
        asking = [asyncio.create_task(gathering.read(each)) for each in "abcd"]
        while not slow.asked:
            await turn()
        for task in list(gathering._running):
            assert task is not None
            task.cancel()
        told = await asyncio.gather(*asking, return_exceptions=True)
        assert {str(each) for each in told} == {"the process is ending"}

    run(work())
