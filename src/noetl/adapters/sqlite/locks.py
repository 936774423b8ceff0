"""Which processes live: each keeps a file of its own locked, and the system lets go when it dies, however.

`flock` and not `lockf`: a lock belongs to the opened file, so two houses in one process are two owners.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path
from typing import Final

from noetl.errors import Unavailable

MAKING: Final = "making.lock"
_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


@contextmanager
def exclusively(folder: Path) -> Iterator[None]:
    """One process at a time: for what happens once in the life of a file."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / MAKING, _FLAGS | os.O_CREAT, 0o600)
    except OSError as error:
        raise Unavailable(f'"{folder}" can not be written: {error.strerror or error}') from error
    try:
        flock(descriptor, LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class LockFile:
    """Ours, locked as long as we live. Its name was never used before."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._path = folder / name
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = os.open(self._path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise Unavailable(f'"{self._path}" can not be made: {error.strerror or error}') from error
        try:
            flock(self._descriptor, LOCK_EX | LOCK_NB)
        except OSError as error:
            self.close()
            raise Unavailable(f'"{self._path}" can not be locked: {error.strerror or error}') from error

    def close(self) -> None:
        with suppress(OSError):
            self._path.unlink()
        os.close(self._descriptor)


def lives(folder: Path, name: str) -> bool:
    """Is the process that made this lock file still there?"""
    try:
        descriptor = os.open(folder / name, _FLAGS)
    except FileNotFoundError:
        return False
    except PermissionError:
        return True  # another user's: nothing may be taken from it on a guess
    except OSError as error:
        raise Unavailable(f'"{folder / name}" can not be looked at: {error.strerror or error}') from error
    try:
        # Shared: two who ask at once must not take each other for the owner.
        flock(descriptor, LOCK_SH | LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def made(folder: Path) -> list[str]:
    """The lock files that are there, whether their processes live or not."""
    with suppress(OSError):
        return sorted(file.name for file in folder.glob("*.lock") if file.name != MAKING)
    return []


def clear(folder: Path, name: str) -> None:
    """Remove what a dead process left behind."""
    with suppress(OSError):
        (folder / name).unlink()
