"""The memory adapters keep the contracts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from noetl.adapters.memory import (
    MemoryBus,
    MemoryFeed,
    MemoryQueue,
    MemoryResults,
    MemoryStore,
    MemoryTransport,
    MemoryWorkerRegistry,
)
from noetl.adapters.memory_limits import MemoryLimits
from noetl.adapters.memory_triggers import MemoryTriggers
from noetl.clock import SystemClock
from noetl.ids import partition_of
from noetl.link.feed import LinkFeed
from noetl.link.keys import LinkKey
from noetl.link.workers import LinkWorkerRegistry
from noetl.output import JSON
from noetl.ports import EventStore, Feed, Limits, Transport, WorkerInfo
from noetl.testing.contracts.limits import LimitsContract
from noetl.testing.contracts.link import (
    FeedContract,
    LinkContract,
    LinkParts,
    RegistryParts,
    TransportContract,
    WorkerRegistryContract,
)
from noetl.testing.contracts.notifications import NotifyingLog, PendingNotificationsContract
from noetl.testing.contracts.queue import QueueClient, WorkQueueContract
from noetl.testing.contracts.results import ClearableStore, ResultStoreContract
from noetl.testing.contracts.saved import SavedContract, SavingLog
from noetl.testing.contracts.secrets import SecretProviderContract, SecretSetup
from noetl.testing.contracts.stores import (
    PARTITIONS,
    EventStoreContract,
    PartitionedStore,
    PartitionsContract,
    epoch_of,
)
from noetl.testing.contracts.triggers import OpenedTriggers, TriggersContract
from tests.contracts.link_servers import OneSecret, link_parts
from tests.unit.link.test_link import connector
from tests.unit.link.test_secret_channel import API, MISSING, holding_worker


class TestMemoryStore(EventStoreContract):
    async def owned(self) -> tuple[EventStore, int]:
        store = MemoryStore(SystemClock(), PARTITIONS)
        return store, await epoch_of(store, "s1")


class TestMemoryPartitions(PartitionsContract):
    def make(self) -> PartitionedStore:
        return MemoryStore(SystemClock(), PARTITIONS)


class TestMemoryLimits(LimitsContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[Limits]:
        yield MemoryLimits()


class TestMemorySaved(SavedContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[SavingLog]:
        store = MemoryStore(SystemClock(), PARTITIONS)

        async def owner(execution_id: str) -> int:
            partition = partition_of(execution_id, PARTITIONS)
            return (await store.own("s1", [partition], 60.0)).epochs[partition]

        yield SavingLog(store, store.saved, owner)


class TestMemoryPendingNotifications(PendingNotificationsContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[NotifyingLog]:
        store = MemoryStore(SystemClock(), PARTITIONS)

        async def owner(execution_id: str) -> int:
            partition = partition_of(execution_id, PARTITIONS)
            return (await store.own("s1", [partition], 60.0)).epochs[partition]

        yield NotifyingLog(store, owner)


class TestMemoryQueue(WorkQueueContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Callable[[str], QueueClient]]:
        queue = MemoryQueue()

        def connect(_pool: str) -> QueueClient:
            nonlocal queue
            if queue.closed:
                queue = MemoryQueue()
            return QueueClient(queue, queue)

        yield connect


class TestMemoryTransport(TransportContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Callable[[], Transport]]:
        yield partial(MemoryTransport, MemoryBus())


class TestMemoryLink(LinkContract):
    def open(self, playbooks: Mapping[str, str]) -> AbstractAsyncContextManager[LinkParts]:
        return link_parts(partial(MemoryTransport, MemoryBus()), playbooks)


class TestSmallMessagesLink(LinkContract):
    """A transport with a small payload limit: nearly every body travels in parts."""

    def open(self, playbooks: Mapping[str, str]) -> AbstractAsyncContextManager[LinkParts]:
        return link_parts(partial(MemoryTransport, MemoryBus(payload_limit=8_192)), playbooks)


class TestSealedLink(LinkContract):
    """Every message is encrypted, and bodies travel in parts."""

    def open(self, playbooks: Mapping[str, str]) -> AbstractAsyncContextManager[LinkParts]:
        pools = {"default": [LinkKey(b"p" * 32)]}
        return link_parts(partial(MemoryTransport, MemoryBus(payload_limit=8_192)), playbooks, pools)


class TestMemoryFeed(FeedContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Feed, Feed]]:
        feed = MemoryFeed()
        yield feed, feed


class TestMemoryTransportFeed(FeedContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Feed, Feed]]:
        broker = MemoryBus()
        publisher, subscriber = MemoryTransport(broker), MemoryTransport(broker)
        await publisher.open()
        yield LinkFeed(publisher), LinkFeed(subscriber)


class TestMemoryWorkerRegistry(WorkerRegistryContract):
    @asynccontextmanager
    async def open(self, clock: SystemClock) -> AsyncIterator[RegistryParts]:
        registry = MemoryWorkerRegistry(clock)

        async def announce(info: WorkerInfo) -> None:
            registry.announce(info)

        yield RegistryParts(registry, announce)


class TestMemoryTransportWorkerRegistry(WorkerRegistryContract):
    @asynccontextmanager
    async def open(self, clock: SystemClock) -> AsyncIterator[RegistryParts]:
        transport = MemoryTransport(MemoryBus())
        registry = LinkWorkerRegistry(transport, clock)
        await registry.open()

        async def announce(info: WorkerInfo) -> None:
            await registry.announce(info)
            await transport.flush()

        yield RegistryParts(registry, announce)


class TestMemoryTransportSecrets(SecretProviderContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[SecretSetup]:
        provider = OneSecret()

        async def change() -> None:
            provider.value = "another-secret-value"

        async with holding_worker(connector(), provider) as worker:
            yield SecretSetup(worker.secrets(), API, MISSING, change)


class TestMemoryResults(ResultStoreContract):
    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[ClearableStore]:
        self.store = MemoryResults()
        yield self.store

    async def damage(self, ref: dict[str, JSON]) -> None:
        key = ref["locator"]["key"]
        body, at = self.store.bodies[key]
        self.store.bodies[key] = body[:-1] + bytes([body[-1] ^ 1]), at


class TestMemoryTriggers(TriggersContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[OpenedTriggers]:
        current: dict[str, str] = {}

        async def register(path: str, digest: str) -> None:
            current[path] = digest

        yield OpenedTriggers(MemoryTriggers(current.get), register)
