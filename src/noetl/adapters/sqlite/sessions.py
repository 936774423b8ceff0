"""Sessions of the web UI as rows of the SQLite file, found by the digest of their secrets."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import apsw

from noetl.adapters.sql import decode_roles, encode_roles, no_session, not_text
from noetl.adapters.sqlite.connection import instant, is_text, micros
from noetl.adapters.sqlite.database import Database
from noetl.ports import WebSession

_SELECT: Final = "SELECT id, user, name, created_at, expires_at, seen_at, roles, token FROM web_sessions"
_DELETE_ENDED: Final = "DELETE FROM web_sessions WHERE expires_at <= ? OR seen_at < ?"
# The newest sessions of a user stay.
_DELETE_OLDEST: Final = """
DELETE FROM web_sessions WHERE id IN (
    SELECT id FROM web_sessions WHERE user = ? ORDER BY created_at DESC, id DESC LIMIT -1 OFFSET ?
)
"""
_INSERT: Final = """
INSERT INTO web_sessions (id, digest, user, name, created_at, expires_at, seen_at, roles, token)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class SqliteSessions:
    """A `WebSessionStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, session: WebSession, digest: bytes, *, idle_since: datetime, keep: int) -> None:
        if not (is_text(session.user) and is_text(session.name)):
            raise not_text(session.name)
        times = [micros(at) for at in (session.created_at, session.expires_at, session.seen_at)]
        row = session.id, digest, session.user, session.name, *times, encode_roles(session.roles), session.token

        def write(cursor: apsw.Cursor) -> None:
            cursor.execute(_DELETE_ENDED, (times[0], micros(idle_since)))
            cursor.execute(_DELETE_OLDEST, (session.user, keep - 1))
            cursor.execute(_INSERT, row)

        await self._database.writer.write(write)

    async def find(self, digest: bytes) -> WebSession | None:
        found = self._database.fetch(f"{_SELECT} WHERE digest = ?", (digest,))
        return _session(found[0]) if found else None

    async def touch(self, id: str, at: datetime) -> None:
        def write(cursor: apsw.Cursor) -> None:
            cursor.execute("UPDATE web_sessions SET seen_at = max(seen_at, ?) WHERE id = ?", (micros(at), id))

        await self._database.writer.write(write)

    async def list(self) -> list[WebSession]:
        return [_session(row) for row in self._database.fetch(f"{_SELECT} ORDER BY created_at, id")]

    async def remove(self, id: str) -> None:
        def write(cursor: apsw.Cursor) -> int:
            cursor.execute("DELETE FROM web_sessions WHERE id = ?", (id,))
            return cursor.connection.changes()

        if not is_text(id) or not await self._database.writer.write(write):
            raise no_session(id)


def _session(row: Any) -> WebSession:
    id, user, name, created_at, expires_at, seen_at, roles, token = row
    times = instant(created_at), instant(expires_at), instant(seen_at)
    return WebSession(id, user, name, *times, decode_roles(roles), token)
