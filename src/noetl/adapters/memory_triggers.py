"""Triggers and their history in memory: for tests and the simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from noetl.adapters.sql import hook_taken, no_trigger
from noetl.ports import HISTORY_MAX, Firing, FiringRecord, StoredTrigger, merge_declared


class MemoryTriggers:
    """A `TriggerStore`. `current`: the digest of the current text of a path; `history_max`: records of a trigger."""

    def __init__(self, current: Callable[[str], str | None], history_max: int = HISTORY_MAX) -> None:
        self._current, self._history_max = current, history_max
        self.rows: dict[tuple[str, str], StoredTrigger] = {}
        self._history: dict[tuple[str, str], list[FiringRecord]] = {}

    async def declare(self, path: str, digest: str, triggers: Sequence[StoredTrigger]) -> None:
        if self._current(path) != digest:
            return
        merged = merge_declared([each for each in self.rows.values() if each.path == path], triggers)
        for each in merged:
            other = None if each.hook is None else await self.find_hook(each.hook)
            if each.hook is not None and other is not None and other.path != path:
                raise hook_taken(each.hook, other.path)
        for key in [key for key in self.rows if key[0] == path]:
            del self.rows[key]
        self.rows.update({(path, each.name): each for each in merged})
        for key in [key for key in self._history if key[0] == path and key not in self.rows]:
            del self._history[key]

    async def due(self, at: datetime, limit: int) -> list[StoredTrigger]:
        rows = self.rows.values()
        found = [(each.due_at, each) for each in rows if each.due_at and each.due_at <= at and not each.paused]
        return [each for _, each in sorted(found)][:limit]

    async def advance(
        self, trigger: StoredTrigger, scheduled_at: datetime, due_at: datetime, firings: Sequence[Firing]
    ) -> bool:
        row = self.rows.get((trigger.path, trigger.name))
        expected = (trigger.scheduled_at, trigger.declaration, False)
        if row is None or (row.scheduled_at, row.declaration, row.paused) != expected:
            return False
        self.rows[trigger.path, trigger.name] = row._replace(scheduled_at=scheduled_at, due_at=due_at)
        await self.record(trigger.path, trigger.name, firings)
        return True

    async def record(self, path: str, name: str, firings: Sequence[Firing]) -> None:
        if (row := self.rows.get((path, name))) is None:
            return
        records = [FiringRecord(row.fired + number, each) for number, each in enumerate(firings, 1)]
        self.rows[path, name] = row._replace(fired=row.fired + len(firings))
        self._history[path, name] = [*self._history.get((path, name), []), *records][-self._history_max :]

    async def set_paused(
        self, path: str, name: str, *, paused: bool, scheduled_at: datetime | None, due_at: datetime | None
    ) -> None:
        row = await self.get(path, name)
        self.rows[path, name] = row._replace(paused=paused, scheduled_at=scheduled_at, due_at=due_at)

    async def get(self, path: str, name: str) -> StoredTrigger:
        if (row := self.rows.get((path, name))) is None:
            raise no_trigger(path, name)
        return row

    async def find_hook(self, hook: str) -> StoredTrigger | None:
        return next((each for each in self.rows.values() if each.hook == hook), None)

    async def history(self, path: str, name: str, *, before: int | None = None, limit: int = 100) -> list[FiringRecord]:
        found = self._history.get((path, name), [])
        return [each for each in reversed(found) if before is None or each.number < before][:limit]

    async def list(
        self, *, kind: str | None = None, after: tuple[str, str] = ("", ""), limit: int = 100
    ) -> list[StoredTrigger]:
        rows = [row for key, row in sorted(self.rows.items()) if key > after]
        return [row for row in rows if kind is None or row.kind == kind][:limit]
