"""Contracts of adapters for the log: event stores, partitions, ownership and listings.

The test of an adapter is a subclass that opens one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Protocol

from noetl.engine.facts import Evaluated, Fact, Processed, Requested
from noetl.engine.state import Status
from noetl.errors import Conflict, Fenced, NotFound, Rejected
from noetl.ids import partition_of
from noetl.ports import Append, EventStore, ExecutionListing, ExecutionOwnership, LogRow, Partitions, Snapshot
from noetl.testing.contracts import async_test, error_of
from noetl.testing.contracts.catalog import HALF, STRANGE

AT: Final = datetime(2026, 1, 1, 12, 30, 59, 123456, tzinfo=UTC)
ENDED: Final[frozenset[Status]] = frozenset(("ok", "error", "cancelled"))
PARTITIONS: Final = 4
PARTITION: Final = partition_of("e", PARTITIONS)
REQUESTED: Final = Requested(path="p", digest="d", workload={"a": [1, None, "ü"]})


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
        """An empty store in which we own the execution "e", and the owner number."""

    @async_test
    async def test_facts_are_read_in_the_order_of_appends(self) -> None:
        store, epoch = await self.owned()
        assert await store.append([append(1, epoch, facts=2)]) == [None]
        assert await store.append([append(3, epoch)]) == [None]
        rows = await store.read("e")
        assert rows == [LogRow(1, AT, (REQUESTED, Evaluated())), LogRow(3, AT, (Evaluated(),))]
        assert await store.read("e", after=2) == rows[1:]
        assert await store.read("unknown") == []

    @async_test
    async def test_of_two_writers_one_wins(self) -> None:
        store, epoch = await self.owned()
        first, second = await store.append([append(1, epoch), append(1, epoch)])
        assert first is None
        assert isinstance(second, Conflict)
        assert isinstance((await store.append([append(3, epoch)]))[0], Conflict)
        assert len(await store.read("e")) == 1

    @async_test
    async def test_each_append_of_a_batch_succeeds_or_fails_alone(self) -> None:
        store, epoch = await self.owned()
        done = await store.append([append(2, epoch), append(1, epoch)])
        assert isinstance(done[0], Conflict)
        assert done[1] is None

    @async_test
    async def test_an_append_with_another_owner_number_is_fenced(self) -> None:
        store, owner = await self.owned()
        assert isinstance((await store.append([append(1, owner + 1)]))[0], Fenced)
        assert await store.read("e") == []
        assert await store.append([append(1, owner)]) == [None]
        for number in (owner - 1, owner + 1):
            assert isinstance((await store.append([append(2, number)]))[0], Fenced)
        assert len(await store.read("e")) == 1

    @async_test
    async def test_rows_are_never_cut(self) -> None:
        store, owner = await self.owned()
        await store.append([append(1, owner, facts=3), append(4, owner, facts=3)])
        rows = await store.read("e")
        assert [row.first_seq for row in rows] == [1, 4]
        assert [await store.read("e", after) for after in (0, 2, 3, 5)] == [rows, rows, rows[1:], rows[1:]]
        assert await store.read("e", after=6) == []
        assert [await store.read("e", 0, up_to) for up_to in (1, 3, 4, 9)] == [rows[:1], rows[:1], rows, rows]

    @async_test
    async def test_a_refused_append_has_no_effect_on_the_next_one(self) -> None:
        store, owner = await self.owned()
        await store.append([append(1, owner)])
        done = await store.append([append(3, owner), append(2, owner + 1), append(2, owner)])
        assert [type(each) for each in done] == [Conflict, Fenced, type(None)]
        assert [row.first_seq for row in await store.read("e")] == [1, 2]

    @async_test
    async def test_the_status_is_that_of_the_last_committed_append(self) -> None:
        store, owner = await self.owned()
        assert await store.status("e") is None
        await store.append([append(1, owner), append(2, owner, status="paused")])
        assert await store.status("e") == "paused"
        await store.append([append(2, owner, status="error"), append(3, owner + 1, status="error")])
        assert await store.status("e") == "paused"
        await store.append([append(3, owner, status="ok")])
        assert await store.status("e") == "ok"

    @async_test
    async def test_the_newest_snapshot_is_kept(self) -> None:
        store, owner = await self.owned()
        await store.append([append(1, owner, facts=9)])
        assert await store.snapshot("e") is None
        first, second = Snapshot(3, "s1", b"\x00one"), Snapshot(9, "s1", b"two")
        await store.keep("e", first)
        assert await store.snapshot("e") == first
        await store.keep("e", second)
        await store.keep("e", first)
        assert await store.snapshot("e") == second

    @async_test
    async def test_a_snapshot_of_another_schema_replaces_the_old_one(self) -> None:
        store, owner = await self.owned()
        await store.append([append(1, owner, facts=9)])
        await store.keep("e", Snapshot(9, "s1", b"one"))
        await store.keep("e", Snapshot(5, "s2", b"two"))
        assert await store.snapshot("e") == Snapshot(5, "s2", b"two")


class PartitionedStore(EventStore, Partitions, Protocol):
    """A log that many servers share."""


class PartitionsContract:
    """Ownership by epochs, and leases on the store's clock."""

    @abstractmethod
    def make(self) -> PartitionedStore:
        """An empty store with PARTITIONS partitions."""

    async def owned(self) -> tuple[PartitionedStore, int]:
        store = self.make()
        return store, await epoch_of(store, "s1")

    @async_test
    async def test_a_partition_has_one_owner_and_others_are_fenced(self) -> None:
        store, epoch = await self.owned()
        assert (await store.own("s2", [PARTITION], 60.0)).epochs == {}
        assert (await store.own("s1", [PARTITION], 60.0)).epochs == {PARTITION: epoch}
        assert isinstance((await store.append([append(1, epoch - 1)]))[0], Fenced)
        assert await store.read("e") == []

    @async_test
    async def test_a_server_acquires_the_partitions_without_an_owner(self) -> None:
        store, epoch = await self.owned()
        others = [number for number in range(PARTITIONS) if number != PARTITION]
        assert sorted((await store.own("s2", range(PARTITIONS), 60.0)).epochs) == others
        assert (await store.own("s1", range(PARTITIONS), 60.0)).epochs == {PARTITION: epoch}

    @async_test
    async def test_an_expired_lease_can_be_acquired_under_a_new_epoch(self) -> None:
        store = self.make()
        first = await epoch_of(store, "s1", 0.0)
        second = await epoch_of(store, "s2")
        assert second > first
        assert isinstance((await store.append([append(1, first)]))[0], Fenced)
        assert await store.append([append(1, second)]) == [None]

    @async_test
    async def test_an_expired_lease_gets_a_new_epoch_for_the_same_server(self) -> None:
        store = self.make()
        first = await epoch_of(store, "s1", 0.0)
        assert await epoch_of(store, "s1") > first

    @async_test
    async def test_a_released_lease_is_free_at_once_and_fences_its_last_owner(self) -> None:
        store, epoch = await self.owned()
        await store.let_go("s2", [PARTITION])
        assert await store.append([append(1, epoch)]) == [None]
        await store.let_go("s1", [PARTITION])
        assert isinstance((await store.append([append(2, epoch)]))[0], Fenced)
        assert await epoch_of(store, "s2") > epoch

    @async_test
    async def test_servers_see_each_other_until_their_announcement_expires(self) -> None:
        store = self.make()
        assert await store.servers("s2", 60.0) == ["s2"]
        assert await store.servers("s1", 60.0) == ["s1", "s2"]
        await store.servers("s2", 0.0)
        assert await store.servers("s1", 60.0) == ["s1"]

    @async_test
    async def test_live_executions_are_listed_with_their_last_seq(self) -> None:
        store, epoch = await self.owned()
        await store.append([append(1, epoch, facts=3)])
        assert await store.live([PARTITION]) == [("e", 3)]
        ended = Append("e", 4, AT, (Processed(status="ok"),), epoch, "ok")
        await store.append([ended])
        assert await store.live(range(PARTITIONS)) == []


async def epoch_of(store: Partitions, server: str, ttl_s: float = 60.0) -> int:
    """Acquire the partition of "e" for a server and return its epoch."""
    return (await store.own(server, [PARTITION], ttl_s)).epochs[PARTITION]


class StoreProcess(NamedTuple):
    """One of several processes on one log."""

    store: EventStore
    ownership: ExecutionOwnership
    end: Callable[[], None]


class OwnershipContract:
    """One live process holds each execution."""

    @abstractmethod
    def process(self) -> StoreProcess:
        """Another process on the same log."""

    @async_test
    async def test_a_process_holds_an_execution_under_one_number(self) -> None:
        store, ownership, _ = self.process()
        number = await ownership.hold("e")
        assert await ownership.hold("e") == number
        assert await store.append([append(1, number)]) == [None]
        assert await ownership.hold("e") == number
        assert await store.append([append(2, number)]) == [None]

    @async_test
    async def test_an_execution_of_a_live_process_is_refused(self) -> None:
        one, other = self.process(), self.process()
        await one.store.append([append(1, await one.ownership.hold("e"))])
        error = await error_of(other.ownership.hold("e"))
        assert isinstance(error, Rejected)
        assert error.code == "held"
        assert await other.ownership.hold("f") != await one.ownership.hold("e")

    @async_test
    async def test_an_execution_of_a_dead_process_is_acquired_under_a_higher_number(self) -> None:
        one, other = self.process(), self.process()
        await other.ownership.hold("f")
        numbers = [await one.ownership.hold("e")]
        await one.store.append([append(1, numbers[0])])
        one.end()
        for seq in (2, 3):
            numbers.append(await other.ownership.hold("e"))
            stale = await other.store.append([append(seq, number) for number in numbers[:-1]])
            assert all(isinstance(each, Fenced) for each in stale)
            assert await other.store.append([append(seq, numbers[-1])]) == [None]
            other.end()
            other = self.process()
        assert numbers == sorted(set(numbers))

    @async_test
    async def test_of_two_processes_that_start_the_same_execution_one_is_fenced(self) -> None:
        one, other = self.process(), self.process()
        numbers = [await one.ownership.hold("e"), await other.ownership.hold("e")]
        assert await other.store.append([append(1, numbers[1])]) == [None]
        assert isinstance((await one.store.append([append(1, numbers[0])]))[0], Fenced)


class ListedLog(NamedTuple):
    """A log and its listing."""

    store: EventStore
    listing: ExecutionListing
    owner: Callable[[str], Awaitable[int]]  # acquires an execution and returns the owner number


EXECUTIONS: Final[tuple[tuple[str, str, Status, str | None], ...]] = (
    ("0199-aa", "p", "ok", None),
    ("0199-ab", "q", "running", "0199-aa/call#1@1"),
    ("0200-aa", "p", "error", "0199-ab/call#1[0]@2"),
    ("0200", "q", "paused", "0199-aa/call#2@1"),
    ("0199-a", "p", "cancelled", "0199-a0/call#1@1"),
)


async def _fill(log: ListedLog) -> None:
    """Create EXECUTIONS, a second apart, so that the last of them is the newest."""
    for place, (execution_id, path, status, parent) in enumerate(EXECUTIONS):
        at, owner = AT + timedelta(seconds=place), await log.owner(execution_id)
        first: Fact = Requested(path=path, digest=f"d{place}", workload={}, parent=parent)
        done = await log.store.append([Append(execution_id, 1, at, (first,), owner, "running")])
        last = Append(execution_id, 2, at + timedelta(minutes=1), (Processed(status="ok"),), owner, status)
        assert [*done, *await log.store.append([last])] == [None, None]


class ListingContract:
    """Queries over executions."""

    @abstractmethod
    def make(self) -> AbstractAsyncContextManager[ListedLog]: ...

    @async_test
    async def test_a_head_describes_an_execution(self) -> None:
        async with self.make() as log:
            await _fill(log)
            head = await log.listing.head("0199-ab")
            assert (head.path, head.digest, head.status, head.seq) == ("q", "d1", "running", 2)
            assert head.started_at == AT + timedelta(seconds=1)
            assert head.updated_at == AT + timedelta(seconds=61)
            assert (head.parent, head.owner_alive) == ("0199-aa/call#1@1", True)
            assert (await log.listing.head("0199-aa")).parent is None
            for name in ("0199", *STRANGE):
                assert isinstance(await error_of(log.listing.head(name)), NotFound)

    @async_test
    async def test_executions_are_listed_newest_first_in_pages(self) -> None:
        async with self.make() as log:
            assert await log.listing.executions() == []
            await _fill(log)
            found = await log.listing.executions()
            assert [head.execution_id for head in found] == [each[0] for each in reversed(EXECUTIONS)]
            assert found == [await log.listing.head(head.execution_id) for head in found]
            assert await log.listing.executions(2) == found[:2]
            assert await log.listing.executions(2, before=found[1].execution_id) == found[2:4]
            assert await log.listing.executions(0) == await log.listing.executions(-1) == []
            for before in ("unknown", HALF, "\0"):
                assert await log.listing.executions(before=before) == []

    @async_test
    async def test_executions_are_filtered_by_status_and_path(self) -> None:
        async with self.make() as log:
            await _fill(log)
            query, found = log.listing.executions, await log.listing.executions()
            assert await query(open_only=True) == [head for head in found if head.status not in ENDED]
            assert await query(status="error") == [head for head in found if head.status == "error"]
            assert await query(path="p") == [head for head in found if head.path == "p"]
            assert await query(path="p", status="ok", before="0199-a") == found[-1:]
            assert await query(path="p", open_only=True) == await query(path="%") == await query(path=HALF) == []

    @async_test
    async def test_children_are_the_executions_that_frames_have_started(self) -> None:
        async with self.make() as log:
            await _fill(log)

            async def children(execution_id: str) -> list[str]:
                return [head.execution_id for head in await log.listing.children(execution_id)]

            assert await children("0199-aa") == ["0199-ab", "0200"], "in the order of their starts"
            assert await children("0199-ab") == ["0200-aa"], "without grandchildren"
            for name in ("0200", "0199-a", "0199", *STRANGE):
                assert await children(name) == []
            (head,) = await log.listing.children("0199-ab")
            assert head == await log.listing.head("0200-aa")

    @async_test
    async def test_an_id_can_be_shortened(self) -> None:
        async with self.make() as log:
            await _fill(log)
            find = log.listing.find
            assert await find("0199-aa") == ["0199-aa"]
            assert await find("0200-") == ["0200-aa"]
            assert await find("0199") == ["0199-a", "0199-aa", "0199-ab"]
            assert await find("0200") == ["0200"], "a full id matches alone"
            assert len(await find("")) == len(EXECUTIONS)
            for prefix in ("0200%", "02_0", *(name for name in STRANGE if name)):
                assert await find(prefix) == []

    @async_test
    async def test_last_is_the_execution_that_started_last(self) -> None:
        async with self.make() as log:
            assert isinstance(await error_of(log.listing.last()), NotFound)
            await _fill(log)
            assert await log.listing.last() == "0199-a"
