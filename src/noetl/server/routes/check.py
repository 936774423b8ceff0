"""Analysis of playbooks before they run: check, explanation, graph, and the JSON Schema for editors."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

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
from noetl.server.errors import ApiError
from noetl.server.params import OF_NAME, OF_NOTHING, READ, CallerParam, ContextParam, response, route
from noetl.server.playbook_body import PLAYBOOK_BODY_MAX, ReferenceOperation, TextOperation, read_text, resolve_text
from noetl.views.documents import problem_document
from noetl.views.explain import explain, explanation_text

_TYPES: Final = {"svg": "image/svg+xml", "mermaid": "text/plain", "dot": "text/vnd.graphviz"}
_GRAPH: Final = {200: response(PlaybookGraph, "The graph, or a drawing of it")}
_SCHEMA: Final = {200: response(dict[str, Any], "Draft 2020-12")}


def _analysis(path: str, body: type[Operation], summary: str, *errors: int, **options: Any) -> HTTPRouteHandler:
    """A route that reads a playbook from its body; a reference to a registered one is limited by its path."""
    access = READ | (OF_NAME if body is ReferenceOperation else OF_NOTHING)
    return route(
        post, access, "playbooks", path, summary, *errors, status_code=200, operation_class=body,
        request_max_body_size=PLAYBOOK_BODY_MAX, **options,
    )  # fmt: skip


@_analysis("/playbooks/check", TextOperation, "Check a text without storing it")
async def check_text(request: Request[Any, Any, Any], context: ContextParam) -> CheckResponse:
    text = await read_text(request)
    try:
        checked = (await playbook_body.check_text(context, text)).checked
    except PlaybookError as error:  # it cannot be upgraded
        return CheckResponse(ok=False, problems=tuple(map(problem_document, error.problems)))
    return CheckResponse(ok=not checked.errors, problems=tuple(map(problem_document, checked.problems)))


@_analysis("/playbooks/explain", ReferenceOperation, "Explain a playbook in plain English", 404, 422)
async def explain_text(request: Request[Any, Any, Any], context: ContextParam, caller: CallerParam) -> ExplainResponse:
    _, program = await _program(context, await resolve_text(request, context.services, caller))
    explanation = await context.cpu_pool.run(explain, program, context.services.kinds)
    return ExplainResponse(text=await context.cpu_pool.run(explanation_text, explanation), explanation=explanation)


@_analysis(
    "/playbooks/graph", ReferenceOperation, "The graph of a playbook, as data or as a drawing", 404, 422, success=_GRAPH
)
async def graph(
    request: Request[Any, Any, Any],
    context: ContextParam,
    caller: CallerParam,
    form: Annotated[Literal["json", "svg", "mermaid", "dot"], QueryParameter(name="format")] = "json",
) -> Response[Any]:
    checked, program = await _program(context, await resolve_text(request, context.services, caller))
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
