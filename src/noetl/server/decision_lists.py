"""The decisions of executions for clients that poll: only new facts are read."""

from __future__ import annotations

from typing import Final

from noetl.cache import BoundedCache
from noetl.control.log_pages import fold_log
from noetl.engine import Event
from noetl.errors import NotFound
from noetl.ports import EventStore
from noetl.views.decisions import DecisionFold, PersonDecision

EXECUTIONS_MAX: Final = 256


class DecisionLists:
    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._folds: BoundedCache[str, DecisionFold] = BoundedCache(EXECUTIONS_MAX)

    async def get(self, execution_id: str) -> list[PersonDecision]:
        """In the order of the log. Raises NotFound."""
        fold = self._folds.get(execution_id) or self._folds.put(execution_id, DecisionFold())
        before = fold.seq

        def feed(event: Event) -> None:
            if event.seq > fold.seq:  # another request may have read it meanwhile
                fold.feed(event)

        seq = await fold_log(self._store, execution_id, feed, before)
        if seq == before and (not fold.seq or await self._store.status(execution_id) is None):
            self._folds.pop(execution_id)
            raise NotFound(f"no execution {execution_id}")
        return fold.decisions
