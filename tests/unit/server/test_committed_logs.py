"""The logs that this process commits while a request waits for them: they are read without the store."""

from __future__ import annotations

import asyncio

from noetl.adapters.memory import MemoryStore
from noetl.clock import SystemClock
from noetl.control.live_execution import LiveExecution
from noetl.engine import Event, apply
from noetl.engine.state import State
from noetl.ports import LogRow
from noetl.server.committed_logs import LOG_BYTES_MAX, CommittedLogs, LogWatch
from noetl.views.log import events_of
from tests.unit.views.playing import played

TWO_STEPS = """
workflow:
- {step: start, tool: {kind: http, url: x}, next: {arcs: [{step: last}]}}
- {step: last, tool: {kind: http, url: x}}
"""


class _Store(MemoryStore):
    """It has no logs and counts the reads."""

    reads = 0

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]:
        self.reads += 1
        return await super().read(execution_id, after, up_to)


class _Owner:
    """Commits the log of one execution in portions, and calls the hook as Control does."""

    def __init__(self, logs: CommittedLogs) -> None:
        player = played(TWO_STEPS, "report start#1 ok", "report last#1 ok")
        self.log = player.log
        self._left = list(self.log)
        self._logs = logs
        self.live = LiveExecution("e", player.program, 1, State(execution_id="e"))

    def commit(self, facts: int | None = None) -> None:
        events: list[Event] = self._left[:facts]
        del self._left[:facts]
        for event in events:
            apply(self.live.state, event.fact, event.at)
        self._logs.on_commit(self.live, events)


def _opened() -> tuple[_Store, CommittedLogs, _Owner]:
    store = _Store(SystemClock(), 1)
    logs = CommittedLogs(store)
    return store, logs, _Owner(logs)


def test_the_log_of_an_ended_execution_is_read_from_memory() -> None:
    async def read() -> None:
        store, logs, owner = _opened()
        with logs.watch("e") as watch:
            owner.commit(4)
            owner.commit()
            assert await watch.ended(60, or_grown=False)
            assert list(events_of(await logs.read("e"))) == owner.log
            assert list(events_of(await logs.read("e", 4), after=4)) == owner.log[4:]
            assert [row.first_seq for row in await logs.read("e", 0, 1)] == [1]
        assert store.reads == 0
        await logs.read("e")
        assert store.reads == 1, "the request has ended"

    asyncio.run(read())


def test_all_rows_are_known_from_the_end_until_the_request_has_ended() -> None:
    _, logs, owner = _opened()
    with logs.watch("e"):
        owner.commit(4)
        assert logs.ended("e") is None
        owner.commit()
        assert list(events_of(logs.ended("e") or [])) == owner.log
    assert logs.ended("e") is None


def test_the_end_of_a_log_that_still_grows_is_read_from_the_store() -> None:
    async def read() -> None:
        store, logs, owner = _opened()
        with logs.watch("e") as watch:
            owner.commit(4)
            assert not await watch.ended(0, or_grown=False)
            await logs.read("e", 0, 4)
            assert store.reads == 0
            await logs.read("e")
            await logs.read("e", 0, 5)
            assert store.reads == 2

    asyncio.run(read())


def test_a_log_with_a_gap_or_without_its_beginning_is_read_from_the_store() -> None:
    async def read() -> None:
        store, logs, owner = _opened()
        owner.commit(4)
        with logs.watch("e") as watch:
            owner.commit()
            assert await watch.ended(60, or_grown=False)
            await logs.read("e")
        assert store.reads == 1

    asyncio.run(read())


def test_a_long_log_is_read_from_the_store() -> None:
    async def read() -> None:
        store, logs, owner = _opened()
        with logs.watch("e"):
            owner.live.unsaved_bytes = LOG_BYTES_MAX + 1
            owner.commit()
            assert logs.ended("e") is None
            await logs.read("e")
        assert store.reads == 1

    asyncio.run(read())


def test_a_request_that_looks_for_facts_wakes_before_the_end() -> None:
    async def read() -> None:
        _, logs, owner = _opened()
        with logs.watch("e") as watch:
            waiting = asyncio.ensure_future(watch.ended(60, or_grown=True))
            await asyncio.sleep(0)  # noqa: TID251  # it must wait before the commit
            owner.commit(4)
            assert not await waiting
            owner.commit()
            assert await watch.ended(60, or_grown=True)

    asyncio.run(read())


def test_facts_that_are_committed_before_a_request_waits_are_not_missed() -> None:
    async def waited() -> bool:
        watch = LogWatch()
        watch.on_commit(has_ended=False)
        async with asyncio.timeout(10):
            return await watch.ended(3_600, or_grown=True)

    assert asyncio.run(waited()) is False
