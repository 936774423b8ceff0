"""The contract of the ends that a store notes until their notifications have been started."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import NamedTuple, Protocol

from noetl.engine.facts import Processed
from noetl.ports import Append, EventStore, PendingNotifications, SavedWrite
from noetl.testing.contracts import opened_test
from noetl.testing.contracts.stores import AT, REQUESTED

SECOND = timedelta(seconds=1)
ENDED = Processed(status="ok")


class NotifyingStore(EventStore, PendingNotifications, Protocol):
    """A log that notes ends."""


class NotifyingLog(NamedTuple):
    store: NotifyingStore
    owner: Callable[[str], Awaitable[int]]  # acquires an execution and returns the owner number


class PendingNotificationsContract:
    """An end is noted with its facts, or not at all, and stays until its notifications have been started."""

    @abstractmethod
    def make(self) -> AbstractAsyncContextManager[NotifyingLog]: ...

    @opened_test("make")
    async def test_ends_are_noted_with_their_facts_until_they_are_done(self, log: NotifyingLog) -> None:
        store = log.store
        ends = [
            Append(id, 1, AT + SECOND * late, (REQUESTED, ENDED), await log.owner(id), "ok", notifies=True)
            for id, late in (("f", 2), ("e", 1))
        ]
        saving = Append("g", 1, AT, (REQUESTED,), await log.owner("g"), "running", (SavedWrite("p", "a", 1),))
        assert await store.append([*ends, saving]) == [None, None, None]
        assert await store.unnotified(AT + SECOND, 9) == []
        assert await store.unnotified(AT + 3 * SECOND, 9) == ["e", "f"]
        assert await store.unnotified(AT + 3 * SECOND, 1) == ["e"]
        await store.notified("e", 1)  # of an earlier end
        assert await store.unnotified(AT + 3 * SECOND, 1) == ["e"]
        for _ in range(2):
            await store.notified("e", 2)
        assert await store.unnotified(AT + 3 * SECOND, 9) == ["f"]

    @opened_test("make")
    async def test_a_later_end_replaces_an_earlier_one(self, log: NotifyingLog) -> None:
        store, owner = log.store, await log.owner("e")
        for first, late in ((1, 0), (2, 5)):
            facts = (REQUESTED,) if first == 1 else (ENDED,)
            end = Append("e", first, AT + SECOND * late, facts, owner, "ok", notifies=True)
            assert await store.append([end]) == [None]
        assert await store.unnotified(AT + 5 * SECOND, 9) == []
        await store.notified("e", 1)
        assert await store.unnotified(AT + 6 * SECOND, 9) == ["e"]

    @opened_test("make")
    async def test_a_refused_append_notes_nothing(self, log: NotifyingLog) -> None:
        owner = await log.owner("e")
        assert await log.store.append([Append("e", 1, AT, (REQUESTED,), owner, "running")]) == [None]
        for first, number in ((1, owner), (2, owner + 7)):
            refused = Append("e", first, AT, (ENDED,), number, "ok", notifies=True)
            assert (await log.store.append([refused]))[0] is not None
        assert await log.store.unnotified(AT + SECOND, 9) == []
