"""Live streams (SSE): the events of one execution, or the summaries of all executions that change."""

from __future__ import annotations

from typing import Annotated, Final

from litestar import get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter
from litestar.types import ASGIApp

from noetl.errors import NotFound
from noetl.server.log_readers import checked_id
from noetl.server.params import READ, SEQ_MAX, AfterSeq, ContextParam, ExecutionId, error_responses
from noetl.server.subscriptions import SubscriberResponse

TAGS: Final = ["streams"]
STREAM: Final = "text/event-stream"


def _stream_response(description: str) -> dict[int, ResponseSpec]:
    return {200: ResponseSpec(str, generate_examples=False, description=description, media_type=STREAM)}


@get(
    "/executions/{execution_id:str}/stream",
    opt=READ,
    tags=TAGS,
    summary="Follow an execution",
    responses={**_stream_response("`event: event`, `event: line`, `event: end`"), **error_responses(404)},
)
async def follow(
    context: ContextParam,
    execution_id: ExecutionId,
    after: AfterSeq = 0,
    last_event_id: Annotated[
        str | None, HeaderParameter(name="Last-Event-ID", description="takes precedence over `after`", max_length=20)
    ] = None,
) -> ASGIApp:
    """The events in the log after Last-Event-ID, then new ones as they happen, and `event: end` at the end.

    The id of a message is the seq of its fact. When a fact appears as several messages, only the last one has
    the id.
    """
    if await context.services.store.status(checked_id(execution_id)) is None:
        raise NotFound(f"no execution {execution_id}")
    last_seen = last_event_id if last_event_id is not None and last_event_id.isdecimal() else None
    begin = after if last_seen is None else min(int(last_seen), SEQ_MAX)
    return SubscriberResponse(lambda subscriber: context.streams.execution(subscriber, execution_id, begin))


@get(
    "/stream",
    opt=READ,
    tags=TAGS,
    summary="Follow all executions, as in the list",
    responses={**_stream_response("`event: head`, for each execution that has changed"), **error_responses()},
)
async def follow_all(context: ContextParam) -> ASGIApp:
    """Changes within half a second are combined. Earlier changes are in the list only."""
    return SubscriberResponse(context.streams.heads)


ROUTES = [follow, follow_all]
