"""The memory adapters keep the contracts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from noetl.adapters.memory.queue import MemoryQueue
from noetl.adapters.memory.results import MemoryResults
from noetl.adapters.memory.store import MemoryStore
from noetl.clock import SystemClock
from noetl.output import JSON
from noetl.ports import EventStore, WorkQueue
from noetl.testing.contracts.results import ClearedStore, ResultStoreContract
from noetl.testing.contracts.stores import (
    PARTITIONS,
    EventStoreContract,
    PartitionedStore,
    PartitionsContract,
    WorkQueueContract,
    epoch_of,
)


class TestMemoryStore(EventStoreContract):
    async def owned(self) -> tuple[EventStore, int]:
        store = MemoryStore(SystemClock(), PARTITIONS)
        return store, await epoch_of(store, "s1")


class TestMemoryPartitions(PartitionsContract):
    def make(self) -> PartitionedStore:
        return MemoryStore(SystemClock(), PARTITIONS)


class TestMemoryQueue(WorkQueueContract):
    def make(self) -> WorkQueue:
        return MemoryQueue()


class TestMemoryResults(ResultStoreContract):
    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[ClearedStore]:
        self.store = MemoryResults()
        yield self.store

    async def spoil(self, ref: dict[str, JSON]) -> None:
        key = ref["locator"]["key"]
        body, at = self.store.bodies[key]
        self.store.bodies[key] = body[:-1] + bytes([body[-1] ^ 1]), at
