"""A distributed deployment on one machine: PostgreSQL, NATS, a server and workers, with data in one folder.

Crashed processes are restarted. All processes stop with this one, and the next start continues with the data.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from noetl.clock import Clock
from noetl.defaults import DEV_WORKERS, HOST, POOL, PORT, WORKER_SLOTS, WORKER_SLOTS_MAX
from noetl.errors import Rejected, Unavailable
from noetl.output import JSON
from noetl.runtime.devcluster.folder import STATE, Folder, default_folder, random_key
from noetl.runtime.devcluster.processes import ManagedProcess, ServiceSpec, describe_exit
from noetl.runtime.devcluster.services import Nats, Postgres, free_port, is_free, nats_server_path, postgres_wheel
from noetl.runtime.settings import DATABASE, KEY, LINK_KEY, NATS, NETWORKS, POOL_KEY, POOL_KEYS, RESULTS, SERVER, TOKEN

RESTART_S: Final = 0.5  # before a crashed process is restarted; doubled each time
RESTART_MAX_S: Final = 30.0
STEADY_S: Final = 60.0  # after this uptime the delay starts again with RESTART_S
FAULT_CHECK_S: Final = 2.0  # between two checks of a running service
WORKERS_MAX: Final = 64
SERVER_NAME: Final = "up"
TOKEN_FILE: Final = "token"
ENVIRONMENT_FILE: Final = "environment"
OWN_NETWORKS: Final = "127.0.0.0/8 ::1/128 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16"
# Variables of another deployment must not reach the processes of this one.
_OWN: Final = (DATABASE, NATS, SERVER, TOKEN, KEY, LINK_KEY, POOL_KEY, POOL_KEYS, RESULTS)


class DevClusterOptions(NamedTuple):
    """The options of `noetl up`."""

    folder: Path | None = None  # None: a folder in the user's home
    port: int = PORT  # 0: any free port
    workers: int = DEV_WORKERS
    slots: int = WORKER_SLOTS  # of each worker
    server_slots: int = 0  # in the process of the server


class DevClusterStatus(NamedTuple):
    """A message about one process, for the user."""

    name: str  # of the process
    words: str
    seconds: float | None = None  # duration
    is_wrong: bool = False


class ClusterAddresses(NamedTuple):
    """Addresses and keys of the cluster. They must not appear on command lines and in logs."""

    database: str
    nats: str
    port: int
    key: str
    link_key: str
    worker_nats: str  # NATS with the user of the default pool
    pool_key: str  # of the default pool

    def __repr__(self) -> str:
        return "ClusterAddresses(***)"

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


class DevCluster:
    """Call `start`, then `follow` while it runs, then `stop`, which is permitted at any time."""

    def __init__(
        self,
        options: DevClusterOptions,
        clock: Clock,
        report: Callable[[DevClusterStatus], None],
        processes: Callable[[DevClusterOptions, ClusterAddresses, Path], list[ServiceSpec]] | None = None,
    ) -> None:
        """`processes`: those that use PostgreSQL and NATS; None: a server and its workers.

        Raises Rejected when something is not installed; then no folder is created.
        """
        postgres_wheel()
        nats_server_path()
        self.options = options
        self.path = (options.folder or default_folder()).expanduser().absolute()
        self._clock = clock
        self._report = report
        self._specs = processes or cluster_processes
        self._folder: Folder | None = None
        self._lock = -1
        self._groups: list[list[ManagedProcess]] = []  # in the order of their start
        self._supervisors: list[asyncio.Task[None]] = []
        self._addresses: ClusterAddresses | None = None
        self._socket: Path | None = None

    async def start(self) -> dict[str, JSON]:
        """Start all processes; the state file for scripts. Call `stop` after Rejected or Unavailable."""
        _check(self.options)
        self._folder = folder = Folder(self.path)
        self._lock = await folder.wait_for_leftovers(self._clock)
        postgres, nats = Postgres(folder, self._clock), Nats(folder)
        self._socket = postgres.socket
        (folder.path / "logs").mkdir(mode=0o700, exist_ok=True)
        begun = self._clock.monotonic()
        await postgres.initialise()
        spent = self._clock.monotonic() - begun
        age = "existing data" if postgres.exists else f"new database, created in {spent:.1f} s"
        await self._start_group([(postgres.spec(), f"PostgreSQL {postgres.version}, {age}")])
        await postgres.create_database()
        await self._start_group([(nats.spec(), f"on {HOST}:{nats.port}, every write synced")])
        key, link_key, pool_key = (folder.secret(name, random_key) for name in ("key", "link-key", f"pool-key-{POOL}"))
        port = self.options.port or free_port()  # as late as possible: another process could take it
        self._addresses = ClusterAddresses(postgres.url(), nats.url(), port, key, link_key, nats.pool_url(), pool_key)
        await self._ensure_token(postgres.url())
        specs = self._specs(self.options, self._addresses, folder.path)
        for group in (specs[:1], specs[1:]):  # the first one alone, then all others together
            await self._start_group([(spec, "") for spec in group])
        self._write_environment()
        for child in self._all():
            self._supervisors.append(asyncio.ensure_future(self._supervise(child)))
            if child.spec.fault is not None:
                self._supervisors.append(asyncio.ensure_future(self._stop_on_fault(child, child.spec.fault)))
        return self._write_state()

    async def _start_group(self, specs: list[tuple[ServiceSpec, str]]) -> None:
        """Start processes concurrently. `stop` stops them, even if a start fails."""
        assert self._folder is not None
        logs = self._folder.path / "logs"
        group = [ManagedProcess(each, logs / f"{each.name}.log", self._clock, self._lock) for each, _ in specs]
        self._groups.append(group)

        async def start(child: ManagedProcess, words: str) -> None:
            seconds = await child.start()
            words = words or child.ready_line.partition("ready")[2].strip(" :") or "ready"
            self._report(DevClusterStatus(child.name, words, seconds))

        try:
            async with asyncio.TaskGroup() as tasks:
                for child, (_, words) in zip(group, specs, strict=True):
                    tasks.create_task(start(child, words))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _ensure_token(self, url: str) -> None:
        """Create an API token in the folder, if there is none or if it was revoked."""
        from noetl.adapters.postgres.database import open_postgres
        from noetl.adapters.postgres.secrets import PostgresTokens
        from noetl.control.api_tokens import digest_of, new_token

        assert self._folder is not None
        database = open_postgres(url, self._clock)
        try:
            tokens = PostgresTokens(database)
            if (self._folder.path / TOKEN_FILE).exists():
                text = self._folder.secret(TOKEN_FILE, random_key)
                if await tokens.find(digest_of(text)) is not None:
                    return
            token, text = new_token("up", ["admin"], None, self._clock, os.urandom)
            await tokens.add(token, digest_of(text))
            self._folder.put(TOKEN_FILE, text + "\n")
        finally:
            await database.close()

    # While it runs

    async def follow(self) -> None:
        """Supervise the processes. It returns only after a bug."""
        await asyncio.gather(*self._supervisors)

    async def _supervise(self, child: ManagedProcess) -> None:
        delay, since = RESTART_S, self._clock.monotonic()
        while True:
            ended = describe_exit(await child.wait())
            if self._clock.monotonic() - since > STEADY_S:
                delay = RESTART_S
            words = f"has ended ({ended}); restart in {delay:g} s; log {child.log}"
            self._report(DevClusterStatus(child.name, words, is_wrong=True))
            await self._clock.sleep(delay)
            delay = min(2 * delay, RESTART_MAX_S)
            since = self._clock.monotonic()
            try:
                seconds = await child.start()
            except Unavailable as error:
                self._report(DevClusterStatus(child.name, str(error), is_wrong=True))
                continue
            with suppress(OSError):  # the file is only informative
                self._write_state()
            self._report(DevClusterStatus(child.name, "is back", seconds))

    async def _stop_on_fault(self, child: ManagedProcess, find_fault: Callable[[], Awaitable[str]]) -> None:
        """`_supervise` starts it again."""
        while True:
            await self._clock.sleep(FAULT_CHECK_S)
            if child.pid is not None and (fault := await find_fault()):
                self._report(DevClusterStatus(child.name, fault, is_wrong=True))
                await child.stop()

    def _all(self) -> list[ManagedProcess]:
        return [child for group in self._groups for child in group]

    def _write_state(self) -> dict[str, JSON]:
        assert self._folder is not None
        assert self._addresses is not None
        path = self._folder.path
        state: dict[str, JSON] = {
            "url": self._addresses.url,
            "nats": self._addresses.nats.rpartition("@")[2],
            "pid": os.getpid(),
            "pids": {child.name: child.pid for child in self._all()},
            "folder": str(path),
            "token_file": str(path / TOKEN_FILE),
            "environment_file": str(path / ENVIRONMENT_FILE),
            "logs": str(path / "logs"),
            "socket_folder": str(self._socket),
        }
        self._folder.put(STATE, json.dumps(state, indent=2) + "\n")
        return state

    def _write_environment(self) -> None:
        """For shells: to start another worker, or to access the services directly."""
        assert self._folder is not None
        assert self._addresses is not None
        own = server_environment(self._addresses)
        token = (self._folder.path / TOKEN_FILE).read_text("ascii").strip()
        own = {**own, SERVER: self._addresses.url, TOKEN: token}
        lines = [f"{name}={shlex.quote(value)}\n" for name, value in own.items()]
        self._folder.put(ENVIRONMENT_FILE, "".join(lines))

    # The end

    async def stop(self, *, at_once: bool = False) -> None:
        """Stop workers, server, NATS and PostgreSQL, in this order. `at_once`: without waiting."""
        for task in self._supervisors:
            task.cancel()
        await asyncio.gather(*self._supervisors, return_exceptions=True)
        self._supervisors.clear()
        for group in reversed(self._groups):
            await asyncio.gather(*(self._stop(child, at_once) for child in group))
        self._groups.clear()
        if self._folder is not None:
            with suppress(OSError):
                (self._folder.path / STATE).unlink(missing_ok=True)
            self._folder.close()
            self._folder = None

    async def _stop(self, child: ManagedProcess, at_once: bool) -> None:
        if child.pid is None:
            await child.kill()  # closes its log
            return
        begun = self._clock.monotonic()
        await child.stop(at_once=at_once)
        self._report(DevClusterStatus(child.name, "stopped", self._clock.monotonic() - begun))


def server_environment(addresses: ClusterAddresses) -> dict[str, str]:
    return {
        DATABASE: addresses.database, NATS: addresses.nats, KEY: addresses.key, LINK_KEY: addresses.link_key,
        POOL_KEYS: f"{POOL}={addresses.pool_key}",
    }  # fmt: skip


def worker_environment(addresses: ClusterAddresses) -> dict[str, str]:
    """A worker needs neither the database nor the keys of stored secrets and of servers."""
    return {NATS: addresses.worker_nats, POOL_KEY: addresses.pool_key}


def cluster_processes(options: DevClusterOptions, addresses: ClusterAddresses, folder: Path) -> list[ServiceSpec]:
    """A server and its workers. Secrets are passed in the environment: command lines are public."""
    # -P: import modules from the installation, not from the working directory.
    noetl = (sys.executable, "-P", "-m", "noetl")
    own_slots = ("--slots", str(options.server_slots)) if options.server_slots else ()
    server = ServiceSpec(
        name="server",
        command=(*noetl, "server", "--host", HOST, "--port", str(addresses.port), "--name", SERVER_NAME, *own_slots),
        environment={**_inherited(os.environ), **server_environment(addresses)},
        ready="noetl: ready",
        folder=folder,
    )
    workers = [
        ServiceSpec(
            name=f"worker-{number}",
            command=(*noetl, "worker", "--slots", str(options.slots), "--name", f"up-{number}"),
            environment={**_inherited(os.environ), **worker_environment(addresses)},
            ready="noetl: ready",
            folder=folder,
        )
        for number in range(1, options.workers + 1)
    ]
    return [server, *workers]


def _inherited(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in environment.items() if name not in _OWN}
    # On a developer's machine tools may reach the same networks as with `noetl run`.
    return {NETWORKS: OWN_NETWORKS, **kept, "PYTHONUNBUFFERED": "1"}


def _check(options: DevClusterOptions) -> None:
    """Raises Rejected."""
    if not 0 <= options.port < 65_536:
        raise Rejected("bad-option", f"--port {options.port} is not a port: use 0 to 65535")
    if not 0 <= options.workers <= WORKERS_MAX:
        raise Rejected("bad-option", f"--workers {options.workers} is not in 0 to {WORKERS_MAX}")
    if not 1 <= options.slots <= WORKER_SLOTS_MAX:
        raise Rejected("bad-option", f"--slots {options.slots} is not in 1 to {WORKER_SLOTS_MAX}")
    if not 0 <= options.server_slots <= WORKER_SLOTS_MAX:
        raise Rejected("bad-option", f"--server-slots {options.server_slots} is not in 0 to {WORKER_SLOTS_MAX}")
    if options.port and not is_free(options.port):
        raise Rejected("no-port", f"port {options.port} of {HOST} is in use: name another one with --port")
