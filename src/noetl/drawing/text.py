"""A chart as Mermaid or Graphviz dot text. Everything that an author wrote is escaped."""

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


def dot(chart: Chart) -> str:
    lines = [f"digraph {quoted(chart.name or 'playbook')} {{"]
    lines.append("  rankdir=TB")
    lines.append('  node [shape=box, style=rounded, fontname="Helvetica", fontsize=12]')
    lines.append('  edge [fontname="Courier", fontsize=10]')
    lines += [f"  {_id(place)} [{_dot_box(box)}]" for place, box in enumerate(chart.boxes)]
    lines += [f"  {_id(line.start)} -> {_id(line.to)}{_dot_line(line)}" for line in chart.lines]
    return "\n".join([*lines, "}"]) + "\n"


def _dot_box(box: Box) -> str:
    match box.role:
        case "entry":
            return 'label="", shape=circle, style=filled, fillcolor=black, width=0.15'
        case "end":
            return 'label="", shape=doublecircle, style=filled, fillcolor=black, width=0.12, tooltip="end"'
        case "missing":
            return f'label={quoted(f"{box.title} (no such step)")}, style=dashed, color="#dc2626"'
        case "any":
            return f"label={quoted(f'any step: {box.title}')}, shape=hexagon, style=dashed"
    label = "\\n".join(quoted(part)[1:-1] for part in box_lines(box))
    shape = ", shape=hexagon, style=solid" if box.join else ""
    return f'label="{label}"{shape}'


def _dot_line(line: ChartLine) -> str:
    attributes: list[str] = []
    if line.when is not None:
        attributes.append(f"label={quoted(shorten(line.when, LABEL_MAX))}, tooltip={quoted(line.when)}")
    if line.carries == "failure":
        attributes.append('style=dashed, color="#dc2626", fontcolor="#dc2626"')
    if line.dead:
        attributes.append("style=dotted, color=gray")
    if line.back:
        attributes.append("constraint=false")
    return f" [{', '.join(attributes)}]" if attributes else ""
