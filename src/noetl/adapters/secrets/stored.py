"""Stored secrets and secret inputs, encrypted with AES-256-GCM, and the keys that encrypt them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from noetl.adapters.files import write_private
from noetl.clock import Clock
from noetl.errors import Damaged, NotFound, Rejected, Unavailable
from noetl.ports import SecretInfo, SecretRow, SecretRows
from noetl.secret import SECRET_BYTES_MAX, SECRET_CHARS_MIN, Secret

VARIABLE: Final = "NOETL_KEY"
KEY_BYTES: Final = 32
FILE_BYTES_MAX: Final = 65_536
LOCK_TRIES_MAX: Final = 1_000  # LOCK_TRY_S apart: 10 s
LOCK_TRY_S: Final = 0.01


class Key(NamedTuple):
    id: str  # distinguishes keys and reveals nothing about them
    body: bytes

    def __repr__(self) -> str:
        return f"Key({self.id})"


def key_of(body: bytes) -> Key:
    return Key(hashlib.sha256(b"noetl key\0" + body).hexdigest()[:16], body)


class KeyFile:
    """The keys of one deployment: those of the environment, then those of a file."""

    def __init__(
        self, path: Path | None = None, environment: Mapping[str, str] = os.environ, *, lock: Path | None = None
    ) -> None:
        """`path` None: only the environment. `lock` None: a file beside `path`."""
        self.path = path
        self._environment = environment
        self._lock = path.with_name(path.name + ".lock") if path is not None and lock is None else lock

    @property
    def name(self) -> str:
        """The sources of keys, for messages."""
        return VARIABLE if self.path is None else f"{VARIABLE} or {self.path.name}"

    @property
    def from_environment(self) -> bool:
        """Whether the encrypting key comes from the environment."""
        return bool(self._environment.get(VARIABLE))

    def all(self) -> list[Key]:
        """All keys, the encrypting one first; empty if nothing was stored yet. Raises Unavailable."""
        variable = self._environment.get(VARIABLE, "").split(",") if self.from_environment else []
        return [*_parsed(variable, VARIABLE), *self.file_keys()]

    def file_keys(self) -> list[Key]:
        if self.path is None:
            return []
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise Unavailable(f'"{self.path}" cannot be read: {error.strerror}') from error
        with os.fdopen(descriptor, "rb") as file:
            if os.fstat(descriptor).st_mode & 0o077:
                raise Unavailable(f'"{self.path}" is readable for other users: chmod 600 it')
            lines = file.read(FILE_BYTES_MAX).decode("ascii", "replace").split()
        return _parsed(lines, f'"{self.path}"')

    def write(self, keys: list[Key]) -> None:
        """Replace the file atomically and durably. Raises Unavailable."""
        if self.path is None:
            raise Unavailable(f"{VARIABLE} is not set: set it to {KEY_BYTES} random bytes in base64")
        try:
            write_private(self.path, b"".join(base64.b64encode(key.body) + b"\n" for key in keys))
        except OSError as error:
            raise Unavailable(f'"{self.path}" cannot be written: {error.strerror or error}') from error

    @asynccontextmanager
    async def locked(self, clock: Clock) -> AsyncIterator[None]:
        """Exclude other processes and tasks, so that no secret is encrypted with a key that is being removed.

        Keys of the environment need no lock: people change them.
        """
        if self._lock is None or self.from_environment:
            yield
            return
        try:
            self._lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._lock, flags, 0o600)
        except OSError as error:
            raise Unavailable(f'"{self._lock}" cannot be written: {error.strerror or error}') from error
        try:
            for _ in range(LOCK_TRIES_MAX):  # no waiting: the holder of the lock may run on the same event loop
                with suppress(BlockingIOError):
                    flock(descriptor, LOCK_EX | LOCK_NB)
                    break
                await clock.sleep(LOCK_TRY_S)
            else:
                raise Unavailable(f'another process has locked "{self.path}" for too long: try again later')
            yield
        finally:
            os.close(descriptor)


def _parsed(texts: list[str], what: str) -> list[Key]:
    keys = []
    for text in texts:
        try:
            body = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            body = b""
        if len(body) != KEY_BYTES:
            # The error must not show the text: it may be a key with a typing error.
            raise Unavailable(f"{what} does not contain a key: {KEY_BYTES} bytes in base64") from None
        keys.append(key_of(body))
    return keys


NAME_CHARS_MAX: Final = 255
NONCE_BYTES: Final = 12
TRIES_MAX: Final = 100  # of a change while other writers are faster


class _Table(NamedTuple):
    """Rows, and the words that bind each of them to its table."""

    rows: SecretRows
    words: bytes


class StoredSecrets:
    """Encrypts, decrypts and lists the rows: of named secrets, and of the secret inputs of executions."""

    def __init__(self, rows: SecretRows, inputs: SecretRows, keys: KeyFile, clock: Clock) -> None:
        self._named, self._inputs = _Table(rows, b"noetl secret\0"), _Table(inputs, b"noetl inputs\0")
        self._clock = clock
        self.keys = keys

    async def get(self, name: str) -> tuple[Secret, int]:
        """Value and version. Raises NotFound, Unavailable without its key, Damaged if decryption fails."""
        found = await self._read(self._named, name, f'the secret "{name}"')
        if found is None:
            raise NotFound(f'no secret "{name}" is stored: noetl secrets set {name}')
        return Secret(found[0].decode()), found[1]

    async def _read(self, table: _Table, name: str, what: str) -> tuple[bytes, int] | None:
        """None: it is not stored."""
        key_id = ""
        for _ in range(2):  # a rotation may have changed the key between the two reads
            row = await table.rows.get(name)
            if row is None or not row.body:
                return None
            key_id = row.key_id
            key = next((each for each in self.keys.all() if each.id == key_id), None)
            if key is not None:
                return _decrypted(table, row, key), row.version
        raise Unavailable(f"{what} needs the key {key_id}, which is not in {self.keys.name}")

    async def set(self, name: str, value: str) -> int:
        """Store a value and return its version. Raises Rejected for an invalid name or value."""
        return await self._write(self._named, name, _checked(name, value))

    async def _write(self, table: _Table, name: str, body: bytes) -> int:
        async with self.keys.locked(self._clock):
            if not self.keys.all():
                self.keys.write([key_of(os.urandom(KEY_BYTES))])  # the first secret creates the key
            key = self.keys.all()[0]
            for _ in range(TRIES_MAX):
                before = await table.rows.get(name)
                version = before.version + 1 if before else 1
                row = _encrypted(table, SecretRow(name, version, b"", body, "", self._clock.now()), key)
                if await table.rows.put(row, before):
                    return version
        raise _contended(name)

    async def remove(self, name: str) -> None:
        """Raises NotFound."""
        if not await self._clear(self._named, name):
            raise NotFound(f'no secret "{name}" is stored')

    async def _clear(self, table: _Table, name: str) -> bool:
        """False: it is not stored."""
        for _ in range(TRIES_MAX):
            before = await table.rows.get(name)
            if before is None or not before.body:
                return False
            # The row stays without a value, so that no version number is used twice.
            if await table.rows.put(SecretRow(name, before.version, b"", b"", "", self._clock.now()), before):
                return True
        raise _contended(name)

    # A `SecretInputs`

    async def inputs(self, execution_id: str) -> dict[str, Secret]:
        found = await self._read(self._inputs, execution_id, f"the secret inputs of {execution_id}")
        values = {} if found is None else msgspec.json.decode(found[0], type=dict[str, str])
        return {name: Secret(value) for name, value in values.items()}

    async def set_inputs(self, execution_id: str, values: Mapping[str, Secret]) -> None:
        body = msgspec.json.encode({name: value.reveal() for name, value in values.items()})
        await self._write(self._inputs, execution_id, body)

    async def remove_inputs(self, execution_id: str) -> None:
        await self._clear(self._inputs, execution_id)

    async def rotate(self) -> int:
        """Encrypt all secrets under a new key and return their number. Meanwhile both keys are valid."""
        async with self.keys.locked(self._clock):
            keys = self.keys.all()
            rows = [row for table in (self._named, self._inputs) for row in await self._checked_rows(table, keys)]
            if not keys and not rows:
                raise Rejected("nothing-stored", "no secret is stored, so there is no key to rotate")
            if not self.keys.from_environment:
                keys = [key_of(os.urandom(KEY_BYTES)), *keys]
                self.keys.write(keys)
            elif all(row.key_id == keys[0].id for row in rows):
                advice = f"put the new key first in {VARIABLE}, and the old one after a comma"
                raise Rejected("same-key", f"all secrets use the first key already: {advice}")
            count = sum([await self._rewrite(table, keys) for table in (self._named, self._inputs)])
            if not self.keys.from_environment:
                self.keys.write(keys[:1])
        return count

    async def _checked_rows(self, table: _Table, keys: list[Key]) -> list[SecretRow]:
        """All rows, which can be decrypted: they are checked before any change."""
        rows = await table.rows.list()
        for row in rows:
            _decrypted(table, row, _key_of(row, keys))
        return rows

    async def _rewrite(self, table: _Table, keys: list[Key]) -> int:
        """Repeat until no secret uses another key: some may be set meanwhile."""
        done: set[str] = set()
        for _ in range(TRIES_MAX):
            rows = [row for row in await table.rows.list() if row.key_id != keys[0].id]
            if not rows:
                return len(done)
            for row in rows:
                value = _decrypted(table, row, _key_of(row, keys))
                if await table.rows.put(_encrypted(table, row._replace(body=value), keys[0]), row):
                    done.add(row.name)
        raise _contended(rows[0].name)

    async def list(self) -> list[SecretInfo]:
        return [SecretInfo(row.name, row.version, row.at, row.key_id) for row in await self._named.rows.list()]

    def versions_key(self) -> bytes | None:
        """The key for `ValueVersions`; None: there is none."""
        try:
            keys = self.keys.all()
        except Unavailable:
            return None
        return keys[0].body if keys else None


def _contended(name: str) -> Unavailable:
    return Unavailable(f'the secret "{name}" is being changed by other processes: try again')


def _checked(name: str, value: str) -> bytes:
    if not name or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise Rejected("bad-name", f"a name has 1 to {NAME_CHARS_MAX} printable characters")
    if len(value) < SECRET_CHARS_MIN:
        reason = f"a secret has at least {SECRET_CHARS_MIN} characters: a shorter one cannot be masked"
        raise Rejected("too-short", reason)
    try:
        body = value.encode()
    except UnicodeEncodeError:
        # The error of Python would show the value.
        raise Rejected("not-text", "a secret must be Unicode text") from None
    if len(body) > SECRET_BYTES_MAX:
        raise Rejected("too-long", f"a secret has at most {SECRET_BYTES_MAX:,} bytes (SECRET_BYTES_MAX)")
    return body


def _key_of(row: SecretRow, keys: list[Key]) -> Key:
    for key in keys:
        if key.id == row.key_id:
            return key
    raise Unavailable(f'the secret "{row.name}" needs the key {row.key_id}, which is missing')


def _encrypted(table: _Table, row: SecretRow, key: Key) -> SecretRow:
    """`row` contains the plain value and never leaves this module."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # costs 80 ms

    nonce = os.urandom(NONCE_BYTES)
    body = AESGCM(key.body).encrypt(nonce, row.body, _bound(table, row))
    return row._replace(nonce=nonce, body=body, key_id=key.id)


def _decrypted(table: _Table, row: SecretRow, key: Key) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key.body).decrypt(row.nonce, row.body, _bound(table, row))
    except (InvalidTag, ValueError):
        raise Damaged(f'the secret "{row.name}" is damaged: set it again') from None


def _bound(table: _Table, row: SecretRow) -> bytes:
    return table.words + row.version.to_bytes(8, "big") + row.name.encode()
