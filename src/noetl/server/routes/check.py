"""Analysis of playbooks before they run: check, explanation, graph, and the JSON Schema for editors."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.spec import Operation
from litestar.params import QueryParameter

from noetl.api.analysis import ExplainResponse, GraphArc, GraphStep, PlaybookGraph
from noetl.api.playbooks import CheckResponse, PlaybookTextRequest
from noetl.checks.checker import Checked
from noetl.drawing.chart import Box, Chart, ChartLine, chart
from noetl.drawing.layout import Chain, RoutedLine, SideRoutes, Size, lay_out
from noetl.drawing.svg import BOXES_MAX, LINES_MAX
from noetl.errors import PlaybookError
from noetl.escape import width
from noetl.net.program import Program
from noetl.playbook.json_schema import json_schema
from noetl.playbook.kinds import Kinds
from noetl.server import playbook_body
from noetl.server.encoding import encode_parts
from noetl.server.errors import ApiError
from noetl.server.params import OF_NAME, OF_NOTHING, READ, CallerParam, ContextParam, response, route
from noetl.server.playbook_body import PLAYBOOK_BODY_MAX, ReferenceOperation, TextOperation, read_text, resolve_text
from noetl.server.services import Services
from noetl.views.documents import problem_document
from noetl.views.explain import explain, explanation_text

GraphForm: TypeAlias = Literal["json", "svg", "mermaid", "dot"]
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


# A program and its problems are made, encoded and freed in the pool: freeing them can take as long as encoding them.


@_analysis("/playbooks/check", TextOperation, "Check a text without storing it", success=_CHECKED)
async def check_text(request: Request[Any, Any, Any], context: ContextParam) -> Response[Any]:
    text = await read_text(request)
    return _json(await context.cpu_pool.run(_checked_body, text, context.services))


def _checked_body(text: PlaybookTextRequest, services: Services) -> bytes:
    try:
        checked = playbook_body.upgrade_and_check(services, text).checked
        problems, ok = checked.problems, not checked.errors
    except PlaybookError as error:  # it cannot be upgraded
        problems, ok = error.problems, False
    return encode_parts(CheckResponse(ok=ok, problems=tuple(map(problem_document, problems))))


def _json(body: bytes) -> Response[Any]:
    return Response(body, media_type="application/json")


@_analysis(
    "/playbooks/explain", ReferenceOperation, "Explain a playbook in plain English", 404, 422, success=_EXPLAINED
)
async def explain_text(request: Request[Any, Any, Any], context: ContextParam, caller: CallerParam) -> Response[Any]:
    text = await resolve_text(request, context.services, caller)
    return _json(await context.cpu_pool.run(_explained_body, text, context.services))


def _explained_body(text: PlaybookTextRequest, services: Services) -> bytes:
    explanation = explain(_program(text, services)[1], services.kinds)
    return encode_parts(ExplainResponse(text=explanation_text(explanation), explanation=explanation))


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
    body = await context.cpu_pool.run(_drawn_body, text, context.services, form)
    headers = {"Content-Disposition": 'attachment; filename="playbook.svg"'} if form == "svg" else {}
    return Response(body, media_type=_TYPES.get(form, "application/json"), headers=headers)


def _drawn_body(text: PlaybookTextRequest, services: Services, form: GraphForm) -> bytes:
    checked, program = _program(text, services)
    if form == "json":
        return encode_parts(playbook_graph(checked, program))
    return _draw(program, form).encode("utf-8", "replace")


def _program(text: PlaybookTextRequest, services: Services) -> tuple[Checked, Program]:
    """The net, even of a text with errors as long as it can be compiled. Raises PlaybookError."""
    checked = playbook_body.upgrade_and_check(services, text).checked
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


@route(get, READ | OF_NOTHING, "playbooks", "/playbooks/schema", "The JSON Schema of playbooks", success=_SCHEMA)
async def playbook_schema(context: ContextParam) -> Response[bytes]:
    """The output of `noetl schema` with the tools of this server, for completion and checks in editors."""
    body = await context.cpu_pool.run(_encoded_schema, context.services.kinds)
    return Response(body, media_type="application/json")


def _encoded_schema(kinds: Kinds) -> bytes:
    return msgspec.json.encode(json_schema(kinds))


# The graph: steps with their positions in text and drawing, and arcs


_MARK: Final = Size(22.0, 22.0)
_CHAR: Final = 8.4  # the approximate width of a character
_TITLE_MAX: Final = 44
_LABEL: Final = Size(120.0, 16.0)


def playbook_graph(checked: Checked, program: Program) -> PlaybookGraph:
    """Raises ApiError when the graph is too large to draw."""
    drawing = small_enough(chart(program))
    lines = [_routed_line(line) for line in drawing.lines]
    last = next((place for place, box in enumerate(drawing.boxes) if box.role == "end"), None)
    grid = lay_out([_size(box) for box in drawing.boxes], lines, last)
    sidings = SideRoutes(grid).lay(lines)
    steps = []
    for place, (box, cell) in enumerate(zip(drawing.boxes, grid.boxes, strict=True)):
        step = program.steps.get(box.title) if box.role == "step" else None
        mark = checked.document.at(step.source.at) if step is not None else None
        steps.append(
            GraphStep(
                place=place, role=box.role, name=box.title, desc=box.desc, kinds=box.kinds, loop=box.loop,
                join=box.join, fork=box.fork, gate=box.gate, reached=box.reached,
                line=mark.line if mark else None, column=mark.column if mark else None,
                x=round(cell.x, 1), y=round(cell.y, 1), width=cell.width, height=cell.height,
            )
        )  # fmt: skip
    arcs = []
    for place, line in enumerate(drawing.lines):
        corners = sidings[place].corners if place in sidings else _corners(grid.chains[place])
        points = tuple((round(x, 1), round(y, 1)) for x, y in corners)
        arcs.append(_arc(line, points))
    return PlaybookGraph(name=drawing.name, desc=drawing.desc, steps=tuple(steps), arcs=tuple(arcs))


def small_enough(drawing: Chart) -> Chart:
    """Raises ApiError when the drawing is too large."""
    if len(drawing.boxes) > BOXES_MAX or len(drawing.lines) > LINES_MAX:
        detail = f"{len(drawing.boxes):,} boxes and {len(drawing.lines):,} lines are too many to draw"
        raise ApiError(422, "too-large-to-draw", detail)
    return drawing


def _corners(chain: Chain) -> list[tuple[float, float]]:
    """From the lower edge of a box through the centers of the bends to the upper edge of another box."""
    start, *bends, to = chain
    middle = [(bend.x, bend.y + bend.height / 2) for bend in bends]
    return [(start.x, start.bottom), *middle, (to.x, to.y)]


def _arc(line: ChartLine, points: tuple[tuple[float, float], ...]) -> GraphArc:
    return GraphArc(
        start=line.start, to=line.to, when=line.when, carries=line.carries, back=line.back, dead=line.dead,
        implied=line.implied, points=points,
    )  # fmt: skip


def _size(box: Box) -> Size:
    if box.role in ("entry", "end"):
        return _MARK
    widest = max(width(box.title), width(" · ".join(box.kinds)))
    return Size(max(96.0, min(widest, _TITLE_MAX) * _CHAR + 30), 49.0 if box.kinds else 32.0)


def _routed_line(line: ChartLine) -> RoutedLine:
    pull = 0.2 if line.carries == "failure" else 1.0 if line.when else 3.0
    return RoutedLine(line.start, line.to, None if line.when is None else _LABEL, line.back, pull)


ROUTES = [check_text, explain_text, graph, playbook_schema]
