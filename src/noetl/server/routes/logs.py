"""The log of an execution: overview, events, raw facts, the state after any fact, the output, and reasons."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from litestar import Response, get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import QueryParameter

from noetl.api.executions import EventsPage, LogEntry, LogPage
from noetl.errors import NotFound
from noetl.server.errors import ApiError
from noetl.server.log_readers import OutputLoader, checked_id, load_show_document, locate_output, read_runs
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
from noetl.views.documents import OutputLocation, ShowDocument, StateDocument, given_by_step, state_document
from noetl.views.log import events_of, readable
from noetl.views.runs import Runs
from noetl.views.why import Why, why

LOG_PAGE: Final = 1_000
LOG_PAGE_MAX: Final = 10_000
TAGS: Final = ["executions"]

StepParam = Annotated[
    str | None, QueryParameter(name="step", description="a step, a block or a run", max_length=TEXT_CHARS_MAX)
]


@get(
    "/executions/{execution_id:str}",
    opt=READ,
    tags=TAGS,
    summary="An execution with its steps and its output",
    responses=error_responses(404),
)
async def show(context: ContextParam, execution_id: ExecutionId) -> ShowDocument:
    return await load_show_document(context.runs, context.services, checked_id(execution_id))


@get(
    "/executions/{execution_id:str}/events",
    opt=READ,
    tags=TAGS,
    summary="The events of an execution, in pages",
    responses=error_responses(404),
)
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


@get(
    "/executions/{execution_id:str}/log",
    opt=READ,
    tags=TAGS,
    summary="The raw log: facts, for programs that fold them",
    responses={
        200: ResponseSpec(dict[str, Any], generate_examples=False, description="Rows of facts"),
        **error_responses(404),
    },
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


@get(
    "/executions/{execution_id:str}/state",
    opt=READ,
    tags=TAGS,
    summary="The state after a fact: tokens, runs, values",
    responses=error_responses(404),
)
async def state(
    context: ContextParam,
    execution_id: ExecutionId,
    at: Annotated[
        int | None, QueryParameter(description="the seq of the fact; default: the last", ge=1, le=SEQ_MAX)
    ] = None,
) -> StateDocument:
    if at is None:
        return await context.runs.query(checked_id(execution_id), state_document)
    await _check_exists(context.services, execution_id)
    runs = Runs(execution_id)
    await read_runs(context.services.store, runs, at)
    if runs.state.seq < at:
        detail = f"the log of {execution_id} has the facts 1 to {runs.state.seq}, and no fact {at}"
        raise ApiError(404, "no-such-fact", detail)
    with readable(execution_id):
        return state_document(runs)


@get(
    "/executions/{execution_id:str}/output",
    opt=READ,
    tags=TAGS,
    summary="The full output of an execution or a step",
    responses={
        200: ResponseSpec(object, generate_examples=False, description="The data itself"),
        **error_responses(404, 409, 422),
    },
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
    rows = await context.services.store.read(execution_id)
    with readable(execution_id):
        return await context.cpu_pool.run(given_by_step, execution_id, events_of(rows), step)


@get(
    "/executions/{execution_id:str}/why",
    opt=READ,
    tags=TAGS,
    summary="Why a step ran, waited or did not run",
    responses=error_responses(404, 422),
)
async def reasons(
    context: ContextParam,
    execution_id: ExecutionId,
    step: Annotated[str, QueryParameter(description="a step or a block", max_length=TEXT_CHARS_MAX)],
) -> Why:
    services = context.services
    head = await services.listing.head(checked_id(execution_id))
    program = await services.playbooks.by_digest(head.digest)
    rows = await services.store.read(execution_id)
    if step not in program.steps and step not in program.blocks:
        names = ", ".join((*program.steps, *program.blocks))
        raise NotFound(f'the playbook has no step "{step}": it has {names}')
    with readable(execution_id):
        return await context.cpu_pool.run(why, program, execution_id, events_of(rows), step)


async def _check_exists(services: ServicesParam, execution_id: str) -> None:
    if await services.store.status(checked_id(execution_id)) is None:
        raise NotFound(f"no execution {execution_id}")


ROUTES = [show, events, raw_log, state, output, reasons]
