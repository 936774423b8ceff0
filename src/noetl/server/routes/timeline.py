"""Executions as the UI draws them: the timeline of all steps, facts as lines, and any moment."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Annotated, Final

import msgspec
from litestar import get
from litestar.params import PathParameter, QueryParameter

from noetl.api.analysis import FactsPage
from noetl.api.executions import ExecutionOverviews
from noetl.control.live_execution import turn
from noetl.engine import Event
from noetl.errors import NotFound
from noetl.server.errors import ApiError
from noetl.server.log_readers import SLICE_FACTS, checked_id
from noetl.server.params import (
    PAGE,
    READ,
    SEQ_MAX,
    TEXT_CHARS_MAX,
    AfterSeq,
    ContextParam,
    ExecutionId,
    Limit,
    ServicesParam,
    error_responses,
)
from noetl.views.log import events_of, readable
from noetl.views.timeline import (
    ExecutionMoment,
    FactDocument,
    FactLine,
    TimelineDocument,
    fact_document,
    fact_line,
    name_of,
)

TAGS: Final = ["executions"]
SCANNED_MAX: Final = 20_000  # facts that one request searches
OVERVIEWS_MAX: Final = 50

_encode = msgspec.json.Encoder().encode


@get(
    "/executions/{execution_id:str}/timeline",
    opt=READ,
    tags=TAGS,
    summary="The whole execution for one screen: steps, runs, arcs and counts along the log",
    responses=error_responses(404),
)
async def timeline(context: ContextParam, execution_id: ExecutionId) -> TimelineDocument:
    """Counts of long loops are sampled; they are exact wherever something begins or ends."""
    return (await context.timelines.get(checked_id(execution_id))).document()


@get(
    "/executions/{execution_id:str}/moment",
    opt=READ,
    tags=TAGS,
    summary="A fact, the ctx right after it, and the changes to ctx",
    responses=error_responses(404),
)
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


@get(
    "/executions/{execution_id:str}/facts",
    opt=READ,
    tags=TAGS,
    summary="The facts of an execution as lines, in pages",
    responses=error_responses(404),
)
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


@get(
    "/executions/{execution_id:str}/facts/{seq:int}",
    opt=READ,
    tags=TAGS,
    summary="One fact with all its fields",
    responses=error_responses(404),
)
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


@get(
    "/executions/glances",
    opt=READ,
    tags=TAGS,
    summary="Who requested executions, and the status of their steps",
    responses=error_responses(),
)
async def glances(
    context: ContextParam, ids: Annotated[str, QueryParameter(description="ids, comma-separated", max_length=4_000)]
) -> ExecutionOverviews:
    """At most 50. Ids that do not exist are left out."""
    found = []
    for execution_id in dict.fromkeys(ids.split(",")[:OVERVIEWS_MAX]):
        with suppress(NotFound):
            listing = context.services.listing
            found.append(await context.timelines.overview(listing, checked_id(execution_id)))
    return ExecutionOverviews(items=tuple(found))


ROUTES = [timeline, moment, facts, one_fact, glances]
