"""The keys that encrypt stored secrets: from NOETL_KEY, or from a file that only its owner can read.

Both may hold several keys: the first encrypts, all of them decrypt.
"""

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

from noetl.adapters.files.durable import sync_folder
from noetl.clock import Clock
from noetl.errors import Unavailable

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
        self,
        path: Path | None = None,
        environment: Mapping[str, str] = os.environ,
        *,
        lock: Path | None = None,
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
        """The keys in the file."""
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
        temporary = self.path.with_name(self.path.name + ".new")
        body = b"".join(base64.b64encode(key.body) + b"\n" for key in keys)
        try:
            with suppress(FileNotFoundError):
                temporary.unlink()  # of a process that died here
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
            sync_folder(self.path.parent)
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
            await _lock(descriptor, clock, str(self.path))
            yield
        finally:
            os.close(descriptor)


async def _lock(descriptor: int, clock: Clock, name: str) -> None:
    """Polls instead of waiting, because the holder of the lock may run on the same event loop."""
    for _ in range(LOCK_TRIES_MAX):
        with suppress(BlockingIOError):
            flock(descriptor, LOCK_EX | LOCK_NB)
            return
        await clock.sleep(LOCK_TRY_S)
    raise Unavailable(f'another process has locked "{name}" for too long: try again later')


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
