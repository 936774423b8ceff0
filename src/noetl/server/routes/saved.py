"""Values that outlive an execution: list them, read their history, set and remove them."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from litestar import delete, get, put
from litestar.params import JSONBody, QueryParameter

from noetl.api.saved import SavedItem, SavedList, SavedRequest
from noetl.control.saved import check_saved
from noetl.errors import NotFound
from noetl.output import JSON
from noetl.ports import SavedValue
from noetl.server.access import check_current, check_readable, low_scope
from noetl.server.auth import Caller
from noetl.server.params import (
    OF_NAME,
    OF_PLAYBOOK,
    READ,
    RUN,
    TEXT_CHARS_MAX,
    AppContext,
    CallerParam,
    ContextParam,
    PlaybookPath,
    ServicesParam,
    clean_text,
    route,
)

SavedKey: TypeAlias = Annotated[
    str, QueryParameter(name="key", description="the name below `saved`", max_length=TEXT_CHARS_MAX)
]


@route(get, READ | OF_NAME, "saved", "/saved", "List the saved values of a playbook", 404)
async def saved(services: ServicesParam, caller: CallerParam, path: PlaybookPath) -> SavedList:
    """Executions of the playbook read them as `saved.*`, as they are when the execution starts."""
    found = await services.saved.current(_readable(caller, path))
    return SavedList(items=tuple(map(SavedItem.from_value, found)))


@route(get, READ | OF_NAME, "saved", "/saved/history", "List the last 100 values of one key, the newest first", 404)
async def history(services: ServicesParam, caller: CallerParam, path: PlaybookPath, key: SavedKey) -> SavedList:
    found = await services.saved.history(_readable(caller, path), clean_text(key, "key"))
    return SavedList(items=tuple(map(SavedItem.from_value, found)))


@route(put, RUN | OF_PLAYBOOK, "saved", "/saved", "Set a saved value", 404, 409)
async def set_saved(
    context: ContextParam, caller: CallerParam, path: PlaybookPath, key: SavedKey, data: JSONBody[SavedRequest]
) -> SavedItem:
    """Executions that start later read it. The audit trail records who set it, without the value."""
    check_saved(key, data.value)
    return await _put(context, caller, path, key, data.value)


@route(delete, RUN | OF_PLAYBOOK, "saved", "/saved", "Remove a saved value", 404)
async def unset_saved(context: ContextParam, caller: CallerParam, path: PlaybookPath, key: SavedKey) -> None:
    """Its history is kept."""
    known = await context.services.saved.current(_readable(caller, path))
    if all(each.key != key for each in known):
        raise NotFound(f'"{path}" has no saved value "{key[:100]}"')
    await _put(context, caller, path, key, None, removed=True)


async def _put(
    context: AppContext, caller: Caller, path: str, key: str, value: JSON, *, removed: bool = False
) -> SavedItem:
    services, known = context.services, _readable(caller, path)
    if not caller.may("run", known):
        raise low_scope(caller, "run", known)
    await check_current(services, caller, known)
    entry = SavedValue(key, value, services.clock.now(), None, caller.name, removed)
    await services.saved.put(known, entry)
    await context.audit.record(caller, "saved", "unset" if removed else "set", known, key)
    return SavedItem.from_value(entry)


def _readable(caller: Caller, path: str) -> str:
    known = clean_text(path, "path")
    check_readable(caller, known, f'no playbook is registered under "{known}"')
    return known


ROUTES = [saved, history, set_saved, unset_saved]
