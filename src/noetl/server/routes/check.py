"""Analysis of playbooks before they run: check, explanation, graph, and the JSON Schema for editors."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from litestar import Request, Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import QueryParameter

from noetl.api.analysis import CheckResponse, ExplainResponse, PlaybookGraph
from noetl.api.playbooks import PlaybookTextRequest
from noetl.checks.checker import Checked
from noetl.drawing.chart import chart
from noetl.errors import PlaybookError
from noetl.net.program import Program
from noetl.playbook.json_schema import json_schema
from noetl.playbook.kinds import Kinds
from noetl.server import playbook_body
from noetl.server.graph import playbook_graph, small_enough
from noetl.server.params import READ, ContextParam, error_responses
from noetl.server.playbook_body import PLAYBOOK_BODY_MAX, ReferenceOperation, TextOperation, read_text, resolve_text
from noetl.views.documents import problem_document
from noetl.views.explain import explain, explanation_text

TAGS: Final = ["playbooks"]
_TYPES: Final = {"svg": "image/svg+xml", "mermaid": "text/plain", "dot": "text/vnd.graphviz"}


@post(
    "/playbooks/check",
    opt=READ,
    tags=TAGS,
    summary="Check a text without storing it",
    status_code=200,
    operation_class=TextOperation,
    request_max_body_size=PLAYBOOK_BODY_MAX,
    responses=error_responses(),
)
async def check_text(request: Request[Any, Any, Any], context: ContextParam) -> CheckResponse:
    text = await read_text(request)
    try:
        checked = (await playbook_body.check_text(context, text)).checked
    except PlaybookError as error:  # it cannot be upgraded
        return CheckResponse(ok=False, problems=tuple(map(problem_document, error.problems)))
    return CheckResponse(ok=not checked.errors, problems=tuple(map(problem_document, checked.problems)))


@post(
    "/playbooks/explain",
    opt=READ,
    tags=TAGS,
    summary="Explain a playbook in plain English",
    status_code=200,
    operation_class=ReferenceOperation,
    request_max_body_size=PLAYBOOK_BODY_MAX,
    responses=error_responses(404, 422),
)
async def explain_text(request: Request[Any, Any, Any], context: ContextParam) -> ExplainResponse:
    _, program = await _program(context, await resolve_text(request, context.services))
    explanation = await context.cpu_pool.run(explain, program, context.services.kinds)
    return ExplainResponse(text=await context.cpu_pool.run(explanation_text, explanation), explanation=explanation)


@post(
    "/playbooks/graph",
    opt=READ,
    tags=TAGS,
    summary="The graph of a playbook, as data or as a drawing",
    status_code=200,
    operation_class=ReferenceOperation,
    request_max_body_size=PLAYBOOK_BODY_MAX,
    responses={
        200: ResponseSpec(PlaybookGraph, generate_examples=False, description="The graph, or a drawing of it"),
        **error_responses(404, 422),
    },
)
async def graph(
    request: Request[Any, Any, Any],
    context: ContextParam,
    form: Annotated[Literal["json", "svg", "mermaid", "dot"], QueryParameter(name="format")] = "json",
) -> Response[Any]:
    checked, program = await _program(context, await resolve_text(request, context.services))
    if form == "json":
        return Response(await context.cpu_pool.run(playbook_graph, checked, program))
    body = await context.cpu_pool.run(_draw, program, form)
    headers = {"Content-Disposition": 'attachment; filename="playbook.svg"'} if form == "svg" else {}
    return Response(body.encode("utf-8", "replace"), media_type=_TYPES[form], headers=headers)


async def _program(context: ContextParam, text: PlaybookTextRequest) -> tuple[Checked, Program]:
    """The net, even of a text with errors as long as it can be compiled. Raises PlaybookError."""
    checked = (await playbook_body.check_text(context, text)).checked
    if checked.program is None:
        raise PlaybookError(checked.problems)
    return checked, checked.program


def _draw(program: Program, form: Literal["svg", "mermaid", "dot"]) -> str:
    drawing = chart(program)
    if form == "svg":
        from noetl.drawing.svg import svg

        return svg(small_enough(drawing))
    from noetl.drawing.text import dot, mermaid

    return {"mermaid": mermaid, "dot": dot}[form](drawing)


@get(
    "/playbooks/schema",
    opt=READ,
    tags=TAGS,
    summary="The JSON Schema of playbooks",
    responses={
        200: ResponseSpec(dict[str, Any], generate_examples=False, description="Draft 2020-12"),
        **error_responses(),
    },
)
async def playbook_schema(context: ContextParam) -> Response[bytes]:
    """The output of `noetl schema` with the tools of this server, for completion and checks in editors."""
    body = await context.cpu_pool.run(_encoded_schema, context.services.kinds)
    return Response(body, media_type="application/json")


def _encoded_schema(kinds: Kinds) -> bytes:
    return msgspec.json.encode(json_schema(kinds))


ROUTES = [check_text, explain_text, graph, playbook_schema]
