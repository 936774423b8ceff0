"""One open SQLite file: its writer, its readers, and the folder with the lock files of its processes."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Any

import apsw

from noetl.adapters.sqlite.connection import open_reader, open_writer, translated
from noetl.adapters.sqlite.locks import LockFile
from noetl.adapters.sqlite.writer import Writer
from noetl.clock import Clock
from noetl.errors import Unavailable


class Database:
    """Shared by the adapters of one file. It belongs to one event loop."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.name = str(path)
        self.clock = clock
        self.locks = path.with_name(path.name + "-locks")
        self.lock: LockFile | None = None  # None: this process holds no execution
        self.writer = Writer(open_writer(path, self.locks), clock, self.name)
        self._reader: apsw.Connection | None = None
        self._thread_reader: apsw.Connection | None = None  # for long reads on other threads
        self._thread_lock = Lock()
        self._closed = False

    def fetch(self, query: str, values: tuple[apsw.SQLiteValue, ...] = ()) -> list[Any]:
        """A short query on committed data, on the thread of the event loop."""
        try:
            with translated(self.name):
                return self.reader().execute(query, values).fetchall()
        except UnicodeEncodeError:
            return []  # a lone surrogate: no stored name contains one

    def fetch_in_thread(self, query: str, values: tuple[apsw.SQLiteValue, ...] = ()) -> list[Any]:
        """A long query, on any other thread."""
        with self._thread_lock, translated(self.name):
            if self._thread_reader is None:
                self._thread_reader = self._open_reader()
            return self._thread_reader.execute(query, values).fetchall()

    def reader(self) -> apsw.Connection:
        if self._reader is None:
            self._reader = self._open_reader()
        return self._reader

    def _open_reader(self) -> apsw.Connection:
        if self._closed:
            raise Unavailable(f'"{self.name}" is closed')
        return open_reader(self.path)

    def close(self) -> None:
        """Release the file and the executions of this process. Acknowledged writes are on disk already."""
        with self._thread_lock:  # after a long query that is still running
            self._closed = True
            for reader in (self._reader, self._thread_reader):
                if reader is not None:
                    reader.close()
            self._reader = self._thread_reader = None
        self.writer.close()
        if self.lock is not None:
            self.lock.close()
            self.lock = None


def open_sqlite(path: Path | str, clock: Clock) -> Database:
    """Open or create the file. Raises Unavailable, which says what is wrong and how to fix it."""
    return Database(Path(path).absolute(), clock)
