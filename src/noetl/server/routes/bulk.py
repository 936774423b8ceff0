"""One action on many executions: a plan first, then an outcome for each of them."""

from __future__ import annotations

import asyncio
from typing import Final

from litestar import post
from litestar.params import JSONBody
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from noetl.api.bulk import BULK_MAX, BulkItem, BulkRequest, BulkResponse, BulkTarget
from noetl.control.bulk import nothing_to_do
from noetl.engine.commands import Cancel, Retry
from noetl.errors import NotFound, PlaybookError, Rejected, Unavailable
from noetl.ports import ExecutionHead
from noetl.server.access import Hidden, check_execution
from noetl.server.auth import Caller
from noetl.server.errors import ApiError, details_of
from noetl.server.log_readers import checked_id
from noetl.server.params import OF_LIST, RUN, AppContext, CallerParam, ContextParam, route
from noetl.server.routes.executions import delete_with_children, execution_filter, label_execution, send_command

AT_ONCE: Final = 16  # commands of one request that are under way
ROUTE: Final = "/executions/bulk"


@route(post, RUN | OF_LIST, "commands", ROUTE, "Cancel, retry, delete or label many executions", status_code=200)
async def bulk(context: ContextParam, caller: CallerParam, data: JSONBody[BulkRequest]) -> BulkResponse:
    """At most 1,000 executions: those that are named, or the newest that match a filter.

    Each one succeeds or fails alone, and the audit trail has an entry for each change. An execution for which nothing
    is to be done is `unchanged`, so a request may be repeated; the `seq` of the plan prevents a second retry. First
    send it with `dry_run`, then the `items` of the plan that are `planned`: a filter may match others by then.
    """
    if (data.filter is None) == (not data.executions):
        raise ApiError(400, "bad-request", "name either `executions` or a `filter`")
    if data.action != "cancel" and (data.reason or data.compensate):
        raise ApiError(400, "bad-request", "`reason` and `compensate` are for the action `cancel`")
    if (data.action == "label") != bool(data.labels):
        raise ApiError(400, "bad-request", "`labels` are for the action `label`, which needs at least one")
    actions = _BulkActions(context, caller, data)
    targets = data.executions
    matching: int | UnsetType = UNSET
    if data.filter is not None:
        targets, matching = await actions.matching()
    unique = {each.execution_id: each for each in targets}
    return BulkResponse(action=data.action, items=await actions.take(list(unique.values())), matching=matching)


class _BulkActions:
    """The action of one request on its executions."""

    def __init__(self, context: AppContext, caller: Caller, request: BulkRequest) -> None:
        self._context = context
        self._caller = caller
        self._request = request
        self._free = asyncio.Semaphore(AT_ONCE)

    async def matching(self) -> tuple[tuple[BulkTarget, ...], int | UnsetType]:
        """The executions of the list, and how many there are altogether; UNSET: no query counts interrupted ones."""
        asked, services = self._request.filter, self._context.services
        assert asked is not None
        wanted = await execution_filter(services, self._caller, asked)
        found = await services.listing.executions(BULK_MAX, wanted)
        count: int | UnsetType = UNSET
        if asked.status == "interrupted":
            found = [each for each in found if not each.owner_alive]
        else:
            count = await services.listing.count(wanted)
        return tuple(BulkTarget(execution_id=each.execution_id) for each in found), count

    async def take(self, targets: list[BulkTarget]) -> tuple[BulkItem, ...]:
        return tuple(await asyncio.gather(*map(self._take, targets)))

    async def _take(self, target: BulkTarget) -> BulkItem:
        item = BulkItem(execution_id=target.execution_id, result="refused")
        async with self._free:
            try:
                head = await self._permitted(target.execution_id)
                item = replace(item, path=head.path, status=head.status, seq=head.seq)
                if (reason := nothing_to_do(self._request, head, target.seq)) is not None:
                    return replace(item, result="unchanged", detail=reason)
                if self._request.dry_run:
                    return replace(item, result="planned")
                return replace(item, result="done", detail=await self._act(head))
            except (ApiError, NotFound, PlaybookError, Rejected, Unavailable) as error:
                return self._refused(item, error)

    async def _permitted(self, execution_id: str) -> ExecutionHead:
        """Raises NotFound or ApiError."""
        services = self._context.services
        if self._caller.roles:
            await check_execution(services, self._caller, "run", execution_id)
        return await services.listing.head(checked_id(execution_id))

    async def _act(self, head: ExecutionHead) -> str:
        """What has happened besides the action itself."""
        request, caller, id = self._request, self._caller, head.execution_id
        if request.action == "delete":
            gone = await delete_with_children(self._context, caller, id)
            return f"with {gone - 1} that it called" if gone > 1 else ""
        if request.action == "label":
            await label_execution(self._context, caller, id, request.labels)
            return ""
        command: Cancel | Retry = Retry(by=caller.name)
        if request.action == "cancel":
            command = Cancel(reason=request.reason, by=caller.name, compensate=request.compensate)
        now = await send_command(self._context, caller, id, command, detail="one of several")
        return "running calls have 10 s to stop" if now.status == "cancelling" else ""

    def _refused(self, item: BulkItem, error: Exception) -> BulkItem:
        details, _ = details_of(error)
        if isinstance(error, Hidden) or details.status == 403:
            code = "outside-paths" if isinstance(error, Hidden) else details.code
            self._context.audit.deny(self._caller, self._caller.address, f"POST {ROUTE}", code)
        return replace(item, detail=details.detail)


ROUTES = [bulk]
