"""A net as data for whoever draws it: steps with their places in text and on paper, arcs with bends."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from noetl.check.checker import Checked
from noetl.drawing.chart import Box, Chart, ChartLine, Role, chart
from noetl.drawing.layout import Chain, RoutedLine, SideRoutes, Size, lay_out
from noetl.drawing.svg import BOXES_MAX, LINES_MAX
from noetl.escape import width
from noetl.net.flow import Carries
from noetl.net.program import Program
from noetl.server.errors import Refused

_MARK: Final = Size(22.0, 22.0)
_CHAR: Final = 8.4  # about how wide a character is
_TITLE_MAX: Final = 44
_LABEL: Final = Size(120.0, 16.0)


class StepDrawn(Struct, frozen=True, kw_only=True):
    """A step; or a mark: the entry, the end, a step that is missing, any step that a template may name."""

    place: int  # arcs name it by this
    role: Role
    name: str
    desc: str | None
    kinds: tuple[str, ...]  # of its tasks
    loop: str | None
    join: bool
    fork: bool
    gate: bool  # it has rules of admission
    reached: bool  # from the entry
    line: int | None  # in the text; None: it is only a mark
    column: int | None
    x: float  # of its middle
    y: float  # of its upper side
    width: float
    height: float


class ArcDrawn(Struct, frozen=True, kw_only=True):
    start: int
    to: int
    when: str | None  # None: always
    carries: Carries
    back: bool
    dead: bool
    implied: bool  # no arc was written: the token ends here
    points: tuple[tuple[float, float], ...]  # both ends included


class GraphDrawn(Struct, frozen=True, kw_only=True):
    """The whole net."""

    name: str
    desc: str | None
    steps: tuple[StepDrawn, ...]
    arcs: tuple[ArcDrawn, ...]


def drawn(checked: Checked, program: Program) -> GraphDrawn:
    """Raises Refused when there is more than a person can look at."""
    made = small_enough(chart(program))
    wires = [_wire(line) for line in made.lines]
    last = next((place for place, box in enumerate(made.boxes) if box.role == "end"), None)
    grid = lay_out([_size(box) for box in made.boxes], wires, last)
    sidings = SideRoutes(grid).lay(wires)
    steps = []
    for place, (box, stop) in enumerate(zip(made.boxes, grid.boxes, strict=True)):
        step = program.steps.get(box.title) if box.role == "step" else None
        mark = checked.document.at(step.source.at) if step is not None else None
        steps.append(
            StepDrawn(
                place=place, role=box.role, name=box.title, desc=box.desc, kinds=box.kinds, loop=box.loop,
                join=box.join, fork=box.fork, gate=box.gate, reached=box.reached,
                line=mark.line if mark else None, column=mark.column if mark else None,
                x=round(stop.x, 1), y=round(stop.y, 1), width=stop.width, height=stop.height,
            )
        )  # fmt: skip
    arcs = []
    for place, line in enumerate(made.lines):
        corners = sidings[place].corners if place in sidings else _through(grid.chains[place])
        points = tuple((round(x, 1), round(y, 1)) for x, y in corners)
        arcs.append(_arc(line, points))
    return GraphDrawn(name=made.name, desc=made.desc, steps=tuple(steps), arcs=tuple(arcs))


def small_enough(made: Chart) -> Chart:
    if len(made.boxes) > BOXES_MAX or len(made.lines) > LINES_MAX:
        words = f"{len(made.boxes):,} boxes and {len(made.lines):,} lines are too many to draw"
        raise Refused(422, "too-large-to-draw", words)
    return made


def _through(chain: Chain) -> list[tuple[float, float]]:
    """From the lower side of a box through the middle of its bends to the upper side of another."""
    start, *bends, to = chain
    middle = [(bend.x, bend.y + bend.height / 2) for bend in bends]
    return [(start.x, start.bottom), *middle, (to.x, to.y)]


def _arc(line: ChartLine, points: tuple[tuple[float, float], ...]) -> ArcDrawn:
    return ArcDrawn(
        start=line.start, to=line.to, when=line.when, carries=line.carries, back=line.back, dead=line.dead,
        implied=line.implied, points=points,
    )  # fmt: skip


def _size(box: Box) -> Size:
    if box.role in ("entry", "end"):
        return _MARK
    widest = max(width(box.title), width(" · ".join(box.kinds)))
    return Size(max(96.0, min(widest, _TITLE_MAX) * _CHAR + 30), 49.0 if box.kinds else 32.0)


def _wire(line: ChartLine) -> RoutedLine:
    pull = 0.2 if line.carries == "failure" else 1.0 if line.when else 3.0
    return RoutedLine(line.start, line.to, None if line.when is None else _LABEL, line.back, pull)
