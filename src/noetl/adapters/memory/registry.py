"""Which workers there are, in one process: each of them tells, and whoever is silent is forgotten."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from noetl.clock import Clock
from noetl.ports import WorkerInfo

SILENT_S: Final = 15.0


class MemoryWorkerRegistry:
    """Keeps the contract of Roster."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, WorkerInfo] = {}

    def tell(self, seen: WorkerInfo) -> None:
        self._seen[seen.name] = seen

    def workers(self) -> list[WorkerInfo]:
        since = self._clock.now() - timedelta(seconds=SILENT_S)
        self._seen = {name: seen for name, seen in self._seen.items() if seen.at >= since}
        return list(self._seen.values())

    def slots(self, pool: str) -> int:
        return sum(seen.slots for seen in self.workers() if seen.pool == pool and not seen.leaving)
