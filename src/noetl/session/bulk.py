"""One action on several executions of a database file."""

from __future__ import annotations

from msgspec.structs import replace

from noetl.api.bulk import BulkItem, BulkRequest, BulkTarget
from noetl.control.bulk import nothing_to_do
from noetl.errors import NotFound, PlaybookError, Rejected, Unavailable
from noetl.session.protocol import Session


async def act_on_each(session: Session, request: BulkRequest) -> list[BulkItem]:
    """One after the other: each may need a runtime of its own."""
    return [await _act(session, request, target) for target in request.executions]


async def _act(session: Session, request: BulkRequest, target: BulkTarget) -> BulkItem:
    item = BulkItem(execution_id=target.execution_id, result="refused")
    try:
        head = await session.listing.head(target.execution_id)
        item = replace(item, path=head.path, status=head.status, seq=head.seq)
        if (reason := nothing_to_do(request, head, target.seq)) is not None:
            return replace(item, result="unchanged", detail=reason)
        if request.dry_run:
            return replace(item, result="planned")
        if request.action == "cancel":
            await session.cancel(head.execution_id, request.reason, compensate=request.compensate)
        elif request.action == "retry":
            await session.retry(head.execution_id)
        elif request.action == "label":
            await session.label(head.execution_id, request.labels)
        else:
            await session.delete(head.execution_id)
        return replace(item, result="done")
    except (NotFound, PlaybookError, Rejected, Unavailable) as error:
        return replace(item, detail=str(error))
