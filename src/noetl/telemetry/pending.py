"""Pointers that nobody has followed yet, and since when: what the age of the queue is read from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

PENDING_MAX: Final = 50_000  # the oldest is forgotten


class Waiting(NamedTuple):
    pool: str
    since: float  # by our own monotonic clock


class Pending:
    """Put by the queue's wrapper, taken by the link's: the two ends of one wait."""

    def __init__(self) -> None:
        self._since: OrderedDict[tuple[str, str], Waiting] = OrderedDict()

    def put(self, execution_id: str, frame: str, pool: str, now: float) -> None:
        """A pointer that is put again has waited since the first one."""
        key = (execution_id, frame)
        if key not in self._since:
            if len(self._since) >= PENDING_MAX:
                self._since.popitem(last=False)
            self._since[key] = Waiting(pool, now)

    def begun(self, execution_id: str, frame: str) -> Waiting | None:
        return self._since.pop((execution_id, frame), None)

    def oldest(self, is_waiting: Callable[[str, str], bool]) -> dict[str, float]:
        """Pool → since when its oldest waits. What is no longer waited for is forgotten here."""
        found: dict[str, float] = {}
        for key, waiting in list(self._since.items()):
            if not is_waiting(*key):
                del self._since[key]
            else:
                found[waiting.pool] = min(waiting.since, found.get(waiting.pool, waiting.since))
        return found
