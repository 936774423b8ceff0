"""Compare two executions."""

from __future__ import annotations

from typing import Annotated

from litestar.params import QueryParameter

from noetl.control.log_pages import fold_log
from noetl.errors import NotFound
from noetl.server.log_readers import checked_id
from noetl.server.params import CallerParam, ContextParam, ExecutionId, read_execution
from noetl.views.difference import ComparedFold, ExecutionDifference, execution_difference


@read_execution("/diff", "What differs between this execution and another one, step by step")
async def execution_diff(
    context: ContextParam,
    caller: CallerParam,
    execution_id: ExecutionId,
    other: Annotated[str, QueryParameter(name="with", description="the full id of the other execution", max_length=64)],
) -> ExecutionDifference:
    """`a` is this execution, `b` the other one. Durations are listed, but do not count."""
    listing, store = context.services.listing, context.services.store
    head = await listing.head(checked_id(other))
    if not caller.may("read", head.path):
        raise NotFound(f"no execution {other}")
    await listing.head(checked_id(execution_id))
    mine, theirs = ComparedFold(execution_id), ComparedFold(other)
    await fold_log(store, execution_id, mine.feed)
    await fold_log(store, other, theirs.feed)
    return execution_difference(mine, theirs)


ROUTES = [execution_diff]
