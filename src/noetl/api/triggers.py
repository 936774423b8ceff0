"""Bodies of the routes for triggers."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from noetl.engine.state import Status
from noetl.net.triggers import Schedule, trigger_of
from noetl.ports import Firing, FiringRecord, FiringStatus, StoredTrigger
from noetl.views.log import instant


class TriggerItem(Struct, frozen=True, kw_only=True):
    """A trigger of a registered playbook."""

    path: str
    name: str
    kind: str
    schedule: str  # for people: "0 6 * * 1-5 Europe/Zurich", "every 60 s", "POST /hooks/orders/new"
    paused: bool
    next_at: str | None  # with its delay; None: a webhook, or paused
    fired: int  # entries that its history has had

    @staticmethod
    def from_row(row: StoredTrigger) -> TriggerItem:
        is_due = row.due_at is not None and not row.paused
        return TriggerItem(
            path=row.path,
            name=row.name,
            kind=row.kind,
            schedule=trigger_of(row.declaration).schedule,
            paused=row.paused,
            next_at=instant(row.due_at) if is_due and row.due_at is not None else None,
            fired=row.fired,
        )


class FiringItem(Struct, frozen=True, kw_only=True):
    """What a trigger did: the execution that it started, or why it started none."""

    at: str
    status: FiringStatus
    execution_id: str | None
    number: int | UnsetType = UNSET
    scheduled_at: str | UnsetType = UNSET
    key: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET

    @staticmethod
    def from_firing(firing: Firing, number: int | UnsetType = UNSET) -> FiringItem:
        scheduled = UNSET if firing.scheduled_at is None else instant(firing.scheduled_at)
        return FiringItem(
            at=instant(firing.at),
            status=firing.status,
            execution_id=firing.execution_id,
            number=number,
            scheduled_at=scheduled,
            key=firing.key or UNSET,
            detail=firing.detail or UNSET,
        )


class TriggerDetails(Struct, frozen=True, kw_only=True):
    """A trigger with its declaration, its next times and its history."""

    trigger: TriggerItem
    declaration: dict[str, Any]
    next_times: tuple[str, ...]  # without their delays
    history: tuple[FiringItem, ...]  # the newest first

    @staticmethod
    def from_row(row: StoredTrigger, history: list[FiringRecord], times: int) -> TriggerDetails:
        trigger, times = trigger_of(row.declaration), 0 if row.paused else times
        declared: dict[str, Any] = msgspec.to_builtins(trigger)
        first = row.scheduled_at
        next_times = [] if first is None else Schedule(trigger, row.since).times(first, times)
        written = {key: value for key, value in declared.items() if value not in (None, {}, [], "", ())}
        return TriggerDetails(
            trigger=TriggerItem.from_row(row),
            declaration=written,
            next_times=tuple(map(instant, next_times)),
            history=tuple(FiringItem.from_firing(each.firing, each.number) for each in history),
        )


class TriggersPage(Struct, frozen=True, kw_only=True):
    items: tuple[TriggerItem, ...]


class CalendarEntry(Struct, frozen=True, kw_only=True):
    """A time at which a trigger has fired, or will fire."""

    path: str
    name: str
    at: str
    status: FiringStatus | None  # null: it is in the future
    execution_id: str | None
    execution_status: Status | None  # the status of the execution; null: there is none, or it was deleted
    detail: str


class DenseTrigger(Struct, frozen=True, kw_only=True):
    """A trigger with more times in this period than a calendar shows one by one."""

    path: str
    name: str
    schedule: str


class Calendar(Struct, frozen=True, kw_only=True):
    since: str
    until: str
    entries: tuple[CalendarEntry, ...]  # by time
    cut: tuple[DenseTrigger, ...]  # only their newest past times and their first future times are among the entries


class HookResponse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a webhook."""

    execution_id: str
    duplicate: bool = False  # an earlier request with this key has started it
