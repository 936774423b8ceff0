"""What executions there are, newest first: read from their heads, so that nobody folds a log for a list."""

from __future__ import annotations

from typing import Final, get_args

from noetl.adapters.postgres.batched_reads import Gathering
from noetl.adapters.postgres.database import PostgresDatabase
from noetl.adapters.postgres.errors import is_text
from noetl.engine.state import Status
from noetl.errors import NotFound
from noetl.ports import ExecutionHead

LISTED_MAX: Final = 1_000
FOUND_MAX: Final = 20  # ids that begin alike: enough to show that the prefix is too short

_SELECT: Final = """
SELECT heads.execution_id, heads.path, heads.digest, heads.status, heads.seq, heads.started_at,
       heads.updated_at, heads.parent, coalesce(partitions.until > now(), false) AS owner_alive
FROM noetl.heads LEFT JOIN noetl.partitions ON partitions.number = heads.partition
"""
_NEWEST_FIRST: Final = "ORDER BY heads.started_at DESC, heads.execution_id DESC"
_OPEN: Final = "heads.status NOT IN ('ok', 'error', 'cancelled')"  # word for word as in the index
_CHILDREN: Final = """
WHERE split_part(heads.parent, '/', 1) = $1 AND heads.parent IS NOT NULL
ORDER BY heads.started_at, heads.execution_id
"""
# As a range, which the index answers; no id holds the highest character.
_FIND: Final = """
SELECT execution_id FROM noetl.heads WHERE execution_id BETWEEN $1 AND $1 || chr(1114111)
ORDER BY execution_id LIMIT $2
"""


class PostgresListing:
    """Keeps the contract of Listing."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._gathered: Gathering[str, ExecutionHead | None] = Gathering(self._heads_of)

    async def executions(
        self,
        limit: int = 100,
        *,
        before: str | None = None,
        status: Status | None = None,
        open_only: bool = False,
        path: str | None = None,
    ) -> list[ExecutionHead]:
        """Newest first; `before` is the id of the last one on the page before."""
        values: list[str | int] = [max(0, min(limit, LISTED_MAX))]
        wanted: list[str] = []
        if before is not None:
            values.append(before)
            wanted.append(
                "(heads.started_at, heads.execution_id) <"
                f" (SELECT started_at, execution_id FROM noetl.heads WHERE execution_id = ${len(values)})"
            )
        if status is not None:
            assert status in get_args(Status), status
            wanted.append(f"heads.status = '{status}'")  # not as a value: the plan must know which index fits
        if open_only:
            wanted.append(_OPEN)
        if path is not None:
            values.append(path)
            wanted.append(
                f"left(heads.path, 200) = left(${len(values)}, 200) AND heads.path = ${len(values)}"
            )
        where = f"WHERE {' AND '.join(wanted)}" if wanted else ""
        return await self._heads(f"{_SELECT} {where} {_NEWEST_FIRST} LIMIT $1", *values)

    async def head(self, execution_id: str) -> ExecutionHead:
        """Raises NotFound."""
        found = await self._gathered.ask(execution_id) if is_text(execution_id) else None
        if found is None:
            raise NotFound(f"no execution {execution_id}")
        return found

    async def children(self, execution_id: str) -> list[ExecutionHead]:
        return await self._heads(f"{_SELECT} {_CHILDREN}", execution_id)

    async def find(self, prefix: str) -> list[str]:
        """The ids that begin so, at most FOUND_MAX; the whole id finds itself alone."""
        found = [row["execution_id"] for row in await self._database.fetch(_FIND, prefix, FOUND_MAX)]
        return found[:1] if found[:1] == [prefix] else found

    async def last(self) -> str:
        """The execution that started last. Raises NotFound when there is none."""
        found = await self.executions(1)
        if not found:
            raise NotFound("nothing has been run yet")
        return found[0].execution_id

    async def _heads_of(self, execution_ids: list[str]) -> list[ExecutionHead | None]:
        heads = await self._heads(f"{_SELECT} WHERE heads.execution_id = ANY($1::text[])", execution_ids)
        found = {head.execution_id: head for head in heads}
        return [found.get(each) for each in execution_ids]

    async def _heads(self, query: str, *values: str | int | list[str]) -> list[ExecutionHead]:
        return [ExecutionHead(**row, pid=None) for row in await self._database.fetch(query, *values)]
