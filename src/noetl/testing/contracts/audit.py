"""The contract of adapters for the audit trail: entries are added and read, never changed."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import NamedTuple, Protocol

from noetl.ports import AuditStore, AuditTrailEntry
from noetl.testing.contracts import error_of, opened_test
from noetl.testing.contracts.stores import AT


class RunSql(Protocol):
    async def __call__(self, query: str) -> None: ...


class OpenedAudit(NamedTuple):
    """A fresh audit trail, and SQL on its database; the table is `{audit}` in the query."""

    store: AuditStore
    sql: RunSql
    replacing: tuple[str, ...]  # statements of this SQL that would replace the entries, or remove them, in other words


def _entry(number: int, action: str = "start", who: str = "ann") -> AuditTrailEntry:
    at = AT + timedelta(seconds=number)
    return AuditTrailEntry(at, action, "what", f"target {number}", who, "id", "::1", "Jürgen \U0001f600", number)


class AuditContract:
    """Who did what, when."""

    @abstractmethod
    def make(self) -> AbstractAsyncContextManager[OpenedAudit]: ...

    @opened_test("make")
    async def test_entries_are_read_unchanged_the_newest_first_in_pages(self, audit: OpenedAudit) -> None:
        store = audit.store
        assert await store.read() == []
        await store.add([])
        entries = [_entry(number) for number in range(1, 6)]
        await store.add(entries[:3])
        await store.add(entries[3:])
        found = await store.read()
        assert [record.entry for record in found] == entries[::-1]
        assert await store.read(2) == found[:2]
        assert await store.read(2, before=found[1].id) == found[2:4]
        assert await store.read(0) == await store.read(before=found[-1].id) == []

    @opened_test("make")
    async def test_entries_are_filtered(self, audit: OpenedAudit) -> None:
        store = audit.store
        await store.add([_entry(1), _entry(2, "token"), _entry(3, who="bob"), _entry(4, "token", "bob")])

        async def numbers(**wanted: object) -> list[int]:
            return [record.entry.times for record in await store.read(**wanted)]  # type: ignore[arg-type]  # by name

        assert await numbers(action="token") == [4, 2]
        assert await numbers(who="bob") == [4, 3]
        assert await numbers(action="token", who="bob", since=AT) == [4]
        assert await numbers(since=AT + timedelta(seconds=3)) == [4, 3]
        assert await numbers(since=AT + timedelta(seconds=5)) == await numbers(who="bob' OR 1=1") == []

    @opened_test("make")
    async def test_the_database_refuses_to_change_and_to_delete_entries(self, audit: OpenedAudit) -> None:
        await audit.store.add([_entry(1)])
        before = await audit.store.read()
        plain = ("UPDATE {audit} SET who = 'eve'", "DELETE FROM {audit}", "DELETE FROM {audit} WHERE id > 0")
        for query in plain + audit.replacing:
            error = await error_of(audit.sql(query))
            assert "append-only" in str(error), query
            assert await audit.store.read() == before, query
        await audit.store.add([_entry(2)])
        assert (await audit.store.read())[1:] == before, "entries can still be added"

    @opened_test("make")
    async def test_a_text_that_cannot_be_stored_is_replaced(self, audit: OpenedAudit) -> None:
        await audit.store.add([_entry(1)._replace(target="a\0b\ud800c")])
        (record,) = await audit.store.read()
        assert record.entry.target == "a\ufffdb?c"
