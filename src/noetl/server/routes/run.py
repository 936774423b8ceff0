"""A playbook as an API: a request runs it, and the response is its output or the answer of a `respond` task."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from litestar import Request, Response, get, post
from litestar.params import HeaderParameter, JSONBody, PathParameter
from litestar.types import ASGIApp
from msgspec.structs import replace

from noetl.api.executions import StartRequest, StartResponse
from noetl.errors import NoetlError, NotFound, PlaybookError
from noetl.net.inputs import Inputs
from noetl.output import JSON, Failure
from noetl.playbook.model import InputType
from noetl.server.answers import KIND, AnswerReader, response_of
from noetl.server.auth import Caller
from noetl.server.errors import MEDIA_TYPE, ApiError, problem_details
from noetl.server.log_readers import OutputLoader, locate_output
from noetl.server.params import OF_PLAYBOOK, RUN, AppContext, CallerParam, ContextParam, clean_text, response, route
from noetl.server.routes.executions import WAIT_MAX_S, IdempotencyKey, OptionalBody, StartedExecution, started
from noetl.server.services import Services

Prefer: TypeAlias = Annotated[
    str | None,
    HeaderParameter(name="Prefer", description="`respond-async`: do not wait; `wait=N`: wait at most N seconds"),
]
_AS_JSON: Final = frozenset({"integer", "number", "boolean", "list", "map"})  # types whose values are read as JSON
_WAIT: Final = re.compile(r"wait=(\d{1,9})")
_RESPONSES: Final = {
    200: response(Any, "The output data of the playbook, or the answer of a `respond` task with its own status"),
    202: response(StartResponse, "It has started, and has not ended within the time of `Prefer`"),
}


@route(
    post,
    RUN | OF_PLAYBOOK,
    "executions",
    "/run/{path:path}",
    "Run a playbook, and return its output",
    404,
    405,
    409,
    422,
    success=_RESPONSES,
    operation_class=OptionalBody,
)
async def run(
    request: Request[Any, Any, Any],
    context: ContextParam,
    caller: CallerParam,
    path: Annotated[str, PathParameter(description="metadata.path of a registered playbook")],
    data: JSONBody[dict[str, Any] | None] = None,
    *,
    prefer: Prefer = None,
    key: IdempotencyKey = None,
) -> ASGIApp:
    """The body is the workload, together with the values of secret inputs.

    The response is the output data of the playbook, or the answer of a `respond` task.
    The answer of a `respond` task has its own status, headers and body. It is sent as soon as the log contains it.
    With `more: true` it is a stream to which later `respond` tasks add; if it cannot be completed, the connection is
    closed before its last chunk.
    The header `Noetl-Execution-Id` names the execution. An execution that fails gives 500 with the kind and the
    message of its error; one that takes longer than 300 s, or than `Prefer` permits, continues and gives 202.
    """
    name = clean_text(path.removeprefix("/"), "path")
    inputs, given = await _permitted(context.services, caller, name, "POST"), data or {}
    hidden = () if inputs is None else [each.name for each in inputs.secrets if each.name in given]
    workload = {name: value for name, value in given.items() if name not in hidden}
    body = StartRequest(path=name, workload=workload, secrets={name: given[name] for name in hidden})
    return await _run(request, context, caller, body, prefer=prefer, key=key)


@route(
    get,
    RUN | OF_PLAYBOOK,
    "executions",
    "/run/{path:path}",
    "Run a playbook with the values of the query string, and return its output",
    404,
    405,
    409,
    422,
    success=_RESPONSES,
)
async def run_by_query(
    request: Request[Any, Any, Any],
    context: ContextParam,
    caller: CallerParam,
    path: Annotated[str, PathParameter(description="metadata.path of a registered playbook")],
    *,
    prefer: Prefer = None,
    key: IdempotencyKey = None,
) -> ASGIApp:
    """For playbooks with GET in `executor.spec.methods`; others give 405. The query string is the workload.

    Values are texts. A declared input of another type is read as JSON, and several values of a list as its items.
    The response is that of POST, with `Cache-Control: no-store` unless a `respond` task says something else.
    """
    name = clean_text(path.removeprefix("/"), "path")
    inputs = await _permitted(context.services, caller, name, "GET")
    workload = workload_of(request.query_params.dict(), inputs)
    return await _run(request, context, caller, StartRequest(path=name, workload=workload), prefer=prefer, key=key)


async def _permitted(services: Services, caller: Caller, path: str, method: str) -> Inputs | None:
    """The declared inputs of the playbook, as far as they are known. Raises ApiError for another method."""
    if not caller.may("run", path):
        return None  # the start reports it
    try:
        program = await services.playbooks.by_digest((await services.catalog.newest(path)).digest)
    except (NotFound, PlaybookError):
        return None  # the same
    methods = program.playbook.executor.methods
    if method not in methods:
        known = " or ".join(methods) or "no method"
        detail = f'"{path}" runs with {known}, not with {method}: see executor.spec.methods of the playbook'
        raise ApiError(405, "wrong-method", detail, {"Allow": ", ".join(methods)})
    return program.inputs


def workload_of(query: Mapping[str, Sequence[str]], inputs: Inputs | None) -> dict[str, JSON]:
    """The values of a query string. A text that is not of its type stays a text, which the start then refuses."""
    found: dict[str, JSON] = {}
    for name, texts in query.items():
        declared = None if inputs is None else inputs.fields.get(name)
        if declared is not None and declared.field.type == "list":
            whole = _typed(texts[0], "list")
            items = declared.field.items
            each = [_typed(text, "string" if items is None else items.type) for text in texts]
            found[name] = whole if len(texts) == 1 and isinstance(whole, list) else each
        else:
            values = [_typed(text, "string" if declared is None else declared.field.type) for text in texts]
            found[name] = values[0] if len(values) == 1 else values
    return found


def _typed(text: str, type: InputType) -> JSON:
    if type in _AS_JSON:
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(text)
    return text


async def _run(
    request: Request[Any, Any, Any],
    context: AppContext,
    caller: Caller,
    body: StartRequest,
    *,
    prefer: str | None,
    key: str | None,
) -> ASGIApp:
    wait_s = wait_of(prefer)
    async with started(context, body, caller, wait_s, key) as execution:
        headers = {"Noetl-Execution-Id": execution.id, "Location": f"/executions/{execution.id}"}
        if request.method == "GET":
            headers["Cache-Control"] = "no-store"
        reader = await _reader_of(context.services, execution) if wait_s else None
        has_ended = await execution.has_ended(None if reader is None else reader.has_part)
        if reader is not None and await reader.has_part():
            return response_of(context, reader, headers)
        if not has_ended:
            return _sent(Response(await execution.response(), status_code=202, headers=headers), request)
    location = await locate_output(context.services, execution.id)
    if location.error is not None:
        return _sent(_failed(execution, location.error, headers), request)
    result = None if location.output is None else await OutputLoader(context.services).load(location.output)
    encoded = msgspec.json.encode(result)  # the framework would send a text without its quotes
    return _sent(Response(encoded, status_code=200, media_type="application/json", headers=headers), request)


def wait_of(prefer: str | None) -> float:
    """Seconds to wait for the end. Other preferences are ignored, as RFC 7240 demands."""
    wait_s = WAIT_MAX_S
    for each in (prefer or "").lower().replace(";", ",").split(","):
        if each.strip() == "respond-async":
            return 0.0
        if found := _WAIT.fullmatch(each.strip()):
            wait_s = min(float(found[1]), WAIT_MAX_S)
    return wait_s


def _sent(made: Response[Any], request: Request[Any, Any, Any]) -> ASGIApp:
    return made.to_asgi_response(None, request)


async def _reader_of(services: Services, execution: StartedExecution) -> AnswerReader | None:
    """None: no task of the playbook is of kind `respond`, so the log need not be read while it runs."""
    digest = execution.digest or (await services.listing.head(execution.id)).digest
    with suppress(NoetlError):  # a playbook that this server cannot read may answer
        if not (await services.playbooks.by_digest(digest)).uses(KIND):
            return None
    return AnswerReader(services, execution.id)


def _failed(execution: StartedExecution, error: Failure, headers: dict[str, str]) -> Response[Any]:
    details = problem_details(500, "execution-failed", error.message)
    body = replace(details, execution_id=execution.id, kind=error.kind)
    return Response(body, status_code=500, media_type=MEDIA_TYPE, headers=headers)


ROUTES: Final = (run, run_by_query)
