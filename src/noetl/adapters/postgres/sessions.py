"""Sessions of the web UI in PostgreSQL, found by the digest of their secrets: they hold on every server."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from noetl.adapters.postgres.database import PostgresDatabase, is_text
from noetl.adapters.sql import decode_roles, encode_roles, no_session, not_text
from noetl.ports import WebSession

_SELECT: Final = 'SELECT id, "user", name, created_at, expires_at, seen_at, roles, token FROM noetl.web_sessions'
_DELETE_ENDED: Final = "DELETE FROM noetl.web_sessions WHERE expires_at <= $1 OR seen_at < $2"
# The newest sessions of a user stay.
_DELETE_OLDEST: Final = """
DELETE FROM noetl.web_sessions WHERE id IN (
    SELECT id FROM noetl.web_sessions WHERE "user" = $1 ORDER BY created_at DESC, id DESC OFFSET $2
)
"""
_INSERT: Final = """
INSERT INTO noetl.web_sessions (id, digest, "user", name, created_at, expires_at, seen_at, roles, token)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
"""


class PostgresSessions:
    """A `WebSessionStore`."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def add(self, session: WebSession, digest: bytes, *, idle_since: datetime, keep: int) -> None:
        if not (is_text(session.user) and is_text(session.name)):
            raise not_text(session.name)
        times = session.created_at, session.expires_at, session.seen_at
        row = session.id, digest, session.user, session.name, *times, encode_roles(session.roles), session.token
        async with self._database.transaction() as connection:
            await connection.execute(_DELETE_ENDED, session.created_at, idle_since)
            await connection.execute(_DELETE_OLDEST, session.user, keep - 1)
            await connection.execute(_INSERT, *row)

    async def find(self, digest: bytes) -> WebSession | None:
        found = await self._database.fetch(f"{_SELECT} WHERE digest = $1", digest)
        return _session(found[0]) if found else None

    async def touch(self, id: str, at: datetime) -> None:
        query = "UPDATE noetl.web_sessions SET seen_at = greatest(seen_at, $2) WHERE id = $1"
        await self._database.fetch(query, id, at)

    async def list(self) -> list[WebSession]:
        return [_session(row) for row in await self._database.fetch(f"{_SELECT} ORDER BY created_at, id")]

    async def remove(self, id: str) -> None:
        query = "DELETE FROM noetl.web_sessions WHERE id = $1 RETURNING id"
        if not is_text(id) or not await self._database.fetch(query, id):
            raise no_session(id)


def _session(row: Any) -> WebSession:
    times = row["created_at"], row["expires_at"], row["seen_at"]
    return WebSession(row["id"], row["user"], row["name"], *times, decode_roles(row["roles"]), row["token"])
