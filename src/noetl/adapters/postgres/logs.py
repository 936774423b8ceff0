"""The lines that tasks print, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from noetl.adapters.postgres.database import PostgresDatabase
from noetl.adapters.sql import PAGE_BYTES, decode_lines, encode_lines, limit_note
from noetl.defaults import LOG_EXECUTION_BYTES
from noetl.errors import NotFound, Unavailable
from noetl.ports import PrintedBatch, PrintedLine

TRIES_MAX: Final = 20  # when several servers append to one execution
_LAST: Final = """
SELECT coalesce(number, 0), coalesce(total, 0) FROM noetl.heads LEFT JOIN noetl.printed USING (execution_id)
WHERE execution_id = $1 ORDER BY number DESC NULLS LAST LIMIT 1
"""
_ADD: Final = """
INSERT INTO noetl.printed (execution_id, number, total, body) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING RETURNING number
"""
_READ: Final = """
SELECT number, body FROM noetl.printed WHERE execution_id = $1 AND number > $2 AND total <= $3 + (
    SELECT total FROM noetl.printed WHERE execution_id = $1 AND number > $2 ORDER BY number LIMIT 1
) ORDER BY number
"""


class PostgresLogs:
    """A `LogStore`."""

    def __init__(self, database: PostgresDatabase, execution_bytes: int = LOG_EXECUTION_BYTES) -> None:
        self._database = database
        self._limit = execution_bytes

    async def append(self, execution_id: str, lines: Sequence[PrintedLine]) -> bool:
        body = encode_lines(lines)
        for _ in range(TRIES_MAX):
            last = await self._database.fetch(_LAST, execution_id)
            if not last:
                raise NotFound(f"no execution {execution_id}")
            number, total = last[0]
            if total >= self._limit:
                return False
            fits: bool = total + len(body) <= self._limit
            row = (total + len(body), body) if fits else (self._limit, limit_note(lines[0], self._limit))
            if await self._database.fetch(_ADD, execution_id, number + 1, *row):
                return fits
        raise Unavailable(f"{TRIES_MAX} other writes came first")

    async def read(self, execution_id: str, after: int = 0) -> list[PrintedBatch]:
        rows = await self._database.fetch(_READ, execution_id, after, PAGE_BYTES)
        return [PrintedBatch(number, decode_lines(body)) for number, body in rows]
