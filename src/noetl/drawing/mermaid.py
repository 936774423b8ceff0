"""A chart as Mermaid text. Everything that an author wrote is escaped."""

from __future__ import annotations

from noetl.drawing.chart import LABEL_MAX, Box, Chart, ChartLine, box_lines, quoted
from noetl.escape import shorten, visible


def mermaid(chart: Chart) -> str:
    lines = ["---", f"title: {quoted(chart.name)}", "---", "flowchart TD"]
    lines += [f"  {_id(place)}{_box(box)}" for place, box in enumerate(chart.boxes)]
    lines += [f"  {_line(line)}" for line in chart.lines]
    failures = [str(place) for place, line in enumerate(chart.lines) if line.carries == "failure"]
    if failures:
        lines.append(f"  linkStyle {','.join(failures)} stroke:#dc2626,stroke-dasharray:5 4")
    missing = [_id(place) for place, box in enumerate(chart.boxes) if box.role == "missing"]
    if missing:
        lines.append(f"  style {','.join(missing)} stroke:#dc2626,stroke-dasharray:5 4")
    return "\n".join(lines) + "\n"


def _box(box: Box) -> str:
    match box.role:
        case "entry":
            return '((" "))'
        case "end":
            return '((("end")))'
        case "missing":
            return f"[{_label(f'{box.title} (no such step)')}]"
        case "any":
            return f"{{{{{_label(f'any step: {box.title}')}}}}}"
    text = "<br/>".join(_entities(part) for part in box_lines(box))
    opening, closing = ("{{", "}}") if box.join else ("([", "])") if box.fork else ("[", "]")
    return f'{opening}"{text}"{closing}'


def _line(line: ChartLine) -> str:
    arrow = "-.->" if line.carries == "failure" or line.dead else "-->"
    label = "" if line.when is None else f"|{_label(shorten(line.when, LABEL_MAX))}|"
    return f"{_id(line.start)} {arrow}{label} {_id(line.to)}"


def _label(text: str) -> str:
    return f'"{_entities(text)}"'


def _entities(text: str) -> str:
    """Write characters that Mermaid, Markdown or HTML would interpret as `#…;`, which Mermaid reads."""
    return "".join(f"#{ord(char)};" if char in '"#;<>&`|' else char for char in visible(text))


def _id(place: int) -> str:
    return f"s{place}"
