"""The contract of work queues.

The test of an adapter is a subclass whose `connect` opens clients of one queue.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple, TypeAlias

from noetl.defaults import POOL
from noetl.errors import Unavailable
from noetl.ports import Claim, Pointer, QueueBackend, WorkQueue
from noetl.testing.contracts import error_of, opened_test

POINTERS: Final = [Pointer("e", f"{name}#1", number) for number, name in enumerate("abc", 1)]
MARKER: Final = Pointer("marker", "last#1", 1)


class QueueClient(NamedTuple):
    """One client of a queue."""

    queue: WorkQueue  # possibly a wrapper of the backend
    backend: QueueBackend


Connect: TypeAlias = Callable[[str], QueueClient]


async def take(queue: WorkQueue, count: int, limit: int = 1) -> list[Claim]:
    """This many claims, however many calls it takes."""
    claims: list[Claim] = []
    while len(claims) < count:
        claims += await queue.take(min(limit, count - len(claims)))
    return claims


def pointers(claims: list[Claim]) -> list[Pointer]:
    return [claim.pointer for claim in claims]


class WorkQueueContract:
    """Pointers from owners to workers. Tests of optional behaviour follow the traits of the queue."""

    @abstractmethod
    def open(self) -> AbstractAsyncContextManager[Connect]:
        """An empty queue. Each call of the result opens another client, which takes from a pool."""

    @opened_test("open")
    async def test_pointers_are_taken_in_the_order_they_were_put(self, connect: Connect) -> None:
        queue = connect(POOL).queue
        await queue.put(POINTERS[:2])
        await queue.put(POINTERS[2:])
        assert pointers(await take(queue, 3)) == POINTERS

    @opened_test("open")
    async def test_a_waiting_taker_receives_a_pointer_that_is_put_later(self, connect: Connect) -> None:
        queue = connect(POOL).queue
        waiting = asyncio.ensure_future(take(queue, 3, limit=2))
        await queue.put(POINTERS)
        claims = await waiting
        assert pointers(claims) == POINTERS
        for claim in claims:
            await queue.done(claim)

    @opened_test("open")
    async def test_a_taker_receives_at_most_its_limit(self, connect: Connect) -> None:
        queue = connect(POOL).queue
        await queue.put(POINTERS)
        first = await queue.take(2)
        assert 1 <= len(first) <= 2
        assert pointers([*first, *await take(queue, 3 - len(first))]) == POINTERS

    @opened_test("open")
    async def test_each_pointer_goes_to_one_of_several_takers(self, connect: Connect) -> None:
        takers = [connect(POOL).queue for _ in range(3)]
        made = [Pointer("e", f"a#1[{index}]", 1) for index in range(30)]
        slots = [asyncio.ensure_future(take(queue, 10)) for queue in takers]
        await takers[0].put(made)
        claims = [claim for claims in await asyncio.gather(*slots) for claim in claims]
        assert sorted(pointers(claims)) == sorted(made)

    @opened_test("open")
    async def test_deliveries_of_one_client_have_different_numbers(self, connect: Connect) -> None:
        queue = connect(POOL).queue
        await queue.put(POINTERS)
        assert len({claim.delivery for claim in await take(queue, 3)}) == 3

    @opened_test("open")
    async def test_a_pointer_that_is_put_again_is_delivered_again(self, connect: Connect) -> None:
        """A new owner counts dispatches from the start, so the same pointer is not a duplicate."""
        queue, owner = connect(POOL).queue, connect(POOL).queue
        again = POINTERS[0]._replace(dispatch=2)
        for putter, pointer in ((queue, POINTERS[0]), (queue, again), (queue, again), (owner, again)):
            await putter.put([pointer])
            assert pointers(await take(queue, 1)) == [pointer]

    @opened_test("open")
    async def test_a_taker_receives_pointers_of_its_own_pool(self, connect: Connect) -> None:
        first, other = connect(POOL), connect("gpu")
        gpu = [pointer._replace(pool="gpu") for pointer in POINTERS]
        await first.queue.put([gpu[0], POINTERS[1], gpu[2]])
        if first.backend.traits.separates_pools:
            assert pointers(await take(first.queue, 1)) == [POINTERS[1]]
            assert pointers(await take(other.queue, 2)) == [gpu[0], gpu[2]]
        else:
            assert pointers(await take(first.queue, 3)) == [gpu[0], POINTERS[1], gpu[2]]

    @opened_test("open")
    async def test_many_pointers_arrive_once_each(self, connect: Connect) -> None:
        queue = connect(POOL).queue
        made = [Pointer("e", f"a#1[{index}]", 1) for index in range(2_500)]
        await queue.put(made)
        claims = await take(queue, len(made), limit=100)
        assert pointers(claims) == made
        for claim in claims:
            await queue.done(claim)
        await queue.put([MARKER])
        assert pointers(await queue.take(2)) == [MARKER]

    @opened_test("open")
    async def test_a_pointer_arrives_unchanged(self, connect: Connect) -> None:
        queue = connect(POOL).queue
        made = [Pointer("ü x\0\r\n", "crawl#1[3]/hotels#2[17]", 2**40), Pointer("x" * 500, "", 0)]
        await queue.put(made)
        assert pointers(await take(queue, 2)) == made

    @opened_test("open")
    async def test_putting_nothing_has_no_effect(self, connect: Connect) -> None:
        queue = connect(POOL).queue
        await queue.put([])
        await queue.put([MARKER])
        assert pointers(await queue.take(2)) == [MARKER]

    @opened_test("open")
    async def test_a_finished_claim_is_not_delivered_again(self, connect: Connect) -> None:
        client = connect(POOL)
        await client.queue.put(POINTERS)
        first, second, third = await take(client.queue, 3)
        for claim in (second, second, third, Claim(MARKER, 10**9)):  # repeated and unknown ones are ignored
            await client.queue.done(claim)
        if client.backend.traits.redelivers:
            await client.backend.close()
            other = connect(POOL).queue
            assert pointers(await take(other, 1)) == [first.pointer]
            await other.put([MARKER])
            assert pointers(await take(other, 1)) == [MARKER]

    @opened_test("open")
    async def test_a_cancelled_taker_loses_no_pointer(self, connect: Connect) -> None:
        queue = connect(POOL).queue
        gone = asyncio.ensure_future(queue.take(1))
        await queue.put(POINTERS[:1])
        gone.cancel()
        await asyncio.wait([gone])
        taken = [] if gone.cancelled() else gone.result()  # it may have been faster
        await queue.put(POINTERS[1:])
        taken += await take(queue, 3 - len(taken))
        assert sorted(pointers(taken)) == POINTERS

    @opened_test("open")
    async def test_a_client_that_leaves_releases_its_takers_and_takes_nothing_more(self, connect: Connect) -> None:
        client = connect(POOL)
        await client.queue.put([MARKER])
        (claim,) = await take(client.queue, 1)
        slots = [asyncio.ensure_future(client.queue.take(1)) for _ in range(3)]
        await client.backend.leave()
        left = await asyncio.gather(*slots, return_exceptions=True)
        assert all(each == [] or isinstance(each, Unavailable) for each in left)
        assert isinstance(await error_of(client.queue.take(1)), Unavailable)
        await client.queue.done(claim)

    @opened_test("open")
    async def test_pointers_survive_their_clients_if_the_queue_is_durable(self, connect: Connect) -> None:
        client = connect(POOL)
        await client.queue.put(POINTERS)
        await client.backend.close()
        reopened = connect(POOL)
        await reopened.queue.put([MARKER])
        expected = [*POINTERS, MARKER] if client.backend.traits.durable else [MARKER]
        assert pointers(await take(reopened.queue, len(expected))) == expected
