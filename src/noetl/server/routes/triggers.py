"""Triggers: list, read, pause, resume and fire them."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Annotated, Final

from litestar import get, post
from litestar.params import QueryParameter

from noetl.api.triggers import (
    Calendar,
    CalendarEntry,
    DenseTrigger,
    FiringItem,
    TriggerDetails,
    TriggerItem,
    TriggersPage,
)
from noetl.engine.state import Status
from noetl.errors import NotFound
from noetl.net.triggers import Schedule, trigger_of
from noetl.ports import StoredTrigger
from noetl.server.access import check_digest, check_playbook
from noetl.server.auth import Caller
from noetl.server.errors import ApiError
from noetl.server.params import (
    OF_LIST,
    OF_NAME,
    OF_PLAYBOOK,
    PAGE,
    PAGE_MAX,
    READ,
    RUN,
    TEXT_CHARS_MAX,
    CallerParam,
    ContextParam,
    Limit,
    PlaybookPath,
    ServicesParam,
    clean_text,
    route,
)
from noetl.server.services import Services
from noetl.views.log import instant

TriggerName = Annotated[str, QueryParameter(description="name of the trigger", max_length=TEXT_CHARS_MAX)]
TIMES: Final = 5
TIMES_MAX: Final = 100
CALENDAR_DAYS_MAX: Final = 31
CALENDAR_TIMES_MAX: Final = 100  # of one trigger in the future, and in the past
CALENDAR_HISTORY_MAX: Final = 1_000  # entries of one history that are read


@route(get, READ | OF_LIST, "triggers", "/triggers", "List triggers, by path and name")
async def triggers(
    services: ServicesParam,
    caller: CallerParam,
    path: Annotated[
        str | None, QueryParameter(description="only triggers of this playbook", max_length=TEXT_CHARS_MAX)
    ] = None,
) -> TriggersPage:
    found = await _readable(services, caller, path)
    return TriggersPage(items=tuple(map(TriggerItem.from_row, found)))


async def _readable(services: Services, caller: Caller, path: str | None) -> list[StoredTrigger]:
    """The triggers of one playbook, or all, that the caller may read."""
    found: list[StoredTrigger] = []
    after = ("", "") if path is None else (clean_text(path, "path"), "")
    while page := await services.triggers.store.list(after=after, limit=PAGE_MAX):
        found += [each for each in page if path in (None, each.path) and caller.may("read", each.path)]
        after = page[-1].path, page[-1].name
        if len(page) < PAGE_MAX or (path is not None and page[-1].path != path):
            break
    return found


@route(get, READ | OF_NAME, "triggers", "/triggers/one", "A trigger, its next times and its history", 404)
async def trigger(
    services: ServicesParam,
    caller: CallerParam,
    path: PlaybookPath,
    name: TriggerName,
    *,
    times: Annotated[int, QueryParameter(description="number of next times", ge=0, le=TIMES_MAX)] = TIMES,
    limit: Limit = PAGE,
) -> TriggerDetails:
    row = await _checked(services, caller, "read", path, name)
    return TriggerDetails.from_row(row, await services.triggers.store.history(path, name, limit=limit), times)


@route(get, READ | OF_LIST, "triggers", "/triggers/calendar", "Past and future times of all triggers in a period", 422)
async def calendar(
    services: ServicesParam,
    caller: CallerParam,
    since: Annotated[datetime, QueryParameter(description="the beginning, RFC 3339")],
    days: Annotated[int, QueryParameter(description="its length", ge=1, le=CALENDAR_DAYS_MAX)] = 1,
) -> Calendar:
    """Future times, without their delays, and what has fired, with the status of its execution."""
    if since.tzinfo is None:
        raise ApiError(422, "bad-request", "since: add a time zone, as in 2026-01-31T00:00:00Z")
    until = since + timedelta(days=days)
    entries: list[CalendarEntry] = []
    cut: list[DenseTrigger] = []
    for row in await _readable(services, caller, None):
        future, more = _future(row, max(since, services.clock.now()), until)
        found, older = await _fired(services, row, since, until)
        entries += [*found, *future]
        if more or older:
            schedule = trigger_of(row.declaration).schedule
            cut.append(DenseTrigger(path=row.path, name=row.name, schedule=schedule))
    entries.sort(key=lambda each: each.at)
    return Calendar(since=instant(since), until=instant(until), entries=tuple(entries), cut=tuple(cut))


def _future(row: StoredTrigger, since: datetime, until: datetime) -> tuple[list[CalendarEntry], bool]:
    """The times until then, and whether there are more of them."""
    if row.paused or row.scheduled_at is None or row.scheduled_at >= until:
        return [], False
    schedule = Schedule(trigger_of(row.declaration), row.since)
    first = row.scheduled_at if row.scheduled_at >= since else schedule.after(since)
    times = [each for each in schedule.times(first, CALENDAR_TIMES_MAX + 1) if since <= each < until]
    entries = [
        CalendarEntry(
            path=row.path,
            name=row.name,
            at=instant(each),
            status=None,
            execution_id=None,
            execution_status=None,
            detail="",
        )
        for each in times[:CALENDAR_TIMES_MAX]
    ]
    return entries, len(times) > CALENDAR_TIMES_MAX


async def _fired(
    services: Services, row: StoredTrigger, since: datetime, until: datetime
) -> tuple[list[CalendarEntry], bool]:
    """What it did in this time, and whether there is more of it."""
    if not row.fired or since > services.clock.now():
        return [], False
    history = await services.triggers.store.history(row.path, row.name, limit=CALENDAR_HISTORY_MAX)
    within = [each.firing for each in history if since <= each.firing.at < until]
    entries: list[CalendarEntry] = []
    for firing in within[:CALENDAR_TIMES_MAX]:
        execution_status: Status | None = None
        if firing.execution_id is not None:
            with suppress(NotFound):
                execution_status = (await services.listing.head(firing.execution_id)).status
        entries.append(
            CalendarEntry(
                path=row.path,
                name=row.name,
                at=instant(firing.at),
                status=firing.status,
                execution_id=firing.execution_id,
                execution_status=execution_status,
                detail=firing.detail,
            )
        )
    older = len(history) == CALENDAR_HISTORY_MAX and history[-1].firing.at >= since
    return entries, len(within) > CALENDAR_TIMES_MAX or older


@route(post, RUN | OF_PLAYBOOK, "triggers", "/triggers/pause", "Pause a trigger: it starts nothing", 404)
async def pause_trigger(
    context: ContextParam, caller: CallerParam, path: PlaybookPath, name: TriggerName
) -> TriggerItem:
    return await _set_paused(context, caller, path, name, paused=True)


@route(post, RUN | OF_PLAYBOOK, "triggers", "/triggers/resume", "Resume a trigger", 404)
async def resume_trigger(
    context: ContextParam, caller: CallerParam, path: PlaybookPath, name: TriggerName
) -> TriggerItem:
    """Times that passed during the pause start nothing."""
    return await _set_paused(context, caller, path, name, paused=False)


@route(post, RUN | OF_PLAYBOOK, "triggers", "/triggers/fire", "Start an execution as the trigger would now", 404, 409)
async def fire_trigger(context: ContextParam, caller: CallerParam, path: PlaybookPath, name: TriggerName) -> FiringItem:
    await _commanded(context.services, caller, path, name)
    firing = await context.services.triggers.fire(path, name)
    await context.audit.record(caller, "start", "fire", firing.execution_id or "", f"{path}:{name}")
    return FiringItem.from_firing(firing)


async def _set_paused(context: ContextParam, caller: Caller, path: str, name: str, *, paused: bool) -> TriggerItem:
    await _commanded(context.services, caller, path, name)
    row = await context.services.triggers.set_paused(path, name, paused=paused)
    await context.audit.record(caller, "command", "pause" if paused else "resume", f"{path}:{name}")
    return TriggerItem.from_row(row)


async def _commanded(services: Services, caller: Caller, path: str, name: str) -> None:
    """Raises NotFound, or ApiError when the caller may not run the playbook of the trigger, or use its pools."""
    row = await _checked(services, caller, "run", path, name)
    await check_digest(services, caller, row.digest, path)


async def _checked(services: Services, caller: Caller, scope: str, path: str, name: str) -> StoredTrigger:
    check_playbook(caller, scope, clean_text(path, "path"))
    return await services.triggers.store.get(path, clean_text(name, "name"))


ROUTES: Final = (triggers, calendar, trigger, pause_trigger, resume_trigger, fire_trigger)
