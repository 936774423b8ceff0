"""Triggers of registered playbooks: their next times, and the history of what they started."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, TypeAlias

HISTORY_MAX = 1_000  # entries of one trigger that are kept

FiringStatus: TypeAlias = Literal["started", "duplicate", "skipped", "refused", "failed"]


class Firing(NamedTuple):
    """One entry in the history of a trigger: an execution that it started, or the reason why it did not."""

    at: datetime
    status: FiringStatus
    key: str = ""  # of the delivery or the scheduled time; the same key starts one execution
    scheduled_at: datetime | None = None
    execution_id: str | None = None
    detail: str = ""


class StoredTrigger(NamedTuple):
    """A trigger of the current version of a playbook."""

    path: str  # of the playbook
    name: str
    kind: str
    digest: str  # of the text that its executions run
    declaration: str  # JSON; when it changes, the times are computed again
    since: datetime  # from which its times count
    hook: str | None = None  # "POST orders/new"; None: not a webhook
    scheduled_at: datetime | None = None  # the next time; None: it has none
    due_at: datetime | None = None  # the next time with its delay
    paused: bool = False
    fired: int = 0  # entries that its history has had


class FiringRecord(NamedTuple):
    """An entry of a history with its number, which counts from 1."""

    number: int
    firing: Firing


class TriggerStore(Protocol):
    """The triggers of all playbooks. Every method raises Unavailable if the store does not answer."""

    async def declare(self, path: str, digest: str, triggers: Sequence[StoredTrigger]) -> None:
        """Replace the triggers of a path by those of its current text; of another text: no effect.

        A trigger with the same declaration keeps its times; one with the same name stays paused and keeps its
        history. Raises Rejected("hook-taken") if a trigger of another path has the same hook.
        """
        ...

    async def due(self, at: datetime, limit: int) -> list[StoredTrigger]:
        """The triggers that are due and not paused, the longest overdue first."""
        ...

    async def advance(
        self, trigger: StoredTrigger, scheduled_at: datetime, due_at: datetime, firings: Sequence[Firing]
    ) -> bool:
        """Set the next time and add to the history, in one commit. False: another server was first, or it changed."""
        ...

    async def record(self, path: str, name: str, firings: Sequence[Firing]) -> None:
        """Add to the history. No effect for an unknown trigger."""
        ...

    async def set_paused(
        self, path: str, name: str, *, paused: bool, scheduled_at: datetime | None, due_at: datetime | None
    ) -> None:
        """Pause or resume it, with its next time. Raises NotFound."""
        ...

    async def get(self, path: str, name: str) -> StoredTrigger:
        """Raises NotFound."""
        ...

    async def find_hook(self, hook: str) -> StoredTrigger | None: ...

    async def history(self, path: str, name: str, *, before: int | None = None, limit: int = 100) -> list[FiringRecord]:
        """The newest first; the last HISTORY_MAX entries are kept."""
        ...

    async def list(
        self, *, kind: str | None = None, after: tuple[str, str] = ("", ""), limit: int = 100
    ) -> list[StoredTrigger]:
        """Ordered by path and name. `kind` None: of all kinds."""
        ...


def merge_declared(stored: Sequence[StoredTrigger], declared: Sequence[StoredTrigger]) -> list[StoredTrigger]:
    """The rows of a path after `declare`: one rule for all adapters."""
    known = {each.name: each for each in stored}
    merged = []
    for new in declared:
        old = known.get(new.name)
        if old is None:
            merged.append(new)
        elif old.declaration == new.declaration:
            merged.append(old._replace(digest=new.digest))
        else:
            merged.append(new._replace(paused=old.paused, fired=old.fired))
    return merged
