"""Servers and workers in one process, with a real NATS between them: the log in memory, everything else as it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256

from noetl.adapters.memory.results import MemoryResults
from noetl.adapters.memory.store import MemoryStore
from noetl.adapters.nats.connection import Connection
from noetl.adapters.nats.queue import NatsQueue
from noetl.clock import SystemClock
from noetl.control.deps import CommitHook, ControlHooks, ControlPorts, ControlSettings
from noetl.control.executions import Control
from noetl.control.ownership import PartitionOwners
from noetl.control.playbooks import CompiledPlaybooks
from noetl.errors import NotFound
from noetl.link.client import NatsLink
from noetl.link.messages import PARTITIONS
from noetl.link.playbook_cache import NatsTexts
from noetl.link.secret_channel import Keeper, LinkKey
from noetl.link.server import Answering
from noetl.net.program import Program
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential, PlaybookText, SecretProvider
from noetl.secret import Secret
from tests.playbooks import HEAD, kinds

KEY = LinkKey(bytes(range(32)))


class Shelf:
    """Texts by digest, and what is meant by a path."""

    def __init__(self, bodies: dict[str, str]) -> None:
        self.texts: dict[str, PlaybookText] = {}
        self.digests: dict[str, str] = {}
        for path, body in bodies.items():
            text = HEAD.replace("path: t", f"path: {path}") + body
            digest = sha256(text.encode()).hexdigest()
            self.texts[digest], self.digests[path] = PlaybookText(digest, path, text), digest

    async def get(self, digest: str) -> PlaybookText:
        if digest not in self.texts:
            raise NotFound(f"no playbook {digest}")
        return self.texts[digest]


class Programs:
    """Compiled, and found by path."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf, self._compiled = shelf, CompiledPlaybooks(shelf, kinds())

    async def by_digest(self, digest: str) -> Program:
        return await self._compiled.by_digest(digest)

    async def find(self, path: str, near: str | None = None, version: int | None = None) -> str:
        del near, version
        if path not in self._shelf.digests:
            raise NotFound(f"no playbook {path}")
        return self._shelf.digests[path]


class Safe:
    """One value for every entry; `missing` is not there."""

    def __init__(self, value: str = "a-secret-value") -> None:
        self.value = value
        self.asked: list[tuple[str, bool]] = []

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        self.asked.append((credential.name, fresh))
        if credential.name == "missing":
            raise NotFound('keychain entry "missing": nothing is stored under that name')
        return FetchedCredential({"": Secret(self.value)}, sha256(self.value.encode()).hexdigest()[:8], 60.0)


class Server:
    """Owns partitions of the log, and answers for them."""

    def __init__(
        self, url: str, store: MemoryStore, shelf: Shelf, *, name: str = "s1", key: LinkKey | None = KEY,
        provider: SecretProvider | None = None, control: type[Control] = Control,
    ) -> None:  # fmt: skip
        self.name, self.clock = name, SystemClock()
        self.connection = Connection(url, name)
        self.queue = NatsQueue(self.connection)
        self.programs = Programs(shelf)
        self.link = NatsLink(self.connection, self.programs)
        self.owners = PartitionOwners(store, self.clock, name, ttl_s=60.0, count=PARTITIONS)
        reach = ControlPorts(store, self.queue, MemoryResults(), self.link)
        self.watchers: list[CommitHook] = []
        hooks = ControlHooks(on_commit=self.watchers)
        self.control = control(reach, self.programs, self.owners, self.clock, ControlSettings(), hooks=hooks)
        keeper = Keeper(key, provider or Safe())
        self.answering = Answering(self.connection, self.control, shelf, keeper)

    async def keep(self) -> None:
        """A round of ownership, and who is reached then."""
        await self.owners.renew(self.control.set_time)
        await self.answering.follow(self.owners.owned)
        await self.connection.settle()

    async def close(self) -> None:
        await self.answering.close()
        self.control.timers.close()
        await self.connection.close()


@asynccontextmanager
async def served(
    url: str, bodies: dict[str, str], *, key: LinkKey | None = KEY, provider: SecretProvider | None = None
) -> AsyncIterator[tuple[Server, Connection, Shelf]]:
    """One server that owns all there is, and the connection of a worker to it."""
    store, shelf = MemoryStore(SystemClock(), PARTITIONS), Shelf(bodies)
    server, connection = Server(url, store, shelf, key=key, provider=provider), Connection(url)
    try:
        async with asyncio.timeout(120):
            await server.answering.open()
            await server.keep()
            yield server, connection, shelf
    finally:
        await server.close()
        await connection.close()


def link_of(connection: Connection) -> NatsLink:
    """A worker's: all that it knows of playbooks comes over the link."""
    return NatsLink(connection, CompiledPlaybooks(NatsTexts(connection), kinds()))
