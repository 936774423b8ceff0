"""The data folder of `noetl up`, with its lock and its permissions.

Keys and passwords are generated once, each in a file that only its owner can read.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Final

from noetl.adapters.files import make_folder, write_private
from noetl.clock import Clock
from noetl.errors import Rejected, Unavailable
from noetl.output import JSON

MARK: Final = "noetl-up.json"  # marks a folder of `noetl up`
STATE: Final = "up.json"  # the running processes; removed when they stop
VERSION: Final = 1
SOCKET_BYTES_MAX: Final = 107  # of the path of a Unix socket
SOCKET_NAME: Final = "/.s.PGSQL.5432.lock"  # the longest name that PostgreSQL adds to the folder
LEFTOVER_S: Final = 30.0  # to wait for processes of an earlier `up`
POLL_S: Final = 0.1
SECRET_BYTES: Final = 32
SECRET_FILE_BYTES_MAX: Final = 4_096
ROOT_HOME: Final = Path("/var/lib/noetl/up")


def default_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """A folder in the user's home. For root it is elsewhere: PostgreSQL runs as another user."""
    if home := environment.get("XDG_DATA_HOME"):
        return Path(home) / "noetl" / "up"
    return ROOT_HOME if os.geteuid() == 0 else Path.home() / ".local" / "share" / "noetl" / "up"


def random_key() -> str:
    return base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def random_password() -> str:
    """Hexadecimal: it needs no escaping in a URL."""
    return secrets.token_hex(SECRET_BYTES)


class Folder:
    """Locked for this process from its creation until `close`, or until the process dies."""

    def __init__(self, path: Path) -> None:
        """Raises Rejected when it is in use or holds other files, Unavailable when it cannot be created."""
        self.path = path.expanduser().absolute()
        self._descriptors: list[int] = []
        self._short: Path | None = None  # a temporary folder for the socket
        try:
            make_folder(self.path, 0o700)
            self._check()
            self._lock()
            # PostgreSQL does not run as root: it may traverse the folder, but not read it.
            self.path.chmod(0o711 if os.geteuid() == 0 else 0o700)
            self.put(MARK, json.dumps({"version": VERSION}) + "\n")
        except OSError as error:
            self.close()
            raise Unavailable(f'"{self.path}" cannot be used: {error.strerror or error}') from error
        except BaseException:
            self.close()
            raise

    def _check(self) -> None:
        if self.path.stat().st_uid != os.geteuid():
            raise Rejected("not-ours", f'"{self.path}" belongs to another user: name one of your own with --dir')
        if any(self.path.iterdir()) and not (self.path / MARK).exists() and not (self.path / "lock").exists():
            reason = "contains other files: name an empty or new folder with --dir"
            raise Rejected("not-ours", f'"{self.path}" {reason}')

    def _lock(self) -> None:
        descriptor = self._opened("lock")
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)
        except BlockingIOError as error:
            who = os.read(descriptor, 32).decode("ascii", "replace").strip()
            reason = f'another `noetl up` (process {who or "unknown"}) uses "{self.path}"'
            raise Rejected("busy", f"{reason}: use that one, stop it, or name another folder with --dir") from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)

    def _opened(self, name: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.path / name, flags, 0o600)
        self._descriptors.append(descriptor)
        return descriptor

    async def wait_for_leftovers(self, clock: Clock) -> int:
        """Wait until no process of an earlier `up` runs, and take the lock that all processes inherit.

        After a kill of `noetl up` its processes need a moment to end.
        """
        descriptor = self._opened("children.lock")
        until = clock.monotonic() + LEFTOVER_S
        while True:
            with suppress(BlockingIOError):
                flock(descriptor, LOCK_EX | LOCK_NB)
                return descriptor
            if clock.monotonic() > until:
                raise Rejected("busy", f'processes of an earlier `noetl up` still use "{self.path}"{self._kill_hint()}')
            await clock.sleep(POLL_S)

    def _kill_hint(self) -> str:
        pids = self.state().get("pids", {})
        numbers = " ".join(str(each) for each in pids.values()) if isinstance(pids, dict) else ""
        return f": stop them with kill {numbers}" if numbers else ""

    # Files

    def put(self, name: str, text: str) -> Path:
        """Write a private file atomically; it is on disk when this returns."""
        file = self.path / name
        write_private(file, text.encode())
        return file

    def secret(self, name: str, make: Callable[[], str]) -> str:
        """The secret in a file, generated the first time. Raises Rejected when others can read it."""
        file = self.path / name
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            made = make()
            self.put(name, made + "\n")
            return made
        with os.fdopen(descriptor, encoding="ascii", errors="replace") as stream:
            if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
                raise Rejected("open-file", f'other users can read "{file}": chmod 600 {file}')
            found = stream.read(SECRET_FILE_BYTES_MAX).strip()
        if not found:
            raise Rejected("empty-file", f'"{file}" is empty: restore it, or remove the whole folder')
        return found

    def state(self) -> dict[str, JSON]:
        """The state file of an `up` that was killed; empty when there is none."""
        with suppress(OSError, ValueError):
            found = json.loads((self.path / STATE).read_text("utf-8"))
            if isinstance(found, dict):
                return found
        return {}

    def socket_folder(self) -> Path:
        """A path that is short enough for a Unix socket: in the folder, or else a temporary folder."""
        inside = self.path / "run"
        if len(os.fsencode(inside)) + len(SOCKET_NAME) <= SOCKET_BYTES_MAX:
            inside.mkdir(mode=0o700, exist_ok=True)
            return inside
        last = self.state().get("socket_folder")  # of an `up` that was killed
        if isinstance(last, str) and _is_left_over(Path(last)):
            shutil.rmtree(last, ignore_errors=True)
        self._short = Path(tempfile.mkdtemp(prefix=_SHORT, dir="/tmp"))
        return self._short

    def close(self) -> None:
        if self._short is not None:
            shutil.rmtree(self._short, ignore_errors=True)
            self._short = None
        while self._descriptors:
            os.close(self._descriptors.pop())


_SHORT: Final = "noetl-up-"


def _is_left_over(path: Path) -> bool:
    """Whether an earlier `up` of this user created it, and it is not a symbolic link."""
    try:
        found = path.lstat()
    except OSError:
        return False
    ours = found.st_uid == os.geteuid() or os.geteuid() == 0
    return path.parent == Path("/tmp") and path.name.startswith(_SHORT) and stat.S_ISDIR(found.st_mode) and ours
