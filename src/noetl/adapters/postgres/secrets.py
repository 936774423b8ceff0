"""Stored secrets as encrypted rows in PostgreSQL."""

from __future__ import annotations

from typing import Final

from noetl.adapters.postgres.database import PostgresDatabase, is_text
from noetl.errors import Rejected
from noetl.ports import SecretRow

_SELECT: Final = "SELECT name, version, nonce, body, key_id, at FROM noetl.secrets"
_INSERT: Final = """
INSERT INTO noetl.secrets (name, version, nonce, body, key_id, at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING RETURNING name
"""
# A nonce is never reused under a key: version, nonce and key identify the row that the caller read.
_REPLACE: Final = """
UPDATE noetl.secrets SET version = $2, nonce = $3, body = $4, key_id = $5, at = $6
WHERE name = $1 AND version = $7 AND nonce = $8 AND key_id = $9 RETURNING name
"""


class PostgresSecretRows:
    """A `SecretRows`."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def get(self, name: str) -> SecretRow | None:
        found = await self._database.fetch(f"{_SELECT} WHERE name = $1", name)
        return SecretRow(*found[0]) if found else None

    async def put(self, row: SecretRow, before: SecretRow | None) -> bool:
        if not is_text(row.name):
            raise Rejected("bad-name", f"{row.name!a} cannot be stored as a name")
        if before is None:
            return bool(await self._database.fetch(_INSERT, *row))
        seen = before.version, before.nonce, before.key_id
        return bool(await self._database.fetch(_REPLACE, *row, *seen))

    async def list(self) -> list[SecretRow]:
        found = await self._database.fetch(f"{_SELECT} WHERE body <> ''::bytea ORDER BY name")
        return [SecretRow(*row) for row in found]
