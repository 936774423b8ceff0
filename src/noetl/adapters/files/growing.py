"""A file on its way to its name: temporary until it is whole and synced, and gone when it never is."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from noetl.failpoints import failpoint

_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Growing:
    """Raises OSError. Either `finish` or `abandon` ends it."""

    def __init__(self, folder: int, temporary: str) -> None:
        """`folder` is an open one, and stays the caller's."""
        self._folder = folder
        self._temporary = temporary
        self._descriptor = os.open(temporary, _WRITE, 0o600, dir_fd=folder)
        failpoint("files.put.before-write")

    def add(self, chunk: bytes) -> None:
        rest = memoryview(chunk)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def finish(self, name: str) -> None:
        """Its name is durable once the folder is synced."""
        os.fsync(self._descriptor)
        failpoint("files.put.before-rename")
        os.rename(self._temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        failpoint("files.put.after-rename")
        self._close()

    def abandon(self) -> None:
        """Nothing is left of it; of one that is finished, everything."""
        with suppress(OSError):
            os.unlink(self._temporary, dir_fd=self._folder)
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)
