"""The contract of stores for the lines that tasks print: in order, limited, and deleted with their execution."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import NamedTuple

from noetl.errors import NotFound
from noetl.ports import LogStore, PrintedLine
from noetl.testing.contracts import error_of, opened_test
from noetl.testing.contracts.stores import AT

LIMIT = 100_000  # bytes of the lines of one execution


class OpenedLogs(NamedTuple):
    """A store with a limit of LIMIT bytes, in which the executions "e" and "f" exist."""

    store: LogStore
    delete: Callable[[str], Awaitable[None]]  # deletes an execution


def line(number: int, text: str = "") -> PrintedLine:
    at = AT + timedelta(milliseconds=number)
    return PrintedLine(at=at, run="fetch#1", call="fetch#1[17]/2", stream="out", text=text or f"line {number}")


async def texts(store: LogStore, execution_id: str, after: int = 0) -> list[str]:
    found: list[str] = []
    while batches := await store.read(execution_id, after):
        assert [batch.number for batch in batches] == sorted(batch.number for batch in batches)
        assert batches[0].number > after
        after = batches[-1].number
        found += [each.text for batch in batches for each in batch.lines]
    return found


class LogStoreContract:
    @abstractmethod
    def make(self) -> AbstractAsyncContextManager[OpenedLogs]: ...

    @opened_test("make")
    async def test_lines_are_read_unchanged_in_the_order_of_storing(self, logs: OpenedLogs) -> None:
        store = logs.store
        assert await store.read("e") == []
        hostile = line(2, 'Jürgen \U0001f600 \0 \x1b[31m "\\')
        assert await store.append("e", [line(1), hostile])
        assert await store.append("f", [line(9)])
        assert await store.append("e", [line(3)])
        first, second = await store.read("e")
        assert (first.lines, second.lines) == ((line(1), hostile), (line(3),))
        assert await store.read("e", first.number) == [second]
        assert await store.read("e", second.number) == []
        assert await texts(store, "f") == ["line 9"]

    @opened_test("make")
    async def test_an_execution_reaches_its_limit_once_and_others_do_not(self, logs: OpenedLogs) -> None:
        store, large = logs.store, "x" * 30_000
        kept = [await store.append("e", [line(number, large)]) for number in range(6)]
        assert kept == [True, True, True, False, False, False]
        *lines, note = await texts(store, "e")
        assert lines == [large] * 3
        assert note == "the rest is left out: an execution keeps 100,000 bytes of what its tasks print"
        assert await store.append("e", [line(7)]) is False
        assert len(await texts(store, "e")) == 4
        assert await store.append("f", [line(8)])

    @opened_test("make")
    async def test_lines_of_an_unknown_execution_are_refused(self, logs: OpenedLogs) -> None:
        assert isinstance(await error_of(logs.store.append("unknown", [line(1)])), NotFound)
        assert await logs.store.read("unknown") == []

    @opened_test("make")
    async def test_lines_are_deleted_with_their_execution(self, logs: OpenedLogs) -> None:
        for execution_id in ("e", "f"):
            assert await logs.store.append(execution_id, [line(1)])
        await logs.delete("e")
        assert await logs.store.read("e") == []
        assert await texts(logs.store, "f") == ["line 1"]
