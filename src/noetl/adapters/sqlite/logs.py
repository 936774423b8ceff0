"""The lines that tasks print, in the SQLite file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import apsw

from noetl.adapters.sql import PAGE_BYTES, decode_lines, encode_lines, limit_note
from noetl.adapters.sqlite.database import Database
from noetl.defaults import LOG_EXECUTION_BYTES
from noetl.errors import NotFound
from noetl.ports import PrintedBatch, PrintedLine

_LAST: Final = """
SELECT coalesce(number, 0), coalesce(total, 0) FROM heads LEFT JOIN printed USING (execution_id)
WHERE execution_id = ? ORDER BY number DESC LIMIT 1
"""
_ADD: Final = "INSERT INTO printed (execution_id, number, total, body) VALUES (?, ?, ?, ?)"
# The first row of a page is always included; the others as long as the sum of their sizes permits.
_READ: Final = """
SELECT number, body FROM printed WHERE execution_id = ?1 AND number > ?2 AND total <= ?3 + (
    SELECT total FROM printed WHERE execution_id = ?1 AND number > ?2 ORDER BY number LIMIT 1
) ORDER BY number
"""


class SqliteLogs:
    """A `LogStore`."""

    def __init__(self, database: Database, execution_bytes: int = LOG_EXECUTION_BYTES) -> None:
        self._database = database
        self._limit = execution_bytes

    async def append(self, execution_id: str, lines: Sequence[PrintedLine]) -> bool:
        body = encode_lines(lines)

        def write(cursor: apsw.Cursor) -> bool:
            last: Any = cursor.execute(_LAST, (execution_id,)).fetchone()
            if last is None:
                raise NotFound(f"no execution {execution_id}")
            number, total = last
            if total >= self._limit:
                return False
            if total + len(body) > self._limit:
                note = limit_note(lines[0], self._limit)
                cursor.execute(_ADD, (execution_id, number + 1, self._limit, note))
                return False
            cursor.execute(_ADD, (execution_id, number + 1, total + len(body), body))
            return True

        return await self._database.writer.write(write)

    async def read(self, execution_id: str, after: int = 0) -> list[PrintedBatch]:
        rows = self._database.fetch(_READ, (execution_id, after, PAGE_BYTES))
        return [PrintedBatch(number, decode_lines(body)) for number, body in rows]
