"""API tokens in the SQLite file, found by the digest of their secrets, which are not stored."""

from __future__ import annotations

from typing import Any, Final

import apsw

from noetl.adapters.sql import known_token, no_token, not_text
from noetl.adapters.sqlite.connection import instant, is_text, micros
from noetl.adapters.sqlite.database import Database
from noetl.ports import ApiToken

_SELECT: Final = "SELECT id, name, scopes, created_at, expires_at FROM tokens"
_ADD: Final = """
INSERT INTO tokens (id, name, scopes, digest, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""


class SqliteTokens:
    """An `ApiTokenStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, token: ApiToken, digest: bytes) -> None:
        created_at = micros(token.created_at)
        expires_at = None if token.expires_at is None else micros(token.expires_at)
        values = (token.id, token.name, " ".join(sorted(token.scopes)), digest, created_at, expires_at)

        def write(cursor: apsw.Cursor) -> None:
            cursor.execute(_ADD, values)
            if not cursor.connection.changes():
                raise known_token(token.id)

        if not all(is_text(value) for value in (token.id, token.name, *token.scopes)):
            raise not_text(token.name)
        await self._database.writer.write(write)

    async def find(self, digest: bytes) -> ApiToken | None:
        found = self._database.fetch(f"{_SELECT} WHERE digest = ?", (digest,))
        return _token(found[0]) if found else None

    async def list(self) -> list[ApiToken]:
        return [_token(row) for row in self._database.fetch(f"{_SELECT} ORDER BY created_at, id")]

    async def remove(self, id: str) -> None:
        def write(cursor: apsw.Cursor) -> int:
            cursor.execute("DELETE FROM tokens WHERE id = ?", (id,))
            return cursor.connection.changes()

        if not is_text(id) or not await self._database.writer.write(write):
            raise no_token(id)


def _token(row: Any) -> ApiToken:
    id, name, scopes, created_at, expires_at = row
    ends_at = None if expires_at is None else instant(expires_at)
    return ApiToken(id, name, frozenset(scopes.split()), instant(created_at), ends_at)
