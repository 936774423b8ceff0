"""The audit trail in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from noetl.adapters.postgres.database import PostgresDatabase
from noetl.adapters.sql import page_size, storable
from noetl.ports import AuditRecord, AuditTrailEntry

_ADD: Final = """
INSERT INTO noetl.audit (at, action, what, target, who, caller, address, detail, times)
SELECT * FROM unnest(
    $1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[])
"""
_READ: Final = "SELECT id, at, action, what, target, who, caller, address, detail, times FROM noetl.audit"


class PostgresAudit:
    """An `AuditStore`."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def add(self, entries: Sequence[AuditTrailEntry]) -> None:
        rows = [(each.at, *storable(each[1:-1]), each.times) for each in entries]
        if rows:
            await self._database.fetch(_ADD, *(list(column) for column in zip(*rows, strict=True)))

    async def read(
        self,
        limit: int = 100,
        *,
        before: int | None = None,
        since: datetime | None = None,
        action: str | None = None,
        who: str | None = None,
    ) -> list[AuditRecord]:
        wanted: dict[str, Any] = {"id <": before, "at >=": since, "action =": action, "who =": who}
        given = {condition: value for condition, value in wanted.items() if value is not None}
        conditions = [f"{condition} ${number}" for number, condition in enumerate(given, 2)]
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        query = f"{_READ} {where} ORDER BY id DESC LIMIT $1"
        rows = await self._database.fetch(query, page_size(limit), *given.values())
        return [AuditRecord(id, AuditTrailEntry(*others)) for id, *others in rows]
