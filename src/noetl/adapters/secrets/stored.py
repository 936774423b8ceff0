"""`stored`: secrets as encrypted rows of the database (AES-256-GCM), set and removed by people.

A row is bound to its name and version: one that was moved or put back opens nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

import apsw

from noetl.adapters.secrets.keys import KEY_BYTES, VARIABLE, Key, KeyFile, key_of
from noetl.adapters.secrets.reading import SECRET_BYTES_MAX
from noetl.adapters.sqlite.connection import instant, is_text, micros
from noetl.adapters.sqlite.database import Database
from noetl.adapters.sqlite.locks import exclusively
from noetl.errors import Damaged, NotFound, Rejected, Unavailable
from noetl.secret import Secret

SECRET_CHARS_MIN: Final = 4  # shorter ones can not be masked without spoiling data
NAME_CHARS_MAX: Final = 255
NONCE_BYTES: Final = 12

_GET: Final = "SELECT version, nonce, body, key_id FROM secrets WHERE name = ?"
_PUT: Final = """
INSERT INTO secrets (name, version, nonce, body, key_id, at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, nonce = excluded.nonce,
body = excluded.body, key_id = excluded.key_id, at = excluded.at
"""
# The row stays, without a value, so that no version of a name is given twice.
_CLEAR: Final = (
    "UPDATE secrets SET nonce = x'', body = x'', key_id = '', at = ? WHERE name = ? AND key_id <> ''"
)
_LIST: Final = "SELECT name, version, key_id, at FROM secrets WHERE key_id <> '' ORDER BY name"
_OLD: Final = "SELECT name, version, nonce, body, key_id FROM secrets WHERE key_id NOT IN ('', ?)"
_AGAIN: Final = "UPDATE secrets SET nonce = ?, body = ?, key_id = ? WHERE name = ? AND version = ?"


class Listed(NamedTuple):
    """A secret as people see it."""

    name: str
    version: int
    at: datetime  # when it was set
    key_id: str


class _Row(NamedTuple):
    name: str
    version: int
    nonce: bytes
    body: bytes
    key_id: str


class StoredSecrets:
    """The table, and the keys to it."""

    def __init__(self, database: Database, environment: Mapping[str, str] = os.environ) -> None:
        self._database = database
        path = database.path
        self.keys = KeyFile(path.with_name(path.name + ".key"), environment)

    def get(self, name: str) -> tuple[Secret, int]:
        """Raises NotFound, Unavailable when its key is not here, Damaged when it does not open."""
        for _ in range(2):  # the key may have been changed between two looks
            found = self._database.fetch(_GET, (name,))
            if not found or not found[0][3]:
                raise NotFound(
                    f'no secret "{name}" is stored in "{self._database.name}": noetl secrets set {name}'
                )
            row = _Row(name, *found[0])
            key = next((each for each in self.keys.all() if each.id == row.key_id), None)
            if key is not None:
                return Secret(_opened(row, key).decode()), row.version
        where = f"{VARIABLE} or {self.keys.path.name}"
        raise Unavailable(f'the secret "{name}" needs the key {row.key_id}, and {where} has others')

    async def set(self, name: str, value: str) -> int:
        """Its new version. Raises Rejected when it can not be a secret."""
        body = _fit(name, value)
        self._make_key()
        at = micros(self._database.clock.now())

        def write(cursor: apsw.Cursor) -> int:
            found = cursor.execute("SELECT version FROM secrets WHERE name = ?", (name,)).fetchall()
            version = (int(str(found[0][0])) if found else 0) + 1
            # Read in here, where nobody changes keys: one that is about to go must not close anything.
            row = _closed(name, version, body, self.keys.all()[0])
            cursor.execute(_PUT, (row.name, row.version, row.nonce, row.body, row.key_id, at))
            return version

        return await self._database.writer.write(write)

    async def remove(self, name: str) -> None:
        """Raises NotFound."""
        at = micros(self._database.clock.now())

        def write(cursor: apsw.Cursor) -> int:
            cursor.execute(_CLEAR, (at, name))
            return cursor.connection.changes()

        if not is_text(name) or not await self._database.writer.write(write):
            raise NotFound(f'no secret "{name}" is stored')

    def list(self) -> list[Listed]:
        rows = self._database.fetch(_LIST)
        return [Listed(name, version, instant(at), key_id) for name, version, key_id, at in rows]

    async def rotate(self) -> int:
        """Encrypt all under a new key, and say how many that were. Until it is done both keys open."""
        with exclusively(self._database.locks):
            before = self.keys.all()
            if not before:
                raise Rejected("nothing-stored", "no secret is stored, so there is no key to change")
            if not self.keys.given:
                before = [key_of(os.urandom(KEY_BYTES)), *before]
                self.keys.write(before)
            elif all(each.key_id == before[0].id for each in self.list()):
                words = f"put the new key first in {VARIABLE}, and the old one behind a comma"
                raise Rejected("same-key", f"all secrets are under the first key already: {words}")
            count = await self._database.writer.write(lambda cursor: _rewrite(cursor, before))
            if not self.keys.given:
                self.keys.write(before[:1])
        return count

    def versions_key(self) -> bytes | None:
        """What digests of other secrets are keyed with; None: there is no key here."""
        try:
            keys = self.keys.all()
        except Unavailable:
            return None
        return keys[0].body if keys else None

    def _make_key(self) -> None:
        """The first secret makes the key."""
        if not self.keys.all():
            with exclusively(self._database.locks):
                if not self.keys.all():
                    self.keys.write([key_of(os.urandom(KEY_BYTES))])


def _fit(name: str, value: str) -> bytes:
    if not name or len(name) > NAME_CHARS_MAX or not is_text(name) or not name.isprintable():
        raise Rejected("bad-name", f"a name has 1 to {NAME_CHARS_MAX} characters that can be printed")
    if len(value) < SECRET_CHARS_MIN:
        raise Rejected(
            "too-short", f"a secret has at least {SECRET_CHARS_MIN} characters: it could not be masked"
        )
    if not is_text(value):
        raise Rejected("not-text", "a secret must be Unicode text")
    body = value.encode()
    if len(body) > SECRET_BYTES_MAX:
        raise Rejected("too-long", f"a secret has at most {SECRET_BYTES_MAX:,} bytes (SECRET_BYTES_MAX)")
    return body


def _rewrite(cursor: apsw.Cursor, keys: list[Key]) -> int:
    by_id = {key.id: key for key in keys}
    rows = [_Row(*row) for row in cursor.execute(_OLD, (keys[0].id,)).fetchall()]  # type: ignore[arg-type] # apsw
    for row in rows:
        if row.key_id not in by_id:
            raise Unavailable(f'the secret "{row.name}" needs the key {row.key_id}, which is not here')
        new = _closed(row.name, row.version, _opened(row, by_id[row.key_id]), keys[0])
        cursor.execute(_AGAIN, (new.nonce, new.body, new.key_id, row.name, row.version))
    return len(rows)


def _closed(name: str, version: int, value: bytes, key: Key) -> _Row:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # 80 ms, for those who store secrets

    nonce = os.urandom(NONCE_BYTES)
    return _Row(name, version, nonce, AESGCM(key.body).encrypt(nonce, value, _bound(name, version)), key.id)


def _opened(row: _Row, key: Key) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key.body).decrypt(row.nonce, row.body, _bound(row.name, row.version))
    except (InvalidTag, ValueError):
        raise Damaged(f'the secret "{row.name}" is damaged: set it again') from None


def _bound(name: str, version: int) -> bytes:
    return b"noetl secret\0" + version.to_bytes(8, "big") + name.encode()
