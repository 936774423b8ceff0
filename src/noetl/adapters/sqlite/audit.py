"""The audit trail in the SQLite file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import apsw

from noetl.adapters.sql import page_size, storable
from noetl.adapters.sqlite.connection import instant, micros
from noetl.adapters.sqlite.database import Database
from noetl.ports import AuditRecord, AuditTrailEntry

_ADD: Final = """
INSERT INTO audit (at, action, what, target, who, caller, address, detail, times) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_READ: Final = "SELECT id, at, action, what, target, who, caller, address, detail, times FROM audit"


class SqliteAudit:
    """An `AuditStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, entries: Sequence[AuditTrailEntry]) -> None:
        rows = [(micros(each.at), *storable(each[1:-1]), each.times) for each in entries]

        def write(cursor: apsw.Cursor) -> None:
            cursor.executemany(_ADD, rows)

        await self._database.writer.write(write)

    async def read(
        self,
        limit: int = 100,
        *,
        before: int | None = None,
        since: datetime | None = None,
        action: str | None = None,
        who: str | None = None,
    ) -> list[AuditRecord]:
        at = None if since is None else micros(since)
        wanted: dict[str, Any] = {"id < ?": before, "at >= ?": at, "action = ?": action, "who = ?": who}
        given = {condition: value for condition, value in wanted.items() if value is not None}
        where = f"WHERE {' AND '.join(given)}" if given else ""
        query = f"{_READ} {where} ORDER BY id DESC LIMIT ?"
        rows = self._database.fetch(query, (*given.values(), page_size(limit)))
        return [AuditRecord(id, AuditTrailEntry(instant(at), *others)) for id, at, *others in rows]
