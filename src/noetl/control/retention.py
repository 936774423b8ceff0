"""Retention: old executions are deleted from the log, and then their results from the result stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import NamedTuple, Protocol

from noetl.engine.state import LIVE
from noetl.errors import NotFound, Rejected
from noetl.labels import FORK_LABEL
from noetl.ports import ExecutionFilter, ExecutionHead, ExecutionListing, ResultCleanup

DELETED_AT_ONCE = 500
DELETED_MAX = 10_000  # executions that one request deletes, with those that they called


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
        deleted += await delete_results(each, expired)
    return Deleted(len(expired), deleted)


async def deletable(listing: ExecutionListing, execution_id: str) -> list[ExecutionHead]:
    """A finished execution and all that it called, itself first: they are deleted together.

    Raises NotFound, or Rejected when one of them has not ended, or when its caller still exists.
    """
    head = await listing.head(execution_id)
    if head.parent is not None:
        caller = head.parent.partition("/")[0]
        try:
            await listing.head(caller)
        except NotFound:
            pass
        else:
            raise Rejected("called", f"{execution_id} was called by {caller}: delete that one, which deletes both")
    found = [head]
    for each in found:
        if forks := await listing.executions(1, ExecutionFilter(labels={FORK_LABEL: each.execution_id})):
            reason = f"{forks[0].execution_id} is a fork of it and keeps its results: delete that one first"
            raise Rejected("forked", f"{each.execution_id} cannot be deleted: {reason}")
        if each.status in LIVE:
            which = "it" if each is head else f"its child {each.execution_id}"
            raise Rejected("not-ended", f"{execution_id} cannot be deleted: {which} has not ended; cancel it first")
        found += await listing.children(each.execution_id)
        if len(found) > DELETED_MAX:
            raise Rejected("too-many", f"{execution_id} called more than {DELETED_MAX:,} executions")
    return found


async def delete_results(results: ResultCleanup, expired: set[str]) -> int:
    keys = [kept.key async for kept in results.kept() if kept.key.partition("/")[0] in expired]
    for first in range(0, len(keys), DELETED_AT_ONCE):
        await results.drop(keys[first : first + DELETED_AT_ONCE])
    return len(keys)
