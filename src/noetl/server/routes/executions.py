"""Start, find and list executions. A start may wait for the end, so that a playbook can serve as an API."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Final
from uuid import UUID

from litestar import Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, JSONBody, QueryParameter
from msgspec import UNSET

from noetl.api.executions import (
    ExecutionIds,
    ExecutionsPage,
    ExecutionSummary,
    ExecutionTree,
    LastExecution,
    StartRequest,
    StartResponse,
)
from noetl.engine.commands import Start
from noetl.engine.facts import Requested
from noetl.engine.state import Status
from noetl.errors import NotFound, Rejected
from noetl.output import JSON, NotJSON, clean_decoded
from noetl.server.auth import Caller
from noetl.server.log_readers import ID_PATTERN, checked_id, load_show_document
from noetl.server.params import (
    PAGE,
    READ,
    RUN,
    TEXT_CHARS_MAX,
    AppContext,
    CallerParam,
    ContextParam,
    ExecutionId,
    Limit,
    ServicesParam,
    clean_text,
    error_responses,
)
from noetl.server.playbook_body import ResolvedStart, authorize, refusals_recorded, resolve, resolve_digest
from noetl.server.services import Services
from noetl.views.documents import ShowDocument, problem_document

WAIT_MAX_S: Final = 300.0
KEY_CHARS_MAX: Final = 255
TREE_DEPTH_MAX: Final = 16
TREE_EXECUTIONS_MAX: Final = 1_000
TAGS: Final = ["executions"]


@post(
    "/executions",
    opt=RUN,
    tags=TAGS,
    summary="Start a playbook",
    responses={
        200: ResponseSpec(ShowDocument, generate_examples=False, description="It has ended within `wait`"),
        201: ResponseSpec(StartResponse, generate_examples=False, description="It has started"),
        202: ResponseSpec(StartResponse, generate_examples=False, description="It has not ended within `wait`"),
        **error_responses(404, 409, 422),
    },
)
async def start(
    data: JSONBody[StartRequest],
    context: ContextParam,
    caller: CallerParam,
    wait: Annotated[float, QueryParameter(description="seconds to wait for its end", ge=0, le=WAIT_MAX_S)] = 0.0,
    key: Annotated[
        str | None,
        HeaderParameter(
            name="Idempotency-Key",
            description="a repeated key returns the execution of the first request",
            max_length=KEY_CHARS_MAX,
        ),
    ] = None,
) -> Response[Any]:
    """When the response arrives, the log contains the start request.

    Requests with the same Idempotency-Key and token start one execution. A new text is registered first,
    which needs the scope `write` as well. The log also records a request that cannot run: the response then
    contains the problems and the id of its execution, and the key remains free.
    """
    services = context.services
    data = await authorize(context, data, caller)
    workload = _checked_workload(data.workload)
    execution_id = services.clock.new_id() if key is None else _derived_id(caller, key)
    headers = {"Location": f"/executions/{execution_id}"}
    is_new = key is None or await services.store.status(execution_id) is None
    resolved: ResolvedStart | None = None
    async with context.waiters.waiter(execution_id, wait) as waiter:
        if is_new:
            async with refusals_recorded(context, data, caller):
                resolved = await resolve(context, data)
                command = Start(workload=workload, by=caller.name)
                await services.link.start(execution_id, resolved.digest, command)
        if key is not None:
            await _check_same_start(context, execution_id, data, resolved)
        if await waiter.has_ended(is_new=is_new):
            document = await load_show_document(context.runs, services, execution_id)
            return Response(document, status_code=200, headers=headers)
        response = StartResponse(
            execution_id=execution_id,
            status=await waiter.status(),
            problems=tuple(map(problem_document, resolved.problems if resolved else ())) or UNSET,
        )
    return Response(response, status_code=202 if wait else 201, headers=headers)


def _checked_workload(workload: dict[str, JSON]) -> dict[str, JSON]:
    try:
        clean_decoded(workload)
    except NotJSON as error:
        raise Rejected("not-json", f"workload: {error}") from error
    return workload


def _derived_id(caller: Caller, key: str) -> str:
    if not key or not key.isprintable():
        raise Rejected("bad-key", f"an Idempotency-Key has 1 to {KEY_CHARS_MAX} printable characters")
    seed = hashlib.sha256(f"start {caller.id} {key}".encode()).digest()[:16]
    return str(UUID(bytes=seed, version=5))


async def _check_same_start(
    context: AppContext, execution_id: str, request: StartRequest, resolved: ResolvedStart | None
) -> None:
    """Compare the request in the log with this one. Raises Rejected when they differ."""
    rows = await context.services.store.read(execution_id, 0, 1)
    first = rows[0].facts[0] if rows else None
    assert isinstance(first, Requested), "the first fact of a log is the request"
    same = first.workload == request.workload and request.path in (None, first.path)
    if same and (request.path is None or request.version is not None):
        same = first.digest == (resolved.digest if resolved else await resolve_digest(context, request))
    if not same:
        message = "the key was used for a different start request: use a new key for this one"
        raise Rejected("idempotency-mismatch", message)


@get("/executions", opt=READ, tags=TAGS, summary="List executions, newest first", responses=error_responses())
async def executions(
    services: ServicesParam,
    *,
    status: Annotated[Status | None, QueryParameter(description="only with this status")] = None,
    open_only: Annotated[bool, QueryParameter(name="open", description="only those that have not ended")] = (False),
    path: Annotated[str | None, QueryParameter(max_length=TEXT_CHARS_MAX)] = None,
    before: Annotated[str | None, QueryParameter(description="`next` of the previous page", pattern=ID_PATTERN)] = None,
    limit: Limit = PAGE,
) -> ExecutionsPage:
    found = await services.listing.executions(
        limit,
        before=before,
        status=status,
        open_only=open_only,
        path=None if path is None else clean_text(path, "path"),
    )
    more = found[-1].execution_id if len(found) == limit else None
    return ExecutionsPage(items=tuple(map(ExecutionSummary.from_head, found)), next=more)


@get("/executions/find", opt=READ, tags=TAGS, summary="Find ids that begin with a prefix", responses=error_responses())
async def find(
    services: ServicesParam, prefix: Annotated[str, QueryParameter(min_length=1, max_length=64)]
) -> ExecutionIds:
    try:
        return ExecutionIds(ids=tuple(await services.listing.find(checked_id(prefix))))
    except NotFound:
        return ExecutionIds(ids=())


@get("/executions/last", opt=READ, tags=TAGS, summary="The execution that started last", responses=error_responses(404))
async def last(services: ServicesParam) -> LastExecution:
    return LastExecution(execution_id=await services.listing.last())


@get(
    "/executions/{execution_id:str}/head",
    opt=READ,
    tags=TAGS,
    summary="The summary of an execution, as in the list",
    responses=error_responses(404),
)
async def head(services: ServicesParam, execution_id: ExecutionId) -> ExecutionSummary:
    return ExecutionSummary.from_head(await services.listing.head(checked_id(execution_id)))


@get(
    "/executions/{execution_id:str}/tree",
    opt=READ,
    tags=TAGS,
    summary="An execution and its children",
    responses=error_responses(404),
)
async def tree(services: ServicesParam, execution_id: ExecutionId) -> ExecutionTree:
    root = await services.listing.head(checked_id(execution_id))
    return await _TreeBuilder(services).build(ExecutionSummary.from_head(root), 0)


class _TreeBuilder:
    """Reads a tree up to a limit."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._left = TREE_EXECUTIONS_MAX - 1

    async def build(self, execution: ExecutionSummary, depth: int) -> ExecutionTree:
        heads = await self._services.listing.children(execution.execution_id)
        included = heads[: self._left] if depth < TREE_DEPTH_MAX else []
        self._left -= len(included)
        children = [await self.build(ExecutionSummary.from_head(each), depth + 1) for each in included]
        left_out = len(heads) - len(included)
        return ExecutionTree(execution=execution, children=tuple(children), left_out=left_out)


ROUTES = [start, executions, find, last, head, tree]
