"""SQLite connections with the settings for durability."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Final

import apsw

from noetl.adapters.files import make_folder
from noetl.adapters.process_locks import CREATION_LOCK, LOCK_FLAGS
from noetl.adapters.sqlite.schema import VERSION, migrate, version_of
from noetl.errors import Unavailable


@contextmanager
def exclusively(folder: Path) -> Iterator[None]:
    """Exclude other processes, for example while tables are created."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / CREATION_LOCK, LOCK_FLAGS | os.O_CREAT, 0o600)
    except OSError as error:
        raise Unavailable(f'"{folder}" cannot be written: {error.strerror or error}') from error
    try:
        flock(descriptor, LOCK_EX)
        yield
    finally:
        os.close(descriptor)


BUSY_MS: Final = 10_000  # how long to wait for another process that writes
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def micros(at: datetime) -> int:
    """An instant as the tables store it."""
    return (at - _EPOCH) // _MICROSECOND


def instant(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def is_text(value: str) -> bool:
    """Whether SQLite can store it. Command lines and file names may contain lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def explained(error: Exception, name: str) -> Unavailable:
    """The error of SQLite, with advice."""
    match error:
        case apsw.FullError():
            return Unavailable(f'storage full: no space for "{name}"; free some space')
        case apsw.IOError():  # also for quotas and file size limits
            return Unavailable(f'"{name}": {error}; the disk may be full, over a quota, or broken')
        case apsw.BusyError() | apsw.LockedError():
            return Unavailable(f'"{name}" is busy: another process has locked it for more than {BUSY_MS / 1000:g} s')
        case apsw.NotADBError():
            return Unavailable(f'"{name}" is not a database: choose another file, or move it')
        case apsw.CorruptError():
            return Unavailable(f'"{name}" is damaged: {error}; restore it from a backup')
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return Unavailable(f'"{name}" cannot be written: check the permissions of the file and its folder')
        case apsw.CantOpenError():
            return Unavailable(f'"{name}" cannot be opened: check that its folder exists and is writable')
    return Unavailable(f'"{name}": {error}')


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Raise Unavailable for errors of SQLite."""
    try:
        yield
    except apsw.Error as error:
        raise explained(error, name) from error


def open_writer(path: Path, locks: Path) -> apsw.Connection:
    """The writing connection of this process. It creates a missing file and missing tables."""
    name = str(path)
    try:
        make_folder(path.parent)
        # Logs are private; SQLite gives its other files the same permissions. An existing file is not opened:
        # closing it again would release the locks that this process may have on it.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        if path.is_dir():
            raise Unavailable(
                f'"{name}" cannot be opened: it is a folder; name a file in it, such as {path / "noetl.db"}'
            )
    except OSError as error:
        raise Unavailable(f'"{name}" cannot be opened: {error.strerror or error}') from error
    with translated(name):
        connection = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_timeout(BUSY_MS)
            if version_of(connection, name) < VERSION or connection.pragma("journal_mode") != "wal":
                # SQLite fails if two processes change the mode at once, so this needs a lock.
                with exclusively(locks):
                    connection.pragma("journal_mode", "wal")
                    migrate(connection, name)
            _configure(connection)
            connection.pragma("synchronous", "full")
        except BaseException:
            connection.close()
            raise
    return connection


def open_reader(path: Path) -> apsw.Connection:
    """A reading connection. It sees committed data and never writes, not even a checkpoint."""
    with translated(str(path)):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(BUSY_MS)
        _configure(connection)
        connection.wal_autocheckpoint(0)
        connection.pragma("query_only", True)
        return connection


def _configure(connection: apsw.Connection) -> None:
    for name, value in (("foreign_keys", True), ("trusted_schema", False), ("mmap_size", 0)):
        connection.pragma(name, value)
