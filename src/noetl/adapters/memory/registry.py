"""The worker registry within one process."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from noetl.clock import Clock
from noetl.ports import WorkerInfo

EXPIRY_S: Final = 15.0


class MemoryWorkerRegistry:
    """A `WorkerRegistry` for one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, WorkerInfo] = {}

    def announce(self, worker: WorkerInfo) -> None:
        self._seen[worker.name] = worker

    def workers(self) -> list[WorkerInfo]:
        oldest = self._clock.now() - timedelta(seconds=EXPIRY_S)
        self._seen = {name: worker for name, worker in self._seen.items() if worker.at >= oldest}
        return [worker for _, worker in sorted(self._seen.items())]

    def slots(self, pool: str) -> int:
        return sum(each.slots for each in self.workers() if each.pool == pool and not each.leaving)
