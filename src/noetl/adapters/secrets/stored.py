"""`stored`: secrets as encrypted rows (AES-256-GCM), wherever these lie; set and removed by people.

A row is bound to its name and version: one that was moved or put back opens nowhere else.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import Final, NamedTuple

from noetl.adapters.secrets.keys import KEY_BYTES, VARIABLE, Key, KeyFile, key_of
from noetl.adapters.secrets.sources import SECRET_BYTES_MAX
from noetl.clock import Clock
from noetl.errors import Damaged, NotFound, Rejected, Unavailable
from noetl.ports import SecretRow, SecretRows
from noetl.secret import Secret

SECRET_CHARS_MIN: Final = 4  # shorter ones can not be masked without spoiling data
NAME_CHARS_MAX: Final = 255
NONCE_BYTES: Final = 12
TRIES_MAX: Final = 100  # of a change that others were faster than


class Listed(NamedTuple):
    """A secret as people see it."""

    name: str
    version: int
    at: datetime  # when it was set
    key_id: str


class StoredSecrets:
    """The rows, and the keys to them."""

    def __init__(self, rows: SecretRows, keys: KeyFile, clock: Clock) -> None:
        self._rows = rows
        self._clock = clock
        self.keys = keys

    async def get(self, name: str) -> tuple[Secret, int]:
        """Raises NotFound, Unavailable when its key is not here, Damaged when it does not open."""
        lacks = ""
        for _ in range(2):  # the key may have been changed between two looks
            row = await self._rows.get(name)
            if row is None or not row.body:
                raise NotFound(f'no secret "{name}" is stored: noetl secrets set {name}')
            lacks = row.key_id
            key = next((each for each in self.keys.all() if each.id == lacks), None)
            if key is not None:
                return Secret(_opened(row, key).decode()), row.version
        raise Unavailable(f'the secret "{name}" needs the key {lacks}, and {self.keys.name} has others')

    async def set(self, name: str, value: str) -> int:
        """Its new version. Raises Rejected when it can not be a secret."""
        body = _fit(name, value)
        async with self.keys.alone(self._clock):
            if not self.keys.all():
                self.keys.write([key_of(os.urandom(KEY_BYTES))])  # the first secret makes the key
            key = self.keys.all()[0]
            for _ in range(TRIES_MAX):
                before = await self._rows.get(name)
                version = before.version + 1 if before else 1
                row = _closed(SecretRow(name, version, b"", body, "", self._clock.now()), key)
                if await self._rows.put(row, before):
                    return version
        raise _hurried(name)

    async def remove(self, name: str) -> None:
        """Raises NotFound."""
        for _ in range(TRIES_MAX):
            before = await self._rows.get(name)
            if before is None or not before.body:
                raise NotFound(f'no secret "{name}" is stored')
            # The row stays, without a value, so that no version of a name is given twice.
            if await self._rows.put(SecretRow(name, before.version, b"", b"", "", self._clock.now()), before):
                return
        raise _hurried(name)

    async def rotate(self) -> int:
        """Encrypt all under a new key, and say how many that were. Until it is done both keys open."""
        async with self.keys.alone(self._clock):
            keys, rows = self.keys.all(), await self._rows.list()
            if not keys and not rows:
                raise Rejected("nothing-stored", "no secret is stored, so there is no key to change")
            for row in rows:  # all of them, before anything is changed
                _opened(row, _key_of(row, keys))
            if not self.keys.given:
                keys = [key_of(os.urandom(KEY_BYTES)), *keys]
                self.keys.write(keys)
            elif all(row.key_id == keys[0].id for row in rows):
                words = f"put the new key first in {VARIABLE}, and the old one behind a comma"
                raise Rejected("same-key", f"all secrets are under the first key already: {words}")
            count = await self._rewrite(keys)
            if not self.keys.given:
                self.keys.write(keys[:1])
        return count

    async def _rewrite(self, keys: list[Key]) -> int:
        """Again until none is left under another key: one may have been set while we were at it."""
        done: set[str] = set()
        for _ in range(TRIES_MAX):
            rows = [row for row in await self._rows.list() if row.key_id != keys[0].id]
            if not rows:
                return len(done)
            for row in rows:
                value = _opened(row, _key_of(row, keys))
                if await self._rows.put(_closed(row._replace(body=value), keys[0]), row):
                    done.add(row.name)
        raise _hurried(rows[0].name)

    async def list(self) -> list[Listed]:
        return [Listed(row.name, row.version, row.at, row.key_id) for row in await self._rows.list()]

    def versions_key(self) -> bytes | None:
        """What digests of other secrets are keyed with; None: there is no key here."""
        try:
            keys = self.keys.all()
        except Unavailable:
            return None
        return keys[0].body if keys else None


def _hurried(name: str) -> Unavailable:
    return Unavailable(f'the secret "{name}" is changed by others all the time: try again')


def _fit(name: str, value: str) -> bytes:
    if not name or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise Rejected("bad-name", f"a name has 1 to {NAME_CHARS_MAX} characters that can be printed")
    if len(value) < SECRET_CHARS_MIN:
        raise Rejected(
            "too-short", f"a secret has at least {SECRET_CHARS_MIN} characters: it could not be masked"
        )
    try:
        body = value.encode()
    except UnicodeEncodeError:
        # `from None`: the error of Python's would show it.
        raise Rejected("not-text", "a secret must be Unicode text") from None
    if len(body) > SECRET_BYTES_MAX:
        raise Rejected("too-long", f"a secret has at most {SECRET_BYTES_MAX:,} bytes (SECRET_BYTES_MAX)")
    return body


def _key_of(row: SecretRow, keys: list[Key]) -> Key:
    for key in keys:
        if key.id == row.key_id:
            return key
    raise Unavailable(f'the secret "{row.name}" needs the key {row.key_id}, which is not here')


def _closed(row: SecretRow, key: Key) -> SecretRow:
    """`row` holds the value itself, and so never leaves this module."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # 80 ms, for those who store secrets

    nonce = os.urandom(NONCE_BYTES)
    body = AESGCM(key.body).encrypt(nonce, row.body, _bound(row.name, row.version))
    return row._replace(nonce=nonce, body=body, key_id=key.id)


def _opened(row: SecretRow, key: Key) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key.body).decrypt(row.nonce, row.body, _bound(row.name, row.version))
    except (InvalidTag, ValueError):
        raise Damaged(f'the secret "{row.name}" is damaged: set it again') from None


def _bound(name: str, version: int) -> bytes:
    return b"noetl secret\0" + version.to_bytes(8, "big") + name.encode()
