"""The folder of `noetl up`: what is kept there, who may read it, and who has it now.

Keys and passwords are made once, each in a file of its own for its owner alone.
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

from noetl.adapters.files.durable import make_folder, sync_folder
from noetl.clock import Clock
from noetl.errors import Rejected, Unavailable
from noetl.output import JSON

MARK: Final = "noetl-up.json"  # a folder that has it is ours
STATE: Final = "up.json"  # what runs now; gone when it has stopped
VERSION: Final = 1
SOCKET_BYTES_MAX: Final = 107  # of the path of a Unix socket, by the system
SOCKET_NAME: Final = "/.s.PGSQL.5432.lock"  # the longest that PostgreSQL puts beside its socket
LEFTOVER_S: Final = 30.0  # that processes of an earlier `up` may take to end
LOOK_S: Final = 0.1
SECRET_BYTES: Final = 32
SECRET_FILE_BYTES_MAX: Final = 4_096
ROOT_HOME: Final = Path("/var/lib/noetl/up")


def default_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """One of the user's own. For root it is not in the home: PostgreSQL has to reach it as another user."""
    if home := environment.get("XDG_DATA_HOME"):
        return Path(home) / "noetl" / "up"
    return ROOT_HOME if os.geteuid() == 0 else Path.home() / ".local" / "share" / "noetl" / "up"


def random_key() -> str:
    return base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def random_word() -> str:
    """For passwords: nothing in it has to be escaped in an address."""
    return secrets.token_hex(SECRET_BYTES)


class Folder:
    """Ours alone from the moment it is made until `close`, or until the process dies."""

    def __init__(self, path: Path) -> None:
        """Raises Rejected when it is another's or something else is in it, Unavailable when it can not be."""
        self.path = path.expanduser().absolute()
        self._descriptors: list[int] = []
        self._short: Path | None = None  # made for the socket, elsewhere
        try:
            make_folder(self.path, 0o700)
            self._check()
            self._lock()
            # For root it lets PostgreSQL through, which runs as another user: to go through is not to read.
            self.path.chmod(0o711 if os.geteuid() == 0 else 0o700)
            self.put(MARK, json.dumps({"version": VERSION}) + "\n")
        except OSError as error:
            self.close()
            raise Unavailable(f'"{self.path}" can not be used: {error.strerror or error}') from error
        except BaseException:
            self.close()
            raise

    def _check(self) -> None:
        if self.path.stat().st_uid != os.geteuid():
            raise Rejected(
                "not-ours", f'"{self.path}" belongs to another user: name one of your own by --dir'
            )
        if any(self.path.iterdir()) and not (self.path / MARK).exists() and not (self.path / "lock").exists():
            words = "holds other things: name an empty folder by --dir, or one that does not exist yet"
            raise Rejected("not-ours", f'"{self.path}" {words}')

    def _lock(self) -> None:
        descriptor = self._opened("lock")
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)
        except BlockingIOError as error:
            who = os.read(descriptor, 32).decode("ascii", "replace").strip()
            words = f'another `noetl up` (process {who or "unknown"}) has "{self.path}"'
            raise Rejected(
                "busy", f"{words}: use that one, end it, or name another folder by --dir"
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)

    def _opened(self, name: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.path / name, flags, 0o600)
        self._descriptors.append(descriptor)
        return descriptor

    async def alone(self, clock: Clock) -> int:
        """Wait until no process of an earlier `up` is left: the lock that every child of ours inherits.

        Whoever was killed could not wait for them; they end with it, and take a moment.
        """
        descriptor = self._opened("children.lock")
        until = clock.monotonic() + LEFTOVER_S
        while True:
            with suppress(BlockingIOError):
                flock(descriptor, LOCK_EX | LOCK_NB)
                return descriptor
            if clock.monotonic() > until:
                raise Rejected(
                    "busy", f'processes of an earlier `noetl up` still use "{self.path}"{self._who()}'
                )
            await clock.sleep(LOOK_S)

    def _who(self) -> str:
        pids = self.state().get("pids", {})
        numbers = " ".join(str(each) for each in pids.values()) if isinstance(pids, dict) else ""
        return f": end them, kill {numbers}" if numbers else ""

    # What is in it

    def put(self, name: str, text: str) -> Path:
        """All or nothing, on disk when it returns, for nobody else to read."""
        file, made = self.path / name, self.path / f"{name}.new"
        with suppress(FileNotFoundError):
            made.unlink()  # of one who died here
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(made, flags, 0o600), "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        made.replace(file)
        sync_folder(self.path)
        return file

    def secret(self, name: str, make: Callable[[], str]) -> str:
        """What stands in a file, which is made the first time. Raises Rejected when others may read it."""
        file = self.path / name
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            made = make()
            self.put(name, made + "\n")
            return made
        with os.fdopen(descriptor, encoding="ascii", errors="replace") as stream:
            if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
                raise Rejected("open-file", f'others may read "{file}": chmod 600 {file}')
            found = stream.read(SECRET_FILE_BYTES_MAX).strip()
        if not found:
            raise Rejected(
                "empty-file", f'there is nothing in "{file}": restore it, or remove the whole folder'
            )
        return found

    def state(self) -> dict[str, JSON]:
        """What ran last, and did not stop by itself; empty when nothing is known."""
        with suppress(OSError, ValueError):
            found = json.loads((self.path / STATE).read_text("utf-8"))
            if isinstance(found, dict):
                return found
        return {}

    def socket_folder(self) -> Path:
        """A path that is short enough for a Unix socket: in the folder, or else a temporary one."""
        near = self.path / "run"
        if len(os.fsencode(near)) + len(SOCKET_NAME) <= SOCKET_BYTES_MAX:
            near.mkdir(mode=0o700, exist_ok=True)
            return near
        last = self.state().get("socket_folder")  # of one that was killed
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
    """One that an earlier `up` of ours has made, and no link to somewhere else."""
    try:
        found = path.lstat()
    except OSError:
        return False
    ours = found.st_uid == os.geteuid() or os.geteuid() == 0
    return (
        path.parent == Path("/tmp") and path.name.startswith(_SHORT) and stat.S_ISDIR(found.st_mode) and ours
    )
