"""Lock files that show which processes are alive.

Each process locks a file of its own, and the system releases the lock when it dies. It uses `flock` and not
`lockf`: a lock belongs to the open file, so two databases of one process are two owners.
"""

from __future__ import annotations

import os
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path
from typing import Final

from noetl.errors import Unavailable

CREATION_LOCK: Final = "making.lock"
LOCK_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


class LockFile:
    """The lock file of this process. Its name was never used before."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        path, self._path = folder / name, folder / f"{name}.new"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.exists():
                raise FileExistsError("it exists")
            self._descriptor = os.open(self._path, LOCK_FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise Unavailable(f'"{path}" cannot be created: {error.strerror or error}') from error
        try:
            flock(self._descriptor, LOCK_EX | LOCK_NB)
            # It gets its name after the lock: an unlocked file would look like that of a dead process.
            self._path = self._path.rename(path)
        except OSError as error:
            self.close()
            raise Unavailable(f'"{path}" cannot be locked: {error.strerror or error}') from error

    def close(self) -> None:
        with suppress(OSError):
            self._path.unlink()
        os.close(self._descriptor)


def is_alive(folder: Path, name: str) -> bool:
    """Whether the process that created this lock file is alive."""
    try:
        descriptor = os.open(folder / name, LOCK_FLAGS)
    except FileNotFoundError:
        return False
    except PermissionError:
        return True  # of another user: assume that it is alive
    except OSError as error:
        raise Unavailable(f'"{folder / name}" cannot be read: {error.strerror or error}') from error
    try:
        # A shared lock: two processes that check at once must not see each other as the owner.
        flock(descriptor, LOCK_SH | LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def lock_files(folder: Path) -> list[str]:
    """The names of all lock files, of live and dead processes."""
    with suppress(OSError):
        return sorted(file.name for file in folder.glob("*.lock") if file.name != CREATION_LOCK)
    return []


def remove_lock(folder: Path, name: str) -> None:
    with suppress(OSError):
        (folder / name).unlink()
