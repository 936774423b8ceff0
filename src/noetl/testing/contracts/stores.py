"""Contracts of event stores, partitions, ownership, listings and catalogs.

The test of an adapter is a subclass that opens one.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Protocol

from noetl.engine.facts import Evaluated, Fact, Processed, Requested
from noetl.engine.state import Status
from noetl.errors import Conflict, Fenced, NotFound, Rejected
from noetl.ids import partition_of
from noetl.ports import (
    Append,
    Catalog,
    EventStore,
    ExecutionOwnership,
    LogRow,
    Partitions,
    PlaybookText,
    PlaybookVersion,
    Snapshot,
)
from noetl.testing.contracts import async_test, error_of, opened_test

HALF: Final = "half \ud800"  # a lone surrogate, which a command line may contain and no database can store
STRANGE: Final = (HALF, "\0", "%", "_", "'", "", "x" * 10_000)  # names that are never stored


class CatalogContract:
    """Playbook texts by digest, by path and by version."""

    @abstractmethod
    def make(self) -> AbstractAsyncContextManager[Catalog]: ...

    @opened_test("make")
    async def test_a_text_is_found_by_digest_and_the_newest_by_path(self, catalog: Catalog) -> None:
        first, second = (PlaybookText("d1", "p", "ü: 1\n", "/tmp/p.yaml"), PlaybookText("d2", "p", "ü: 2\n"))
        for text in (first, second, PlaybookText("d3", "q", "other")):
            await catalog.put(text)
        assert await catalog.get("d1") == first
        assert await catalog.newest("p") == second

    @opened_test("make")
    async def test_a_text_that_is_not_listed_is_found_by_its_digest_only_d103(self, catalog: Catalog) -> None:
        registered, made = PlaybookText("d1", "p", "1"), PlaybookText("d2", "p", "2", "/a.yaml")
        await catalog.put(registered)
        for text in (made, made._replace(path="q", digest="d3"), made, registered):
            await catalog.put(text, listed=text is registered)
        assert await catalog.get("d2") == made
        assert await catalog.newest("p") == registered
        assert [_short(each) for each in await catalog.versions("p")] == [(1, "d1", True)]
        assert isinstance(await error_of(catalog.versions("q")), NotFound)
        await catalog.archive("p")
        await catalog.put(registered, listed=False)
        assert isinstance(await error_of(catalog.newest("p")), NotFound), "it stays archived"
        await catalog.put(made)
        assert [_short(each) for each in await catalog.versions("p")] == [(2, "d2", True), (1, "d1", False)]
        assert await catalog.get("d2") == made

    @opened_test("make")
    async def test_a_repeated_text_becomes_the_newest_without_a_new_version(self, catalog: Catalog) -> None:
        first, second = PlaybookText("d1", "p", "1"), PlaybookText("d2", "p", "2")
        for text in (first, second, second, first):
            await catalog.put(text)
        assert await catalog.newest("p") == first
        assert await catalog.get("d2") == second
        assert [_short(each) for each in await catalog.versions("p")] == [(2, "d2", False), (1, "d1", True)]

    @opened_test("make")
    async def test_a_repeated_text_gets_the_new_origin(self, catalog: Catalog) -> None:
        text = PlaybookText("d1", "p", "1", "/a.yaml")
        for origin in ("/a.yaml", "/b.yaml", None):
            await catalog.put(text._replace(origin=origin))
        assert (await catalog.get("d1")).origin == "/b.yaml", "a text without an origin keeps the known one"

    @opened_test("make")
    async def test_versions_of_each_path_are_numbered_from_one(self, catalog: Catalog) -> None:
        texts = [PlaybookText(f"{path}{number}", path, f"{number}") for number in (1, 2) for path in "pq"]
        for text in texts:
            await catalog.put(text)
        assert [(await catalog.newest("q", number)).digest for number in (1, 2)] == ["q1", "q2"]
        assert [_short(each) for each in await catalog.versions("p")] == [(2, "p2", True), (1, "p1", False)]
        for version in (-1, 0, 3, 1 << 40, 1 << 70):
            assert isinstance(await error_of(catalog.newest("p", version)), NotFound)

    @opened_test("make")
    async def test_a_version_keeps_the_time_of_its_first_registration(self, catalog: Catalog) -> None:
        for digest in ("d1", "d2"):
            await catalog.put(PlaybookText(digest, "p", digest))
        before = await catalog.versions("p")
        await catalog.put(PlaybookText("d1", "p", "d1", "/p.yaml"))
        after = await catalog.versions("p")
        assert [each.at for each in after] == [each.at for each in before]
        assert after[0].at >= after[1].at
        assert all(each.at.utcoffset() == timedelta(0) for each in after)

    @opened_test("make")
    async def test_concurrent_texts_get_one_version_each(self, catalog: Catalog) -> None:
        texts = [PlaybookText(f"d{number % 8}", "p", f"{number % 8}") for number in range(24)]
        await asyncio.gather(*(catalog.put(text) for text in texts))
        found = await catalog.versions("p")
        assert [each.version for each in found] == [8, 7, 6, 5, 4, 3, 2, 1]
        assert {each.digest for each in found} == {text.digest for text in texts}
        assert [each.digest for each in found if each.current] == [(await catalog.newest("p")).digest]

    @opened_test("make")
    async def test_paths_are_listed_in_order_and_in_pages(self, catalog: Catalog) -> None:
        assert await catalog.list() == []
        paths = ["b", "B", "a/b", "a-b", "a", "ä", "_", "a b"]
        for path in paths:
            for number in (1, 2):
                await catalog.put(PlaybookText(f"{path}{number}", path, path * number))
        found = await catalog.list()
        assert [each.path for each in found] == sorted(paths)
        assert all(each.version == 2 and each.current and not each.archived for each in found)
        assert await catalog.list(limit=3) == found[:3]
        assert await catalog.list(after=found[2].path, limit=3) == found[3:6]
        assert await catalog.list(after=sorted(paths)[-1]) == []
        assert await catalog.list(after="a,") == [each for each in found if each.path > "a,"]
        assert await catalog.list(limit=0) == await catalog.list(limit=-1) == []

    @opened_test("make")
    async def test_an_archived_path_has_no_newest_text_but_keeps_its_versions(self, catalog: Catalog) -> None:
        for text in (PlaybookText("d1", "p", "1"), PlaybookText("d2", "p", "2"), PlaybookText("d3", "q", "3")):
            await catalog.put(text)
        for _ in range(2):
            await catalog.archive("p")
        for work in (catalog.newest("p"), catalog.newest("p", 1)):
            assert isinstance(await error_of(work), NotFound)
        assert (await catalog.get("d2")).text == "2"
        assert [each.path for each in await catalog.list()] == ["q"]
        both = await catalog.list(archived=True)
        assert [(each.path, each.archived) for each in both] == [("p", True), ("q", False)]
        assert all(each.archived for each in await catalog.versions("p"))

    @opened_test("make")
    async def test_registering_any_text_reopens_an_archived_path(self, catalog: Catalog) -> None:
        texts = (PlaybookText("d1", "p", "1"), PlaybookText("d2", "p", "2"), PlaybookText("d3", "p", "3"))
        await catalog.put(texts[0])
        await catalog.put(texts[1])
        for text in (texts[1], texts[0], texts[2]):  # the current one, an older one, a new one
            await catalog.archive("p")
            await catalog.put(text)
            assert await catalog.newest("p") == text
            assert not any(each.archived for each in await catalog.versions("p"))

    @opened_test("make")
    async def test_an_unknown_text_is_not_found(self, catalog: Catalog) -> None:
        await catalog.put(PlaybookText("d1", "p", "1"))
        for name in ("none", *STRANGE):
            for read in (catalog.get, catalog.newest, catalog.versions, catalog.archive):
                assert isinstance(await error_of(read(name)), NotFound)
        for after in STRANGE:
            assert len(await catalog.list(after=after)) <= 1

    @opened_test("make")
    async def test_invalid_unicode_is_refused(self, catalog: Catalog) -> None:
        for text in (PlaybookText("d", HALF, "1"), PlaybookText("d", "p", HALF), PlaybookText("d", "p", "1", HALF)):
            assert isinstance(await error_of(catalog.put(text)), Rejected)
        assert await catalog.list() == []


def _short(version: PlaybookVersion) -> tuple[int, str, bool]:
    return version.version, version.digest, version.current


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

    @async_test
    async def test_states_and_run_records_are_kept_apart(self) -> None:
        store, owner = await self.owned()
        await store.append([append(1, owner, facts=9)])
        state, records = Snapshot(9, "s1", b"one"), Snapshot(3, "r1", b"two")
        await store.keep("e", state)
        assert await store.snapshot("e", "records") is None
        await store.keep("e", records, "records")
        await store.keep("e", Snapshot(2, "r1", b"old"), "records")
        assert (await store.snapshot("e"), await store.snapshot("e", "records")) == (state, records)


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
    async def test_a_new_execution_is_held_without_a_lookup(self) -> None:
        (store, ownership, _), other = self.process(), self.process()
        number = await ownership.hold("e")
        await store.append([append(1, number)])
        assert await ownership.hold("f", is_new=True) == number
        assert await store.append([append(1, number, execution_id="f")]) == [None]
        error = await error_of(other.ownership.hold("f"))
        assert isinstance(error, Rejected)
        # The caller is wrong: its first append is refused, as if both had started it at the same time.
        wrong = await other.ownership.hold("e", is_new=True)
        refused = (await other.store.append([append(1, wrong)]))[0]
        assert isinstance(refused, Fenced)

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
