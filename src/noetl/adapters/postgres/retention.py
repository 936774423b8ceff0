"""Removal of old executions: log, snapshot and head of an execution together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Final

from noetl.adapters.postgres.database import PostgresDatabase

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
