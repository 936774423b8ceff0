"""A process that records its disk operations: writes, syncs, and acknowledged appends.

A VFS records the files of SQLite; wrappers of system calls record the result files.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import apsw

from noetl.adapters.files import FileResults
from noetl.adapters.sqlite.database import open_sqlite
from noetl.adapters.sqlite.ownership import SqliteOwnership
from noetl.adapters.sqlite.store import SqliteStore
from noetl.clock import SystemClock
from noetl.engine.facts import Evaluated, Fact, Requested
from noetl.ports import Append

Entry: TypeAlias = tuple[Any, ...]  # the operation and its arguments
BASE = "unix"  # the default VFS of SQLite
EXECUTIONS = 3
APPENDS = 60  # of each execution
BODY_BYTES = 40_000  # of every fourth append; in total enough for a checkpoint


class Journal:
    """All operations of all threads, in order."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.entries: list[Entry] = []
        self.names: dict[int, str] = {}  # open descriptors
        self.ends: dict[int, int] = {}  # descriptor → offset of the next write

    def note(self, *entry: Any) -> None:
        self.entries.append(entry)

    def inside(self, path: str) -> bool:
        return path.startswith(self.root)


class RecordedFile(apsw.VFSFile):
    def __init__(self, journal: Journal, name: str | apsw.URIFilename, flags: list[int]) -> None:
        self._journal = journal
        self._name = name if isinstance(name, str) else name.filename()
        self._is_new = not os.path.exists(self._name)
        super().__init__(BASE, name, flags)
        if self._is_new:
            journal.note("made", self._name)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  # the name in SQLite
        super().xWrite(data, offset)
        self._journal.note("write", self._name, offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._journal.note("cut", self._name, newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._journal.note("sync", self._name)
        if self._is_new and self._name.endswith(("-wal", "-journal")):
            # SQLite syncs the folder of these files with their first sync.
            self._is_new = False
            self._journal.note("sync folder", os.path.dirname(self._name))


class RecordedDisk(apsw.VFS):
    """All files of SQLite in this process."""

    def __init__(self, journal: Journal) -> None:
        super().__init__("recorded", BASE, makedefault=True)
        self._journal = journal

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        assert name is not None, "the database has no anonymous files"
        return RecordedFile(self._journal, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self._journal.note("gone", filename)
        if syncdir:
            self._journal.note("sync folder", os.path.dirname(filename))


def record_calls(journal: Journal) -> None:
    """Wrap the system calls that change files; this process has no other purpose."""

    def where(path: Any, folder: int | None) -> str:
        return os.path.join(journal.names.get(folder, "") if folder is not None else "", os.fspath(path))

    def around(name: str, note: Callable[..., None]) -> None:
        real = getattr(os, name)

        def called(*given: Any, **named: Any) -> Any:
            done = real(*given, **named)
            note(done, *given, **named)
            return done

        setattr(os, name, called)

    def opened(descriptor: int, path: Any, flags: int, mode: int = 0, *, dir_fd: int | None = None) -> None:
        del mode
        name = where(path, dir_fd)
        journal.names[descriptor], journal.ends[descriptor] = name, 0
        if flags & os.O_CREAT and journal.inside(name):
            journal.note("made", name)

    def written(much: int, descriptor: int, data: Any) -> None:
        if journal.inside(name := journal.names.get(descriptor, "")):
            journal.note("write", name, journal.ends[descriptor], bytes(data)[:much])
            journal.ends[descriptor] += much

    def synced(_: None, descriptor: int) -> None:
        if journal.inside(name := journal.names[descriptor]):
            journal.note("sync folder" if os.path.isdir(name) else "sync", name)

    def renamed(_: None, old: Any, new: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        journal.note("renamed", where(old, src_dir_fd), where(new, dst_dir_fd))

    def made(_: None, path: Any, mode: int = 0, *, dir_fd: int | None = None) -> None:
        del mode
        journal.note("folder", where(path, dir_fd))

    for name, note in (
        ("open", opened),
        ("write", written),
        ("fsync", synced),
        ("rename", renamed),
        ("mkdir", made),
    ):
        around(name, note)


async def work(journal: Journal, folder: Path) -> None:
    """Executions that grow concurrently; some facts have a ref to a result that was stored before."""
    clock = SystemClock()
    database = open_sqlite(folder / "noetl.db", clock)
    store, holding, results = (
        SqliteStore(database),
        SqliteOwnership(database),
        FileResults(folder / "results"),
    )

    async def grow(execution_id: str) -> None:
        owner = await holding.hold(execution_id)
        for seq in range(1, APPENDS + 1):
            fact: Fact = Evaluated()
            if seq % 4 == 1:
                body = f"{execution_id}/{seq}/".encode() + os.urandom(BODY_BYTES // 2).hex().encode()
                ref = await results.put(execution_id, body, "text/plain")
                fact = Requested(path="p", digest="d", workload={"ref": ref, "filler": body.decode()})
            refused = await store.append([Append(execution_id, seq, clock.now(), (fact,), owner, "running")])
            assert refused == [None]
            journal.note("kept", execution_id, seq)

    await asyncio.gather(*(grow(f"e{number}") for number in range(EXECUTIONS)))
    database.close()


def main(folder: Path, answer: Path) -> None:
    journal = Journal(folder)
    disk = RecordedDisk(journal)
    record_calls(journal)
    asyncio.run(work(journal, folder))
    disk.unregister()
    answer.write_bytes(pickle.dumps(journal.entries))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
