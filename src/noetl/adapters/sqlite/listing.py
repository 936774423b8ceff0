"""The listing of executions, read from their heads instead of their logs."""

from __future__ import annotations

from typing import Final

from noetl.adapters.sql import FOUND_MAX, matches, no_execution, no_executions, page_size
from noetl.adapters.sqlite import locks
from noetl.adapters.sqlite.connection import instant
from noetl.adapters.sqlite.database import Database
from noetl.engine.state import Status
from noetl.ports import ExecutionHead

_SELECT: Final = """
SELECT heads.execution_id, heads.path, heads.digest, heads.status, heads.seq,
       heads.started_at, heads.updated_at, heads.parent, owners.lock, owners.pid
FROM heads LEFT JOIN owners ON owners.number = heads.owner
"""
_NEWEST_FIRST: Final = "ORDER BY heads.started_at DESC, heads.execution_id DESC LIMIT ?"
_BEFORE: Final = """
(heads.started_at, heads.execution_id) < (SELECT started_at, execution_id FROM heads WHERE execution_id = ?)
"""
_OPEN: Final = "heads.status NOT IN ('ok', 'error', 'cancelled')"  # exactly as in the index


# A range, so that the index is used: a parent is "<execution>/<frame>", and "0" follows "/".
_CHILDREN: Final = """
WHERE heads.parent >= ?1 || '/' AND heads.parent < ?1 || '0' ORDER BY heads.started_at, heads.execution_id
"""


class SqliteListing:
    """An `ExecutionListing` of one file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def executions(
        self,
        limit: int = 100,
        *,
        before: str | None = None,
        status: Status | None = None,
        open_only: bool = False,
        path: str | None = None,
    ) -> list[ExecutionHead]:
        conditions: list[str] = []
        values: list[str | int] = []
        if before is not None:
            conditions.append(_BEFORE)
            values.append(before)
        if status is not None:
            conditions.append("heads.status = ?")
            values.append(status)
        if open_only:
            conditions.append(_OPEN)
        if path is not None:
            conditions.append("heads.path = ?")
            values.append(path)
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        query = f"{_SELECT} {where} {_NEWEST_FIRST}"
        return self._heads(query, (*values, page_size(limit)))

    async def head(self, execution_id: str) -> ExecutionHead:
        found = self._heads(f"{_SELECT} WHERE heads.execution_id = ?", (execution_id,))
        if not found:
            raise no_execution(execution_id)
        return found[0]

    async def children(self, execution_id: str) -> list[ExecutionHead]:
        return self._heads(f"{_SELECT} {_CHILDREN}", (execution_id,))

    async def find(self, prefix: str) -> list[str]:
        # A range, so that the index is used; no id contains the highest character.
        query = (
            f"SELECT execution_id FROM heads WHERE execution_id BETWEEN ?1 AND ?1 || char(0x10FFFF)"
            f" ORDER BY execution_id <> ?1, execution_id LIMIT {FOUND_MAX}"
        )
        found = [row[0] for row in self._database.fetch(query, (prefix,))]
        return matches(prefix, found)

    async def last(self) -> str:
        found = self._heads(f"{_SELECT} {_NEWEST_FIRST}", (1,))
        if not found:
            raise no_executions()
        return found[0].execution_id

    def _heads(self, query: str, values: tuple[str | int, ...]) -> list[ExecutionHead]:
        alive: dict[str | None, bool] = {None: False}
        heads = []
        for row in self._database.fetch(query, values):
            execution_id, path, digest, status, seq, started_at, updated_at, parent, lock, pid = row
            if lock not in alive:
                alive[lock] = locks.is_alive(self._database.locks, lock)
            head = ExecutionHead(
                execution_id=execution_id,
                path=path,
                digest=digest,
                status=status,
                seq=seq,
                started_at=instant(started_at),
                updated_at=instant(updated_at),
                parent=parent,
                pid=pid,
                owner_alive=alive[lock],
            )
            heads.append(head)
        return heads
