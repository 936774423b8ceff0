"""The contract of limits by key: first come, first served; nothing is granted twice."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

from noetl.ports import KeyState, Limits, PermitAnswer, PermitEntry, PermitRequest, Rate
from noetl.testing.contracts import opened_test
from noetl.testing.contracts.stores import AT

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def _one(holder: str, key: str = "k", in_flight: int = 1) -> PermitRequest:
    return PermitRequest(key, holder, in_flight)


class LimitsContract:
    """Permits and buckets by key."""

    @abstractmethod
    def make(self) -> AbstractAsyncContextManager[Limits]: ...

    @opened_test("make")
    async def test_permits_are_granted_in_the_order_of_requests(self, limits: Limits) -> None:
        assert await limits.acquire(_one("a", in_flight=2), AT) == PermitAnswer(["a"])
        assert await limits.acquire(_one("b", in_flight=2), AT) == PermitAnswer(["b"])
        for holder in ("c", "d", "e"):
            assert await limits.acquire(_one(holder, in_flight=2), AT + SECOND) == PermitAnswer([])
        assert await limits.acquire(_one("other", "x"), AT) == PermitAnswer(["other"])
        assert await limits.entries(["k"]) == [
            PermitEntry("k", "a", True, AT), PermitEntry("k", "b", True, AT),
            *(PermitEntry("k", each, False, AT + SECOND) for each in "cde"),
        ]  # fmt: skip
        assert len(await limits.entries()) == 6
        assert await limits.release(["b"], AT) == ["c"]
        assert await limits.release(["d", "a", "unknown"], AT) == ["e"]
        assert await limits.release(["a"], AT) == []
        assert [each.holder for each in await limits.entries(["k"]) if each.holds] == ["c", "e"]

    @opened_test("make")
    async def test_keys_in_use_have_limits_and_buckets(self, limits: Limits) -> None:
        assert await limits.keys() == {}
        await limits.acquire(_one("a", in_flight=2), AT)
        rate = Rate(2, 10.0)
        for holder in "xyz":
            await limits.acquire(PermitRequest("r", holder, None, rate), AT)
        used = await limits.keys()
        assert used["k"] == KeyState(2)
        assert (used["r"].in_flight, used["r"].rate) == (None, rate)
        assert used["r"].bucket is not None
        assert (used["r"].bucket.tokens, used["r"].bucket.idle_at) == (0.0, AT + 10 * SECOND)
        await limits.release(["a"], AT)
        assert list(await limits.keys()) == ["r"]

    @opened_test("make")
    async def test_a_repeated_request_changes_nothing(self, limits: Limits) -> None:
        await limits.acquire(_one("a"), AT)
        assert await limits.acquire(_one("a"), AT + SECOND) == PermitAnswer(["a"])
        await limits.acquire(_one("b"), AT)
        await limits.acquire(_one("c"), AT)
        assert await limits.acquire(_one("b"), AT) == PermitAnswer([])
        assert [(each.holder, each.holds) for each in await limits.entries()] == [
            ("a", True), ("b", False), ("c", False)
        ]  # fmt: skip
        assert await limits.release(["a"], AT) == ["b"]

    @opened_test("make")
    async def test_a_request_that_does_not_wait_leaves_nothing(self, limits: Limits) -> None:
        assert await limits.acquire(_one("a"), AT, wait=False) == PermitAnswer(["a"])
        assert await limits.acquire(_one("b"), AT, wait=False) == PermitAnswer([])
        assert [each.holder for each in await limits.entries()] == ["a"]
        assert await limits.release(["a"], AT) == []

    @opened_test("make")
    async def test_the_first_that_waits_holds_up_those_behind_it(self, limits: Limits) -> None:
        for holder, most in (("a", 3), ("b", 3), ("narrow", 1), ("wide", 3)):
            await limits.acquire(_one(holder, in_flight=most), AT)
        assert await limits.release(["a"], AT) == []
        assert await limits.release(["b"], AT) == ["narrow", "wide"]

    @opened_test("make")
    async def test_of_many_requests_at_once_as_many_are_granted_as_the_limit_permits(self, limits: Limits) -> None:
        holders = [f"h{number}" for number in range(20)]
        answers = await asyncio.gather(*(limits.acquire(_one(each, in_flight=3), AT) for each in holders))
        held = [holder for answer in answers for holder in answer.granted]
        assert len(held) == len(set(held)) == 3
        served = list(held)
        while held:
            released = await asyncio.gather(*(limits.release([each], AT) for each in held))
            held = [holder for some in released for holder in some]
            assert len([each for each in await limits.entries() if each.holds]) == len(held) <= 3
            served += held
        assert sorted(served) == sorted(holders)
        assert await limits.entries() == []

    @opened_test("make")
    async def test_a_long_queue_is_granted_at_once(self, limits: Limits) -> None:
        await limits.acquire(_one("first"), AT)
        waiting = [f"w{number:03}" for number in range(150)]
        for each in waiting:
            await limits.acquire(_one(each, in_flight=200), AT)
        assert len(await limits.entries()) == 151
        assert await limits.release(["first"], AT) == []  # they did not have to wait
        await limits.block("k", AT + SECOND)
        for each in waiting:
            await limits.acquire(_one(f"x{each}", in_flight=500), AT)
        assert (await limits.advance("k", AT + SECOND)).granted == [f"x{each}" for each in waiting]

    @opened_test("make")
    async def test_a_bucket_is_full_at_first_and_refills_steadily(self, limits: Limits) -> None:
        rate = Rate(3, 60.0)

        async def take(holder: str, after_s: float) -> PermitAnswer:
            answer = await limits.acquire(PermitRequest("k", holder, None, rate), AT + after_s * SECOND)
            await limits.release([holder] if holder in answer.granted else [], AT + after_s * SECOND)
            return answer

        for holder in ("a", "b", "c"):
            assert await take(holder, 0) == PermitAnswer([holder])
        assert await take("d", 5) == PermitAnswer([], AT + 20 * SECOND)
        assert await take("e", 6) == PermitAnswer([], AT + 20 * SECOND)
        assert await limits.advance("k", AT + 19 * SECOND) == PermitAnswer([], AT + 20 * SECOND)
        assert await limits.advance("k", AT + 20 * SECOND) == PermitAnswer(["d"], AT + 40 * SECOND)
        assert await limits.advance("k", AT + 40 * SECOND) == PermitAnswer(["e"])
        assert await limits.advance("unknown", AT) == PermitAnswer([])
        late = AT + 10 * MINUTE
        answers = [await limits.acquire(PermitRequest("k", f"l{n}", None, rate), late) for n in range(4)]
        assert [answer.granted for answer in answers] == [["l0"], ["l1"], ["l2"], []]

    @opened_test("make")
    async def test_a_request_needs_both_a_free_place_and_a_token(self, limits: Limits) -> None:
        rate = Rate(1, 10.0)
        assert (await limits.acquire(PermitRequest("k", "a", 1, rate), AT)).granted == ["a"]
        assert await limits.acquire(PermitRequest("k", "b", 1, rate), AT) == PermitAnswer([])
        assert await limits.release(["a"], AT + SECOND) == []
        assert await limits.advance("k", AT + SECOND) == PermitAnswer([], AT + 10 * SECOND)
        assert (await limits.advance("k", AT + 10 * SECOND)).granted == ["b"]
        # A permit without a limit of those in flight takes no place.
        assert (await limits.acquire(PermitRequest("k", "c", None, rate), AT + MINUTE)).granted == ["c"]

    @opened_test("make")
    async def test_a_blocked_key_grants_nothing_until_then(self, limits: Limits) -> None:
        rate = Rate(5, 10.0)
        await limits.block("k", AT + MINUTE, rate)
        await limits.block("k", AT + SECOND, rate)  # a shorter one changes nothing
        assert await limits.acquire(PermitRequest("k", "a", None, rate), AT) == PermitAnswer([], AT + MINUTE)
        assert await limits.acquire(_one("b", in_flight=9), AT) == PermitAnswer([], AT + MINUTE)
        assert (await limits.acquire(_one("x", "other"), AT)).granted == ["x"]
        assert (await limits.advance("k", AT + MINUTE)).granted == ["a", "b"]
        answer = await limits.acquire(PermitRequest("k", "c", None, rate), AT + MINUTE)
        assert answer == PermitAnswer([], AT + MINUTE + 2 * SECOND)
