"""Mermaid and dot."""

from __future__ import annotations

from noetl.drawing.chart import Box, Chart, ChartLine
from noetl.drawing.text import dot, mermaid

CHART = Chart(
    'say "hi"',
    None,
    (
        Box("entry"),
        Box("step", "start", kinds=("http",), loop="↻ n ×3", fork=True),
        Box("step", "meet", join=True, gate=True),
        Box("missing", "nowhere"),
        Box("any", "ctx.x"),
        Box("end"),
    ),
    (
        ChartLine(0, 1),
        ChartLine(1, 2, 'ctx.a | length > 1 and ctx.b == "x"'),
        ChartLine(1, 2, "event.name == 'step.failed'", "failure"),
        ChartLine(2, 1, "ctx.again", back=True),
        ChartLine(1, 3, dead=True),
        ChartLine(1, 4),
        ChartLine(2, 5),
    ),
)


def test_mermaid_has_steps_arcs_guards_and_marks_of_forks_and_joins() -> None:
    assert mermaid(CHART) == (
        "---\n"
        'title: "say \\"hi\\""\n'
        "---\n"
        "flowchart TD\n"
        '  s0((" "))\n'
        '  s1(["start<br/>http<br/>↻ n ×3<br/>⇉ forks"])\n'
        '  s2{{"meet<br/>⋈ joins all<br/>◇ admission"}}\n'
        '  s3["nowhere (no such step)"]\n'
        '  s4{{"any step: ctx.x"}}\n'
        '  s5((("end")))\n'
        "  s0 --> s1\n"
        '  s1 -->|"ctx.a #124; length #62; 1 and ctx.b == #34;x#34;"| s2\n'
        "  s1 -.->|\"event.name == 'step.failed'\"| s2\n"
        '  s2 -->|"ctx.again"| s1\n'
        "  s1 -.-> s3\n"
        "  s1 --> s4\n"
        "  s2 --> s5\n"
        "  linkStyle 2 stroke:#dc2626,stroke-dasharray:5 4\n"
        "  style s3 stroke:#dc2626,stroke-dasharray:5 4\n"
    )


def test_dot_has_the_same_for_graphviz() -> None:
    assert dot(CHART) == (
        'digraph "say \\"hi\\"" {\n'
        "  rankdir=TB\n"
        '  node [shape=box, style=rounded, fontname="Helvetica", fontsize=12]\n'
        '  edge [fontname="Courier", fontsize=10]\n'
        '  s0 [label="", shape=circle, style=filled, fillcolor=black, width=0.15]\n'
        '  s1 [label="start\\nhttp\\n↻ n ×3\\n⇉ forks"]\n'
        '  s2 [label="meet\\n⋈ joins all\\n◇ admission", shape=hexagon, style=solid]\n'
        '  s3 [label="nowhere (no such step)", style=dashed, color="#dc2626"]\n'
        '  s4 [label="any step: ctx.x", shape=hexagon, style=dashed]\n'
        '  s5 [label="", shape=doublecircle, style=filled, fillcolor=black, width=0.12, tooltip="end"]\n'
        "  s0 -> s1\n"
        '  s1 -> s2 [label="ctx.a | length > 1 and ctx.b == \\"x\\"",'
        ' tooltip="ctx.a | length > 1 and ctx.b == \\"x\\""]\n'
        "  s1 -> s2 [label=\"event.name == 'step.failed'\", tooltip=\"event.name == 'step.failed'\","
        ' style=dashed, color="#dc2626", fontcolor="#dc2626"]\n'
        '  s2 -> s1 [label="ctx.again", tooltip="ctx.again", constraint=false]\n'
        "  s1 -> s3 [style=dotted, color=gray]\n"
        "  s1 -> s4\n"
        "  s2 -> s5\n"
        "}\n"
    )


def test_text_of_the_author_can_not_leave_its_quotes() -> None:
    evil = Chart("a\nb", None, (Box("step", '"];\x1b\\ <script>#quot;'),), ())
    assert '  s0["#34;]#59;␛\\ #60;script#62;#35;quot#59;"]\n' in mermaid(evil)
    assert '  s0 [label="\\"];␛\\\\ <script>#quot;"]\n' in dot(evil)
    assert mermaid(evil).splitlines()[1] == 'title: "a␊b"'
