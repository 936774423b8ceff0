"""What is drawn of a net."""

from __future__ import annotations

from noetl.drawing.chart import Box, Chart, ChartLine, chart
from tests.playbooks import checked


def charted(body: str) -> Chart:
    program = checked(body).program
    assert program is not None
    return chart(program)


def test_a_chart_has_marks_for_entry_and_end_boxes_for_steps_and_lines_for_arcs() -> None:
    assert charted(
        """
        workflow:
        - step: start
          loop: {in: [1], iterator: n, spec: {mode: parallel}}
          tool: [{kind: http, url: x}, {kind: noop}, {kind: http, url: y}]
          next:
            spec: {mode: inclusive}
            arcs:
            - {step: both}
            - {step: both, when: "{{ event.name == 'step.failed' }}"}
        - step: both
          desc: Meets
          spec: {policy: {admit: {join: all}}}
          next: {arcs: [{step: start, when: "{{ ctx.again }}"}, {step: end}]}
        """
    ) == Chart(
        "t",
        None,
        (
            Box("entry"),
            Box(
                "step",
                "start",
                kinds=("http", "noop"),
                loop="↻ n ×10",
                loop_words="for each n in [1], parallel, 10 at a time",
                fork=True,
            ),
            Box("step", "both", desc="Meets", join=True),
            Box("end"),
        ),
        (
            ChartLine(0, 1),
            ChartLine(1, 2),
            ChartLine(1, 2, "event.name == 'step.failed'", "failure"),
            ChartLine(2, 1, "ctx.again", back=True),
            ChartLine(2, 3),
        ),
    )


def test_a_step_without_arcs_leads_to_the_end_by_itself() -> None:
    assert charted("workflow: [{step: start, tool: {kind: noop}}]").lines == (
        ChartLine(0, 1),
        ChartLine(1, 2, implied=True),
    )


def test_a_written_step_end_is_a_step_like_any_other() -> None:
    """D6."""
    body = "workflow: [{step: start, next: {arcs: [{step: end}]}}, {step: end, tool: {kind: noop}}]"
    assert [box.role for box in charted(body).boxes] == ["entry", "step", "step", "end"]


def test_targets_that_are_not_there_or_not_known_have_boxes_of_their_own() -> None:
    """D41."""
    found = charted(
        """
        workflow:
        - step: start
          next:
            arcs:
            - {step: nowhere, when: "{{ ctx.a }}"}
            - {step: "{{ ctx.b }}", when: "{{ ctx.b }}"}
            - {step: "{{ ctx.c }}", to: [start, end]}
        """
    )
    assert [(box.role, box.title) for box in found.boxes[2:]] == [
        ("missing", "nowhere"),
        ("any", "ctx.b"),
        ("end", ""),
    ]
    assert [(line.start, line.to, line.back) for line in found.lines] == [
        (0, 1, False),
        (1, 2, False),
        (1, 3, False),
        (1, 1, True),
        (1, 4, False),
    ]


def test_without_an_entry_there_is_no_mark_for_it_and_nothing_is_reached() -> None:
    found = charted("workflow: [{step: first, tool: {kind: noop}}]")
    assert [(box.role, box.reached) for box in found.boxes] == [("step", False), ("end", True)]


def test_choose_and_loops_are_drawn_by_their_names() -> None:
    drawn = charted(
        """
        workflow:
        - step: start
          tool:
          - while: {when: "{{ step.x }}", tool: {kind: http, url: x, set: {step.x: 1}}}
          - choose:
            - {when: "{{ step.x }}", then: {kind: noop, spec: {policy: {rules: [{when: "{{ step.x }}", then: {do: skip}}]}}}}
            - else: {then: {kind: shell, argv: [a]}}
        """
    )
    assert drawn.boxes[1].kinds == ("while", "http", "choose", "noop", "shell")
