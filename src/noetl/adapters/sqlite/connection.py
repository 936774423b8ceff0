"""Connections with the settings that durability needs, and the place where SQLite's errors become ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import apsw

from noetl.adapters.files.durable import make_folder
from noetl.adapters.sqlite.locks import exclusively
from noetl.adapters.sqlite.schema import VERSION, bring_up_to_date, version_of
from noetl.errors import Unavailable

BUSY_MS: Final = 10_000  # how long one waits for another process that writes
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def micros(at: datetime) -> int:
    """An instant as the tables hold it."""
    return (at - _EPOCH) // _MICROSECOND


def instant(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def is_text(value: str) -> bool:
    """Can SQLite store it? What comes from command lines and file names may hold halves of characters."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def explained(error: Exception, name: str) -> Unavailable:
    """What SQLite says, in words that tell what to do."""
    match error:
        case apsw.FullError():
            return Unavailable(f'storage full: nothing more fits beside "{name}"; make space, then go on')
        case apsw.IOError():  # also what a quota and a limit on the size of files look like
            return Unavailable(f'"{name}": {error}; the disk may be full, over a quota, or broken')
        case apsw.BusyError() | apsw.LockedError():
            return Unavailable(
                f'"{name}" is busy: another process kept it for more than {BUSY_MS / 1000:g} s'
            )
        case apsw.NotADBError():
            return Unavailable(f'"{name}" is not a database: name another file, or move it away')
        case apsw.CorruptError():
            return Unavailable(f'"{name}" is damaged: {error}; restore it from a backup')
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return Unavailable(f'"{name}" may not be written: check the rights of the file and its folder')
        case apsw.CantOpenError():
            return Unavailable(
                f'"{name}" can not be opened: check that its folder is there and may be written'
            )
    return Unavailable(f'"{name}": {error}')


@contextmanager
def translated(name: str) -> Iterator[None]:
    """apsw.Error → Unavailable, from error."""
    try:
        yield
    except apsw.Error as error:
        raise explained(error, name) from error


def open_writer(path: Path, locks: Path) -> apsw.Connection:
    """The one connection of this process that writes; file and tables are made when they are missing."""
    name = str(path)
    try:
        make_folder(path.parent)
        # What executions say is private; SQLite gives its other files the same rights. A file that is there
        # is not opened: closing it again would take away the locks that this process may have on it.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise Unavailable(f'"{name}" can not be opened: {error.strerror or error}') from error
    with translated(name):
        connection = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_timeout(BUSY_MS)
            if version_of(connection, name) < VERSION or connection.pragma("journal_mode") != "wal":
                # SQLite does not wait when two want to change the mode at once: one after the other, then.
                with exclusively(locks):
                    connection.pragma("journal_mode", "wal")
                    bring_up_to_date(connection, name)
            _configure(connection)
            connection.pragma("synchronous", "full")
        except BaseException:
            connection.close()
            raise
    return connection


def open_reader(path: Path) -> apsw.Connection:
    """It sees what is committed and changes nothing, neither in the log nor by a checkpoint."""
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
