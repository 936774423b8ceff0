"""Stored secrets as encrypted rows in PostgreSQL, and API tokens, found by the digest of their secrets."""

from __future__ import annotations

from typing import Any, Final, Literal

from noetl.adapters.postgres.database import PostgresDatabase, is_text
from noetl.adapters.sql import decode_roles, encode_roles, known_token, no_token, not_text
from noetl.errors import Rejected
from noetl.ports import ApiToken, SecretRow

_COLUMNS: Final = "name, version, nonce, body, key_id, at"
_INSERT: Final = """
INSERT INTO {} ({}) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING RETURNING name
"""
# A nonce is never reused under a key: version, nonce and key identify the row that the caller read.
_REPLACE: Final = """
UPDATE {} SET version = $2, nonce = $3, body = $4, key_id = $5, at = $6
WHERE name = $1 AND version = $7 AND nonce = $8 AND key_id = $9 RETURNING name
"""


class PostgresSecretRows:
    """A `SecretRows`. Rows of `secret_inputs` have the id of an execution as their name."""

    def __init__(self, database: PostgresDatabase, table: Literal["secrets", "secret_inputs"] = "secrets") -> None:
        self._database = database
        self._table = f"noetl.{table}"
        self._select = f"SELECT {_COLUMNS} FROM {self._table}"

    async def get(self, name: str) -> SecretRow | None:
        found = await self._database.fetch(f"{self._select} WHERE name = $1", name)
        return SecretRow(*found[0]) if found else None

    async def put(self, row: SecretRow, before: SecretRow | None) -> bool:
        if not is_text(row.name):
            raise Rejected("bad-name", f"{row.name!a} cannot be stored as a name")
        if before is None:
            return bool(await self._database.fetch(_INSERT.format(self._table, _COLUMNS), *row))
        seen = before.version, before.nonce, before.key_id
        return bool(await self._database.fetch(_REPLACE.format(self._table), *row, *seen))

    async def list(self) -> list[SecretRow]:
        found = await self._database.fetch(f"{self._select} WHERE body <> ''::bytea ORDER BY name")
        return [SecretRow(*row) for row in found]


_SELECT_TOKEN: Final = "SELECT id, name, scopes, created_at, expires_at, roles FROM noetl.tokens"
_ADD_TOKEN: Final = """
INSERT INTO noetl.tokens (id, name, scopes, created_at, expires_at, digest, roles) VALUES ($1, $2, $3, $4, $5, $6, $7)
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
        if not await self._database.fetch(_ADD_TOKEN, *values, encode_roles(token.roles)):
            raise known_token(token.id)

    async def find(self, digest: bytes) -> ApiToken | None:
        found = await self._database.fetch(f"{_SELECT_TOKEN} WHERE digest = $1", digest)
        return _token(found[0]) if found else None

    async def list(self) -> list[ApiToken]:
        return [_token(row) for row in await self._database.fetch(f"{_SELECT_TOKEN} ORDER BY created_at, id")]

    async def remove(self, id: str) -> None:
        if not await self._database.fetch("DELETE FROM noetl.tokens WHERE id = $1 RETURNING id", id):
            raise no_token(id)


def _token(row: Any) -> ApiToken:
    scopes, roles = frozenset(row["scopes"]), decode_roles(row["roles"])
    return ApiToken(row["id"], row["name"], scopes, row["created_at"], row["expires_at"], roles)
