"""What is on record of an execution: documents, events, the raw log, the state at any fact, and reasons."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from litestar import Response, get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import QueryParameter
from msgspec import Struct

from noetl.engine.facts import Fact
from noetl.errors import NotFound
from noetl.ports import LogRow
from noetl.server.errors import Refused
from noetl.server.log_readers import checked_id, read_runs
from noetl.server.outputs import Fetching, given_back
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
from noetl.server.reading import shown
from noetl.views.documents import ShowDocument, StateDocument, state_document
from noetl.views.envelopes import Envelope
from noetl.views.explain.why import Why, why
from noetl.views.log import events_of, instant, readable
from noetl.views.outputs import OutputLocation, given_by_step
from noetl.views.runs import Runs

LOG_PAGE: Final = 1_000
LOG_PAGE_MAX: Final = 10_000
TAGS: Final = ["executions"]

StepAsked = Annotated[
    str | None,
    QueryParameter(name="step", description="a step, a block or a run", max_length=TEXT_CHARS_MAX),
]


class EventsPage(Struct, frozen=True, kw_only=True):
    items: tuple[Envelope, ...]
    next: int | None = None  # `after` of the next page; None: the log ends here for now


class RowShown(Struct, frozen=True, kw_only=True):
    """Facts that were committed together."""

    first_seq: int
    at: str
    facts: tuple[Fact, ...]


class LogPage(Struct, frozen=True, kw_only=True):
    items: tuple[RowShown, ...]
    next: int | None = None


@get(
    "/executions/{execution_id:str}",
    opt=READ,
    tags=TAGS,
    summary="An execution with its steps and its output",
    responses=refusals(404),
)
async def show(room: RoomGiven, execution_id: ExecutionId) -> ShowDocument:
    return await shown(room.memory, room.desk, checked_id(execution_id))


@get(
    "/executions/{execution_id:str}/events",
    opt=READ,
    tags=TAGS,
    summary="Its events, a page at a time",
    responses=refusals(404),
)
async def events(
    room: RoomGiven, execution_id: ExecutionId, after: AfterSeq = 0, limit: Limit = PAGE
) -> EventsPage:
    """`limit` counts facts; one of them may show as several events."""
    await _must_be(room.desk, execution_id)
    reader = await room.readers.take(execution_id, after)
    if reader.seq < after:
        return EventsPage(items=())
    found = await reader.events(limit)
    items = tuple(envelope for event in found for envelope in reader.show(event))
    room.readers.keep(reader)
    return EventsPage(items=items, next=found[-1].seq if len(found) == limit else None)


@get(
    "/executions/{execution_id:str}/log",
    opt=READ,
    tags=TAGS,
    summary="Its log as it was written: facts, for programs that fold them themselves",
    responses={
        200: ResponseSpec(dict[str, Any], generate_examples=False, description="Rows of facts"),
        **refusals(404),
    },
)
async def raw_log(
    desk: DeskGiven,
    execution_id: ExecutionId,
    after: AfterSeq = 0,
    limit: Annotated[
        int, QueryParameter(description="of facts; a row is never cut", ge=1, le=LOG_PAGE_MAX)
    ] = (LOG_PAGE),
) -> Response[LogPage]:
    head = await desk.listing.head(checked_id(execution_id))
    rows = await desk.store.read(execution_id, after, after + limit)
    last = rows[-1].first_seq + len(rows[-1].facts) - 1 if rows else head.seq
    return Response(LogPage(items=tuple(map(_row, rows)), next=last if last < head.seq else None))


def _row(row: LogRow) -> RowShown:
    return RowShown(first_seq=row.first_seq, at=instant(row.at), facts=row.facts)


@get(
    "/executions/{execution_id:str}/state",
    opt=READ,
    tags=TAGS,
    summary="Where it stood after a fact: tokens, runs, values",
    responses=refusals(404),
)
async def state(
    room: RoomGiven,
    execution_id: ExecutionId,
    at: Annotated[int | None, QueryParameter(description="none: the last fact", ge=1, le=SEQ_MAX)] = None,
) -> StateDocument:
    if at is None:
        return await room.memory.ask(checked_id(execution_id), state_document)
    await _must_be(room.desk, execution_id)
    runs = Runs(execution_id)
    await read_runs(room.desk.store, runs, at)
    if runs.state.seq < at:
        words = f"the log of {execution_id} has 1 to {runs.state.seq}, and no fact {at}"
        raise Refused(404, "no-such-fact", words)
    with readable(execution_id):
        return state_document(runs)


@get(
    "/executions/{execution_id:str}/output",
    opt=READ,
    tags=TAGS,
    summary="What it gave back, whole, wherever that lies",
    responses={
        200: ResponseSpec(object, generate_examples=False, description="The data itself"),
        **refusals(404, 409, 422),
    },
)
async def output(room: RoomGiven, execution_id: ExecutionId, step: StepAsked = None) -> Response[bytes]:
    """An execution that failed is answered with 409 `execution-failed`, one that runs with 409 `not-over`."""
    checked_id(execution_id)
    desk = room.desk
    given = await (given_back(desk, execution_id) if step is None else _of_step(room, execution_id, step))
    if given.error is not None:
        words = f"{given.error.kind}: {given.error.message}"
        raise Refused(409, "execution-failed" if step is None else "step-failed", words)
    if given.output is None:
        raise NotFound(given.why)
    data = await Fetching(desk).whole(given.output)
    return Response(msgspec.json.encode(data), media_type="application/json")


async def _of_step(room: RoomGiven, execution_id: str, step: str) -> OutputLocation:
    await _must_be(room.desk, execution_id)
    rows = await room.desk.store.read(execution_id)
    with readable(execution_id):
        return await room.thinking.do(given_by_step, execution_id, events_of(rows), step)


@get(
    "/executions/{execution_id:str}/why",
    opt=READ,
    tags=TAGS,
    summary="Why a step ran, waited or did not run",
    responses=refusals(404, 422),
)
async def reasons(
    room: RoomGiven,
    execution_id: ExecutionId,
    step: Annotated[str, QueryParameter(description="a step or a block", max_length=TEXT_CHARS_MAX)],
) -> Why:
    desk = room.desk
    head = await desk.listing.head(checked_id(execution_id))
    program = await desk.playbooks.by_digest(head.digest)
    rows = await desk.store.read(execution_id)
    if step not in program.steps and step not in program.blocks:
        names = ", ".join((*program.steps, *program.blocks))
        raise NotFound(f'the playbook has no step "{step}": there are {names}')
    with readable(execution_id):
        return await room.thinking.do(why, program, execution_id, events_of(rows), step)


async def _must_be(desk: DeskGiven, execution_id: str) -> None:
    if await desk.store.status(checked_id(execution_id)) is None:
        raise NotFound(f"no execution {execution_id}")


ROUTES = [show, events, raw_log, state, output, reasons]
