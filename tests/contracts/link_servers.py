"""Servers and workers in one process, over any transport. The log is in memory; everything else is real."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Generic, TypeVar

from noetl.adapters.memory import MemoryQueue, MemoryResults, MemoryStore
from noetl.clock import SystemClock
from noetl.control.current_work import share_waits
from noetl.control.deps import CommitHook, ControlHooks, ControlPorts, ControlSettings
from noetl.control.executions import Control
from noetl.control.ownership import PartitionOwners
from noetl.control.playbooks import CompiledPlaybooks
from noetl.errors import NotFound
from noetl.link.client import LinkClient, LinkPlaybooks
from noetl.link.keys import SERVER, LinkGuard, LinkIdentity, LinkKey, LinkKeys
from noetl.link.messages import PARTITIONS
from noetl.link.secret_channel import SecretServer
from noetl.link.server import LinkServer
from noetl.net.program import Program
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential, PlaybookText, PrintedLine, SecretProvider, Transport, WorkQueue
from noetl.secret import Secret
from noetl.testing.contracts.link import LinkParts
from tests.playbooks import HEAD, kinds

KEY = LinkKey(bytes(range(32)))
T = TypeVar("T", bound=Transport)


class Playbooks:
    """Texts by digest, and digests by path."""

    def __init__(self, bodies: Mapping[str, str]) -> None:
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
    """Compiled playbooks by digest, and digests by path."""

    def __init__(self, playbooks: Playbooks) -> None:
        self._playbooks, self._compiled = playbooks, CompiledPlaybooks(playbooks, kinds())

    async def by_digest(self, digest: str) -> Program:
        return await self._compiled.by_digest(digest)

    async def add_document(self, text: str, caller: str) -> Program:
        program = await self._compiled.compile_document(text, None, await self.by_digest(caller))
        self._playbooks.texts[program.digest] = PlaybookText(program.digest, program.playbook.path, text)
        return program

    async def find(self, path: str, near: str | None = None, version: int | None = None) -> str:
        del near, version
        if path not in self._playbooks.digests:
            raise NotFound(f"no playbook {path}")
        return self._playbooks.digests[path]


class OneSecret:
    """A provider with one value for every entry except `missing`."""

    def __init__(self, value: str = "a-secret-value") -> None:
        self.value = value
        self.requests: list[tuple[str, bool]] = []

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        self.requests.append((credential.name, fresh))
        if credential.name == "missing":
            raise NotFound('keychain entry "missing": nothing is stored under that name')
        return FetchedCredential({"": Secret(self.value)}, sha256(self.value.encode()).hexdigest()[:8], 60.0)


class LinkedServer(Generic[T]):
    """A control that owns partitions of the log, and a link server that answers for them."""

    def __init__(
        self, transport: T, store: MemoryStore, playbooks: Playbooks, *, name: str = "s1",
        queue: WorkQueue | None = None, key: LinkKey | None = KEY, provider: SecretProvider | None = None,
        control: type[Control] = Control, pools: Mapping[str, Sequence[LinkKey]] | None = None,
    ) -> None:  # fmt: skip
        """`pools`: the keys of isolated pools."""
        self.name, self.clock = name, SystemClock()
        self.transport = transport
        self.programs = Programs(playbooks)
        self.guard = LinkGuard(LinkKeys(key, pools or {}), self.clock)
        identity = LinkIdentity(SERVER, key, self.clock) if pools and key else None
        self.link = LinkClient(transport, self.programs, identity=identity)
        self.owners = PartitionOwners(store, self.clock, name, ttl_s=60.0, count=PARTITIONS)
        ports = ControlPorts(store, queue or MemoryQueue(), MemoryResults(), self.link)
        self.on_commit: list[CommitHook] = []
        hooks = ControlHooks(on_commit=self.on_commit)
        self.control = control(ports, self.programs, self.owners, self.clock, ControlSettings(), hooks=hooks)
        self.refused: list[str] = []
        self.lines: list[PrintedLine] = []
        secrets = SecretServer(key, provider or OneSecret())
        self.server = LinkServer(
            transport, self.control, playbooks, secrets, self.guard, logs=self, owned=lambda: self.owners.owned,
            share_waits=lambda id: share_waits(self.control, id),
            on_refused=lambda pool, error: self.refused.append(f"{pool}: {error}"),
        )  # fmt: skip

    async def append(self, _execution_id: str, lines: Sequence[PrintedLine]) -> bool:
        """It is a LogSink."""
        self.lines += lines
        return True

    async def keep(self) -> None:
        """A round of ownership, after which requests reach the new owner."""
        await self.owners.renew(self.control.set_time)
        await self.server.follow(self.owners.owned)
        await self.transport.flush()

    async def close(self) -> None:
        await self.server.close()
        self.control.timers.close()
        await self.transport.close()


@asynccontextmanager
async def served(
    connect: Callable[[], T],
    bodies: Mapping[str, str],
    *,
    queue: Callable[[T], WorkQueue] | None = None,
    key: LinkKey | None = KEY,
    provider: SecretProvider | None = None,
    pools: Mapping[str, Sequence[LinkKey]] | None = None,
) -> AsyncIterator[tuple[LinkedServer[T], T, Playbooks]]:
    """One server that owns all partitions, and the transport of a worker."""
    store, playbooks, transport = MemoryStore(SystemClock(), PARTITIONS), Playbooks(bodies), connect()
    server = LinkedServer(
        transport, store, playbooks, queue=queue(transport) if queue else None, key=key, provider=provider, pools=pools
    )
    worker = connect()
    try:
        async with asyncio.timeout(120):
            await server.server.open()
            await server.keep()
            yield server, worker, playbooks
    finally:
        await server.close()
        await worker.close()


@asynccontextmanager
async def link_parts(
    connect: Callable[[], T], bodies: Mapping[str, str], pools: Mapping[str, Sequence[LinkKey]] | None = None
) -> AsyncIterator[LinkParts]:
    """For LinkContract: a worker's link to one server. `pools`: it seals its messages with the key of servers."""
    async with served(connect, bodies, pools=pools) as (server, transport, playbooks):
        identity = LinkIdentity(SERVER, KEY, SystemClock()) if pools else None
        yield LinkParts(link_of(transport, identity), server.control, server.control.store, playbooks.digests)


def link_of(transport: Transport, identity: LinkIdentity | None = None) -> LinkClient:
    """The link of a worker, which receives playbooks over the link."""
    programs = CompiledPlaybooks(LinkPlaybooks(transport, identity), kinds())
    return LinkClient(transport, programs, identity=identity)
