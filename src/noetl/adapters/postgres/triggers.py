"""Triggers and their history in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from noetl.adapters.postgres.database import PostgresDatabase
from noetl.adapters.sql import hook_taken, no_trigger, page_size, storable
from noetl.ports import HISTORY_MAX, Firing, FiringRecord, StoredTrigger, merge_declared

if TYPE_CHECKING:
    from asyncpg import Connection

_COLUMNS: Final = ", ".join(StoredTrigger._fields)
_SELECT: Final = f"SELECT {_COLUMNS} FROM noetl.triggers"
_PLACES: Final = ", ".join(f"${number}" for number in range(1, len(StoredTrigger._fields) + 1))
_INSERT: Final = f"INSERT INTO noetl.triggers ({_COLUMNS}) VALUES ({_PLACES}) ON CONFLICT (hook) DO NOTHING RETURNING 1"
_CURRENT: Final = "SELECT current FROM noetl.paths WHERE path = $1 FOR UPDATE"  # a lock: writers of a path take turns
_FORGET: Final = """
DELETE FROM noetl.firings WHERE path = $1 AND name NOT IN (SELECT name FROM noetl.triggers WHERE path = $1)
"""
_ADVANCE: Final = """
UPDATE noetl.triggers SET scheduled_at = $1, due_at = $2
WHERE path = $3 AND name = $4 AND scheduled_at = $5 AND declaration = $6 AND NOT paused RETURNING name
"""
_COUNT: Final = "UPDATE noetl.triggers SET fired = fired + $1 WHERE path = $2 AND name = $3 RETURNING fired"
_ADD: Final = """
INSERT INTO noetl.firings (path, name, number, at, status, key, scheduled_at, execution_id, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
"""
_TRIM: Final = "DELETE FROM noetl.firings WHERE path = $1 AND name = $2 AND number <= $3"
_PAUSE: Final = """
UPDATE noetl.triggers SET paused = $1, scheduled_at = $2, due_at = $3 WHERE path = $4 AND name = $5 RETURNING 1
"""
_HISTORY: Final = """
SELECT number, at, status, key, scheduled_at, execution_id, detail FROM noetl.firings
WHERE path = $1 AND name = $2 AND ($3::bigint IS NULL OR number < $3) ORDER BY number DESC LIMIT $4
"""


class PostgresTriggers:
    """A `TriggerStore`."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def declare(self, path: str, digest: str, triggers: Sequence[StoredTrigger]) -> None:
        if not triggers and not await self._database.fetch(f"{_SELECT} WHERE path = $1 LIMIT 1", path):
            return
        async with self._database.transaction() as connection:
            if await connection.fetchval(_CURRENT, path) != digest:
                return
            stored = [StoredTrigger(*row) for row in await connection.fetch(f"{_SELECT} WHERE path = $1", path)]
            await connection.execute("DELETE FROM noetl.triggers WHERE path = $1", path)
            for each in merge_declared(stored, triggers):
                if not await connection.fetch(_INSERT, *each):
                    assert each.hook is not None
                    other = await connection.fetchval("SELECT path FROM noetl.triggers WHERE hook = $1", each.hook)
                    raise hook_taken(each.hook, other)
            await connection.execute(_FORGET, path)

    async def due(self, at: datetime, limit: int) -> list[StoredTrigger]:
        query = f"{_SELECT} WHERE due_at <= $1 AND NOT paused ORDER BY due_at LIMIT $2"
        return [StoredTrigger(*row) for row in await self._database.fetch(query, at, page_size(limit))]

    async def advance(
        self, trigger: StoredTrigger, scheduled_at: datetime, due_at: datetime, firings: Sequence[Firing]
    ) -> bool:
        expected = (trigger.path, trigger.name, trigger.scheduled_at, trigger.declaration)
        async with self._database.transaction() as connection:
            if not await connection.fetch(_ADVANCE, scheduled_at, due_at, *expected):
                return False
            await _add(connection, trigger.path, trigger.name, firings)
        return True

    async def record(self, path: str, name: str, firings: Sequence[Firing]) -> None:
        async with self._database.transaction() as connection:
            await _add(connection, path, name, firings)

    async def set_paused(
        self, path: str, name: str, *, paused: bool, scheduled_at: datetime | None, due_at: datetime | None
    ) -> None:
        if not await self._database.fetch(_PAUSE, paused, scheduled_at, due_at, path, name):
            raise no_trigger(path, name)

    async def get(self, path: str, name: str) -> StoredTrigger:
        for row in await self._database.fetch(f"{_SELECT} WHERE path = $1 AND name = $2", path, name):
            return StoredTrigger(*row)
        raise no_trigger(path, name)

    async def find_hook(self, hook: str) -> StoredTrigger | None:
        found = await self._database.fetch(f"{_SELECT} WHERE hook = $1", hook)
        return StoredTrigger(*found[0]) if found else None

    async def history(self, path: str, name: str, *, before: int | None = None, limit: int = 100) -> list[FiringRecord]:
        rows = await self._database.fetch(_HISTORY, path, name, before, page_size(limit))
        return [
            FiringRecord(number, Firing(at, status, key, scheduled, id, detail))
            for number, at, status, key, scheduled, id, detail in rows
        ]

    async def list(
        self, *, kind: str | None = None, after: tuple[str, str] = ("", ""), limit: int = 100
    ) -> list[StoredTrigger]:
        query = (
            f"{_SELECT} WHERE (path, name) > ($1, $2) AND ($3::text IS NULL OR kind = $3) ORDER BY path, name LIMIT $4"
        )
        return [StoredTrigger(*row) for row in await self._database.fetch(query, *after, kind, page_size(limit))]


async def _add(connection: Connection, path: str, name: str, firings: Sequence[Firing]) -> None:
    last = await connection.fetchval(_COUNT, len(firings), path, name)
    if last is None:
        return
    for number, each in enumerate(firings, last - len(firings) + 1):
        status, key, detail = storable((each.status, each.key, each.detail))
        values = (number, each.at, status, key, each.scheduled_at, each.execution_id, detail)
        await connection.execute(_ADD, path, name, *values)
    await connection.execute(_TRIM, path, name, last - HISTORY_MAX)
