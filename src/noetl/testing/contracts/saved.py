"""The contract of values that outlive an execution."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import NamedTuple

from noetl.ports import Append, EventStore, SavedStore, SavedValue, SavedWrite
from noetl.testing.contracts import opened_test
from noetl.testing.contracts.stores import AT, REQUESTED


class SavingLog(NamedTuple):
    """A log, and the values that outlive its executions."""

    store: EventStore
    saved: SavedStore
    owner: Callable[[str], Awaitable[int]]  # acquires an execution and returns the owner number


class SavedContract:
    """Values that outlive an execution are written with its facts, or not at all."""

    @abstractmethod
    def make(self) -> AbstractAsyncContextManager[SavingLog]: ...

    @opened_test("make")
    async def test_values_are_written_with_the_facts_and_the_later_commit_wins(self, log: SavingLog) -> None:
        one, other = await log.owner("e"), await log.owner("f")
        first = Append("e", 1, AT, (REQUESTED,), one, "running", (SavedWrite("p", "a", 1), SavedWrite("p", "a", 2)))
        later = AT + timedelta(seconds=9)
        second = Append("f", 1, later, (REQUESTED,), other, "running", (SavedWrite("p", "b", {"x": ["ü\0", None]}),))
        plain = Append("g", 1, AT, (REQUESTED,), await log.owner("g"), "running")
        assert await log.store.append([first, second, plain]) == [None, None, None]
        assert await log.saved.current("p") == [
            SavedValue("a", 2, AT, "e"), SavedValue("b", {"x": ["ü\0", None]}, later, "f")
        ]  # fmt: skip
        third = Append("f", 2, later, (REQUESTED,), other, "running", (SavedWrite("p", "a", None),))
        assert await log.store.append([third]) == [None]
        assert [each.value for each in await log.saved.history("p", "a")] == [None, 2, 1]
        assert (await log.saved.current("p"))[0] == SavedValue("a", None, later, "f")
        assert await log.saved.current("q") == await log.saved.history("p", "c") == []

    @opened_test("make")
    async def test_a_refused_append_saves_nothing(self, log: SavingLog) -> None:
        owner, write = await log.owner("e"), (SavedWrite("p", "a", 1),)
        assert await log.store.append([Append("e", 1, AT, (REQUESTED,), owner, "running")]) == [None]
        appends = [
            Append("e", 1, AT, (REQUESTED,), owner, "running", write),
            Append("e", 2, AT, (REQUESTED,), owner + 7, "running", write),
        ]
        for each in appends:
            assert (await log.store.append([each]))[0] is not None
        assert await log.saved.current("p") == await log.saved.history("p", "a") == []

    @opened_test("make")
    async def test_people_set_and_remove_values(self, log: SavingLog) -> None:
        owner = await log.owner("e")
        await log.saved.put("p", SavedValue("a", "x", AT, None, "ann"))
        await log.saved.put("p", SavedValue("a", None, AT, None, "bob", removed=True))
        assert await log.saved.current("p") == []
        assert [(each.value, each.by, each.removed) for each in await log.saved.history("p", "a")] == [
            (None, "bob", True), ("x", "ann", False)
        ]  # fmt: skip
        await log.store.append([Append("e", 1, AT, (REQUESTED,), owner, "running", (SavedWrite("p", "a", 1),))])
        assert await log.saved.current("p") == [SavedValue("a", 1, AT, "e")]

    @opened_test("make")
    async def test_the_last_100_entries_of_a_key_are_kept(self, log: SavingLog) -> None:
        owner = await log.owner("e")
        for number in range(103):
            await log.saved.put("p", SavedValue("a", number, AT))
        await log.saved.put("p", SavedValue("b", 0, AT))
        await log.store.append([Append("e", 1, AT, (REQUESTED,), owner, "running", (SavedWrite("p", "a", 103),))])
        assert [each.value for each in await log.saved.history("p", "a")] == list(range(103, 3, -1))
        assert len(await log.saved.history("p", "b")) == 1
