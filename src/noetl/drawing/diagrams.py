"""A chart as text that other programs draw: Mermaid and Graphviz dot. Whatever an author wrote is escaped."""

from __future__ import annotations

from noetl.drawing.chart import Box, Chart, ChartLine
from noetl.escape import shorten, visible

LABEL_MAX = 60  # characters of a guard on a line


def mermaid(chart: Chart) -> str:
    lines = ["---", f"title: {_dotted(chart.name)}", "---", "flowchart TD"]
    lines += [f"  {_id(place)}{_mermaid_box(box)}" for place, box in enumerate(chart.boxes)]
    lines += [f"  {_mermaid_line(line)}" for line in chart.lines]
    failures = [str(place) for place, line in enumerate(chart.lines) if line.carries == "failure"]
    if failures:
        lines.append(f"  linkStyle {','.join(failures)} stroke:#dc2626,stroke-dasharray:5 4")
    missing = [_id(place) for place, box in enumerate(chart.boxes) if box.role == "missing"]
    if missing:
        lines.append(f"  style {','.join(missing)} stroke:#dc2626,stroke-dasharray:5 4")
    return "\n".join(lines) + "\n"


def dot(chart: Chart) -> str:
    lines = [f"digraph {_dotted(chart.name or 'playbook')} {{"]
    lines.append("  rankdir=TB")
    lines.append('  node [shape=box, style=rounded, fontname="Helvetica", fontsize=12]')
    lines.append('  edge [fontname="Courier", fontsize=10]')
    lines += [f"  {_id(place)} [{_dot_box(box)}]" for place, box in enumerate(chart.boxes)]
    lines += [f"  {_id(line.start)} -> {_id(line.to)}{_dot_line(line)}" for line in chart.lines]
    return "\n".join([*lines, "}"]) + "\n"


def _id(place: int) -> str:
    return f"s{place}"


def _lines_of(box: Box) -> list[str]:
    """What stands in a box: name, kinds, marks."""
    marks = [box.loop] if box.loop else []
    marks += ["⋈ joins all"] if box.join else []
    marks += ["⇉ forks"] if box.fork else []
    marks += ["◇ admission"] if box.gate else []
    return [box.title, *([" · ".join(box.kinds)] if box.kinds else []), *marks]


def _mermaid_box(box: Box) -> str:
    match box.role:
        case "entry":
            return '((" "))'
        case "end":
            return '((("end")))'
        case "missing":
            return f"[{_quoted(f'{box.title} (no such step)')}]"
        case "any":
            return f"{{{{{_quoted(f'any step: {box.title}')}}}}}"
    text = "<br/>".join(_entities(part) for part in _lines_of(box))
    opening, closing = ("{{", "}}") if box.join else ("([", "])") if box.fork else ("[", "]")
    return f'{opening}"{text}"{closing}'


def _mermaid_line(line: ChartLine) -> str:
    arrow = "-.->" if line.carries == "failure" or line.dead else "-->"
    label = "" if line.when is None else f"|{_quoted(shorten(line.when, LABEL_MAX))}|"
    return f"{_id(line.start)} {arrow}{label} {_id(line.to)}"


def _quoted(text: str) -> str:
    return f'"{_entities(text)}"'


def _entities(text: str) -> str:
    """Mermaid reads `#…;` as a character; all that it, Markdown or HTML could obey is written so."""
    return "".join(f"#{ord(char)};" if char in '"#;<>&`|' else char for char in visible(text))


def _dotted(text: str) -> str:
    escaped = visible(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _dot_box(box: Box) -> str:
    match box.role:
        case "entry":
            return 'label="", shape=circle, style=filled, fillcolor=black, width=0.15'
        case "end":
            return 'label="", shape=doublecircle, style=filled, fillcolor=black, width=0.12, tooltip="end"'
        case "missing":
            return f'label={_dotted(f"{box.title} (no such step)")}, style=dashed, color="#dc2626"'
        case "any":
            return f"label={_dotted(f'any step: {box.title}')}, shape=hexagon, style=dashed"
    label = "\\n".join(_dotted(part)[1:-1] for part in _lines_of(box))
    shape = ", shape=hexagon, style=solid" if box.join else ""
    return f'label="{label}"{shape}'


def _dot_line(line: ChartLine) -> str:
    said: list[str] = []
    if line.when is not None:
        said.append(f"label={_dotted(shorten(line.when, LABEL_MAX))}, tooltip={_dotted(line.when)}")
    if line.carries == "failure":
        said.append('style=dashed, color="#dc2626", fontcolor="#dc2626"')
    if line.dead:
        said.append("style=dotted, color=gray")
    if line.back:
        said.append("constraint=false")
    return f" [{', '.join(said)}]" if said else ""
