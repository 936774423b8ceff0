"""Read-only checks of the database file: permissions, disk space, integrity, locks, executions, keys."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import apsw

from noetl.adapters.process_locks import is_alive, lock_files
from noetl.adapters.secrets.stored import KeyFile
from noetl.adapters.sqlite.connection import explained
from noetl.adapters.sqlite.schema import VERSION, version_of
from noetl.engine.state import LIVE
from noetl.errors import NoetlError
from noetl.net.describe import count
from noetl.runtime.doctor import Diagnosis, check_stored_secrets

SPACE_LOW: Final = 1 << 30
SPACE_NONE: Final = 64 << 20
INTEGRITY_BYTES_MAX: Final = 1 << 30  # checking a larger file takes too long
BUSY_MS: Final = 1_000
NETWORK_FILE_SYSTEMS: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs"})


def check_sqlite_file(path: Path, environment: Mapping[str, str]) -> list[Diagnosis]:
    path = path.expanduser().absolute()
    found = [check_space(path), *([] if (network := check_file_system(path)) is None else [network])]
    if not path.exists():
        return [*found, check_missing(path)]
    if (refused := check_permissions(path)).grade == "error":
        return [*found, refused]
    found.append(refused)
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.Error as error:
        return [*found, Diagnosis("sqlite-opens", "error", str(explained(error, str(path))))]
    try:
        connection.set_busy_timeout(BUSY_MS)
        connection.wal_autocheckpoint(0)
        found += _check_contents(connection, path, environment)
    except apsw.Error as error:
        found.append(Diagnosis("sqlite-opens", "error", str(explained(error, str(path)))))
    except NoetlError as error:
        found.append(Diagnosis("sqlite-schema", "error", str(error)))
    finally:
        connection.close()
    return found


def _check_contents(connection: apsw.Connection, path: Path, environment: Mapping[str, str]) -> list[Diagnosis]:
    version = version_of(connection, str(path))
    found = [
        check_schema(version),
        check_journal_mode(connection),
        check_integrity(connection, path),
        check_lock(connection, path),
    ]
    if version == VERSION:
        found += [check_processes(connection, path), *check_keys(connection, path, environment)]
    return found


def check_missing(path: Path) -> Diagnosis:
    """Whether the file could be created."""
    nearest = next(each for each in path.parents if each.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        cure = f"chmod u+wx {nearest}, or name another file with --db"
        return Diagnosis("sqlite-file", "error", f"{path} does not exist, and {nearest} is not writable", cure)
    return Diagnosis("sqlite-file", "ok", f"{path} does not exist yet: the first `noetl run` creates it")


def check_permissions(path: Path) -> Diagnosis:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        return Diagnosis("sqlite-file", "error", f"{path} is not a file", "name another one with --db")
    if not os.access(path, os.R_OK | os.W_OK):
        return Diagnosis("sqlite-file", "error", f"{path} is not readable and writable", f"chmod u+rw {path}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        words = f"{path.parent} is not writable, but SQLite needs files beside {path.name}"
        return Diagnosis("sqlite-file", "error", words, f"chmod u+wx {path.parent}")
    if found.st_mode & 0o077:
        words = f"other users can read {path}, which contains inputs and outputs of executions"
        return Diagnosis("sqlite-file", "warning", words, f"chmod 600 {path}*")
    return Diagnosis("sqlite-file", "ok", f"{path}, {found.st_size / 1e6:.1f} MB, private to you")


def check_space(path: Path) -> Diagnosis:
    nearest = next(each for each in (path, *path.parents) if each.exists())
    free = shutil.disk_usage(nearest).free
    words = f"{free / 1e9:.1f} GB are free on the disk of {path.name}"
    if free < SPACE_NONE:
        return Diagnosis("disk-space", "error", words, "free space: `noetl gc` deletes unused results")
    if free < SPACE_LOW:
        return Diagnosis("disk-space", "warning", words, "`noetl gc` deletes unused results")
    return Diagnosis("disk-space", "ok", words)


def check_file_system(path: Path) -> Diagnosis | None:
    """None: it is local, or unknown."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text("utf-8").splitlines()]
    except OSError:
        return None
    around = {str(each) for each in path.parents}
    kind = max(((len(each[1]), each[2]) for each in mounts if each[1] in around), default=(0, ""))[1]
    if kind not in NETWORK_FILE_SYSTEMS:
        return None
    words = f"{path} is on a network file system ({kind}), where SQLite locks do not work"
    return Diagnosis("file-system", "error", words, "name a file on a local disk with --db")


def check_schema(version: int) -> Diagnosis:
    if version == VERSION:
        return Diagnosis("sqlite-schema", "ok", f"the tables have version {version}")
    words = "no tables yet" if version == 0 else f"the tables have version {version}, and this NoETL supports {VERSION}"
    return Diagnosis("sqlite-schema", "info", f"{words}: the next `noetl run` upgrades them")


def check_journal_mode(connection: apsw.Connection) -> Diagnosis:
    """NoETL always writes with synchronous=FULL; only the journal mode is a property of the file."""
    if (found := str(connection.pragma("journal_mode"))) != "wal":
        words = f"journal_mode is {found} and not wal: readers and the writer block each other"
        cure = "the next `noetl run` sets it; no other program should change it"
        return Diagnosis("sqlite-mode", "warning", words, cure)
    return Diagnosis("sqlite-mode", "ok", "journal_mode=WAL, and NoETL commits with synchronous=FULL")


def check_integrity(connection: apsw.Connection, path: Path) -> Diagnosis:
    if path.stat().st_size > INTEGRITY_BYTES_MAX:
        cure = f'sqlite3 {path} "PRAGMA quick_check"'
        return Diagnosis("sqlite-whole", "info", "the file is too large for an integrity check", cure)
    result = str(connection.execute("PRAGMA quick_check(1)").get)
    if result != "ok":
        return Diagnosis("sqlite-whole", "error", f"{path} is damaged: {result}", "restore it from a backup")
    return Diagnosis("sqlite-whole", "ok", "the integrity check found no damage")


def check_lock(connection: apsw.Connection, path: Path) -> Diagnosis:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except apsw.BusyError:
        words = f"another process has locked {path} for more than {BUSY_MS / 1000:g} s"
        return Diagnosis("sqlite-lock", "error", words, f"find the process: lsof {path}")
    connection.execute("ROLLBACK")
    return Diagnosis("sqlite-lock", "ok", "no process has locked it")


def check_processes(connection: apsw.Connection, path: Path) -> Diagnosis:
    """Live processes, and open executions without a live owner."""
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
    running = f"{len(alive)} running NoETL process{'' if len(alive) == 1 else 'es'}"
    if left:
        cure = "list them: noetl list; continue one: noetl resume ID; end one: noetl cancel ID"
        return Diagnosis("sqlite-executions", "info", f"{left} of {there} without a live owner; {running}", cure)
    return Diagnosis("sqlite-executions", "ok", f"{there}; {running}")


def check_keys(connection: apsw.Connection, path: Path, environment: Mapping[str, str]) -> list[Diagnosis]:
    """Whether stored secrets can be decrypted, and whether the key file is private."""
    file = path.with_name(path.name + ".key")
    try:
        found = KeyFile(file, environment).all()
    except NoetlError as error:
        is_open = file.exists() and file.stat().st_mode & 0o077
        return [Diagnosis("key-file", "error", str(error), f"chmod 600 {file}" if is_open else None)]
    rows = connection.execute("SELECT key_id, count(*) FROM secrets WHERE body <> x'' GROUP BY key_id")
    return [check_stored_secrets({str(key): int(str(count)) for key, count in rows}, {key.id for key in found})]
