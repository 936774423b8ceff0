"""The contract of the rows of secret inputs: how long they are kept."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import NamedTuple

from noetl.engine.facts import Evaluated, Processed, Requested
from noetl.engine.state import Status
from noetl.ports import Append, SecretRow, SecretRows
from noetl.testing.contracts import opened_test
from noetl.testing.contracts.listing import ListedLog
from noetl.testing.contracts.stores import AT

REQUESTED = Requested(path="p", digest="d", workload={})


class RowsOfLog(NamedTuple):
    """The rows, and the log of the executions that they belong to."""

    rows: SecretRows
    log: ListedLog


class SecretInputRowsContract:
    """Rows go when their execution ends ok, or is deleted. Rows without an execution go after a day."""

    @abstractmethod
    def make(self) -> AbstractAsyncContextManager[RowsOfLog]: ...

    @opened_test("make")
    async def test_rows_go_when_their_execution_ends_ok(self, opened: RowsOfLog) -> None:
        rows, log = opened
        ends: dict[str, Status] = {"a": "ok", "b": "error", "c": "cancelled", "d": "running"}
        for id, status in ends.items():
            await rows.put(_row(id), None)
            owner = await log.owner(id)
            await log.store.append([Append(id, 1, AT, (REQUESTED,), owner, "running")])
            await log.store.append([Append(id, 2, AT, (Evaluated(),), owner, "running")])
            assert [row.name for row in await rows.list()][-1] == id
            await log.store.append([Append(id, 3, AT, (Processed(status="ok"),), owner, status)])
        assert [row.name for row in await rows.list()] == ["b", "c", "d"]
        await log.store.append([Append("b", 4, AT, (Evaluated(),), await log.owner("b"), "running")])
        assert await rows.get("b") == _row("b"), "a retry needs it"

    @opened_test("make")
    async def test_a_row_goes_when_its_execution_ends_with_its_first_append(self, opened: RowsOfLog) -> None:
        rows, log = opened
        await rows.put(_row("a"), None)
        facts = (REQUESTED, Processed(status="ok"))
        await log.store.append([Append("a", 1, AT, facts, await log.owner("a"), "ok")])
        assert await rows.list() == []

    @opened_test("make")
    async def test_rows_are_deleted_with_their_execution(self, opened: RowsOfLog) -> None:
        rows, log = opened
        for id in ("a", "b"):
            await rows.put(_row(id), None)
            facts = (REQUESTED, Processed(status="error"))
            await log.store.append([Append(id, 1, AT, facts, await log.owner(id), "error")])
        assert await log.delete(["a"]) == ["a"]
        assert [row.name for row in await rows.list()] == ["b"]

    @opened_test("make")
    async def test_rows_of_starts_that_never_happened_go_after_a_day(self, opened: RowsOfLog) -> None:
        rows, log = opened
        await log.store.append([Append("started", 1, AT, (REQUESTED,), await log.owner("started"), "running")])
        for id, days in (("old", 2.0), ("started", 2.0), ("young", 0.9), ("new", 0.0)):
            await rows.put(_row(id, days), None)
        assert [row.name for row in await rows.list()] == ["new", "started", "young"]


def _row(id: str, days: float = 0.0) -> SecretRow:
    """`days`: its age."""
    return SecretRow(id, 1, b"nonce", b"body", "key", AT - timedelta(days=days))
