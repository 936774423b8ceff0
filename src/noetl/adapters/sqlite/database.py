"""One open file: its writer, its readers, and where the lock files of its processes lie."""

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
    """What the adapters on one file share. It belongs to one event loop."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.name = str(path)
        self.clock = clock
        self.locks = path.with_name(path.name + "-locks")
        self.lock: LockFile | None = None  # None: this process holds no execution
        self.writer = Writer(open_writer(path, self.locks), clock, self.name)
        self._reader: apsw.Connection | None = None
        self._far_reader: apsw.Connection | None = None  # for long reads on other threads
        self._far = Lock()
        self._closed = False

    def fetch(self, query: str, values: tuple[apsw.SQLiteValue, ...] = ()) -> list[Any]:
        """What is committed now; for short queries, on the loop's thread."""
        try:
            with translated(self.name):
                return self.reader().execute(query, values).fetchall()
        except UnicodeEncodeError:
            return []  # half a character from a command line: nothing is stored under such a name

    def fetch_far(self, query: str, values: tuple[apsw.SQLiteValue, ...] = ()) -> list[Any]:
        """The same for long ones, on any other thread."""
        with self._far, translated(self.name):
            if self._far_reader is None:
                self._far_reader = self._open_reader()
            return self._far_reader.execute(query, values).fetchall()

    def reader(self) -> apsw.Connection:
        if self._reader is None:
            self._reader = self._open_reader()
        return self._reader

    def _open_reader(self) -> apsw.Connection:
        if self._closed:
            raise Unavailable(f'"{self.name}" is closed')
        return open_reader(self.path)

    def close(self) -> None:
        """Whatever was acknowledged is on disk already; this lets go of the file and of our executions."""
        with self._far:  # after a long read that is still on its way
            self._closed = True
            for reader in (self._reader, self._far_reader):
                if reader is not None:
                    reader.close()
            self._reader = self._far_reader = None
        self.writer.close()
        if self.lock is not None:
            self.lock.close()
            self.lock = None


def open_sqlite(path: Path | str, clock: Clock) -> Database:
    """Open the file, or make it. Raises Unavailable, which says what is wrong and how to mend it."""
    return Database(Path(path).absolute(), clock)
