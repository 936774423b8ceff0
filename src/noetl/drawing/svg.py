"""A chart as a standalone SVG document with light and dark colours. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from noetl.drawing.chart import Box, Chart, ChartLine
from noetl.drawing.layout import Chain, Grid, RoutedLine, RouteStop, SideRoute, SideRoutes, Size, lay_out
from noetl.escape import shorten, visible, width
from noetl.net.describe import short_guard

LABEL_MAX = 34  # characters of a guard on a line; its title has the whole text
TITLE_MAX = 44
DESC_MAX = 110
KINDS_MAX = 44
MARGIN = 28.0
BOXES_MAX, LINES_MAX = 2_000, 5_000  # larger diagrams are unreadable

_NAME, _SMALL, _CODE = 14.0, 11.5, 11.0  # font sizes
_NARROW = frozenset("iIljtfr.,:;'|!()[] -·")
_BROAD = frozenset("mwMW@%…")
_MARK = {"entry": Size(16.0, 16.0), "end": Size(22.0, 22.0)}
_BOLD = 1.12  # width of bold text, relative to normal text
_PORT = 22.0  # distance between two lines that leave one box
_COLOURS = {  # light and dark
    ".paper": ("fill:#ffffff", "fill:#0f172a"),
    ".box": ("fill:#f8fafc;stroke:#94a3b8", "fill:#1e293b;stroke:#64748b"),
    ".ghost": ("fill:none;stroke:#dc2626", "stroke:#f87171"),
    ".any": ("fill:none;stroke:#64748b", "stroke:#94a3b8"),
    ".name": ("fill:#0f172a", "fill:#f1f5f9"),
    ".small,.code": ("fill:#475569", "fill:#94a3b8"),
    ".halo": ("fill:#ffffff", "fill:#0f172a"),
    ".badge": ("fill:#e0e7ff", "fill:#312e81"),
    ".badge-text": ("fill:#3730a3", "fill:#c7d2fe"),
    ".mark": ("fill:#334155", "fill:#cbd5e1"),
    ".ring": ("fill:none;stroke:#334155", "stroke:#cbd5e1"),
    ".line": ("stroke:#64748b", "stroke:#94a3b8"),
    ".tip": ("fill:#64748b", "fill:#94a3b8"),
    ".failure": ("stroke:#dc2626", "stroke:#f87171"),
    ".failure-tip,.code.on-failure": ("fill:#dc2626", "fill:#f87171"),
}
_TYPE = """\
text{font-family:ui-sans-serif,system-ui,"Segoe UI",Helvetica,Arial,sans-serif}
.name{font-size:14px;font-weight:600}.title{font-size:16px}.small{font-size:11.5px}.badge-text{font-size:11px}
.code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:11px}
.box,.ghost,.any{stroke-width:1.2}.ghost,.any{stroke-dasharray:5 4}.ring{stroke-width:1.6}
.line{fill:none;stroke-width:1.4}.failure{stroke-dasharray:6 4}
.unreached{opacity:.55}.dead{opacity:.45;stroke-dasharray:2 4}"""


class DrawingTooLarge(Exception):
    """The diagram has too many boxes or lines to be readable."""


class _Drawing(NamedTuple):
    """The finished layout; `left` and `width` are those of the whole diagram."""

    grid: Grid
    side_routes: dict[int, SideRoute]
    left: float
    width: float
    height: float


def svg(chart: Chart) -> str:
    """One SVG document. Raises DrawingTooLarge."""
    if len(chart.boxes) > BOXES_MAX or len(chart.lines) > LINES_MAX:
        raise DrawingTooLarge(f"{len(chart.boxes):,} boxes, {len(chart.lines):,} lines")
    drawing = _drawn(chart)
    head = 46.0 if chart.desc else 28.0
    desc = shorten(chart.desc or "", DESC_MAX)
    name = shorten(chart.name, TITLE_MAX)
    wide = max(drawing.width, _measure(name, 16) * _BOLD, _measure(desc, _SMALL)) + 2 * MARGIN
    high = drawing.height + head + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
        f'width="{wide:.0f}" height="{high:.0f}" role="img" aria-labelledby="t">',
        f'<title id="t">{_escaped(chart.name)}</title>',
        f"<style>{_style()}</style>",
        f"<defs>{_tip('tip')}{_tip('failure-tip')}</defs>",
        '<rect class="paper" width="100%" height="100%"/>',
        _text("name title", MARGIN, MARGIN + 12, name, anchor="start"),
    ]
    if chart.desc:
        parts.append(_text("small", MARGIN, MARGIN + 31, desc, anchor="start", full=chart.desc))
    shift = (wide - drawing.width) / 2 - drawing.left
    parts.append(f'<g transform="translate({shift:.1f} {MARGIN + head:.1f})">')
    parts += _lines(chart, drawing)
    for box, stop in zip(chart.boxes, drawing.grid.boxes, strict=True):
        parts += _box(box, stop)
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def _drawn(chart: Chart) -> _Drawing:
    routed = [_routed_line(line, forks=chart.boxes[line.start].fork) for line in chart.lines]
    last = next((place for place, box in enumerate(chart.boxes) if box.role == "end"), None)
    grid = lay_out([_size(box) for box in chart.boxes], routed, last)
    side_routes = SideRoutes(grid)
    laid = side_routes.lay(routed)
    left, right = min(side_routes.left, default=0.0), max(side_routes.right, default=0.0)
    bottom = max((corner[1] for side_route in laid.values() for corner in side_route.corners), default=0.0)
    height = max(bottom, grid.heights[-1][1] if grid.heights else 0.0)
    return _Drawing(grid, laid, left, right - left, height)


def _style() -> str:
    light, dark = ("".join(f"{name}{{{said[mode]}}}" for name, said in _COLOURS.items()) for mode in (0, 1))
    return f"{_TYPE}\n{light}\n@media (prefers-color-scheme:dark){{{dark}}}"


def _tip(name: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path class="{name}" d="M0 1 10 5 0 9z"/></marker>'
    )


def _measure(text: str, size: float) -> float:
    """The approximate width of sans-serif text."""
    ems = sum(0.32 if char in _NARROW else 0.92 if char in _BROAD else 0.6 * (width(char) or 0.2) for char in text)
    return ems * size


def _label(line: ChartLine) -> str | None:
    return None if line.when is None else short_guard(line.when, LABEL_MAX)


def _routed_line(line: ChartLine, *, forks: bool) -> RoutedLine:
    """Unconditional success goes straight down; all branches of a fork have the same weight."""
    label = _label(line)
    size = None if label is None else Size(width(label) * _CODE * 0.61 + 8, 16.0)
    pull = 0.2 if line.carries == "failure" else 1.0 if line.when or forks else 3.0
    return RoutedLine(line.start, line.to, size, line.back, pull)


def _title(box: Box) -> str:
    match box.role:
        case "missing":
            return shorten(f"{box.title} ?", TITLE_MAX)
        case "any":
            return shorten(f"any: {box.title}", TITLE_MAX)
    return shorten(box.title, TITLE_MAX)


def _badges(box: Box) -> list[str]:
    marks = [shorten(box.loop, 30)] if box.loop else []
    marks += ["◇ admission"] if box.gate else []
    marks += ["⋈ joins all"] if box.join else []
    return marks + (["⇉ forks"] if box.fork else [])


def _size(box: Box) -> Size:
    if box.role in _MARK:
        return _MARK[box.role]
    badges = _badges(box)
    rows = [_measure(_title(box), _NAME) * _BOLD, _measure(_kinds(box), _SMALL)]
    rows.append(sum(_measure(each, 11) + 14 for each in badges) + 6 * max(0, len(badges) - 1))
    high = 32.0 + (17 if box.kinds else 0) + (24 if badges else 0)
    return Size(max(96.0, max(rows) + 30), high)


def _kinds(box: Box) -> str:
    return shorten(" · ".join(box.kinds), KINDS_MAX)


def _box(box: Box, stop: RouteStop) -> Iterator[str]:
    middle = stop.y + stop.height / 2
    if box.role == "entry":
        yield f'<circle class="mark" cx="{stop.x:.1f}" cy="{middle:.1f}" r="8"><title>entry</title></circle>'
        return
    if box.role == "end":
        yield f'<g><title>end</title><circle class="ring" cx="{stop.x:.1f}" cy="{middle:.1f}" r="10"/>'
        yield f'<circle class="mark" cx="{stop.x:.1f}" cy="{middle:.1f}" r="6"/></g>'
        return
    look = {"missing": "ghost", "any": "any"}.get(box.role, "box")
    told = [box.title, box.desc, " · ".join(box.kinds), box.loop_words]
    faint = "" if box.reached else ' class="unreached"'
    yield f"<g{faint}><title>{_escaped(chr(10).join(filter(None, told)))}</title>"
    yield _rect(look, stop, 9)
    row = stop.y + 21
    yield _text("name", stop.x, row, _title(box))
    if box.kinds:
        row += 17
        yield _text("small", stop.x, row, _kinds(box))
    yield from _pills(_badges(box), stop.x, row + 9)
    yield "</g>"


def _pills(badges: Sequence[str], middle: float, y: float) -> Iterator[str]:
    wide = [_measure(each, 11) + 14 for each in badges]
    x = middle - (sum(wide) + 6 * (len(wide) - 1)) / 2
    for each, length in zip(badges, wide, strict=True):
        yield f'<rect class="badge" x="{x:.1f}" y="{y:.1f}" width="{length:.1f}" height="17" rx="8.5"/>'
        yield _text("badge-text", x + length / 2, y + 12.3, each)
        x += length + 6


def _lines(chart: Chart, drawing: _Drawing) -> Iterator[str]:
    """Draw lines first, then labels, so that no line crosses a label."""
    leaving, coming = _ports(drawing.grid.chains)
    labels: list[str] = []
    for place, line in enumerate(chart.lines):
        side_route = drawing.side_routes.get(place)
        label: RouteStop | None
        if side_route is None:
            chain = drawing.grid.chains[place]
            path, label = _through(chain, leaving[place], coming[place], drawing.grid.heights), chain[1]
        else:
            path, label = _rounded(side_route.corners), side_route.label
        failure = line.carries == "failure"
        look = "line" + (" failure" if failure else "") + (" dead" if line.dead else "")
        title = "" if line.when is None else f"<title>{_escaped(line.when)}</title>"
        tip = "failure-tip" if failure else "tip"
        yield f'<path class="{look}" d="{path}" marker-end="url(#{tip})">{title}</path>'
        if label is not None and line.when is not None:
            labels += _line_label(line, label)
    yield from labels


def _line_label(line: ChartLine, stop: RouteStop) -> Iterable[str]:
    yield _rect("halo", stop, 4)
    look = "code on-failure" if line.carries == "failure" else "code"
    yield _text(look, stop.x, stop.y + 11.8, _label(line) or "", full=line.when)


def _ports(chains: Sequence[Chain]) -> tuple[dict[int, float], dict[int, float]]:
    """The points of a box at which lines leave and arrive: side by side, in the order of their other ends."""
    leaving: dict[int, list[tuple[float, int, RouteStop]]] = {}
    coming: dict[int, list[tuple[float, int, RouteStop]]] = {}
    for place, chain in enumerate(chains):
        if chain:
            leaving.setdefault(id(chain[0]), []).append((chain[1].x, place, chain[0]))
            coming.setdefault(id(chain[-1]), []).append((chain[-2].x, place, chain[-1]))
    return _side_by_side(leaving.values()), _side_by_side(coming.values())


def _side_by_side(groups: Iterable[list[tuple[float, int, RouteStop]]]) -> dict[int, float]:
    """Points around the middle of the box; a line that goes straight down gets the middle."""
    places: dict[int, float] = {}
    for group in groups:
        group.sort(key=lambda each: each[:2])
        box, others = group[0][2], len(group) - 1
        apart = min(_PORT, max(0.0, box.width - 28) / max(1, others))
        straight = [index for index, (x, _, _) in enumerate(group) if abs(x - box.x) < 2]
        middle = straight[0] if len(straight) == 1 and apart * others * 2 < box.width - 28 else others / 2
        places |= {place: box.x + apart * (index - middle) for index, (_, place, _) in enumerate(group)}
    return places


def _through(chain: Chain, leaves: float, comes: float, heights: Sequence[tuple[float, float]]) -> str:
    start, *bends, to = chain
    x, y = leaves, start.bottom
    path = [f"M{x:.1f} {y:.1f}"]
    for bend in bends:
        upper, lower = heights[bend.rank]
        # Without a label between two ranks a bend is not needed; it would only make the line uneven.
        if upper < lower:
            path += [_curve(x, y, bend.x, upper), f"V{lower:.1f}"]
            x, y = bend.x, lower
    return " ".join([*path, _curve(x, y, comes, to.y)])


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    if abs(x - to_x) < 0.5:
        return f"L{to_x:.1f} {to_y:.1f}"
    half = (y + to_y) / 2
    return f"C{x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {to_y:.1f}"


def _rounded(points: Sequence[tuple[float, float]]) -> str:
    """A path of straight segments with round corners."""
    path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (ax, ay), (bx, by), (cx, cy) in zip(points, points[1:], points[2:], strict=False):
        size = min(10.0, (abs(bx - ax) + abs(by - ay)) / 2, (abs(cx - bx) + abs(cy - by)) / 2)
        path.append(f"L{_toward(bx, ax, size):.1f} {_toward(by, ay, size):.1f}")
        path.append(f"Q{bx:.1f} {by:.1f} {_toward(bx, cx, size):.1f} {_toward(by, cy, size):.1f}")
    return " ".join([*path, f"L{points[-1][0]:.1f} {points[-1][1]:.1f}"])


def _toward(here: float, there: float, size: float) -> float:
    return here + (size if there > here else -size if there < here else 0.0)


def _rect(look: str, stop: RouteStop, radius: float) -> str:
    x = stop.x - stop.width / 2
    place = f'x="{x:.1f}" y="{stop.y:.1f}" width="{stop.width:.1f}" height="{stop.height:.1f}"'
    return f'<rect class="{look}" {place} rx="{radius:g}"/>'


def _text(look: str, x: float, y: float, text: str, *, anchor: str = "middle", full: str | None = None) -> str:
    title = f"<title>{_escaped(full)}</title>" if full is not None and full != text else ""
    return f'<text class="{look}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_escaped(text)}{title}</text>'


def _escaped(text: str) -> str:
    lines = (visible(line) for line in text.split("\n"))
    return "\n".join(lines).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
