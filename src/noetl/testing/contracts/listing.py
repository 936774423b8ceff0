"""The contract of listings: queries over executions, with filters, searches and counts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from noetl.engine.facts import Evaluated, Fact, Finished, Processed, Requested
from noetl.engine.state import Status
from noetl.errors import NotFound
from noetl.output import Failure
from noetl.ports import (
    Append,
    EventStore,
    ExecutionFilter,
    ExecutionHead,
    FilteredListing,
    LabelChange,
    PersonWait,
    Snapshot,
)
from noetl.testing.contracts import error_of, opened_test
from noetl.testing.contracts.stores import AT, ENDED, HALF, REQUESTED, STRANGE


class ListedLog(NamedTuple):
    """A log and its listing."""

    store: EventStore
    listing: FilteredListing
    owner: Callable[[str], Awaitable[int]]  # acquires an execution and returns the owner number
    delete: Callable[[Sequence[str]], Awaitable[list[str]]]  # finished executions


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
        first = Requested(path=path, digest=f"d{place}", workload={}, parent=parent)
        await _add(log, execution_id, AT + timedelta(seconds=place), first, status)


async def _add(log: ListedLog, execution_id: str, at: datetime, first: Fact, status: Status = "ok") -> None:
    owner = await log.owner(execution_id)
    done = await log.store.append([Append(execution_id, 1, at, (first,), owner, "running")])
    last = Append(execution_id, 2, at + timedelta(minutes=1), (Processed(status="ok"),), owner, status)
    assert [*done, *await log.store.append([last])] == [None, None]


def _ids(log: ListedLog) -> Callable[..., Awaitable[list[str]]]:
    """The ids of the executions that fit a filter, which are also counted."""

    async def ids(**wanted: Any) -> list[str]:
        filter = ExecutionFilter(**wanted)
        found = [head.execution_id for head in await log.listing.executions(100, filter)]
        assert await log.listing.count(filter) == len(found)
        return found

    return ids


class ListingContract:
    """Queries over executions."""

    @abstractmethod
    def make(self) -> AbstractAsyncContextManager[ListedLog]: ...

    @opened_test("make")
    async def test_a_head_describes_an_execution(self, log: ListedLog) -> None:
        await _fill(log)
        head = await log.listing.head("0199-ab")
        assert (head.path, head.digest, head.status, head.seq) == ("q", "d1", "running", 2)
        assert head.started_at == AT + timedelta(seconds=1)
        assert head.updated_at == AT + timedelta(seconds=61)
        assert (head.parent, head.owner_alive) == ("0199-aa/call#1@1", True)
        assert (await log.listing.head("0199-aa")).parent is None
        for name in ("0199", *STRANGE):
            assert isinstance(await error_of(log.listing.head(name)), NotFound)

    @opened_test("make")
    async def test_executions_are_listed_newest_first_in_pages(self, log: ListedLog) -> None:
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

    @opened_test("make")
    async def test_executions_are_filtered_by_status_and_path(self, log: ListedLog) -> None:
        await _fill(log)
        found = await log.listing.executions()

        async def query(before: str | None = None, **wanted: Any) -> list[ExecutionHead]:
            return await log.listing.executions(100, ExecutionFilter(**wanted), before=before)

        assert await query(open_only=True) == [head for head in found if head.status not in ENDED]
        assert await query(status="error") == [head for head in found if head.status == "error"]
        assert await query(path="p") == [head for head in found if head.path == "p"]
        assert await query(path="p", status="ok", before="0199-a") == found[-1:]
        assert await query(path="p", open_only=True) == await query(path="%") == await query(path=HALF) == []

    @opened_test("make")
    async def test_executions_are_limited_to_paths(self, log: ListedLog) -> None:
        await _fill(log)
        for number, path in enumerate(("a", "a/b", "a/b/c", "a/\U0001f600", "ab/c", "a%/b")):
            first = Requested(path=path, digest="d", workload={})
            await _add(log, f"0300-{number}", AT + timedelta(minutes=number + 5), first)

        async def paths(*within: str, limit: int = 100, path: str | None = None, prefix: str = "") -> list[str]:
            wanted = ExecutionFilter(within=within, path=path, path_prefix=prefix)
            return sorted(head.path for head in await log.listing.executions(limit, wanted))

        assert await paths("a/*") == ["a/b", "a/b/c", "a/\U0001f600"]
        assert await paths("a") == ["a"]
        assert await paths("a/b", "ab/*") == ["a/b", "ab/c"]
        assert await paths("a%/*", "none/*") == ["a%/b"]
        assert await paths("a/*", path="a/b") == ["a/b"]
        assert await paths("a/*", path="ab/c") == await paths() == []
        assert await paths("*", prefix="a/b") == await paths("a/*", prefix="a/b") == ["a/b", "a/b/c"]
        assert await paths("*", prefix="a%") == await paths("a%/*", "ab/*", prefix="a%") == ["a%/b"]
        assert await paths("ab/*", prefix="a/") == await paths("*", path="a", prefix="a/") == []
        assert await paths("*") == sorted(head.path for head in await log.listing.executions())
        assert len(await paths("a/*", limit=2)) == 2
        assert await log.listing.find("0300", within=("a/*",)) == ["0300-1", "0300-2", "0300-3"]
        assert await log.listing.find("0300-0", within=("a/*",)) == await log.listing.find("0300", within=()) == []

    @opened_test("make")
    async def test_executions_are_filtered_by_labels_time_and_caller(self, log: ListedLog) -> None:
        await _fill(log)
        marks: tuple[dict[str, str], ...] = (
            {"team": "data", "tier": "1"}, {"team": "data"}, {"team": "sales"}, {"team": "da", 'a".b': "'x"}, {}
        )  # fmt: skip
        for number, labels in enumerate(marks):
            parent = "0300-0/call#1@1" if number == 1 else None
            first = Requested(path="l", digest="d", workload={}, labels=labels, parent=parent)
            await _add(log, f"0300-{number}", AT + timedelta(minutes=number + 5), first)

        ids = _ids(log)

        assert await ids(labels={"team": "data"}) == ["0300-1", "0300-0"]
        assert await ids(labels={"team": "data", "tier": "1"}) == ["0300-0"]
        assert await ids(labels={'a".b': "'x"}) == ["0300-3"]
        assert await ids(labels={"tier": "data"}) == await ids(labels={"team": "dat%"}) == []
        assert await ids(labels={"team": "data"}, roots=True) == ["0300-0"]
        assert await ids(since=AT + timedelta(minutes=8)) == ["0300-4", "0300-3"]
        assert await ids(labels={}, path="l", since=AT + timedelta(minutes=6), roots=True) == [
            "0300-4", "0300-3", "0300-2"
        ]  # fmt: skip
        assert len(await ids()) == len(EXECUTIONS) + len(marks)
        assert [(await log.listing.head(f"0300-{number}")).labels for number in range(5)] == list(marks)
        assert len(await log.listing.executions(1, ExecutionFilter(labels={"team": "data"}), before="0300-1")) == 1

    @opened_test("make")
    async def test_executions_are_found_by_a_part_of_path_id_label_or_error(self, log: ListedLog) -> None:
        failed = (
            Requested(path="shop/Refunds", digest="d1", workload={}, labels={"team": "data_1"}),
            Evaluated(error=Failure(kind="http", message="50% of A_b\0 \\ is down")),
        )
        for number, facts in enumerate((failed, (replace(REQUESTED, path="shop/%"),), (REQUESTED,))):
            owner, at = await log.owner(f"0300-{number}-ff"), AT + timedelta(minutes=number)
            status: Status = "error" if facts is failed else "running"
            assert await log.store.append([Append(f"0300-{number}-ff", 1, at, facts, owner, status)]) == [None]
        ids = _ids(log)
        for text in ("refund", "SHOP/r", "0300-0", "0-FF", "team=data_1", "data_", "50% OF", "a_B", "\\ is"):
            assert await ids(search=text) == ["0300-0-ff"], text
        assert await ids(search="shop/") == ["0300-1-ff", "0300-0-ff"]
        assert await ids(search="op/%") == ["0300-1-ff"]
        assert await ids(search="dataX1") == await ids(search="300-0") == []
        assert await ids(search="_") == await ids(search="=") == ["0300-0-ff"]
        assert len(await ids(search="-ff")) == 3
        assert await ids(search="shop", status="running") == ["0300-1-ff"]
        assert await ids(digest="d1") == ["0300-0-ff"]
        assert await ids(since=AT, until=AT + timedelta(minutes=1)) == ["0300-0-ff"]
        heads = await log.listing.executions()
        assert [head.error for head in heads] == [None, None, "50% of A_b\ufffd \\ is down"]

    @opened_test("make")
    async def test_a_head_says_what_a_person_has_to_decide(self, log: ListedLog) -> None:
        ids, wait = _ids(log), PersonWait(frame="ask#1", signal="go", title="Refund?", since=AT)
        for id in ("a", "b"):
            first = Append(id, 1, AT, (REQUESTED,), await log.owner(id), "running", waits=(wait,) * 25)
            assert await log.store.append([first]) == [None]
        assert (await log.listing.head("a")).waits == (wait,) * 20
        owner = await log.owner("a")
        for seq, waits in ((2, None), (3, (wait,)), (4, None)):
            await log.store.append([Append("a", seq, AT, (Evaluated(),), owner, "running", waits=waits)])
        assert (await log.listing.head("a")).waits == (wait,)
        assert await ids(waiting=True) == ["b", "a"]
        await log.store.append([Append("a", 5, AT, (Evaluated(),), owner, "running", waits=())])
        assert await ids(waiting=True) == ["b"]
        assert (await log.listing.head("a")).waits == ()

    @opened_test("make")
    async def test_the_error_of_a_retried_execution_is_not_kept(self, log: ListedLog) -> None:
        owner, failure = await log.owner("a"), Failure(kind="http", message="down")
        ends = (Finished(status="error", error=failure), Processed(status="error"))
        await log.store.append([Append("a", 1, AT, (REQUESTED,), owner, "running")])
        await log.store.append([Append("a", 2, AT, ends, owner, "error")])
        assert (await log.listing.head("a")).error == "down"
        await log.store.append([Append("a", 4, AT, (Evaluated(),), owner, "running")])
        assert (await log.listing.head("a")).error is None

    @opened_test("make")
    async def test_labels_are_changed_after_the_start_and_each_change_is_recorded(self, log: ListedLog) -> None:
        ids, first = _ids(log), replace(REQUESTED, labels={"team": "data", "day": "1"})
        await _add(log, "a", AT, first)
        await _add(log, "b", AT + timedelta(seconds=1), REQUESTED)
        before = await log.listing.head("a")
        changes = [
            LabelChange(AT + timedelta(days=1), "ann", {"team": "shop", "incident": '4 "7"', "empty": ""}),
            LabelChange(AT + timedelta(days=2), None, {"day": None, "unknown": None}),
        ]
        for change in changes:
            await log.listing.label("a", change)
        labels = {"team": "shop", "incident": '4 "7"', "empty": ""}
        assert await log.listing.head("a") == before._replace(labels=labels)
        assert await log.listing.label_changes("a") == changes
        assert await ids(labels={"incident": '4 "7"'}) == await ids(search="team=sh") == ["a"]
        assert await ids(labels={"day": "1"}) == await ids(labels={"team": "data"}) == []
        await log.listing.label("b", LabelChange(AT, "ann", {"day": "2"}))
        await log.listing.label("b", LabelChange(AT, "ann", {"day": None}))
        assert (await log.listing.head("b")).labels == {}
        for name in ("unknown", *STRANGE):
            assert isinstance(await error_of(log.listing.label(name, changes[0])), NotFound)
        assert await log.delete(["a"]) == ["a"]
        assert await log.listing.label_changes("a") == []
        assert len(await log.listing.label_changes("b")) == 2

    @opened_test("make")
    async def test_only_ended_executions_are_deleted(self, log: ListedLog) -> None:
        await _fill(log)
        ids = [each[0] for each in EXECUTIONS]
        for id in ids:
            await log.store.keep(id, Snapshot(1, "s", b"records"), "records")
        assert await log.delete([]) == await log.delete(["unknown", "\0"]) == []
        assert await log.delete(ids) == sorted(["0199-aa", "0200-aa", "0199-a"])
        assert [head.execution_id for head in await log.listing.executions()] == ["0200", "0199-ab"]
        for id in ids:
            kept = id in ("0200", "0199-ab")
            assert (await log.store.status(id) is not None, bool(await log.store.read(id))) == (kept, kept)
            assert (await log.store.snapshot(id, "records") is not None) == kept
        first = Requested(path="p", digest="d", workload={})
        await _add(log, "0199-aa", AT, first)
        assert len(await log.store.read("0199-aa")) == 2, "the id is free"

    @opened_test("make")
    async def test_children_are_the_executions_that_frames_have_started(self, log: ListedLog) -> None:
        await _fill(log)

        async def children(execution_id: str) -> list[str]:
            return [head.execution_id for head in await log.listing.children(execution_id)]

        assert await children("0199-aa") == ["0199-ab", "0200"], "in the order of their starts"
        assert await children("0199-ab") == ["0200-aa"], "without grandchildren"
        for name in ("0200", "0199-a", "0199", *STRANGE):
            assert await children(name) == []
        (head,) = await log.listing.children("0199-ab")
        assert head == await log.listing.head("0200-aa")

    @opened_test("make")
    async def test_an_id_can_be_shortened(self, log: ListedLog) -> None:
        await _fill(log)
        find = log.listing.find
        assert await find("0199-aa") == ["0199-aa"]
        assert await find("0200-") == ["0200-aa"]
        assert await find("0199") == ["0199-a", "0199-aa", "0199-ab"]
        assert await find("0200") == ["0200"], "a full id matches alone"
        assert len(await find("")) == len(EXECUTIONS)
        for prefix in ("0200%", "02_0", *(name for name in STRANGE if name)):
            assert await find(prefix) == []

    @opened_test("make")
    async def test_last_is_the_execution_that_started_last(self, log: ListedLog) -> None:
        assert isinstance(await error_of(log.listing.last()), NotFound)
        await _fill(log)
        assert await log.listing.last() == "0199-a"
