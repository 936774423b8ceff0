"""Values that outlive an execution, on SQLite. Executions write them with their facts: see `store`."""

from __future__ import annotations

from typing import Final

import apsw
import msgspec

from noetl.adapters.sql import SAVED_HISTORY_MAX
from noetl.adapters.sqlite.connection import instant, micros
from noetl.adapters.sqlite.database import Database
from noetl.ports import SavedValue

_COLUMNS: Final = "key, value, at, execution_id, who"
_ADD: Final = "INSERT INTO saved (path, key, value, at, execution_id, who) VALUES (?, ?, ?, ?, ?, ?)"
_PRUNE: Final = f"""
DELETE FROM saved WHERE path = ?1 AND key = ?2 AND id <= (
    SELECT id FROM saved WHERE path = ?1 AND key = ?2 ORDER BY id DESC LIMIT 1 OFFSET {SAVED_HISTORY_MAX}
)
"""
_CURRENT: Final = f"""
SELECT {_COLUMNS} FROM saved WHERE id IN (SELECT max(id) FROM saved WHERE path = ? GROUP BY key)
AND value IS NOT NULL ORDER BY key
"""
_HISTORY: Final = f"SELECT {_COLUMNS} FROM saved WHERE path = ? AND key = ? ORDER BY id DESC"


def add_saved(cursor: apsw.Cursor, path: str, value: SavedValue) -> None:
    """Inside a transaction."""
    text = None if value.removed else msgspec.json.encode(value.value).decode()
    cursor.execute(_ADD, (path, value.key, text, micros(value.at), value.execution_id, value.by))
    cursor.execute(_PRUNE, (path, value.key))


class SqliteSaved:
    """A `SavedStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def current(self, path: str) -> list[SavedValue]:
        return self._values(_CURRENT, (path,))

    async def history(self, path: str, key: str) -> list[SavedValue]:
        return self._values(_HISTORY, (path, key))

    async def put(self, path: str, value: SavedValue) -> None:
        await self._database.writer.write(lambda cursor: add_saved(cursor, path, value))

    def _values(self, query: str, values: tuple[str, ...]) -> list[SavedValue]:
        found = []
        for key, text, at, execution_id, who in self._database.fetch(query, values):
            value = None if text is None else msgspec.json.decode(text)
            found.append(SavedValue(key, value, instant(at), execution_id, who, text is None))
        return found
