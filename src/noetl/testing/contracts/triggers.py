"""The contract of adapters for triggers: declared with a text, advanced once, with a history."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from noetl.errors import NotFound, Rejected
from noetl.ports import HISTORY_MAX, Firing, StoredTrigger, TriggerStore
from noetl.testing.contracts import error_of, opened_test
from noetl.testing.contracts.stores import AT

MINUTE = timedelta(minutes=1)


class Register(Protocol):
    async def __call__(self, path: str, digest: str) -> None:
        """Make a text the current one of a path."""
        ...


class OpenedTriggers(NamedTuple):
    store: TriggerStore
    register: Register


def _timed(path: str = "p", name: str = "t", at: datetime = AT, declaration: str = "{}") -> StoredTrigger:
    return StoredTrigger(path, name, "cron", "d1", declaration, AT, scheduled_at=at, due_at=at)


def _hook(path: str, name: str, hook: str) -> StoredTrigger:
    return StoredTrigger(path, name, "webhook", "d1", "{}", AT, hook)


class TriggersContract:
    """Triggers of registered playbooks."""

    @abstractmethod
    def make(self) -> AbstractAsyncContextManager[OpenedTriggers]: ...

    @opened_test("make")
    async def test_triggers_of_the_current_text_are_listed_in_order_and_in_pages(self, opened: OpenedTriggers) -> None:
        store, register = opened
        for path in ("p", "q"):
            await register(path, f"{path}1")
        found = [_timed("p", "a"), _timed("p", "b"), _hook("q", "a", "POST x")]
        await store.declare("q", "q1", found[2:])
        await store.declare("p", "p1", found[1::-1])
        assert await store.list() == found
        assert await store.list(limit=2) == found[:2]
        assert await store.list(after=("p", "b")) == found[2:]
        for kind in {each.kind for each in found}:
            assert await store.list(kind=kind) == [each for each in found if each.kind == kind]
        assert await store.list(kind="nats") == []
        assert await store.get("p", "b") == found[1]
        assert isinstance(await error_of(store.get("p", "c")), NotFound)

    @opened_test("make")
    async def test_triggers_of_another_text_than_the_current_one_are_ignored(self, opened: OpenedTriggers) -> None:
        store, register = opened
        await register("p", "d1")
        await register("p", "d2")
        await store.declare("p", "d1", [_timed()])
        assert await store.list() == []

    @opened_test("make")
    async def test_a_new_text_keeps_what_has_not_changed(self, opened: OpenedTriggers) -> None:
        store, register = opened
        await register("p", "d1")
        first = [_timed(name="same"), _timed(name="changed"), _timed(name="dropped")]
        await store.declare("p", "d1", first)
        for each in first:
            assert await store.advance(each, AT + MINUTE, AT + MINUTE, [Firing(AT, "started")])
        await store.set_paused("p", "changed", paused=True, scheduled_at=AT, due_at=AT)
        await register("p", "d2")
        second = [_timed(name="same"), _timed(name="changed", declaration='{"cron":"1"}', at=AT + 5 * MINUTE)]
        await store.declare("p", "d2", [each._replace(digest="d2") for each in second])
        same, changed = await store.get("p", "same"), await store.get("p", "changed")
        assert (same.digest, same.scheduled_at, same.fired) == ("d2", AT + MINUTE, 1)
        assert (changed.digest, changed.scheduled_at, changed.paused, changed.fired) == ("d2", AT + 5 * MINUTE, True, 1)
        assert isinstance(await error_of(store.get("p", "dropped")), NotFound)
        assert len(await store.history("p", "same")) == 1
        assert await store.history("p", "dropped") == []
        await store.declare("p", "d2", [])
        assert await store.list() == []

    @opened_test("make")
    async def test_what_is_due_is_found_the_longest_overdue_first(self, opened: OpenedTriggers) -> None:
        store, register = opened
        await register("p", "d1")
        rows = [_timed(name=f"t{number}", at=AT + number * MINUTE) for number in range(4)]
        await store.declare("p", "d1", [*rows[::-1], _hook("p", "hook", "POST x")])
        await store.set_paused("p", "t1", paused=True, scheduled_at=AT + MINUTE, due_at=AT + MINUTE)
        assert await store.due(AT + 2 * MINUTE, 10) == [rows[0], rows[2]]
        assert await store.due(AT + 2 * MINUTE, 1) == rows[:1]
        assert await store.due(AT - MINUTE, 10) == []

    @opened_test("make")
    async def test_of_many_servers_one_advances_a_trigger(self, opened: OpenedTriggers) -> None:
        store, register = opened
        await register("p", "d1")
        row = _timed()
        await store.declare("p", "d1", [row])
        won = await asyncio.gather(
            *(store.advance(row, AT + MINUTE, AT + MINUTE, [Firing(AT, "started", key=f"{n}")]) for n in range(5))
        )
        assert sorted(won) == [False] * 4 + [True]
        assert len(await store.history("p", "t")) == 1
        [now] = await store.due(AT + MINUTE, 10)
        assert (now.scheduled_at, now.fired) == (AT + MINUTE, 1)
        assert not await store.advance(now._replace(declaration="other"), AT, AT, [])
        await store.set_paused("p", "t", paused=True, scheduled_at=now.scheduled_at, due_at=now.due_at)
        assert not await store.advance(now, AT, AT, [])

    @opened_test("make")
    async def test_a_hook_belongs_to_one_path(self, opened: OpenedTriggers) -> None:
        store, register = opened
        for path in ("p", "q"):
            await register(path, "d" + path)
        mine = _hook("p", "a", "POST orders/new")
        await store.declare("p", "dp", [mine, _timed()])
        refused = await error_of(store.declare("q", "dq", [_timed("q"), _hook("q", "a", "POST orders/new")]))
        assert isinstance(refused, Rejected)
        assert (refused.code, "p" in str(refused)) == ("hook-taken", True)
        assert [each.path for each in await store.list()] == ["p", "p"]
        await store.declare("q", "dq", [_hook("q", "a", "GET orders/new")])
        assert await store.find_hook("POST orders/new") == mine
        assert await store.find_hook("PUT orders/new") is None
        await store.declare("p", "dp", [mine._replace(name="renamed")])

    @opened_test("make")
    async def test_the_history_is_read_in_pages_and_is_bounded(self, opened: OpenedTriggers) -> None:
        store, register = opened
        await register("p", "d1")
        await store.declare("p", "d1", [_timed()])
        first = Firing(AT, "started", "key", AT + MINUTE, "id", "Jürgen")
        await store.record("p", "t", [first, Firing(AT, "refused", detail="a \0 in it")])
        assert [each.number for each in await store.history("p", "t")] == [2, 1]
        assert (await store.history("p", "t"))[1].firing == first
        await store.record("p", "t", [Firing(AT, "skipped")] * HISTORY_MAX)
        found = await store.history("p", "t", limit=HISTORY_MAX)
        assert (len(found), found[0].number, found[-1].number) == (HISTORY_MAX, HISTORY_MAX + 2, 3)
        assert [each.number for each in await store.history("p", "t", before=5)] == [4, 3]
        await store.record("p", "unknown", [first])
        assert await store.history("p", "unknown") == []

    @opened_test("make")
    async def test_an_unknown_trigger_is_not_paused(self, opened: OpenedTriggers) -> None:
        error = await error_of(opened.store.set_paused("p", "t", paused=True, scheduled_at=None, due_at=None))
        assert isinstance(error, NotFound)
