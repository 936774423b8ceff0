"""Triggers: list, read, pause, resume and fire them."""

from __future__ import annotations

from typing import Annotated, Final

from litestar import get, post
from litestar.params import QueryParameter

from noetl.api.triggers import FiringItem, TriggerDetails, TriggerItem, TriggersPage
from noetl.ports import StoredTrigger
from noetl.server.access import check_digest, check_playbook
from noetl.server.auth import Caller
from noetl.server.params import (
    OF_LIST,
    OF_NAME,
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

TriggerName = Annotated[str, QueryParameter(description="name of the trigger", max_length=TEXT_CHARS_MAX)]
TIMES: Final = 5
TIMES_MAX: Final = 100


@route(get, READ | OF_LIST, "triggers", "/triggers", "List triggers, by path and name")
async def triggers(
    services: ServicesParam,
    caller: CallerParam,
    path: Annotated[str | None, QueryParameter(description="only of this playbook", max_length=TEXT_CHARS_MAX)] = None,
) -> TriggersPage:
    found: list[StoredTrigger] = []
    after = ("", "") if path is None else (clean_text(path, "path"), "")
    while page := await services.triggers.store.list(after=after, limit=PAGE_MAX):
        found += [each for each in page if path in (None, each.path) and caller.may("read", each.path)]
        after = page[-1].path, page[-1].name
        if len(page) < PAGE_MAX or (path is not None and page[-1].path != path):
            break
    return TriggersPage(items=tuple(map(TriggerItem.from_row, found)))


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


@route(post, RUN | OF_NAME, "triggers", "/triggers/pause", "Pause a trigger: it starts nothing", 404)
async def pause_trigger(
    context: ContextParam, caller: CallerParam, path: PlaybookPath, name: TriggerName
) -> TriggerItem:
    return await _set_paused(context, caller, path, name, paused=True)


@route(post, RUN | OF_NAME, "triggers", "/triggers/resume", "Resume a trigger", 404)
async def resume_trigger(
    context: ContextParam, caller: CallerParam, path: PlaybookPath, name: TriggerName
) -> TriggerItem:
    """Times that passed during the pause start nothing."""
    return await _set_paused(context, caller, path, name, paused=False)


@route(post, RUN | OF_NAME, "triggers", "/triggers/fire", "Start an execution as the trigger would now", 404, 409)
async def fire_trigger(context: ContextParam, caller: CallerParam, path: PlaybookPath, name: TriggerName) -> FiringItem:
    row = await _checked(context.services, caller, "run", path, name)
    await check_digest(context.services, caller, row.digest, path)
    firing = await context.services.triggers.fire(path, name)
    await context.audit.record(caller, "start", "fire", firing.execution_id or "", f"{path}:{name}")
    return FiringItem.from_firing(firing)


async def _set_paused(context: ContextParam, caller: Caller, path: str, name: str, *, paused: bool) -> TriggerItem:
    await _checked(context.services, caller, "run", path, name)
    row = await context.services.triggers.set_paused(path, name, paused=paused)
    await context.audit.record(caller, "command", "pause" if paused else "resume", f"{path}:{name}")
    return TriggerItem.from_row(row)


async def _checked(services: Services, caller: Caller, scope: str, path: str, name: str) -> StoredTrigger:
    check_playbook(caller, scope, clean_text(path, "path"))
    return await services.triggers.store.get(path, clean_text(name, "name"))


ROUTES: Final = (triggers, trigger, pause_trigger, resume_trigger, fire_trigger)
