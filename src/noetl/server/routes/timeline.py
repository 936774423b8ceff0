"""Executions as they are drawn: all of one in the size of a screen, its facts as lines, any moment of it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Annotated, Final

import msgspec
from litestar import get
from litestar.params import PathParameter, QueryParameter
from msgspec import Struct

from noetl.control.live_execution import turn
from noetl.engine import Event
from noetl.errors import NotFound
from noetl.server.errors import Refused
from noetl.server.log_readers import SLICE_FACTS, checked_id
from noetl.server.params import (
    PAGE,
    READ,
    SEQ_MAX,
    TEXT_CHARS_MAX,
    AfterSeq,
    DeskGiven,
    ExecutionId,
    Limit,
    RoomGiven,
    refusals,
)
from noetl.server.timeline_cache import Glance
from noetl.views.fact_lines import FactLine, line
from noetl.views.log import events_of, readable
from noetl.views.moment import ExecutionMoment, FactDocument, fact_document
from noetl.views.timeline import TimelineDocument, name_of

TAGS: Final = ["executions"]
SCANNED_MAX: Final = 20_000  # facts that one question looks through
GLANCES_MAX: Final = 50

_encode = msgspec.json.Encoder().encode


class FactsPage(Struct, frozen=True, kw_only=True):
    items: tuple[FactLine, ...]
    next: int | None = None  # `after` of the next page; None: the log ends here for now


class Glances(Struct, frozen=True, kw_only=True):
    items: tuple[Glance, ...]


@get(
    "/executions/{execution_id:str}/timeline",
    opt=READ,
    tags=TAGS,
    summary="All of it in the size of a screen: steps, runs, arcs and counts along the log",
    responses=refusals(404),
)
async def timeline(room: RoomGiven, execution_id: ExecutionId) -> TimelineDocument:
    """Counts of long loops are sampled; where something begins or ends they are exact."""
    return (await room.timelines.of(checked_id(execution_id))).document()


@get(
    "/executions/{execution_id:str}/moment",
    opt=READ,
    tags=TAGS,
    summary="Right after a fact: the fact, ctx, and what has changed in it",
    responses=refusals(404),
)
async def moment(
    room: RoomGiven,
    execution_id: ExecutionId,
    at: Annotated[int, QueryParameter(description="the seq of the fact", ge=1, le=SEQ_MAX)],
    have: Annotated[
        int | None,
        QueryParameter(description="the `ctx_seq` of a ctx that need not be sent again", ge=0, le=SEQ_MAX),
    ] = None,
) -> ExecutionMoment:
    return await room.timelines.at(checked_id(execution_id), at, have)


@get(
    "/executions/{execution_id:str}/facts",
    opt=READ,
    tags=TAGS,
    summary="Its facts as lines, a page at a time",
    responses=refusals(404),
)
async def facts(
    room: RoomGiven,
    execution_id: ExecutionId,
    *,
    after: AfterSeq = 0,
    limit: Limit = PAGE,
    kind: Annotated[
        str | None,
        QueryParameter(description="names of facts, with commas between them", max_length=TEXT_CHARS_MAX),
    ] = None,
    step: Annotated[str | None, QueryParameter(max_length=TEXT_CHARS_MAX)] = None,
    text: Annotated[
        str | None, QueryParameter(description="that stands in a fact", max_length=TEXT_CHARS_MAX)
    ] = None,
    bad: Annotated[bool, QueryParameter(description="only what has failed")] = False,
) -> FactsPage:
    """A page may be short, even empty, and have a `next`: so many facts were looked through."""
    steps_of = (await room.timelines.of(checked_id(execution_id))).steps_of
    asked = _Asked(kind=kind, step=step, text=text, bad=bad)
    scanned = limit if asked.all else SCANNED_MAX
    rows = await room.desk.store.read(execution_id, after, after + scanned)
    left, found, seq = islice(events_of(rows, after=after), scanned), list[FactLine](), after
    while events := list(islice(left, SLICE_FACTS)):
        with readable(execution_id):
            for event in events:
                shown = asked.shown(event, steps_of)
                if shown is not None:
                    found.append(shown)
                seq = event.seq
                if len(found) == limit:
                    return FactsPage(items=tuple(found), next=seq)
        await turn()
    return FactsPage(items=tuple(found), next=seq if seq - after >= scanned else None)


class _Asked:
    """Which facts are wanted."""

    def __init__(self, *, kind: str | None, step: str | None, text: str | None, bad: bool) -> None:
        self._kinds = frozenset(kind.split(",")) if kind else None
        self._step = step or None
        self._text = text.lower() if text else None
        self._bad = bad
        self.all = not (self._kinds or self._step or self._text or bad)

    def shown(self, event: Event, steps_of: Mapping[str, str]) -> FactLine | None:
        """None: it is not wanted."""
        if self._kinds is not None and name_of(event.fact) not in self._kinds:
            return None
        shown = line(event, steps_of)
        wanted = (not self._bad or shown.bad) and self._step in (None, shown.step)
        return shown if wanted and self._says(event, shown) else None

    def _says(self, event: Event, shown: FactLine) -> bool:
        if self._text is None:
            return True
        return self._text in f"{shown.about} {shown.words}".lower() or (
            self._text in _encode(event.fact).decode("utf-8", "replace").lower()
        )


@get(
    "/executions/{execution_id:str}/facts/{seq:int}",
    opt=READ,
    tags=TAGS,
    summary="One fact, with all that was recorded",
    responses=refusals(404),
)
async def one_fact(
    desk: DeskGiven,
    execution_id: ExecutionId,
    seq: Annotated[int, PathParameter(description="its place in the log", ge=1, le=SEQ_MAX)],
) -> FactDocument:
    rows = await desk.store.read(checked_id(execution_id), seq - 1, seq)
    for event in events_of(rows, after=seq - 1):
        return fact_document(event)
    head = await desk.listing.head(execution_id)
    words = f"the log of {execution_id} has 1 to {head.seq}, and no fact {seq}"
    raise Refused(404, "no-such-fact", words)


@get(
    "/executions/glances",
    opt=READ,
    tags=TAGS,
    summary="Who asked for executions, and how their steps stand",
    responses=refusals(),
)
async def glances(
    room: RoomGiven,
    ids: Annotated[str, QueryParameter(description="ids with commas between them", max_length=4_000)],
) -> Glances:
    """Of those that there are, 50 at most."""
    found = []
    for execution_id in dict.fromkeys(ids.split(",")[:GLANCES_MAX]):
        with suppress(NotFound):
            found.append(await room.timelines.glance(room.desk.listing, checked_id(execution_id)))
    return Glances(items=tuple(found))


ROUTES = [timeline, moment, facts, one_fact, glances]
