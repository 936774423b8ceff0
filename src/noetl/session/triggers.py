"""The verbs on triggers, over a file and over a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from noetl.api.triggers import FiringItem, TriggerDetails, TriggerItem, TriggersPage
from noetl.control.triggers import set_paused
from noetl.session.errors import unsupported

if TYPE_CHECKING:
    from noetl.client.http import HttpTransport, ServerResponse
    from noetl.clock import Clock
    from noetl.ports import StoredTrigger, TriggerStore

PAGE = 1_000


class LocalTriggers:
    """Triggers in a database file. A server on the file fires them."""

    def __init__(self, store: TriggerStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def show(self, path: str, name: str, *, times: int = 5, limit: int = 100) -> TriggerDetails:
        row = await self._store.get(path, name)
        return TriggerDetails.from_row(row, await self._store.history(path, name, limit=limit), times)

    async def set_paused(self, path: str, name: str, *, paused: bool) -> TriggerItem:
        return TriggerItem.from_row(await set_paused(self._store, path, name, self._clock.now(), paused=paused))

    async def fire(self, path: str, name: str) -> FiringItem:
        await self._store.get(path, name)
        raise unsupported("fire")

    async def list(self, path: str | None = None) -> Sequence[TriggerItem]:
        found: list[StoredTrigger] = []
        while page := await self._store.list(after=found[-1][:2] if found else ("", ""), limit=PAGE):
            found += page
        return [TriggerItem.from_row(each) for each in found if path in (None, each.path)]


class ServerTriggers:
    """Triggers of a server."""

    def __init__(self, http: HttpTransport) -> None:
        self._http = http

    async def show(self, path: str, name: str, *, times: int = 5, limit: int = 100) -> TriggerDetails:
        params = {"path": path, "name": name, "times": times, "limit": limit}
        return (await self._http.request("GET", "/triggers/one", params=params)).read(TriggerDetails)

    async def set_paused(self, path: str, name: str, *, paused: bool) -> TriggerItem:
        return (await self._post("pause" if paused else "resume", path, name)).read(TriggerItem)

    async def fire(self, path: str, name: str) -> FiringItem:
        return (await self._post("fire", path, name)).read(FiringItem)

    async def _post(self, verb: str, path: str, name: str) -> ServerResponse:
        return await self._http.request("POST", f"/triggers/{verb}", params={"path": path, "name": name})

    async def list(self, path: str | None = None) -> Sequence[TriggerItem]:
        return (await self._http.request("GET", "/triggers", params={"path": path})).read(TriggersPage).items
