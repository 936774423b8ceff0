"""The keys that stored secrets are encrypted with: from NOETL_KEY, or from a file that is ours alone.

Either may hold several: the first encrypts, the others still open what they once closed.
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
LOCK_LOOKS_MAX: Final = 1_000  # for one who has the keys, LOCK_LOOK_S apart: 10 s
LOCK_LOOK_S: Final = 0.01


class Key(NamedTuple):
    id: str  # tells keys apart, and nothing of them
    body: bytes

    def __repr__(self) -> str:
        return f"Key({self.id})"


def key_of(body: bytes) -> Key:
    return Key(hashlib.sha256(b"noetl key\0" + body).hexdigest()[:16], body)


class KeyFile:
    """The keys of one house: those of the environment, and those of a file for its owner alone."""

    def __init__(
        self,
        path: Path | None = None,
        environment: Mapping[str, str] = os.environ,
        *,
        lock: Path | None = None,
    ) -> None:
        """`path`: None, only the environment counts. `lock`: None, a file beside `path`."""
        self.path = path
        self._environment = environment
        self._lock = path.with_name(path.name + ".lock") if path is not None and lock is None else lock

    @property
    def name(self) -> str:
        """Where keys are looked for, in words."""
        return VARIABLE if self.path is None else f"{VARIABLE} or {self.path.name}"

    @property
    def given(self) -> bool:
        """Do the keys that encrypt come from the environment?"""
        return bool(self._environment.get(VARIABLE))

    def all(self) -> list[Key]:
        """The first one encrypts; none at all: nothing was stored yet. Raises Unavailable."""
        given = self._environment.get(VARIABLE, "").split(",") if self.given else []
        return [*_parsed(given, VARIABLE), *self.own()]

    def own(self) -> list[Key]:
        """Those of the file."""
        if self.path is None:
            return []
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise Unavailable(f'"{self.path}" can not be read: {error.strerror}') from error
        with os.fdopen(descriptor, "rb") as file:
            if os.fstat(descriptor).st_mode & 0o077:
                raise Unavailable(f'"{self.path}" may be read by others than its owner: chmod 600 it')
            lines = file.read(FILE_BYTES_MAX).decode("ascii", "replace").split()
        return _parsed(lines, f'"{self.path}"')

    def write(self, keys: list[Key]) -> None:
        """All or nothing, and on disk when it returns. Raises Unavailable."""
        if self.path is None:
            raise Unavailable(f"{VARIABLE} is not set: give it {KEY_BYTES} random bytes in base64")
        made = self.path.with_name(self.path.name + ".new")
        body = b"".join(base64.b64encode(key.body) + b"\n" for key in keys)
        try:
            with suppress(FileNotFoundError):
                made.unlink()  # of one who died here
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(made, flags, 0o600), "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            made.replace(self.path)
            sync_folder(self.path.parent)
        except OSError as error:
            raise Unavailable(f'"{self.path}" can not be written: {error.strerror or error}') from error

    @asynccontextmanager
    async def alone(self, clock: Clock) -> AsyncIterator[None]:
        """No other process or task changes the file meanwhile: a key that is about to go closes nothing.

        Keys of the environment are changed by people, who know where else they are.
        """
        if self._lock is None or self.given:
            yield
            return
        try:
            self._lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._lock, flags, 0o600)
        except OSError as error:
            raise Unavailable(f'"{self._lock}" can not be written: {error.strerror or error}') from error
        try:
            await _locked(descriptor, clock, str(self.path))
            yield
        finally:
            os.close(descriptor)


async def _locked(descriptor: int, clock: Clock, name: str) -> None:
    """Looked at again and again, and not waited for: whoever has it may be on this very loop."""
    for _ in range(LOCK_LOOKS_MAX):
        with suppress(BlockingIOError):
            flock(descriptor, LOCK_EX | LOCK_NB)
            return
        await clock.sleep(LOCK_LOOK_S)
    raise Unavailable(f'another process has had "{name}" for too long: try again when it is done')


def _parsed(texts: list[str], what: str) -> list[Key]:
    keys = []
    for text in texts:
        try:
            body = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            body = b""
        if len(body) != KEY_BYTES:
            # `from None`: what stands there may be a key, with a slip of the pen.
            raise Unavailable(f"{what} holds no key: {KEY_BYTES} bytes in base64") from None
        keys.append(key_of(body))
    return keys
