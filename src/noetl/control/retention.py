"""Retention: old executions are deleted from the log, and then their results from the result stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import NamedTuple, Protocol

from noetl.ports import ResultCleanup

DELETED_AT_ONCE = 500


class ExpiringLog(Protocol):
    """A log whose old executions can be deleted."""

    def forget(self, before: datetime) -> AsyncIterator[list[str]]:
        """Delete executions that ended before then, and yield the ids of those that are deleted."""
        ...


class Deleted(NamedTuple):
    executions: int
    results: int


async def delete_expired(log: ExpiringLog, results: Iterable[ResultCleanup], before: datetime) -> Deleted:
    """One round. It deletes only results of executions that it deletes: a store may be shared.

    Results stay when a round is interrupted: give the store an age limit of its own.
    """
    expired: set[str] = set()
    async for some in log.forget(before):
        expired.update(some)
    deleted = 0
    for each in results if expired else ():
        deleted += await _delete_results(each, expired)
    return Deleted(len(expired), deleted)


async def _delete_results(results: ResultCleanup, expired: set[str]) -> int:
    keys = [kept.key async for kept in results.kept() if kept.key.partition("/")[0] in expired]
    for first in range(0, len(keys), DELETED_AT_ONCE):
        await results.drop(keys[first : first + DELETED_AT_ONCE])
    return len(keys)
