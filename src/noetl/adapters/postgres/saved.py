"""Values that outlive an execution, on PostgreSQL. Executions write them with their facts: see `group_commit`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from noetl.adapters.postgres.database import PostgresDatabase
from noetl.adapters.sql import SAVED_HISTORY_MAX
from noetl.ports import SavedValue

_COLUMNS: Final = "key, value, at, execution_id, who"
_ADD: Final = f"""
WITH pruned AS (
    DELETE FROM noetl.saved WHERE path = $1 AND key = $2 AND id <= (
        SELECT id FROM noetl.saved WHERE path = $1 AND key = $2 ORDER BY id DESC LIMIT 1 OFFSET {SAVED_HISTORY_MAX - 1}
    )
)
INSERT INTO noetl.saved (path, key, value, at, execution_id, who) VALUES ($1, $2, $3, $4, $5, $6)
"""
_CURRENT: Final = f"""
SELECT {_COLUMNS} FROM noetl.saved WHERE id IN (SELECT max(id) FROM noetl.saved WHERE path = $1 GROUP BY key)
AND value IS NOT NULL ORDER BY key
"""
_HISTORY: Final = f"SELECT {_COLUMNS} FROM noetl.saved WHERE path = $1 AND key = $2 ORDER BY id DESC"


class PostgresSaved:
    """A `SavedStore`."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def current(self, path: str) -> list[SavedValue]:
        return [_value(row) for row in await self._database.fetch(_CURRENT, path)]

    async def history(self, path: str, key: str) -> list[SavedValue]:
        return [_value(row) for row in await self._database.fetch(_HISTORY, path, key)]

    async def put(self, path: str, value: SavedValue) -> None:
        text = None if value.removed else msgspec.json.encode(value.value).decode()
        await self._database.fetch(_ADD, path, value.key, text, value.at, value.execution_id, value.by)


def _value(row: Any) -> SavedValue:
    text = row["value"]
    value = None if text is None else msgspec.json.decode(text)
    return SavedValue(row["key"], value, row["at"], row["execution_id"], row["who"], text is None)
