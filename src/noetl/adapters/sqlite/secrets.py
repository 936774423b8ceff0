"""Stored secrets as encrypted rows of the SQLite file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import apsw

from noetl.adapters.secrets.stored import KeyFile, StoredSecrets
from noetl.adapters.sqlite.connection import instant, micros
from noetl.adapters.sqlite.database import Database
from noetl.ports import SecretRow

_SELECT: Final = "SELECT name, version, nonce, body, key_id, at FROM secrets"
_INSERT: Final = "INSERT INTO secrets (name, version, nonce, body, key_id, at) VALUES (?, ?, ?, ?, ?, ?)"
# A nonce is never reused under a key: version, nonce and key identify the row that the caller read.
_REPLACE: Final = """
UPDATE secrets SET version = ?, nonce = ?, body = ?, key_id = ?, at = ?
WHERE name = ? AND version = ? AND nonce = ? AND key_id = ?
"""


class SqliteSecretRows:
    """A `SecretRows`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, name: str) -> SecretRow | None:
        found = self._database.fetch(f"{_SELECT} WHERE name = ?", (name,))
        return _row(found[0]) if found else None

    async def put(self, row: SecretRow, before: SecretRow | None) -> bool:
        name, *others, at = row
        if before is None:
            query = f"{_INSERT} ON CONFLICT DO NOTHING"
            values: tuple[Any, ...] = (name, *others, micros(at))
        else:
            query, seen = _REPLACE, (before.version, before.nonce, before.key_id)
            values = (*others, micros(at), name, *seen)

        def write(cursor: apsw.Cursor) -> bool:
            cursor.execute(query, values)
            return bool(cursor.connection.changes())

        return await self._database.writer.write(write)

    async def list(self) -> list[SecretRow]:
        return [_row(row) for row in self._database.fetch(f"{_SELECT} WHERE body <> x'' ORDER BY name")]


def _row(found: Any) -> SecretRow:
    name, version, nonce, body, key_id, at = found
    return SecretRow(name, version, nonce, body, key_id, instant(at))


def stored_secrets(database: Database, environment: Mapping[str, str] = os.environ) -> StoredSecrets:
    """The secrets of a file. Their key is in a file beside it, unless the environment has one."""
    beside = database.path.with_name(database.path.name + ".key")
    keys = KeyFile(beside, environment, lock=database.locks / "keys")
    return StoredSecrets(SqliteSecretRows(database), keys, database.clock)
