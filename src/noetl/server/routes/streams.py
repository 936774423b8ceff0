"""Live streams (SSE): the events of one execution, or the heads of all that change."""

from __future__ import annotations

from typing import Annotated, Final

from litestar import get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter
from litestar.types import ASGIApp

from noetl.errors import NotFound
from noetl.server.log_readers import checked_id
from noetl.server.params import READ, SEQ_MAX, AfterSeq, ExecutionId, RoomGiven, refusals
from noetl.server.subscriber import SubscriberResponse

TAGS: Final = ["streams"]
STREAM: Final = "text/event-stream"


def _spec(words: str) -> dict[int, ResponseSpec]:
    return {200: ResponseSpec(str, generate_examples=False, description=words, media_type=STREAM)}


@get(
    "/executions/{execution_id:str}/stream",
    opt=READ,
    tags=TAGS,
    summary="Follow an execution",
    responses={**_spec("`event: event`, `event: line`, `event: end`"), **refusals(404)},
)
async def follow(
    room: RoomGiven,
    execution_id: ExecutionId,
    after: AfterSeq = 0,
    last_event_id: Annotated[
        str | None, HeaderParameter(name="Last-Event-ID", description="beats `after`", max_length=20)
    ] = None,
) -> ASGIApp:
    """What is on record behind Last-Event-ID, then what comes; `event: end` when it has ended, and no more.

    The id of a message is the seq of its fact; of a fact that shows as several, the last message has it.
    """
    if await room.desk.store.status(checked_id(execution_id)) is None:
        raise NotFound(f"no execution {execution_id}")
    seen = last_event_id if last_event_id is not None and last_event_id.isdecimal() else None
    begin = after if seen is None else min(int(seen), SEQ_MAX)
    return SubscriberResponse(lambda follower: room.streams.execution(follower, execution_id, begin))


@get(
    "/stream",
    opt=READ,
    tags=TAGS,
    summary="Follow all executions, as the list shows them",
    responses={**_spec("`event: head`, for each execution that has changed"), **refusals()},
)
async def follow_all(room: RoomGiven) -> ASGIApp:
    """News are gathered for half a second. What happened before is in the list."""
    return SubscriberResponse(room.streams.heads)


ROUTES = [follow, follow_all]
