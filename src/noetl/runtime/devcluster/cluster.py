"""The distributed house on one machine, for a trial: PostgreSQL, NATS, a server and workers in one folder.

Whoever dies is started again; all of it ends with us, and the next one goes on with what is there.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from noetl.clock import Clock
from noetl.errors import Rejected, Unavailable
from noetl.output import JSON
from noetl.runtime.devcluster.folder import STATE, Folder, default_folder, random_key
from noetl.runtime.devcluster.nats import Nats, free_port, is_free, program_path
from noetl.runtime.devcluster.postgres import Postgres, look_for_wheel
from noetl.runtime.devcluster.processes import Child, Program, ending
from noetl.runtime.settings import NETWORKS

HOST: Final = "127.0.0.1"
AGAIN_S: Final = 0.5  # before someone who died is started again; twice as long each time
AGAIN_MAX_S: Final = 30.0
STEADY_S: Final = 60.0  # whoever lived so long is started again as if for the first time
WORKERS_MAX: Final = 64
SLOTS_MAX: Final = 1_024
SERVER_NAME: Final = "up"
TOKEN_FILE: Final = "token"
ENVIRONMENT_FILE: Final = "environment"
OWN_NETWORKS: Final = "127.0.0.0/8 ::1/128 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7"
# What a shell says of another house must not reach this one.
_OWN: Final = (
    "NOETL_DB",
    "NOETL_NATS",
    "NOETL_SERVER",
    "NOETL_TOKEN",
    "NOETL_KEY",
    "NOETL_LINK_KEY",
    "NOETL_RESULTS",
)


class DevClusterOptions(NamedTuple):
    """What `noetl up` was given."""

    folder: Path | None = None  # None: the user's own
    port: int = 8080  # 0: any that is free
    workers: int = 2
    slots: int = 16


class DevClusterStatus(NamedTuple):
    """Something that people want to know."""

    name: str  # of the child
    words: str
    seconds: float | None = None  # that it took
    is_wrong: bool = False


class Addresses(NamedTuple):
    """Where the house is, and what opens it. Nothing of it is for command lines and logs."""

    database: str
    nats: str
    port: int
    key: str
    link_key: str

    def __repr__(self) -> str:
        return "Addresses(***)"

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


class DevCluster:
    """`start`, then `follow` for as long as it is wanted, then `stop`, which is right at any time."""

    def __init__(
        self,
        asked: DevClusterOptions,
        clock: Clock,
        tell: Callable[[DevClusterStatus], None],
        house: Callable[[DevClusterOptions, Addresses, Path], list[Program]] | None = None,
    ) -> None:
        """`house`: what runs on PostgreSQL and NATS; None: a server and its workers.

        Raises Rejected when something is not installed: no folder is made then.
        """
        look_for_wheel()
        program_path()
        self.asked = asked
        self.path = (asked.folder or default_folder()).expanduser().absolute()
        self._clock = clock
        self._tell = tell
        self._house = house or house_programs
        self._folder: Folder | None = None
        self._lock = -1
        self._children: list[list[Child]] = []  # in groups, as they are started
        self._keeping: list[asyncio.Task[None]] = []
        self._addresses: Addresses | None = None
        self._socket: Path | None = None

    async def start(self) -> dict[str, JSON]:
        """What a script wants to know, when all are ready. Raises Rejected or Unavailable; then `stop`."""
        _check(self.asked)
        self._folder = folder = Folder(self.path)
        self._lock = await folder.alone(self._clock)
        postgres, nats = Postgres(folder, self._clock), Nats(folder)
        self._socket = postgres.socket
        (folder.path / "logs").mkdir(mode=0o700, exist_ok=True)
        begun = self._clock.monotonic()
        await postgres.make()
        made = self._clock.monotonic() - begun
        age = "data kept from before" if postgres.kept else f"new database, made in {made:.1f} s"
        await self._begin([(postgres.program(), f"PostgreSQL {postgres.version}, {age}")])
        await postgres.create()
        await self._begin([(nats.program(), f"on {HOST}:{nats.port}, every write synced")])
        key, link_key = folder.secret("key", random_key), folder.secret("link-key", random_key)
        port = self.asked.port or free_port()  # late: somebody else may take it before the server does
        self._addresses = Addresses(postgres.url(), nats.url(), port, key, link_key)
        await self._admit(postgres.url())
        for group in _groups(self._house(self.asked, self._addresses, folder.path)):
            await self._begin([(program, "") for program in group])
        self._write_environment()
        for child in self._all():
            self._keeping.append(asyncio.ensure_future(self._keep(child)))
        return self._write_state()

    async def _begin(self, programs: list[tuple[Program, str]]) -> None:
        """A group, at the same time. They are ours to stop, whatever becomes of them."""
        assert self._folder is not None
        logs = self._folder.path / "logs"
        group = [Child(each, logs / f"{each.name}.log", self._clock, self._lock) for each, _ in programs]
        self._children.append(group)

        async def begin(child: Child, words: str) -> None:
            seconds = await child.start()
            self._tell(
                DevClusterStatus(
                    child.name, words or child.said.partition("ready")[2].strip(" :") or "ready", seconds
                )
            )

        try:
            async with asyncio.TaskGroup() as tasks:
                for child, (_, words) in zip(group, programs, strict=True):
                    tasks.create_task(begin(child, words))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _admit(self, url: str) -> None:
        """A token for whoever has the folder, known to the database; made anew when it was revoked."""
        from noetl.adapters.postgres.database import open_postgres
        from noetl.adapters.postgres.tokens import PostgresTokens
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
        """Never comes back, unless there is a bug."""
        await asyncio.gather(*self._keeping)

    async def _keep(self, child: Child) -> None:
        pause, since = AGAIN_S, self._clock.monotonic()
        while True:
            words = ending(await child.ended())
            if self._clock.monotonic() - since > STEADY_S:
                pause = AGAIN_S
            self._tell(
                DevClusterStatus(
                    child.name, f"has ended ({words}); again in {pause:g} s; log {child.log}", is_wrong=True
                )
            )
            await self._clock.sleep(pause)
            pause = min(2 * pause, AGAIN_MAX_S)
            since = self._clock.monotonic()
            try:
                seconds = await child.start()
            except Unavailable as error:
                self._tell(DevClusterStatus(child.name, str(error), is_wrong=True))
                continue
            with suppress(OSError):  # only a copy of what the system knows
                self._write_state()
            self._tell(DevClusterStatus(child.name, "is back", seconds))

    def _all(self) -> list[Child]:
        return [child for group in self._children for child in group]

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
        """For a shell that wants one more worker, or to look at the services themselves."""
        assert self._folder is not None
        assert self._addresses is not None
        own = server_environment(self._addresses)
        token = (self._folder.path / TOKEN_FILE).read_text("ascii").strip()
        own = {**own, "NOETL_SERVER": self._addresses.url, "NOETL_TOKEN": token}
        lines = [f"{name}={shlex.quote(value)}\n" for name, value in own.items()]
        self._folder.put(ENVIRONMENT_FILE, "".join(lines))

    # Its end

    async def stop(self, *, at_once: bool = False) -> None:
        """Workers, server, NATS, PostgreSQL: nobody loses what it needs. `at_once`: without patience."""
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
        self._keeping.clear()
        for group in reversed(self._children):
            await asyncio.gather(*(self._stop(child, at_once) for child in group))
        self._children.clear()
        if self._folder is not None:
            with suppress(OSError):
                (self._folder.path / STATE).unlink(missing_ok=True)
            self._folder.close()
            self._folder = None

    async def _stop(self, child: Child, at_once: bool) -> None:
        if child.pid is None:
            await child.kill()  # what is left of its output
            return
        begun = self._clock.monotonic()
        await child.stop(at_once=at_once)
        self._tell(DevClusterStatus(child.name, "stopped", self._clock.monotonic() - begun))


def server_environment(addresses: Addresses) -> dict[str, str]:
    return {
        "NOETL_DB": addresses.database,
        "NOETL_NATS": addresses.nats,
        "NOETL_KEY": addresses.key,
        "NOETL_LINK_KEY": addresses.link_key,
    }


def worker_environment(addresses: Addresses) -> dict[str, str]:
    """A worker has no use for the database, nor for the key of what is stored there."""
    return {"NOETL_NATS": addresses.nats, "NOETL_LINK_KEY": addresses.link_key}


def house_programs(asked: DevClusterOptions, addresses: Addresses, folder: Path) -> list[Program]:
    """A server and its workers. What is secret goes by the environment: command lines are for all to see."""
    # -P: modules come from where NoETL is installed, and not from the folder that someone stands in.
    noetl = (sys.executable, "-P", "-m", "noetl")
    server = Program(
        name="server",
        command=(*noetl, "server", "--host", HOST, "--port", str(addresses.port), "--name", SERVER_NAME),
        environment={**_inherited(os.environ), **server_environment(addresses)},
        ready="noetl: ready",
        folder=folder,
    )
    workers = [
        Program(
            name=f"worker-{number}",
            command=(*noetl, "worker", "--slots", str(asked.slots), "--name", f"up-{number}"),
            environment={**_inherited(os.environ), **worker_environment(addresses)},
            ready="noetl: ready",
            folder=folder,
        )
        for number in range(1, asked.workers + 1)
    ]
    return [server, *workers]


def _groups(programs: list[Program]) -> list[list[Program]]:
    """The first one alone, then all others together."""
    return [group for group in (programs[:1], programs[1:]) if group]


def _inherited(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in environment.items() if name not in _OWN}
    # On one's own machine tools may reach what they reach by `noetl run`.
    return {NETWORKS: OWN_NETWORKS, **kept, "PYTHONUNBUFFERED": "1"}


def _check(asked: DevClusterOptions) -> None:
    """Raises Rejected."""
    if not 0 <= asked.port < 65_536:
        raise Rejected("bad-option", f"--port {asked.port} is no port: write 0 to 65535")
    if not 0 <= asked.workers <= WORKERS_MAX:
        raise Rejected("bad-option", f"--workers {asked.workers} is not in 0 to {WORKERS_MAX}")
    if not 1 <= asked.slots <= SLOTS_MAX:
        raise Rejected("bad-option", f"--slots {asked.slots} is not in 1 to {SLOTS_MAX}")
    if asked.port and not is_free(asked.port):
        raise Rejected("no-port", f"port {asked.port} of {HOST} is taken: name another one by --port")
