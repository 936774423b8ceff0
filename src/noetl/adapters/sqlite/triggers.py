"""Triggers and their history in the SQLite file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import apsw

from noetl.adapters.sql import hook_taken, no_trigger, page_size, storable
from noetl.adapters.sqlite.connection import instant, micros
from noetl.adapters.sqlite.database import Database
from noetl.ports import HISTORY_MAX, Firing, FiringRecord, StoredTrigger, merge_declared

_COLUMNS: Final = ", ".join(StoredTrigger._fields)
_SELECT: Final = f"SELECT {_COLUMNS} FROM triggers"
_INSERT: Final = f"INSERT INTO triggers ({_COLUMNS}) VALUES ({', '.join('?' * len(StoredTrigger._fields))})"
_CURRENT: Final = "SELECT digest FROM playbooks WHERE path = ? ORDER BY place DESC LIMIT 1"
_TAKEN: Final = "SELECT path FROM triggers WHERE hook = ? AND path != ?"
_FORGET: Final = """
DELETE FROM firings WHERE path = ?1 AND name NOT IN (SELECT name FROM triggers WHERE path = ?1)
"""
_ADVANCE: Final = """
UPDATE triggers SET scheduled_at = ?, due_at = ?
WHERE path = ? AND name = ? AND scheduled_at = ? AND declaration = ? AND NOT paused RETURNING name
"""
_COUNT: Final = "UPDATE triggers SET fired = fired + ? WHERE path = ? AND name = ? RETURNING fired"
_ADD: Final = """
INSERT INTO firings (path, name, number, at, status, key, scheduled_at, execution_id, detail)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_PAUSE: Final = """
UPDATE triggers SET paused = ?, scheduled_at = ?, due_at = ? WHERE path = ? AND name = ? RETURNING 1
"""
_TRIM: Final = "DELETE FROM firings WHERE path = ? AND name = ? AND number <= ?"
_HISTORY: Final = """
SELECT number, at, status, key, scheduled_at, execution_id, detail FROM firings
WHERE path = ? AND name = ? AND number < ? ORDER BY number DESC LIMIT ?
"""
_LAST: Final = 2**62
_INSTANTS: Final = ("since", "scheduled_at", "due_at")


class SqliteTriggers:
    """A `TriggerStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def declare(self, path: str, digest: str, triggers: Sequence[StoredTrigger]) -> None:
        def write(cursor: apsw.Cursor) -> None:
            if cursor.execute(_CURRENT, (path,)).fetchall() != [(digest,)]:
                return
            stored = [_trigger(row) for row in cursor.execute(f"{_SELECT} WHERE path = ?", (path,)).fetchall()]
            merged = merge_declared(stored, triggers)
            for each in merged:  # before the first change, which an error would leave in the commit
                other = cursor.execute(_TAKEN, (each.hook, path)).get
                if each.hook is not None and other is not None:
                    raise hook_taken(each.hook, str(other))
            cursor.execute("DELETE FROM triggers WHERE path = ?", (path,))
            cursor.executemany(_INSERT, map(_values, merged))
            cursor.execute(_FORGET, (path,))

        if triggers or self._database.fetch(f"{_SELECT} WHERE path = ? LIMIT 1", (path,)):
            await self._database.writer.write(write)

    async def due(self, at: datetime, limit: int) -> list[StoredTrigger]:
        query = f"{_SELECT} WHERE due_at <= ? AND NOT paused ORDER BY due_at LIMIT ?"
        return [_trigger(row) for row in self._database.fetch(query, (micros(at), page_size(limit)))]

    async def advance(
        self, trigger: StoredTrigger, scheduled_at: datetime, due_at: datetime, firings: Sequence[Firing]
    ) -> bool:
        assert trigger.scheduled_at is not None
        expected = (trigger.path, trigger.name, micros(trigger.scheduled_at), trigger.declaration)
        is_first = False

        def write(cursor: apsw.Cursor) -> None:
            nonlocal is_first
            is_first = bool(cursor.execute(_ADVANCE, (micros(scheduled_at), micros(due_at), *expected)).fetchall())
            if is_first:
                _add(cursor, trigger.path, trigger.name, firings)

        await self._database.writer.write(write)
        return is_first

    async def record(self, path: str, name: str, firings: Sequence[Firing]) -> None:
        await self._database.writer.write(lambda cursor: _add(cursor, path, name, firings))

    async def set_paused(
        self, path: str, name: str, *, paused: bool, scheduled_at: datetime | None, due_at: datetime | None
    ) -> None:
        def write(cursor: apsw.Cursor) -> None:
            values = (int(paused), _optional(scheduled_at), _optional(due_at), path, name)
            if not cursor.execute(_PAUSE, values).fetchall():
                raise no_trigger(path, name)

        await self._database.writer.write(write)

    async def get(self, path: str, name: str) -> StoredTrigger:
        for row in self._database.fetch(f"{_SELECT} WHERE path = ? AND name = ?", (path, name)):
            return _trigger(row)
        raise no_trigger(path, name)

    async def find_hook(self, hook: str) -> StoredTrigger | None:
        found = self._database.fetch(f"{_SELECT} WHERE hook = ?", (hook,))
        return _trigger(found[0]) if found else None

    async def history(self, path: str, name: str, *, before: int | None = None, limit: int = 100) -> list[FiringRecord]:
        rows = self._database.fetch(_HISTORY, (path, name, _LAST if before is None else before, page_size(limit)))
        return [
            FiringRecord(number, Firing(instant(at), status, key, None if due is None else instant(due), id, detail))
            for number, at, status, key, due, id, detail in rows
        ]

    async def list(
        self, *, kind: str | None = None, after: tuple[str, str] = ("", ""), limit: int = 100
    ) -> list[StoredTrigger]:
        query = f"{_SELECT} WHERE (path, name) > (?, ?) AND kind = coalesce(?, kind) ORDER BY path, name LIMIT ?"
        return [_trigger(row) for row in self._database.fetch(query, (*after, kind, page_size(limit)))]


def _add(cursor: apsw.Cursor, path: str, name: str, firings: Sequence[Firing]) -> None:
    last: Any = cursor.execute(_COUNT, (len(firings), path, name)).get
    if last is None:
        return
    for number, each in enumerate(firings, last - len(firings) + 1):
        status, key, detail = storable((each.status, each.key, each.detail))
        at, scheduled = micros(each.at), _optional(each.scheduled_at)
        cursor.execute(_ADD, (path, name, number, at, status, key, scheduled, each.execution_id, detail))
    cursor.execute(_TRIM, (path, name, last - HISTORY_MAX))


def _optional(at: datetime | None) -> int | None:
    return None if at is None else micros(at)


def _values(trigger: StoredTrigger) -> tuple[Any, ...]:
    instants = {name: _optional(getattr(trigger, name)) for name in _INSTANTS}
    return tuple((trigger._asdict() | instants | {"paused": int(trigger.paused)}).values())


def _trigger(row: Any) -> StoredTrigger:
    fields: dict[str, Any] = dict(zip(StoredTrigger._fields, row, strict=True))
    for name in _INSTANTS:
        fields[name] = None if fields[name] is None else instant(fields[name])
    return StoredTrigger(**fields | {"paused": bool(fields["paused"])})
