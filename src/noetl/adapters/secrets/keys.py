"""The keys that stored secrets are encrypted with: from NOETL_KEY, or from a file beside the database.

Either may hold several: the first encrypts, the others still open what they once closed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from noetl.adapters.files.folders import sync_folder
from noetl.errors import Unavailable

VARIABLE: Final = "NOETL_KEY"
KEY_BYTES: Final = 32
FILE_BYTES_MAX: Final = 65_536


class Key(NamedTuple):
    id: str  # tells keys apart, and nothing of them
    body: bytes

    def __repr__(self) -> str:
        return f"Key({self.id})"


def key_of(body: bytes) -> Key:
    return Key(hashlib.sha256(b"noetl key\0" + body).hexdigest()[:16], body)


class KeyFile:
    """`<database>.key`, for its owner alone."""

    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self.path = path
        self._environment = environment

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
