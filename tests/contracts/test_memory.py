"""The memory adapters keep the contracts."""

from __future__ import annotations

from noetl.adapters.memory.queue import MemoryQueue
from noetl.adapters.memory.results import MemoryResults
from noetl.adapters.memory.store import MemoryStore
from noetl.clock import SystemClock
from noetl.ports import EventStore, ResultStore, WorkQueue
from noetl.testing.contracts import PARTITIONS, EventStoreContract, ResultStoreContract, WorkQueueContract


class TestMemoryStore(EventStoreContract):
    def make(self) -> EventStore:
        return MemoryStore(SystemClock(), PARTITIONS)


class TestMemoryQueue(WorkQueueContract):
    def make(self) -> WorkQueue:
        return MemoryQueue()


class TestMemoryResults(ResultStoreContract):
    def make(self) -> ResultStore:
        return MemoryResults()
