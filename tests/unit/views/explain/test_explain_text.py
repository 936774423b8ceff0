"""Marks and words of an explanation on a screen; a whole one is in test_explaining."""

from __future__ import annotations

import pytest

from noetl.escape import width
from noetl.views.explain import explain, explanation_lines, explanation_text
from tests.playbooks import checked, kinds


def lines(body: str, columns: int = 100) -> list[str]:
    program = checked(body).program
    assert program is not None
    return ["".join(piece.text for piece in line) for line in explanation_lines(explain(program, kinds()), columns)]


def test_an_arc_that_carries_both_ends_says_so_and_a_dead_one_too() -> None:
    assert lines(
        """
        workflow:
        - step: start
          next:
            arcs:
            - {step: end, when: "{{ event.name in ['step.done', 'step.failed'] }}"}
            - {step: end}
            - {step: start}
        """
    )[-4:] == [
        "├─ next   the first arc whose guard is true",
        "├→ end  also on failure  when event.name in ['step.done', 'step.failed']",
        "├→ end  never fires",
        "└→ start  ↺ leads back  never fires",
    ]


def test_a_step_that_nothing_leads_to_says_so_and_descriptions_are_shown() -> None:
    assert lines(
        """
        workflow:
        - {step: start, tool: {kind: noop, desc: Rests}}
        - {step: lost, desc: No arc leads here, tool: {kind: noop}}
        """
    )[2:] == [
        "Steps",
        "● start",
        "├─ start_task  noop",
        "│  └─ Rests",
        "└─ the token ends here",
        "",
        "○ lost  No arc leads here  (unreachable)",
        "├─ lost_task  noop",
        "└─ the token ends here",
    ]


def test_a_set_says_what_is_written_after_a_failure_d102() -> None:
    told = lines(
        """
        workflow:
        - step: start
          tool: {kind: noop}
          set: {ctx.rows: "{{ output.data }}", ctx.how: "{{ output.status }}", ctx.last: "{{ event.run }}"}
        """
    )
    assert "├─ set    ctx.rows, ctx.how, ctx.last; after a failure only ctx.how, ctx.last" in told


def test_blocks_are_told_below_the_steps() -> None:
    """D59."""
    assert lines(
        """
        workflow: [{step: start, tool: {kind: workbook, block: b}}]
        workbook: {b: {tool: {kind: noop}}, c: {tool: {kind: noop}}}
        """
    )[-7:] == ["", "Blocks", "○ b", "└─ b_task  noop", "", "○ c", "└─ c_task  noop"]


@pytest.mark.parametrize("columns", [40, 60, 100])
def test_lines_keep_to_the_width(columns: int) -> None:
    guard = " and ".join(["output.data.name"] * 20)
    body = f"""
        workflow:
        - step: start
          desc: {"words " * 30}
          tool:
            kind: http
            url: "https://{"x" * 300}"
            spec:
              policy:
                rules:
                - {{when: "{{{{ {guard} }}}}", then: {{do: fail}}}}
        """
    assert max(map(width, lines(body, columns))) <= columns


def test_as_a_text_it_is_what_a_screen_shows_and_nothing_in_it_can_play_with_a_terminal() -> None:
    body = 'workflow: [{step: start, desc: "red \\e[31m", tool: {kind: noop}}]'
    program = checked(body).program
    assert program is not None
    shown = [line.replace("\x1b", "␛") for line in lines(body)]
    assert explanation_text(explain(program, kinds())).splitlines() == shown
    assert "● start  red ␛[31m" in shown
