"""The lines that the tasks of an execution have printed: in pages, as a text, and live (SSE)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Final

from litestar import get
from litestar.params import HeaderParameter, QueryParameter
from litestar.response import Stream
from litestar.types import ASGIApp

from noetl.api.executions import PrintedPage, line_text
from noetl.control.log_pages import fold_log
from noetl.errors import NotFound
from noetl.server.log_readers import checked_id
from noetl.server.params import (
    EXECUTION,
    OF_EXECUTION,
    READ,
    SEQ_MAX,
    TEXT_CHARS_MAX,
    ContextParam,
    ExecutionId,
    ServicesParam,
    read_execution,
    response,
    route,
)
from noetl.server.services import Services
from noetl.server.subscriptions import SubscriberResponse
from noetl.views.log_filter import CallFold, LineFilter

STREAM: Final = "text/event-stream"
StepParam = Annotated[
    str | None,
    QueryParameter(
        name="step", description="only lines of a step, a run, a frame or a call", max_length=TEXT_CHARS_MAX
    ),
]
FailedParam = Annotated[bool, QueryParameter(description="only lines of failed calls")]
AfterParam = Annotated[int, QueryParameter(description="`last` of the previous page", ge=0, le=SEQ_MAX)]


@read_execution("/logs", "The lines that tasks have printed, in pages")
async def logs(
    services: ServicesParam,
    execution_id: ExecutionId,
    after: AfterParam = 0,
    step: StepParam = None,
    *,
    failed: FailedParam = False,
) -> PrintedPage:
    """A page has about 1 MiB before the filter. It is the last one for the moment if `last` is the same as `after`."""
    wanted = await _filter(services, execution_id, step, failed=failed)
    batches = await services.logs.read(execution_id, after)
    lines = [line for batch in batches for line in batch.lines if wanted.accepts(line.call)]
    return PrintedPage(items=tuple(lines), last=batches[-1].number if batches else after)


@read_execution(
    "/logs/text",
    "The lines that tasks have printed, as a text",
    success={200: response(str, "Lines such as `fetch#1[17]/2 out | …`", "text/plain")},
)
async def logs_text(
    services: ServicesParam, execution_id: ExecutionId, step: StepParam = None, *, failed: FailedParam = False
) -> Stream:
    wanted = await _filter(services, execution_id, step, failed=failed)

    async def chunks() -> AsyncIterator[bytes]:
        after = 0
        while batches := await services.logs.read(execution_id, after):
            after = batches[-1].number
            lines = [line for batch in batches for line in batch.lines if wanted.accepts(line.call)]
            yield "".join(f"{line_text(line)}\n" for line in lines).encode()

    name = f'attachment; filename="{execution_id}.log"'
    return Stream(chunks(), media_type="text/plain; charset=utf-8", headers={"Content-Disposition": name})


@route(
    get,
    READ | OF_EXECUTION,
    "streams",
    f"{EXECUTION}/logs/stream",
    "Follow the lines that tasks print",
    404,
    success={200: response(str, "`event: printed`, `event: end`", STREAM)},
)
async def follow_logs(
    context: ContextParam,
    execution_id: ExecutionId,
    after: AfterParam = 0,
    step: StepParam = None,
    last_event_id: Annotated[
        str | None, HeaderParameter(name="Last-Event-ID", description="takes precedence over `after`", max_length=20)
    ] = None,
) -> ASGIApp:
    """The lines so far, then new ones at most a second after they are printed, and `event: end` at the end.

    The id of a message is the position in the logs, for Last-Event-ID.
    """
    wanted = await _filter(context.services, execution_id, step)
    last_seen = last_event_id if last_event_id is not None and last_event_id.isdecimal() else None
    begin = after if last_seen is None else min(int(last_seen), SEQ_MAX)
    return SubscriberResponse(lambda subscriber: context.streams.printed(subscriber, execution_id, begin, wanted))


async def _filter(services: Services, execution_id: str, step: str | None, *, failed: bool = False) -> LineFilter:
    if await services.store.status(checked_id(execution_id)) is None:
        raise NotFound(f"no execution {execution_id}")
    if not failed:
        return LineFilter(step)
    calls = CallFold()
    await fold_log(services.store, execution_id, calls.feed)
    return LineFilter(step, calls.failed)


ROUTES = [logs, logs_text, follow_logs]
