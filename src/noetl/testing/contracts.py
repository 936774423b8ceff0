"""What every adapter must keep, as test classes: an adapter's own test is a subclass that makes one.

The tests are plain functions around one event loop each, so that no plugin is needed to run them.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

from noetl.engine.facts import Evaluated, Fact, Processed, Requested
from noetl.errors import Conflict, Fenced, NotFound
from noetl.ids import partition_of
from noetl.ports import Append, EventStore, Pointer, ResultStore, Row, WorkQueue

AT = datetime(2026, 1, 1, tzinfo=UTC)
PARTITIONS = 4
REQUESTED = Requested(path="p", digest="d", workload={"a": [1, None, "ü"]})


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def append(
    first_seq: int, owner: int, *, execution_id: str = "e", live: bool = True, facts: int = 1
) -> Append:
    made: tuple[Fact, ...] = (Evaluated(),) * facts
    if first_seq == 1:
        made = (REQUESTED, *made[1:])
    return Append(execution_id, first_seq, AT, made, owner, live)


class EventStoreContract:
    """The log: compare-and-set on seq, epochs of owners, leases on its own time."""

    @abstractmethod
    def make(self) -> EventStore:
        """A fresh one with PARTITIONS partitions."""

    async def owned(self) -> tuple[EventStore, int]:
        store = self.make()
        owned = await store.own(partition_of("e", PARTITIONS), "s1", 60.0)
        assert owned is not None
        return store, owned.epoch

    def test_what_is_appended_is_read_in_order(self) -> None:
        async def work() -> None:
            store, epoch = await self.owned()
            assert await store.append([append(1, epoch, facts=2)]) == [None]
            assert await store.append([append(3, epoch)]) == [None]
            rows = await store.read("e")
            assert rows == [Row(1, AT, (REQUESTED, Evaluated())), Row(3, AT, (Evaluated(),))]
            assert await store.read("e", after=2) == rows[1:]
            assert await store.read("nobody") == []

        run(work())

    def test_of_two_writers_one_wins(self) -> None:
        async def work() -> None:
            store, epoch = await self.owned()
            first, second = await store.append([append(1, epoch), append(1, epoch)])
            assert first is None
            assert isinstance(second, Conflict)
            assert isinstance((await store.append([append(3, epoch)]))[0], Conflict)
            assert len(await store.read("e")) == 1

        run(work())

    def test_each_append_of_a_batch_stands_alone(self) -> None:
        async def work() -> None:
            store, epoch = await self.owned()
            done = await store.append([append(2, epoch), append(1, epoch)])
            assert isinstance(done[0], Conflict)
            assert done[1] is None

        run(work())

    def test_a_partition_has_one_owner_and_a_stranger_is_fenced(self) -> None:
        async def work() -> None:
            store, epoch = await self.owned()
            partition = partition_of("e", PARTITIONS)
            assert await store.own(partition, "s2", 60.0) is None
            again = await store.own(partition, "s1", 60.0)
            assert again is not None
            assert again.epoch == epoch
            assert isinstance((await store.append([append(1, epoch - 1)]))[0], Fenced)
            assert await store.read("e") == []

        run(work())

    def test_a_lease_that_ran_out_is_another_owner_and_another_epoch(self) -> None:
        async def work() -> None:
            store = self.make()
            partition = partition_of("e", PARTITIONS)
            first = await store.own(partition, "s1", 0.0)
            second = await store.own(partition, "s2", 60.0)
            assert first is not None
            assert second is not None
            assert second.epoch > first.epoch
            assert isinstance((await store.append([append(1, first.epoch)]))[0], Fenced)
            assert await store.append([append(1, second.epoch)]) == [None]

        run(work())

    def test_executions_are_listed_with_their_heads_until_they_end(self) -> None:
        async def work() -> None:
            store, epoch = await self.owned()
            partition = partition_of("e", PARTITIONS)
            await store.append([append(1, epoch, facts=3)])
            assert await store.live(partition) == [("e", 3)]
            ended = Append("e", 4, AT, (Processed(status="ok"),), epoch, False)
            await store.append([ended])
            assert await store.live(partition) == []

        run(work())


class WorkQueueContract:
    """Pointers on their way."""

    @abstractmethod
    def make(self) -> WorkQueue: ...

    def test_what_is_put_is_taken_by_whoever_waits(self) -> None:
        async def work() -> None:
            queue = self.make()
            waiting = asyncio.ensure_future(queue.take(2))
            pointers = [Pointer("e", "a#1", 1), Pointer("e", "b#1", 2), Pointer("e", "c#1", 3)]
            await queue.put(pointers)
            claims = [*(await waiting), *(await queue.take(2))]
            assert [claim.pointer for claim in claims] == pointers
            for claim in claims:
                await queue.done(claim)

        run(work())


class ResultStoreContract:
    """Payloads by reference."""

    @abstractmethod
    def make(self) -> ResultStore: ...

    def test_what_is_put_comes_back_and_the_same_is_the_same(self) -> None:
        async def work() -> None:
            store = self.make()
            ref = await store.put("e", b"[1, 2]", "application/json")
            assert await store.get(ref) == b"[1, 2]"
            assert await store.put("e", b"[1, 2]", "application/json") == ref
            assert ref["meta"]["bytes"] == 6

        run(work())

    def test_nothing_is_shared_between_executions_d53(self) -> None:
        async def work() -> None:
            store = self.make()
            assert await store.put("e", b"x", "text/plain") != await store.put("f", b"x", "text/plain")

        run(work())

    def test_what_is_not_there_is_not_found(self) -> None:
        async def work() -> None:
            store = self.make()
            ref = await store.put("e", b"x", "text/plain")
            try:
                await store.get({**ref, "locator": {"key": "e/nothing"}})
            except NotFound:
                return
            raise AssertionError("found")

        run(work())
