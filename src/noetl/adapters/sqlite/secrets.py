"""Stored secrets as encrypted rows of the SQLite file, and API tokens, found by the digest of their secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, Literal

import apsw

from noetl.adapters.secrets.stored import KeyFile, StoredSecrets
from noetl.adapters.sql import decode_roles, encode_roles, known_token, no_token, not_text
from noetl.adapters.sqlite.connection import instant, is_text, micros
from noetl.adapters.sqlite.database import Database
from noetl.ports import ApiToken, SecretRow

_COLUMNS: Final = "name, version, nonce, body, key_id, at"
# A nonce is never reused under a key: version, nonce and key identify the row that the caller read.
_REPLACE: Final = """
UPDATE {} SET version = ?, nonce = ?, body = ?, key_id = ?, at = ?
WHERE name = ? AND version = ? AND nonce = ? AND key_id = ?
"""


class SqliteSecretRows:
    """A `SecretRows`. Rows of `secret_inputs` have the id of an execution as their name."""

    def __init__(self, database: Database, table: Literal["secrets", "secret_inputs"] = "secrets") -> None:
        self._database = database
        self._table = table
        self._select = f"SELECT {_COLUMNS} FROM {table}"

    async def get(self, name: str) -> SecretRow | None:
        found = self._database.fetch(f"{self._select} WHERE name = ?", (name,))
        return _row(found[0]) if found else None

    async def put(self, row: SecretRow, before: SecretRow | None) -> bool:
        name, *others, at = row
        if before is None:
            query = f"INSERT INTO {self._table} ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
            values: tuple[Any, ...] = (name, *others, micros(at))
        else:
            query, seen = _REPLACE.format(self._table), (before.version, before.nonce, before.key_id)
            values = (*others, micros(at), name, *seen)

        def write(cursor: apsw.Cursor) -> bool:
            cursor.execute(query, values)
            return bool(cursor.connection.changes())

        return await self._database.writer.write(write)

    async def list(self) -> list[SecretRow]:
        return [_row(row) for row in self._database.fetch(f"{self._select} WHERE body <> x'' ORDER BY name")]


def _row(found: Any) -> SecretRow:
    name, version, nonce, body, key_id, at = found
    return SecretRow(name, version, nonce, body, key_id, instant(at))


def stored_secrets(database: Database, environment: Mapping[str, str] = os.environ) -> StoredSecrets:
    """The secrets of a file. Their key is in a file beside it, unless the environment has one."""
    beside = database.path.with_name(database.path.name + ".key")
    keys = KeyFile(beside, environment, lock=database.locks / "keys")
    rows, inputs = SqliteSecretRows(database), SqliteSecretRows(database, "secret_inputs")
    return StoredSecrets(rows, inputs, keys, database.clock)


_SELECT_TOKEN: Final = "SELECT id, name, scopes, created_at, expires_at, roles FROM tokens"
_ADD_TOKEN: Final = """
INSERT INTO tokens (id, name, scopes, digest, created_at, expires_at, roles) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""


class SqliteTokens:
    """An `ApiTokenStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, token: ApiToken, digest: bytes) -> None:
        created_at = micros(token.created_at)
        expires_at = None if token.expires_at is None else micros(token.expires_at)
        scopes, roles = " ".join(sorted(token.scopes)), encode_roles(token.roles)
        values = (token.id, token.name, scopes, digest, created_at, expires_at, roles)

        def write(cursor: apsw.Cursor) -> None:
            cursor.execute(_ADD_TOKEN, values)
            if not cursor.connection.changes():
                raise known_token(token.id)

        if not all(is_text(value) for value in (token.id, token.name, *token.scopes)):
            raise not_text(token.name)
        await self._database.writer.write(write)

    async def find(self, digest: bytes) -> ApiToken | None:
        found = self._database.fetch(f"{_SELECT_TOKEN} WHERE digest = ?", (digest,))
        return _token(found[0]) if found else None

    async def list(self) -> list[ApiToken]:
        return [_token(row) for row in self._database.fetch(f"{_SELECT_TOKEN} ORDER BY created_at, id")]

    async def remove(self, id: str) -> None:
        def write(cursor: apsw.Cursor) -> int:
            cursor.execute("DELETE FROM tokens WHERE id = ?", (id,))
            return cursor.connection.changes()

        if not is_text(id) or not await self._database.writer.write(write):
            raise no_token(id)


def _token(row: Any) -> ApiToken:
    id, name, scopes, created_at, expires_at, roles = row
    ends_at = None if expires_at is None else instant(expires_at)
    return ApiToken(id, name, frozenset(scopes.split()), instant(created_at), ends_at, decode_roles(roles))
