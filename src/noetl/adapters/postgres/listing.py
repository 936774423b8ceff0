"""Lists of executions from their heads, newest first, and the deletion of old executions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Final, get_args

from noetl.adapters.postgres.batched_reads import BatchedReads
from noetl.adapters.postgres.database import PostgresDatabase, is_text
from noetl.adapters.sql import FOUND_MAX, matches, no_execution, no_executions, page_size
from noetl.engine.state import Status
from noetl.ports import ExecutionHead

_SELECT: Final = """
SELECT heads.execution_id, heads.path, heads.digest, heads.status, heads.seq, heads.started_at,
       heads.updated_at, heads.parent, coalesce(partitions.until > now(), false) AS owner_alive
FROM noetl.heads LEFT JOIN noetl.partitions ON partitions.number = heads.partition
"""
_NEWEST_FIRST: Final = "ORDER BY heads.started_at DESC, heads.execution_id DESC"
_OPEN: Final = "heads.status NOT IN ('ok', 'error', 'cancelled')"  # exactly as in the index
_CHILDREN: Final = """
WHERE split_part(heads.parent, '/', 1) = $1 AND heads.parent IS NOT NULL
ORDER BY heads.started_at, heads.execution_id
"""
# A range, so that the index is used; no id contains the highest character.
_FIND: Final = """
SELECT execution_id FROM noetl.heads WHERE execution_id BETWEEN $1 AND $1 || chr(1114111)
ORDER BY execution_id LIMIT $2
"""


class PostgresListing:
    """An `ExecutionListing`."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._batched: BatchedReads[str, ExecutionHead | None] = BatchedReads(self._heads_of)

    async def executions(
        self,
        limit: int = 100,
        *,
        before: str | None = None,
        status: Status | None = None,
        open_only: bool = False,
        path: str | None = None,
    ) -> list[ExecutionHead]:
        values: list[str | int] = [page_size(limit)]
        conditions: list[str] = []
        if before is not None:
            values.append(before)
            conditions.append(
                "(heads.started_at, heads.execution_id) <"
                f" (SELECT started_at, execution_id FROM noetl.heads WHERE execution_id = ${len(values)})"
            )
        if status is not None:
            assert status in get_args(Status), status
            conditions.append(f"heads.status = '{status}'")  # not as a parameter: the plan must know which index fits
        if open_only:
            conditions.append(_OPEN)
        if path is not None:
            values.append(path)
            conditions.append(f"left(heads.path, 200) = left(${len(values)}, 200) AND heads.path = ${len(values)}")
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        return await self._heads(f"{_SELECT} {where} {_NEWEST_FIRST} LIMIT $1", *values)

    async def head(self, execution_id: str) -> ExecutionHead:
        found = await self._batched.read(execution_id) if is_text(execution_id) else None
        if found is None:
            raise no_execution(execution_id)
        return found

    async def children(self, execution_id: str) -> list[ExecutionHead]:
        return await self._heads(f"{_SELECT} {_CHILDREN}", execution_id)

    async def find(self, prefix: str) -> list[str]:
        found = [row["execution_id"] for row in await self._database.fetch(_FIND, prefix, FOUND_MAX)]
        return matches(prefix, found)

    async def last(self) -> str:
        found = await self.executions(1)
        if not found:
            raise no_executions()
        return found[0].execution_id

    async def _heads_of(self, execution_ids: list[str]) -> list[ExecutionHead | None]:
        heads = await self._heads(f"{_SELECT} WHERE heads.execution_id = ANY($1::text[])", execution_ids)
        found = {head.execution_id: head for head in heads}
        return [found.get(each) for each in execution_ids]

    async def _heads(self, query: str, *values: str | int | list[str]) -> list[ExecutionHead]:
        return [ExecutionHead(**row, pid=None) for row in await self._database.fetch(query, *values)]


EXECUTIONS_MAX: Final = 500  # in one transaction
FACTS_MAX: Final = 100_000  # in one transaction; an execution with more is removed alone
TIMEOUT_S: Final = 600.0

# In the order of starts, from the end of the last transaction, so that old running executions are visited
# once. A child stays while its parent runs, which may still need its result.
_FORGET: Final = """
WITH found AS MATERIALIZED (
    SELECT execution_id, started_at, seq FROM noetl.heads
    WHERE (started_at, execution_id) > ($2, $3) AND started_at < $1 AND updated_at < $1
    AND status IN ('ok', 'error', 'cancelled')
    AND NOT EXISTS (
        SELECT FROM noetl.heads AS parent WHERE parent.execution_id = split_part(heads.parent, '/', 1)
        AND parent.status NOT IN ('ok', 'error', 'cancelled')
    )
    ORDER BY started_at, execution_id LIMIT $4 FOR UPDATE OF heads SKIP LOCKED
), old AS MATERIALIZED (
    SELECT execution_id, started_at FROM (
        SELECT *, sum(seq) OVER (ORDER BY started_at, execution_id) - seq AS facts_before FROM found
    ) AS counted WHERE facts_before < $5
), without_log AS (
    DELETE FROM noetl.log USING old WHERE log.execution_id = old.execution_id
), without_snapshots AS (
    DELETE FROM noetl.snapshots USING old WHERE snapshots.execution_id = old.execution_id
), without_heads AS (
    DELETE FROM noetl.heads USING old WHERE heads.execution_id = old.execution_id
)
SELECT execution_id, started_at FROM old ORDER BY started_at, execution_id
"""


class PostgresRetention:
    """Removes executions from one database. Several processes can do it at once."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def forget(self, before: datetime) -> AsyncIterator[list[str]]:
        """Remove executions that ended before then, and yield their ids in batches, after each commit."""
        started_at, execution_id = datetime.min.replace(tzinfo=UTC), ""
        while True:
            async with self._database.transaction() as connection:
                await connection.execute(f"SET LOCAL statement_timeout = {TIMEOUT_S * 1_000:.0f}")
                values = before, started_at, execution_id, EXECUTIONS_MAX, FACTS_MAX
                found = await connection.fetch(_FORGET, *values, timeout=TIMEOUT_S)
            if not found:
                return
            execution_id, started_at = found[-1]
            yield [row["execution_id"] for row in found]
