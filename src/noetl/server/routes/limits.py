"""Limits by key: who holds permits, who waits for them, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from litestar import get

from noetl.api.limits import LimitItem, LimitList, PermitItem, RateItem
from noetl.control.limits import key_words, parts_of
from noetl.errors import NotFound
from noetl.ports import KeyState, PermitEntry
from noetl.server.auth import Caller
from noetl.server.params import OF_LIST, READ, CallerParam, ServicesParam, route
from noetl.server.services import Services
from noetl.views.log import instant

PERMITS_MAX: Final = 100  # of one key that hold, and that wait; all are counted
KEYS_MAX: Final = 500


@route(get, READ | OF_LIST, "limits", "/limits", "List limits by key, with the executions that hold and wait")
async def limits(services: ServicesParam, caller: CallerParam) -> LimitList:
    """Keys in use now; those with the longest queue first. A caller with limits sees the executions of its paths."""
    by_key: dict[str, list[PermitEntry]] = {}
    for entry in await services.limits.entries():
        by_key.setdefault(entry.key, []).append(entry)
    ordered = sorted(by_key, key=lambda key: (-sum(not each.holds for each in by_key[key]), key))
    states = await services.limits.keys()
    paths: dict[str, str | None] = {}
    items = [await _item(services, caller, by_key[key], states.get(key), paths) for key in ordered[:KEYS_MAX]]
    return LimitList(items=tuple(each for each in items if each is not None), left_out=max(0, len(ordered) - KEYS_MAX))


async def _item(
    services: Services,
    caller: Caller,
    entries: Sequence[PermitEntry],
    state: KeyState | None,
    paths: dict[str, str | None],
) -> LimitItem | None:
    """None: the caller may see none of its executions, so that even the key stays hidden."""
    shown: dict[bool, list[PermitItem]] = {True: [], False: []}
    for entry in entries:
        if len(shown[entry.holds]) < PERMITS_MAX and (item := await _permit(services, caller, entry, paths)):
            shown[entry.holds].append(item)
    if not shown[True] and not shown[False]:
        return None
    kind, key = key_words(entries[0].key)
    in_flight, rate, bucket = state or KeyState()
    return LimitItem(
        kind=kind,
        key=key,
        in_flight=in_flight,
        rate=None if rate is None else RateItem(burst=rate.burst, per_s=rate.per_s),
        tokens=None if bucket is None else round(bucket.tokens, 3),
        next_at=None if bucket is None or bucket.at <= services.clock.now() else instant(bucket.at),
        holds=sum(each.holds for each in entries),
        waits=sum(not each.holds for each in entries),
        holders=tuple(shown[True]),
        waiting=tuple(shown[False]),
    )


async def _permit(
    services: Services, caller: Caller, entry: PermitEntry, paths: dict[str, str | None]
) -> PermitItem | None:
    execution_id, permit = parts_of(entry.holder)
    if execution_id not in paths:
        try:
            paths[execution_id] = (await services.listing.head(execution_id)).path
        except NotFound:
            paths[execution_id] = None
    path = paths[execution_id]
    if path is None or not caller.may("read", path):
        return None
    return PermitItem(execution_id=execution_id, path=path, place=permit, since=instant(entry.at))


ROUTES: Final = (limits,)
