"""Checks of the embedded house's file: there, ours, writable, whole, with space beside it. They only look."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import apsw

from noetl.adapters.secrets.keys import KeyFile
from noetl.adapters.sqlite.connection import explained
from noetl.adapters.sqlite.locks import is_alive, lock_files
from noetl.adapters.sqlite.schema import VERSION, version_of
from noetl.engine.state import LIVE
from noetl.errors import NoetlError
from noetl.net.describe import count
from noetl.runtime.doctor.checks import Diagnosis
from noetl.runtime.doctor.machine import keys_fit

SPACE_LOW: Final = 1 << 30
SPACE_NONE: Final = 64 << 20
LOOKED_THROUGH_MAX: Final = 1 << 30  # bytes: a larger file takes too long
BUSY_MS: Final = 1_000
FAR: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs"})


def examine_sqlite(path: Path, environment: Mapping[str, str]) -> list[Diagnosis]:
    path = path.expanduser().absolute()
    found = [space(path), *([] if (far := file_system(path)) is None else [far])]
    if not path.exists():
        return [*found, missing(path)]
    if (refused := rights(path)).grade == "error":
        return [*found, refused]
    found.append(refused)
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.Error as error:
        return [*found, Diagnosis("sqlite-opens", "error", str(explained(error, str(path))))]
    try:
        connection.set_busy_timeout(BUSY_MS)
        connection.wal_autocheckpoint(0)
        found += _inside(connection, path, environment)
    except apsw.Error as error:
        found.append(Diagnosis("sqlite-opens", "error", str(explained(error, str(path)))))
    except NoetlError as error:
        found.append(Diagnosis("sqlite-schema", "error", str(error)))
    finally:
        connection.close()
    return found


def _inside(connection: apsw.Connection, path: Path, environment: Mapping[str, str]) -> list[Diagnosis]:
    version = version_of(connection, str(path))
    found = [schema(version), mode(connection), whole(connection, path), lock(connection, path)]
    if version == VERSION:
        found += [processes(connection, path), *keys(connection, path, environment)]
    return found


def missing(path: Path) -> Diagnosis:
    """Could it be made?"""
    nearest = next(each for each in path.parents if each.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        cure = f"chmod u+wx {nearest}, or name another file by --db"
        return Diagnosis(
            "sqlite-file", "error", f"{path} is not there, and {nearest} may not be written", cure
        )
    return Diagnosis("sqlite-file", "ok", f"{path} is not there yet: the first `noetl run` makes it")


def rights(path: Path) -> Diagnosis:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        return Diagnosis("sqlite-file", "error", f"{path} is no file", "name another one by --db")
    if not os.access(path, os.R_OK | os.W_OK):
        return Diagnosis("sqlite-file", "error", f"{path} may not be read and written", f"chmod u+rw {path}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        words = f"{path.parent} may not be written, where SQLite needs files beside {path.name}"
        return Diagnosis("sqlite-file", "error", words, f"chmod u+wx {path.parent}")
    if found.st_mode & 0o077:
        words = f"{path} may be read by others: inputs and outputs of executions are in it"
        return Diagnosis("sqlite-file", "warning", words, f"chmod 600 {path}*")
    return Diagnosis("sqlite-file", "ok", f"{path}, {found.st_size / 1e6:.1f} MB, for you alone")


def space(path: Path) -> Diagnosis:
    nearest = next(each for each in (path, *path.parents) if each.exists())
    free = shutil.disk_usage(nearest).free
    words = f"{free / 1e9:.1f} GB are free beside {path.name}"
    if free < SPACE_NONE:
        return Diagnosis(
            "disk-space", "error", words, "make space: `noetl gc` drops results that nobody needs"
        )
    if free < SPACE_LOW:
        return Diagnosis("disk-space", "warning", words, "`noetl gc` drops results that nobody needs")
    return Diagnosis("disk-space", "ok", words)


def file_system(path: Path) -> Diagnosis | None:
    """None: it is near, or nobody can tell."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text("utf-8").splitlines()]
    except OSError:
        return None
    around = {str(each) for each in path.parents}
    kind = max(((len(each[1]), each[2]) for each in mounts if each[1] in around), default=(0, ""))[1]
    if kind not in FAR:
        return None
    words = f"{path} lies on a network file system ({kind}), where locks of SQLite do not hold"
    return Diagnosis("file-system", "error", words, "name a file on a disk of this machine by --db")


def schema(version: int) -> Diagnosis:
    if version == VERSION:
        return Diagnosis("sqlite-schema", "ok", f"tables of version {version}")
    words = "no tables yet" if version == 0 else f"tables of version {version}, we know {VERSION}"
    return Diagnosis("sqlite-schema", "info", f"{words}: the next `noetl run` brings them up to date")


def mode(connection: apsw.Connection) -> Diagnosis:
    """What we write, we write with synchronous=FULL: only the mode of the journal is the file's own."""
    if (found := str(connection.pragma("journal_mode"))) != "wal":
        words = f"journal_mode is {found} and not wal: readers and the writer get in each other's way"
        return Diagnosis(
            "sqlite-mode", "warning", words, "the next `noetl run` sets it; no other program should"
        )
    return Diagnosis("sqlite-mode", "ok", "journal_mode=WAL, and NoETL commits with synchronous=FULL")


def whole(connection: apsw.Connection, path: Path) -> Diagnosis:
    if path.stat().st_size > LOOKED_THROUGH_MAX:
        cure = f'sqlite3 {path} "PRAGMA quick_check"'
        return Diagnosis("sqlite-whole", "info", "too large to be looked through here", cure)
    said = str(connection.execute("PRAGMA quick_check(1)").get)
    if said != "ok":
        return Diagnosis("sqlite-whole", "error", f"{path} is damaged: {said}", "restore it from a backup")
    return Diagnosis("sqlite-whole", "ok", "no damage is seen")


def lock(connection: apsw.Connection, path: Path) -> Diagnosis:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except apsw.BusyError:
        words = f"another process keeps {path} locked for more than {BUSY_MS / 1000:g} s"
        return Diagnosis("sqlite-lock", "error", words, f"see who has it: lsof {path}")
    connection.execute("ROLLBACK")
    return Diagnosis("sqlite-lock", "ok", "nobody keeps it locked")


def processes(connection: apsw.Connection, path: Path) -> Diagnosis:
    """Who runs something there, and what nobody runs any more."""
    folder = path.with_name(path.name + "-locks")
    alive = {name for name in lock_files(folder) if is_alive(folder, name)}
    marks = ", ".join("?" for _ in LIVE)
    rows = connection.execute(
        "SELECT owners.lock FROM heads LEFT JOIN owners ON owners.number = heads.owner"
        f" WHERE heads.status IN ({marks}) AND heads.status <> 'paused'",
        tuple(LIVE),
    ).fetchall()
    left = sum(1 for (name,) in rows if name not in alive)
    there = count(len(rows), "open execution")
    at_work = f"{len(alive)} processes of NoETL work" if len(alive) != 1 else "1 process of NoETL works"
    if left:
        cure = "noetl list shows them; noetl resume ID goes on with one, noetl cancel ID ends it"
        return Diagnosis("sqlite-executions", "info", f"nobody runs {left} of {there}; {at_work} here", cure)
    return Diagnosis("sqlite-executions", "ok", f"{there}; {at_work} here")


def keys(connection: apsw.Connection, path: Path, environment: Mapping[str, str]) -> list[Diagnosis]:
    """Can what is stored be opened, and is the file of keys for its owner alone?"""
    file = path.with_name(path.name + ".key")
    try:
        found = KeyFile(file, environment).all()
    except NoetlError as error:
        is_open = file.exists() and file.stat().st_mode & 0o077
        return [Diagnosis("key-file", "error", str(error), f"chmod 600 {file}" if is_open else None)]
    rows = connection.execute("SELECT key_id, count(*) FROM secrets WHERE body <> x'' GROUP BY key_id")
    return [keys_fit({str(key): int(str(count)) for key, count in rows}, {key.id for key in found})]
