"""What has long ended is forgotten: its log, and then its results, which nobody can ask for any more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import NamedTuple, Protocol

from noetl.ports import ResultCleanup

DROPPED_AT_ONCE = 500


class Forgetting(Protocol):
    """A log that can be cleared."""

    def forget(self, before: datetime) -> AsyncIterator[list[str]]:
        """Executions that ended before then, gone by the time they are told."""
        ...


class Forgotten(NamedTuple):
    executions: int
    results: int


async def forget(log: Forgetting, results: Iterable[ResultCleanup], before: datetime) -> Forgotten:
    """One round. Only what it has forgotten itself is dropped: a store may hold results of other houses.

    Results of a round that was stopped in the middle stay: their store should have a limit of age of its own.
    """
    gone: set[str] = set()
    async for some in log.forget(before):
        gone.update(some)
    dropped = 0
    for each in results if gone else ():
        dropped += await _drop(each, gone)
    return Forgotten(len(gone), dropped)


async def _drop(results: ResultCleanup, gone: set[str]) -> int:
    keys = [kept.key async for kept in results.kept() if kept.key.partition("/")[0] in gone]
    for first in range(0, len(keys), DROPPED_AT_ONCE):
        await results.drop(keys[first : first + DROPPED_AT_ONCE])
    return len(keys)
