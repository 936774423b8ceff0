"""The log of an execution: overview, events, facts, state, output and reasons; its timeline; and live streams (SSE)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Annotated, Any, Final

import msgspec
from litestar import Response, get
from litestar.params import HeaderParameter, PathParameter, QueryParameter
from litestar.types import ASGIApp

from noetl.api.analysis import FactsPage
from noetl.api.executions import EventsPage, ExecutionOverviews, LogEntry, LogPage
from noetl.control.log_pages import SLICE_FACTS, fold_log
from noetl.control.run_records import RunRecords
from noetl.engine import Event
from noetl.engine.state import LIVE
from noetl.errors import NotFound
from noetl.server.errors import ApiError
from noetl.server.log_readers import OutputLoader, checked_id, load_show_document, locate_output
from noetl.server.params import (
    EXECUTION,
    OF_EXECUTION,
    OF_LIST,
    PAGE,
    READ,
    SEQ_MAX,
    TEXT_CHARS_MAX,
    AfterSeq,
    CallerParam,
    ContextParam,
    ExecutionId,
    Limit,
    ServicesParam,
    read_execution,
    response,
    route,
)
from noetl.server.subscriptions import SubscriberResponse
from noetl.slices import turn
from noetl.views.documents import (
    OutputLocation,
    ShowDocument,
    StateDocument,
    StepOutputFold,
    state_document,
    with_run_reasons,
)
from noetl.views.fact_lines import FactLine, fact_line
from noetl.views.log import events_of, name_of, readable
from noetl.views.stall_reasons import with_reasons
from noetl.views.state_at import ExecutionMoment, FactDocument, fact_document
from noetl.views.timeline import TimelineDocument
from noetl.views.why import Why, WhyFold, name_holders

LOG_PAGE: Final = 1_000
LOG_PAGE_MAX: Final = 10_000

StepParam = Annotated[
    str | None, QueryParameter(name="step", description="a step, a block or a run", max_length=TEXT_CHARS_MAX)
]


@read_execution("", "An execution with its steps and its output")
async def show(context: ContextParam, execution_id: ExecutionId) -> ShowDocument:
    return await load_show_document(context.runs, context.services, checked_id(execution_id))


@read_execution("/events", "The events of an execution, in pages")
async def events(
    context: ContextParam, execution_id: ExecutionId, after: AfterSeq = 0, limit: Limit = PAGE
) -> EventsPage:
    """`limit` counts facts; one fact may appear as several events."""
    await _check_exists(context.services, execution_id)
    reader = await context.readers.take(execution_id, after)
    if reader.seq < after:
        return EventsPage(items=())
    found = await reader.events(limit)
    items = tuple(envelope for event in found for envelope in reader.envelopes(event))
    context.readers.put(reader)
    return EventsPage(items=items, next=found[-1].seq if len(found) == limit else None)


@read_execution(
    "/log", "The raw log: facts, for programs that fold them", success={200: response(dict[str, Any], "Rows of facts")}
)
async def raw_log(
    services: ServicesParam,
    execution_id: ExecutionId,
    after: AfterSeq = 0,
    limit: Annotated[
        int, QueryParameter(description="number of facts; a row is never split", ge=1, le=LOG_PAGE_MAX)
    ] = LOG_PAGE,
) -> Response[LogPage]:
    head = await services.listing.head(checked_id(execution_id))
    rows = await services.store.read(execution_id, after, after + limit)
    last = rows[-1].first_seq + len(rows[-1].facts) - 1 if rows else head.seq
    entries = tuple(map(LogEntry.from_row, rows))
    return Response(LogPage(items=entries, next=last if last < head.seq else None))


@read_execution("/state", "The state after a fact: tokens, runs, values")
async def state(
    context: ContextParam,
    execution_id: ExecutionId,
    at: Annotated[
        int | None, QueryParameter(description="the seq of the fact; default: the last", ge=1, le=SEQ_MAX)
    ] = None,
) -> StateDocument:
    if at is None:
        document = await context.runs.query(checked_id(execution_id), state_document)
        if document.status != "running":
            return document
        return with_run_reasons(document, await load_show_document(context.runs, context.services, execution_id))
    await _check_exists(context.services, execution_id)
    runs = await RunRecords(context.services.store).read(execution_id, at)
    if runs.state.seq < at:
        detail = f"the log of {execution_id} has the facts 1 to {runs.state.seq}, and no fact {at}"
        raise ApiError(404, "no-such-fact", detail)
    with readable(execution_id):
        return state_document(runs)


@read_execution(
    "/output", "The full output of an execution or a step", 409, 422, success={200: response(object, "The data itself")}
)
async def output(context: ContextParam, execution_id: ExecutionId, step: StepParam = None) -> Response[bytes]:
    """A failed execution gives 409 `execution-failed`, a running one 409 `not-over`."""
    checked_id(execution_id)
    services = context.services
    if step is None:
        location = await locate_output(services, execution_id)
    else:
        location = await _locate_step_output(context, execution_id, step)
    if location.error is not None:
        detail = f"{location.error.kind}: {location.error.message}"
        raise ApiError(409, "execution-failed" if step is None else "step-failed", detail)
    if location.output is None:
        raise NotFound(location.why)
    data = await OutputLoader(services).load(location.output)
    return Response(msgspec.json.encode(data), media_type="application/json")


async def _locate_step_output(context: ContextParam, execution_id: str, step: str) -> OutputLocation:
    await _check_exists(context.services, execution_id)
    fold = StepOutputFold(execution_id, step)
    await fold_log(context.services.store, execution_id, fold.feed)
    return fold.result()


@read_execution("/why", "Why a step ran, waited or did not run", 422)
async def reasons(
    context: ContextParam,
    execution_id: ExecutionId,
    step: Annotated[str, QueryParameter(description="a step or a block", max_length=TEXT_CHARS_MAX)],
) -> Why:
    services = context.services
    head = await services.listing.head(checked_id(execution_id))
    program = await services.playbooks.by_digest(head.digest)
    if step not in program.steps and step not in program.blocks:
        names = ", ".join((*program.steps, *program.blocks))
        raise NotFound(f'the playbook has no step "{step}": it has {names}')
    fold = WhyFold(program, execution_id, step)
    await fold_log(services.store, execution_id, fold.feed)
    found = fold.result()
    if program.limited:
        document = await load_show_document(context.runs, services, execution_id)
        name_holders(found.runs, document.limits or ())
    if head.status not in LIVE:
        return found
    return with_reasons(found, await context.timeline_documents.load(execution_id))


async def _check_exists(services: ServicesParam, execution_id: str) -> None:
    if await services.store.status(checked_id(execution_id)) is None:
        raise NotFound(f"no execution {execution_id}")


# Live streams (SSE)


STREAM: Final = "text/event-stream"
LastEventId = Annotated[
    str | None, HeaderParameter(name="Last-Event-ID", description="takes precedence over `after`", max_length=20)
]
_EVENTS: Final = {200: response(str, "`event: event`, `event: line`, `event: end`", STREAM)}
_GROWTH: Final = {200: response(str, "`event: grown`, `event: end`", STREAM)}
_SUMMARIES: Final = {200: response(str, "`event: head`, for each execution that has changed", STREAM)}


@route(get, READ | OF_EXECUTION, "streams", f"{EXECUTION}/stream", "Follow an execution", 404, success=_EVENTS)
async def follow(
    context: ContextParam, execution_id: ExecutionId, after: AfterSeq = 0, last_event_id: LastEventId = None
) -> ASGIApp:
    """The events in the log after Last-Event-ID, then new ones as they happen, and `event: end` at the end.

    The id of a message is the seq of its fact. When a fact appears as several messages, only the last one has
    the id.
    """
    await _check_exists(context.services, execution_id)
    begin = _begin(after, last_event_id)
    return SubscriberResponse(lambda subscriber: context.streams.execution(subscriber, execution_id, begin))


@route(
    get,
    READ | OF_EXECUTION,
    "streams",
    f"{EXECUTION}/growth",
    "Follow the length of the log of an execution",
    404,
    success=_GROWTH,
)
async def follow_growth(
    context: ContextParam, execution_id: ExecutionId, after: AfterSeq = 0, last_event_id: LastEventId = None
) -> ASGIApp:
    """`event: grown` with the number of facts in the log, and `event: end` at the end.

    For clients that fetch only what they show: the server reads no facts for it. Changes of a log that grows fast
    are combined.
    """
    await _check_exists(context.services, execution_id)
    begin = _begin(after, last_event_id)
    return SubscriberResponse(lambda subscriber: context.streams.growth(subscriber, execution_id, begin))


def _begin(after: int, last_event_id: str | None) -> int:
    """The header takes precedence."""
    given = last_event_id is not None and last_event_id.isdecimal()
    return min(int(last_event_id or 0), SEQ_MAX) if given else after


@route(get, READ | OF_LIST, "streams", "/stream", "Follow all executions, as in the list", success=_SUMMARIES)
async def follow_all(context: ContextParam, caller: CallerParam) -> ASGIApp:
    """Changes within half a second are combined. Earlier changes are in the list only."""
    return SubscriberResponse(lambda subscriber: context.streams.heads(subscriber, caller.paths("read")))


# Executions as the UI draws them


SCANNED_MAX: Final = 20_000  # facts that one request searches
OVERVIEWS_MAX: Final = 50

_encode = msgspec.json.Encoder().encode


@read_execution(
    "/timeline",
    "The whole execution for one screen: steps, runs, arcs and counts along the log",
    success={200: response(TimelineDocument, "The timeline")},
)
async def timeline(
    context: ContextParam,
    execution_id: ExecutionId,
    at_least: Annotated[
        int | None,
        QueryParameter(
            description="a document with this many facts is enough; it may be up to a second old", ge=0, le=SEQ_MAX
        ),
    ] = None,
) -> Response[bytes]:
    """Counts of long loops are sampled; they are exact wherever something begins or ends."""
    body = await context.timeline_documents.encoded(checked_id(execution_id), at_least)
    return Response(body, media_type="application/json")


@read_execution("/moment", "A fact, the ctx right after it, and the changes to ctx")
async def moment(
    context: ContextParam,
    execution_id: ExecutionId,
    at: Annotated[int, QueryParameter(description="the seq of the fact", ge=1, le=SEQ_MAX)],
    have: Annotated[
        int | None,
        QueryParameter(
            description="the `ctx_seq` of the ctx that the client has: it is not sent again", ge=0, le=SEQ_MAX
        ),
    ] = None,
) -> ExecutionMoment:
    return await context.timelines.moment(checked_id(execution_id), at, have)


@read_execution("/facts", "The facts of an execution as lines, in pages")
async def facts(
    context: ContextParam,
    execution_id: ExecutionId,
    *,
    after: AfterSeq = 0,
    limit: Limit = PAGE,
    kind: Annotated[
        str | None, QueryParameter(description="names of facts, comma-separated", max_length=TEXT_CHARS_MAX)
    ] = None,
    step: Annotated[str | None, QueryParameter(max_length=TEXT_CHARS_MAX)] = None,
    text: Annotated[
        str | None, QueryParameter(description="only facts that contain it", max_length=TEXT_CHARS_MAX)
    ] = None,
    bad: Annotated[bool, QueryParameter(description="only failures")] = False,
) -> FactsPage:
    """A page may be short or even empty and still have a `next`: one request searches 20,000 facts."""
    steps_of = (await context.timelines.get(checked_id(execution_id))).steps_of
    wanted = _FactFilter(kind=kind, step=step, text=text, bad=bad)
    scanned = limit if wanted.is_empty else SCANNED_MAX
    rows = await context.services.store.read(execution_id, after, after + scanned)
    remaining, found, seq = islice(events_of(rows, after=after), scanned), list[FactLine](), after
    while events := list(islice(remaining, SLICE_FACTS)):
        with readable(execution_id):
            for event in events:
                match = wanted.match(event, steps_of)
                if match is not None:
                    found.append(match)
                seq = event.seq
                if len(found) == limit:
                    return FactsPage(items=tuple(found), next=seq)
        await turn()
    return FactsPage(items=tuple(found), next=seq if seq - after >= scanned else None)


class _FactFilter:
    """Selects facts by kind, step, text and failure."""

    def __init__(self, *, kind: str | None, step: str | None, text: str | None, bad: bool) -> None:
        self._kinds = frozenset(kind.split(",")) if kind else None
        self._step = step or None
        self._text = text.lower() if text else None
        self._bad = bad
        self.is_empty = not (self._kinds or self._step or self._text or bad)

    def match(self, event: Event, steps_of: Mapping[str, str]) -> FactLine | None:
        """The line of a fact; None: the filter excludes it."""
        if self._kinds is not None and name_of(event.fact) not in self._kinds:
            return None
        found = fact_line(event, steps_of)
        matches = (not self._bad or found.bad) and self._step in (None, found.step)
        return found if matches and self._contains_text(event, found) else None

    def _contains_text(self, event: Event, found: FactLine) -> bool:
        if self._text is None:
            return True
        return self._text in f"{found.about} {found.words}".lower() or (
            self._text in _encode(event.fact).decode("utf-8", "replace").lower()
        )


@read_execution("/facts/{seq:int}", "One fact with all its fields")
async def one_fact(
    services: ServicesParam,
    execution_id: ExecutionId,
    seq: Annotated[int, PathParameter(description="its position in the log", ge=1, le=SEQ_MAX)],
) -> FactDocument:
    rows = await services.store.read(checked_id(execution_id), seq - 1, seq)
    for event in events_of(rows, after=seq - 1):
        return fact_document(event)
    head = await services.listing.head(execution_id)
    detail = f"the log of {execution_id} has the facts 1 to {head.seq}, and no fact {seq}"
    raise ApiError(404, "no-such-fact", detail)


@route(
    get, READ | OF_LIST, "executions", "/executions/glances", "Who requested executions, and the status of their steps"
)
async def glances(
    context: ContextParam,
    caller: CallerParam,
    ids: Annotated[str, QueryParameter(description="ids, comma-separated", max_length=4_000)],
) -> ExecutionOverviews:
    """At most 50. Ids that do not exist are left out."""
    found = []
    for execution_id in dict.fromkeys(ids.split(",")[:OVERVIEWS_MAX]):
        with suppress(NotFound):
            listing = context.services.listing
            if not caller.roles or caller.may("read", (await listing.head(checked_id(execution_id))).path):
                found.append(await context.timelines.overview(listing, checked_id(execution_id)))
    return ExecutionOverviews(items=tuple(found))


ROUTES = [
    show, events, raw_log, state, output, reasons, follow, follow_growth, follow_all, timeline, moment, facts,
    one_fact, glances,
]  # fmt: skip
