"""API tokens in PostgreSQL, found by the digest of their secrets, which are not stored."""

from __future__ import annotations

from typing import Any, Final

from noetl.adapters.postgres.database import PostgresDatabase, is_text
from noetl.adapters.sql import known_token, no_token, not_text
from noetl.ports import ApiToken

_SELECT: Final = "SELECT id, name, scopes, created_at, expires_at FROM noetl.tokens"
_ADD: Final = """
INSERT INTO noetl.tokens (id, name, scopes, created_at, expires_at, digest) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING RETURNING id
"""


class PostgresTokens:
    """An `ApiTokenStore`."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def add(self, token: ApiToken, digest: bytes) -> None:
        if not all(is_text(value) for value in (token.id, token.name, *token.scopes)):
            raise not_text(token.name)
        values = token.id, token.name, sorted(token.scopes), token.created_at, token.expires_at, digest
        if not await self._database.fetch(_ADD, *values):
            raise known_token(token.id)

    async def find(self, digest: bytes) -> ApiToken | None:
        found = await self._database.fetch(f"{_SELECT} WHERE digest = $1", digest)
        return _token(found[0]) if found else None

    async def list(self) -> list[ApiToken]:
        return [_token(row) for row in await self._database.fetch(f"{_SELECT} ORDER BY created_at, id")]

    async def remove(self, id: str) -> None:
        if not await self._database.fetch("DELETE FROM noetl.tokens WHERE id = $1 RETURNING id", id):
            raise no_token(id)


def _token(row: Any) -> ApiToken:
    return ApiToken(row["id"], row["name"], frozenset(row["scopes"]), row["created_at"], row["expires_at"])
