"""The decisions of executions for clients that poll: only new facts are read."""

from __future__ import annotations

from typing import Final

from noetl.cache import BoundedCache
from noetl.errors import NotFound
from noetl.ports import EventStore
from noetl.views.decisions import DecisionFold, PersonDecision
from noetl.views.log import events_of

EXECUTIONS_MAX: Final = 256


class DecisionLists:
    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._folds: BoundedCache[str, DecisionFold] = BoundedCache(EXECUTIONS_MAX)

    async def get(self, execution_id: str) -> list[PersonDecision]:
        """In the order of the log. Raises NotFound."""
        fold = self._folds.get(execution_id) or DecisionFold()
        rows = await self._store.read(execution_id, fold.seq)
        if not rows and (not fold.seq or await self._store.status(execution_id) is None):
            self._folds.pop(execution_id)
            raise NotFound(f"no execution {execution_id}")
        fold = self._folds.get(execution_id) or self._folds.put(execution_id, fold)
        for event in events_of(rows, after=fold.seq):  # another request may have read some of them meanwhile
            fold.feed(event)
        return fold.decisions
