"""Ids, their beginnings, and `last`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from noetl.ports import ALL_EXECUTIONS, ExecutionFilter, ExecutionHead
from noetl.session.errors import UsageError
from noetl.session.execution import MATCHES_SHOWN_MAX, PAGE, find_execution, list_executions
from noetl.session.protocol import Standing

AT = datetime(2024, 1, 2, tzinfo=UTC)


def head(id: str, parent: str | None = None) -> ExecutionHead:
    return ExecutionHead(id, "p", "d", "ok", 3, AT, AT, parent, None, False)


class Heads:
    """A listing in memory, newest first."""

    def __init__(self, *heads: ExecutionHead) -> None:
        self.heads = heads
        self.wanted = ALL_EXECUTIONS  # the last filter

    async def head(self, execution_id: str) -> ExecutionHead:
        return next(each for each in self.heads if each.execution_id == execution_id)

    async def children(self, execution_id: str) -> list[ExecutionHead]:
        return [each for each in self.heads if (each.parent or "").startswith(f"{execution_id}/")]

    async def last(self) -> str:
        return self.heads[0].execution_id

    async def find(self, prefix: str) -> list[str]:
        return [each.execution_id for each in self.heads if each.execution_id.startswith(prefix)][:20]

    async def executions(
        self, limit: int = 100, wanted: ExecutionFilter = ALL_EXECUTIONS, *, before: str | None = None
    ) -> list[ExecutionHead]:
        self.wanted = wanted
        heads = [each for each in self.heads if each.parent is None or not wanted.roots]
        ids = [each.execution_id for each in heads]
        first = 0 if before is None else ids.index(before) + 1
        return heads[first : first + limit]


def found(heads: Heads, given: str) -> str:
    return asyncio.run(find_execution(heads, given))


def test_an_id_and_its_beginning_find_the_same_execution() -> None:
    heads = Heads(head("01ab-7-c"), head("01ac-7-d"))
    assert [found(heads, given) for given in ("01ab-7-c", "01ab", " 01AB ")] == ["01ab-7-c"] * 3


def test_a_beginning_of_several_names_them() -> None:
    heads = Heads(*(head(f"01{number:02}") for number in range(15)))
    with pytest.raises(UsageError) as error:
        found(heads, "01")
    lines = str(error.value).split("\n")
    assert lines[0] == 'several execution ids start with "01"; give more of it:'
    assert lines[1:] == [*(f"  01{number:02}" for number in range(MATCHES_SHOWN_MAX)), "  …"]


@pytest.mark.parametrize("given", ["", "  ", "%", "g", "last ", "0" * 37, "' OR 1"])
def test_what_can_be_no_id_is_not_looked_up(given: str) -> None:
    with pytest.raises(UsageError, match="is not an execution id"):
        found(Heads(head("01")), given)


def test_an_id_that_nobody_has_is_said() -> None:
    with pytest.raises(UsageError, match='no execution id starts with "ff"'):
        found(Heads(head("01")), "ff")


def test_last_is_the_newest_that_is_nobodys_child_however_many_children_there_are() -> None:
    children = [head(f"c{number}", "p/start#1@1") for number in range(PAGE + 1)]
    assert found(Heads(*children, head("p"), head("older")), "last") == "p"


def test_last_of_nothing_is_said() -> None:
    with pytest.raises(UsageError, match="no execution has been started yet"):
        found(Heads(), "last")


def test_the_store_finds_executions_by_their_final_status_and_the_beginning_of_a_pattern() -> None:
    async def wanted(status: Standing | set[Standing] | None = None, path: str | None = None) -> ExecutionFilter:
        heads = Heads(head("01"))
        _ = [each async for each in list_executions(heads, status=status, path=path)]
        return heads.wanted

    async def work() -> None:
        assert (await wanted("error")).status == "error"
        assert (await wanted({"ok", "error"})).status is None
        interrupted = await wanted("interrupted")  # only a look at the owner tells it from a running one
        assert (interrupted.status, interrupted.open_only) == (None, True)
        assert (await wanted(path="orders/*")).path_prefix == "orders/"
        assert (await wanted(path="o[rs]d?")).path_prefix == "o"
        assert (await wanted(path="*")).path_prefix is None
        assert (await wanted(path="orders/daily")).path == "orders/daily"

    asyncio.run(work())
