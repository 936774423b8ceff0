"""What has long ended goes, with its results; what others have in the same store stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from noetl.adapters.memory import MemoryResults
from noetl.control.retention import Deleted, delete_expired

BEFORE = datetime(2026, 1, 1, tzinfo=UTC)


class Old:
    """A log in which these have ended long ago."""

    def __init__(self, *groups: list[str]) -> None:
        self.groups = groups
        self.before: datetime | None = None

    async def forget(self, before: datetime) -> AsyncIterator[list[str]]:
        self.before = before
        for group in self.groups:
            yield group


def test_results_go_with_their_executions_and_those_of_others_stay() -> None:
    async def work() -> None:
        results, log = MemoryResults(), Old(["a"], ["b"])
        for number, execution_id in enumerate("aabc"):
            await results.put(execution_id, f"body {number}".encode(), "text/plain")
        assert await delete_expired(log, [results], BEFORE) == Deleted(executions=2, results=3)
        assert [kept.key.partition("/")[0] async for kept in results.kept()] == ["c"]
        assert log.before == BEFORE

    asyncio.run(work())


def test_when_nothing_is_old_no_store_is_looked_through() -> None:
    async def work() -> None:
        results = MemoryResults()
        await results.put("a", b"body", "text/plain")
        assert await delete_expired(Old(), [results], BEFORE) == Deleted(0, 0)
        assert len([kept async for kept in results.kept()]) == 1

    asyncio.run(work())
