"""What every adapter must keep, as test classes: an adapter's own test is a subclass that makes one.

The tests are plain functions around one event loop each, so that no plugin is needed to run them.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from noetl.engine.facts import Evaluated, Fact, Processed, Requested
from noetl.engine.state import Status
from noetl.errors import Conflict, Fenced, NotFound, Rejected, Unavailable
from noetl.ids import partition_of
from noetl.playbook.model import Credential
from noetl.ports import (
    Append,
    EventStore,
    ExecutionOwnership,
    LogRow,
    Partitions,
    Pointer,
    SecretProvider,
    Snapshot,
    WorkQueue,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)
PARTITIONS = 4
PARTITION = partition_of("e", PARTITIONS)
REQUESTED = Requested(path="p", digest="d", workload={"a": [1, None, "ü"]})


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def append(
    first_seq: int, owner: int, *, execution_id: str = "e", status: Status = "running", facts: int = 1
) -> Append:
    made: tuple[Fact, ...] = (Evaluated(),) * facts
    if first_seq == 1:
        made = (REQUESTED, *made[1:])
    return Append(execution_id, first_seq, AT, made, owner, status)


class EventStoreContract:
    """The log: compare-and-set on seq, one owner at a time, and snapshots beside it."""

    @abstractmethod
    async def owned(self) -> tuple[EventStore, int]:
        """A fresh one in which execution "e" is ours, and our number."""

    def test_what_is_appended_is_read_in_order(self) -> None:
        async def work() -> None:
            store, epoch = await self.owned()
            assert await store.append([append(1, epoch, facts=2)]) == [None]
            assert await store.append([append(3, epoch)]) == [None]
            rows = await store.read("e")
            assert rows == [LogRow(1, AT, (REQUESTED, Evaluated())), LogRow(3, AT, (Evaluated(),))]
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

    def test_another_number_than_the_present_owners_is_fenced(self) -> None:
        async def work() -> None:
            store, owner = await self.owned()
            assert isinstance((await store.append([append(1, owner + 1)]))[0], Fenced)
            assert await store.read("e") == []
            assert await store.append([append(1, owner)]) == [None]
            for stranger in (owner - 1, owner + 1):
                assert isinstance((await store.append([append(2, stranger)]))[0], Fenced)
            assert len(await store.read("e")) == 1

        run(work())

    def test_reading_after_the_middle_of_a_row_gives_the_whole_row(self) -> None:
        async def work() -> None:
            store, owner = await self.owned()
            await store.append([append(1, owner, facts=3), append(4, owner, facts=3)])
            rows = await store.read("e")
            assert [row.first_seq for row in rows] == [1, 4]
            assert [await store.read("e", after) for after in (0, 2, 3, 5)] == [
                rows,
                rows,
                rows[1:],
                rows[1:],
            ]
            assert await store.read("e", after=6) == []
            assert [await store.read("e", 0, up_to) for up_to in (1, 3, 4, 9)] == [
                rows[:1],
                rows[:1],
                rows,
                rows,
            ]

        run(work())

    def test_a_refused_append_leaves_no_trace_and_the_next_one_stands(self) -> None:
        async def work() -> None:
            store, owner = await self.owned()
            await store.append([append(1, owner)])
            done = await store.append([append(3, owner), append(2, owner + 1), append(2, owner)])
            assert [type(each) for each in done] == [Conflict, Fenced, type(None)]
            assert [row.first_seq for row in await store.read("e")] == [1, 2]

        run(work())

    def test_the_status_is_that_of_the_last_append_that_stood(self) -> None:
        async def work() -> None:
            store, owner = await self.owned()
            assert await store.status("e") is None
            await store.append([append(1, owner), append(2, owner, status="paused")])
            assert await store.status("e") == "paused"
            await store.append([append(2, owner, status="error"), append(3, owner + 1, status="error")])
            assert await store.status("e") == "paused"
            await store.append([append(3, owner, status="ok")])
            assert await store.status("e") == "ok"

        run(work())

    def test_the_newest_snapshot_is_the_one_that_is_kept(self) -> None:
        async def work() -> None:
            store, owner = await self.owned()
            await store.append([append(1, owner, facts=9)])
            assert await store.snapshot("e") is None
            first, second = Snapshot(3, "s1", b"\x00one"), Snapshot(9, "s1", b"two")
            await store.keep("e", first)
            assert await store.snapshot("e") == first
            await store.keep("e", second)
            await store.keep("e", first)
            assert await store.snapshot("e") == second

        run(work())

    def test_a_snapshot_of_another_schema_replaces_one_that_nobody_can_read(self) -> None:
        async def work() -> None:
            store, owner = await self.owned()
            await store.append([append(1, owner, facts=9)])
            await store.keep("e", Snapshot(9, "s1", b"one"))
            await store.keep("e", Snapshot(5, "s2", b"two"))
            assert await store.snapshot("e") == Snapshot(5, "s2", b"two")

        run(work())


class PartitionedStore(EventStore, Partitions, Protocol):
    """A log that many servers share."""


class PartitionsContract:
    """Who owns what: epochs, and leases on the store's own time."""

    @abstractmethod
    def make(self) -> PartitionedStore:
        """A fresh one with PARTITIONS partitions."""

    async def owned(self) -> tuple[PartitionedStore, int]:
        store = self.make()
        return store, await epoch_of(store, "s1")

    def test_a_partition_has_one_owner_and_a_stranger_is_fenced(self) -> None:
        async def work() -> None:
            store, epoch = await self.owned()
            assert (await store.own("s2", [PARTITION], 60.0)).epochs == {}
            assert (await store.own("s1", [PARTITION], 60.0)).epochs == {PARTITION: epoch}
            assert isinstance((await store.append([append(1, epoch - 1)]))[0], Fenced)
            assert await store.read("e") == []

        run(work())

    def test_of_many_partitions_those_are_ours_that_nobody_has(self) -> None:
        async def work() -> None:
            store, epoch = await self.owned()
            others = [number for number in range(PARTITIONS) if number != PARTITION]
            assert sorted((await store.own("s2", range(PARTITIONS), 60.0)).epochs) == others
            assert (await store.own("s1", range(PARTITIONS), 60.0)).epochs == {PARTITION: epoch}

        run(work())

    def test_a_lease_that_ran_out_is_another_owner_and_another_epoch(self) -> None:
        async def work() -> None:
            store = self.make()
            first = await epoch_of(store, "s1", 0.0)
            second = await epoch_of(store, "s2")
            assert second > first
            assert isinstance((await store.append([append(1, first)]))[0], Fenced)
            assert await store.append([append(1, second)]) == [None]

        run(work())

    def test_whoever_let_a_lease_run_out_comes_back_under_a_new_epoch(self) -> None:
        async def work() -> None:
            store = self.make()
            first = await epoch_of(store, "s1", 0.0)
            assert await epoch_of(store, "s1") > first

        run(work())

    def test_what_is_let_go_is_anothers_at_once_and_its_last_owner_is_fenced(self) -> None:
        async def work() -> None:
            store, epoch = await self.owned()
            await store.let_go("s2", [PARTITION])
            assert await store.append([append(1, epoch)]) == [None]
            await store.let_go("s1", [PARTITION])
            assert isinstance((await store.append([append(2, epoch)]))[0], Fenced)
            assert await epoch_of(store, "s2") > epoch

        run(work())

    def test_servers_know_of_each_other_while_they_are_there(self) -> None:
        async def work() -> None:
            store = self.make()
            assert await store.servers("s2", 60.0) == ["s2"]
            assert await store.servers("s1", 60.0) == ["s1", "s2"]
            await store.servers("s2", 0.0)
            assert await store.servers("s1", 60.0) == ["s1"]

        run(work())

    def test_executions_are_listed_with_their_heads_until_they_end(self) -> None:
        async def work() -> None:
            store, epoch = await self.owned()
            await store.append([append(1, epoch, facts=3)])
            assert await store.live([PARTITION]) == [("e", 3)]
            ended = Append("e", 4, AT, (Processed(status="ok"),), epoch, "ok")
            await store.append([ended])
            assert await store.live(range(PARTITIONS)) == []

        run(work())


async def epoch_of(store: Partitions, server: str, ttl_s: float = 60.0) -> int:
    """The partition of "e" is the server's from now on: its epoch."""
    return (await store.own(server, [PARTITION], ttl_s)).epochs[PARTITION]


class Process(NamedTuple):
    """One of several on one log."""

    store: EventStore
    holding: ExecutionOwnership
    end: Callable[[], None]


class HoldingContract:
    """Each execution is held by one process that lives."""

    @abstractmethod
    def process(self) -> Process:
        """Another one, on the same log as those before."""

    def test_a_process_holds_an_execution_under_one_number(self) -> None:
        async def work() -> None:
            store, holding, _ = self.process()
            number = await holding.hold("e")
            assert await holding.hold("e") == number
            assert await store.append([append(1, number)]) == [None]
            assert await holding.hold("e") == number
            assert await store.append([append(2, number)]) == [None]

        run(work())

    def test_what_a_living_process_has_is_refused_to_others(self) -> None:
        async def work() -> None:
            one, other = self.process(), self.process()
            await one.store.append([append(1, await one.holding.hold("e"))])
            code = "let go"
            try:
                await other.holding.hold("e")
            except Rejected as refused:
                code = refused.code
            assert code == "held"
            assert await other.holding.hold("f") != await one.holding.hold("e")

        run(work())

    def test_what_a_process_leaves_behind_is_taken_over_under_a_higher_number(self) -> None:
        async def work() -> None:
            one, other = self.process(), self.process()
            await other.holding.hold("f")
            numbers = [await one.holding.hold("e")]
            await one.store.append([append(1, numbers[0])])
            one.end()
            for seq in (2, 3):
                numbers.append(await other.holding.hold("e"))
                stale = await other.store.append([append(seq, number) for number in numbers[:-1]])
                assert all(isinstance(each, Fenced) for each in stale)
                assert await other.store.append([append(seq, numbers[-1])]) == [None]
                other.end()
                other = self.process()
            assert numbers == sorted(set(numbers))

        run(work())

    def test_of_two_who_begin_the_same_execution_one_is_fenced(self) -> None:
        async def work() -> None:
            one, other = self.process(), self.process()
            numbers = [await one.holding.hold("e"), await other.holding.hold("e")]
            assert await other.store.append([append(1, numbers[1])]) == [None]
            assert isinstance((await one.store.append([append(1, numbers[0])]))[0], Fenced)

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


class SecretPlace(NamedTuple):
    """Something that holds one credential."""

    provider: SecretProvider
    there: Credential
    missing: Credential  # named "missing"
    change: Callable[[], Awaitable[None]]  # from now on it holds another value


class SecretProviderContract:
    """Credentials as they are now; by name when they are not there; and never in words."""

    @abstractmethod
    def place(self) -> AbstractAsyncContextManager[SecretPlace]: ...

    def test_a_value_keeps_its_version_until_it_is_another(self) -> None:
        async def work() -> None:
            async with self.place() as (provider, there, _, change):
                first, again = await provider.fetch(there), await provider.fetch(there)
                assert (again.values, again.version) == (first.values, first.version)
                await change()
                other = await provider.fetch(there, fresh=True)
                assert other.values != first.values
                assert other.version != first.version

        run(work())

    def test_what_is_not_there_is_told_by_the_name_of_its_entry_and_no_value_is_d57(self) -> None:
        async def work() -> None:
            async with self.place() as (provider, there, missing, _):
                fetched = await provider.fetch(there)
                told = ""
                try:
                    await provider.fetch(missing)
                except (NotFound, Unavailable) as error:
                    told = str(error)
                assert 'keychain entry "missing"' in told
                for secret in fetched.values.values():
                    assert secret.reveal() not in (told + repr(fetched) + fetched.version)

        run(work())
