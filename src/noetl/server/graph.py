"""The net of a playbook as data for a drawing: steps with their positions in text and drawing, and arcs."""

from __future__ import annotations

from typing import Final

from noetl.api.analysis import GraphArc, GraphStep, PlaybookGraph
from noetl.checks.checker import Checked
from noetl.drawing.chart import Box, Chart, ChartLine, chart
from noetl.drawing.layout import Chain, RoutedLine, SideRoutes, Size, lay_out
from noetl.drawing.svg import BOXES_MAX, LINES_MAX
from noetl.escape import width
from noetl.net.program import Program
from noetl.server.errors import ApiError

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
