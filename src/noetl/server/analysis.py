"""Analysis of texts: check, explanation and graph, as response bodies.

It runs in a thread, or in a process of its own for large texts, so it imports no web framework. A program and its
problems are made, encoded and freed there: freeing them can take as long as encoding them.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from noetl.api.analysis import ExplainResponse, GraphArc, GraphStep, PlaybookGraph
from noetl.api.playbooks import CheckResponse, PlaybookTextRequest
from noetl.checks.checker import Checked, check
from noetl.drawing.chart import Box, Chart, ChartLine, chart
from noetl.drawing.layout import Chain, RoutedLine, SideRoutes, Size, lay_out
from noetl.drawing.svg import BOXES_MAX, LINES_MAX
from noetl.errors import PlaybookError
from noetl.escape import width
from noetl.net.program import Program
from noetl.playbook.kinds import Kinds
from noetl.playbook.migrate import Note, migrate
from noetl.server.encoding import encode_parts
from noetl.views.documents import problem_document
from noetl.views.explain import explain, explanation_text

GraphForm: TypeAlias = Literal["json", "svg", "mermaid", "dot"]
AnalysisForm: TypeAlias = Literal["check", "explain", "errors", "json", "svg", "mermaid", "dot"]
PROBLEMS_MAX: Final = 1_000  # of a playbook that an error lists
FILE: Final = "playbook"  # the file name in the positions of problems


class TooLargeToDraw(Exception):
    """The graph has too many boxes or lines."""


class TextAnalysis(Struct, frozen=True, kw_only=True):
    """What to do with a text. `errors` has no body: it only raises PlaybookError."""

    text: PlaybookTextRequest
    form: AnalysisForm

    def body(self, kinds: Kinds) -> bytes:
        """The body of the response. Raises PlaybookError, or TooLargeToDraw."""
        match self.form:
            case "check":
                return _checked_body(self.text, kinds)
            case "explain":
                explanation = explain(_program(self.text, kinds)[1], kinds)
                return encode_parts(ExplainResponse(text=explanation_text(explanation), explanation=explanation))
            case "errors":
                checked = upgrade_and_check(kinds, self.text).checked
                if checked.errors:
                    raise PlaybookError(checked.problems)
                return b""
            case form:
                return _drawn_body(self.text, kinds, form)


class UpgradedText(NamedTuple):
    """A text in the canonical dialect, with the result of its check."""

    checked: Checked
    text: str
    notes: tuple[Note, ...] = ()  # what the upgrade could not keep


def upgrade_and_check(kinds: Kinds, request: PlaybookTextRequest) -> UpgradedText:
    """Raises PlaybookError when the text cannot be upgraded."""
    if request.dialect == "auto":
        try:
            migrated = migrate(request.text, FILE)
        except RecursionError as error:
            raise PlaybookError(check(request.text, kinds, FILE).problems) from error
        if migrated.changed:
            return UpgradedText(check(migrated.text, kinds, FILE), migrated.text, migrated.notes)
    return UpgradedText(check(request.text, kinds, FILE), request.text)


def _checked_body(text: PlaybookTextRequest, kinds: Kinds) -> bytes:
    try:
        checked = upgrade_and_check(kinds, text).checked
        problems, ok = checked.problems, not checked.errors
    except PlaybookError as error:  # it cannot be upgraded
        problems, ok = error.problems, False
    return encode_parts(CheckResponse(ok=ok, problems=tuple(map(problem_document, problems))))


def _drawn_body(text: PlaybookTextRequest, kinds: Kinds, form: GraphForm) -> bytes:
    checked, program = _program(text, kinds)
    if form == "json":
        return encode_parts(playbook_graph(checked, program))
    return _draw(program, form).encode("utf-8", "replace")


def _program(text: PlaybookTextRequest, kinds: Kinds) -> tuple[Checked, Program]:
    """The net, even of a text with errors as long as it can be compiled. Raises PlaybookError."""
    checked = upgrade_and_check(kinds, text).checked
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


# The graph: steps with their positions in text and drawing, and arcs


_MARK: Final = Size(22.0, 22.0)
_CHAR: Final = 8.4  # the approximate width of a character
_TITLE_MAX: Final = 44
_LABEL: Final = Size(120.0, 16.0)


def playbook_graph(checked: Checked, program: Program) -> PlaybookGraph:
    """Raises TooLargeToDraw."""
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
    """Raises TooLargeToDraw."""
    if len(drawing.boxes) > BOXES_MAX or len(drawing.lines) > LINES_MAX:
        detail = f"{len(drawing.boxes):,} boxes and {len(drawing.lines):,} lines are too many to draw"
        raise TooLargeToDraw(detail)
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
