"""The memory adapters keep the contracts."""

from __future__ import annotations

from noetl.adapters.memory.queue import MemoryQueue
from noetl.adapters.memory.results import MemoryResults
from noetl.adapters.memory.store import MemoryStore
from noetl.clock import SystemClock
from noetl.ids import partition_of
from noetl.ports import EventStore, ResultStore, WorkQueue
from noetl.testing.contracts import (
    PARTITIONS,
    EventStoreContract,
    PartitionedStore,
    PartitionsContract,
    ResultStoreContract,
    WorkQueueContract,
)


class TestMemoryStore(EventStoreContract):
    async def owned(self) -> tuple[EventStore, int]:
        store = MemoryStore(SystemClock(), PARTITIONS)
        owned = await store.own(partition_of("e", PARTITIONS), "s1", 60.0)
        assert owned is not None
        return store, owned.epoch


class TestMemoryPartitions(PartitionsContract):
    def make(self) -> PartitionedStore:
        return MemoryStore(SystemClock(), PARTITIONS)


class TestMemoryQueue(WorkQueueContract):
    def make(self) -> WorkQueue:
        return MemoryQueue()


class TestMemoryResults(ResultStoreContract):
    def make(self) -> ResultStore:
        return MemoryResults()
