"""Analysis of playbooks before they run: check, explanation, graph, and the JSON Schema for editors."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.spec import Operation
from litestar.params import QueryParameter

from noetl.api.analysis import ExplainResponse, PlaybookGraph
from noetl.api.playbooks import CheckResponse
from noetl.playbook.json_schema import json_schema
from noetl.playbook.kinds import Kinds
from noetl.server.analysis import GraphForm, TooLargeToDraw
from noetl.server.errors import ApiError
from noetl.server.params import OF_NAME, OF_NOTHING, READ, CallerParam, ContextParam, response, route
from noetl.server.playbook_body import (
    PLAYBOOK_BODY_MAX,
    ReferenceOperation,
    TextOperation,
    analysed,
    read_text,
    resolve_text,
)

_TYPES: Final = {"svg": "image/svg+xml", "mermaid": "text/plain", "dot": "text/vnd.graphviz"}
_CHECKED: Final = {200: response(CheckResponse, "All problems of the text")}
_EXPLAINED: Final = {200: response(ExplainResponse, "The explanation, as text and as data")}
_GRAPH: Final = {200: response(PlaybookGraph, "The graph, or a drawing of it")}
_SCHEMA: Final = {200: response(dict[str, Any], "Draft 2020-12")}


def _analysis(path: str, body: type[Operation], summary: str, *errors: int, **options: Any) -> HTTPRouteHandler:
    """A route that reads a playbook from its body; a reference to a registered one is limited by its path."""
    access = READ | (OF_NAME if body is ReferenceOperation else OF_NOTHING)
    return route(
        post, access, "playbooks", path, summary, *errors, status_code=200, operation_class=body,
        request_max_body_size=PLAYBOOK_BODY_MAX, **options,
    )  # fmt: skip


@_analysis("/playbooks/check", TextOperation, "Check a text without storing it", success=_CHECKED)
async def check_text(request: Request[Any, Any, Any], context: ContextParam) -> Response[Any]:
    text = await read_text(request)
    return _json(await analysed(context, text, "check"))


def _json(body: bytes) -> Response[Any]:
    return Response(body, media_type="application/json")


@_analysis(
    "/playbooks/explain", ReferenceOperation, "Explain a playbook in plain English", 404, 422, success=_EXPLAINED
)
async def explain_text(request: Request[Any, Any, Any], context: ContextParam, caller: CallerParam) -> Response[Any]:
    text = await resolve_text(request, context.services, caller)
    return _json(await analysed(context, text, "explain"))


@_analysis(
    "/playbooks/graph", ReferenceOperation, "The graph of a playbook, as data or as a drawing", 404, 422, success=_GRAPH
)
async def graph(
    request: Request[Any, Any, Any],
    context: ContextParam,
    caller: CallerParam,
    form: Annotated[GraphForm, QueryParameter(name="format")] = "json",
) -> Response[Any]:
    text = await resolve_text(request, context.services, caller)
    try:
        body = await analysed(context, text, form)
    except TooLargeToDraw as error:
        raise ApiError(422, "too-large-to-draw", str(error)) from error
    headers = {"Content-Disposition": 'attachment; filename="playbook.svg"'} if form == "svg" else {}
    return Response(body, media_type=_TYPES.get(form, "application/json"), headers=headers)


@route(get, READ | OF_NOTHING, "playbooks", "/playbooks/schema", "The JSON Schema of playbooks", success=_SCHEMA)
async def playbook_schema(context: ContextParam) -> Response[bytes]:
    """The output of `noetl schema` with the tools of this server, for completion and checks in editors."""
    body = await context.cpu_pool.run(_encoded_schema, context.services.kinds)
    return Response(body, media_type="application/json")


def _encoded_schema(kinds: Kinds) -> bytes:
    return msgspec.json.encode(json_schema(kinds))


ROUTES = [check_text, explain_text, graph, playbook_schema]
