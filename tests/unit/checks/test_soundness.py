"""Soundness of the skeleton of steps (L5)."""

from __future__ import annotations

import pytest

from tests.playbooks import checked, problem_places

CODES = {"unreachable-step", "dead-arc", "endless-cycle", "undeclared-join", "not-provable"}


def found(*steps: str) -> list[tuple[str, str]]:
    """(code, severity) of what level L5 says of steps written as `name [mode] [join]: target when guard, …`."""
    problems = checked(body(*steps)).problems
    return [(each.code, each.severity) for each in problems if each.code in CODES]


def body(*steps: str) -> str:
    lines = ["workflow:"]
    for step in steps:
        name, _, arcs = step.partition(":")
        name, *words = name.split()
        lines.append(f"- step: {name}")
        joins = [f"  spec: {{policy: {{admit: {{join: {join}}}}}}}" for join in ("all", "each") if join in words]
        lines += joins
        lines.append("  tool: {kind: noop}")
        lines.append(f"  next: {{spec: {{mode: {'inclusive' if 'inclusive' in words else 'exclusive'}}}, arcs: [")
        for arc in filter(None, map(str.strip, arcs.split(","))):
            target, _, when = arc.partition(" when ")
            guard = f', when: "{{{{ {when} }}}}"' if when else ""
            lines.append(f'    {{step: "{target}"{guard}}},')
        lines.append("  ]}")
    return "\n".join(lines)


def test_steps_that_nothing_leads_to_are_told() -> None:
    problems = checked(body("start: a", "a: end", "b: a")).problems
    assert problem_places([each for each in problems if each.code == "unreachable-step"]) == [
        ("unreachable-step", 15, 9)
    ]


def test_an_arc_behind_an_unguarded_one_is_dead_in_exclusive_mode_only() -> None:
    assert found("start: a, end when workload.x | default(1)", "a: end") == [("dead-arc", "warning")]
    assert found("start inclusive: a, end when workload.x | default(1)", "a: end") == []


@pytest.mark.parametrize(
    "guard", ["event.name == 'step.failed'", "output.status == 'error'", "output.error.kind == 'x'"]
)
def test_an_arc_that_takes_failures_is_alive_behind_an_unguarded_one_d37(guard: str) -> None:
    assert found(f"start: end, a when {guard}", "a: end") == []


@pytest.mark.parametrize(
    "guard",
    [
        "event.name == 'step.done'",
        "output.status == 'ok' and workload.x | default(1)",
        "event.name != 'step.failed'",
    ],
)
def test_an_arc_whose_guard_reads_event_but_holds_only_after_success_is_dead_d111(guard: str) -> None:
    problems = checked(body(f"start: end, a when {guard}", "a: end")).problems
    assert [place for place in problem_places(problems) if place[0] == "dead-arc"] == [("dead-arc", 9, 5)]


def test_an_arc_behind_one_that_takes_every_failure_or_every_success_is_dead_d111() -> None:
    failed = "event.name == 'step.failed'"
    assert found(f"start: end when {failed}, a when {failed} and ctx.x | default(1), a", "a: end") == [
        ("dead-arc", "warning")
    ]
    assert found("start: a when event.name == 'step.done', end", "a: end") == [("dead-arc", "warning")]
    assert found(f"start: end when {failed} and ctx.x | default(1), a when {failed}, a", "a: end") == []


def test_an_arc_that_is_hidden_leaves_no_cycle_d111() -> None:
    assert found("start: start, end when event.name == 'step.done'") == [
        ("endless-cycle", "error"),
        ("dead-arc", "warning"),
    ]


def test_a_circle_that_no_arc_leaves_is_an_error() -> None:
    result = checked(body("start: a", "a: b", "b: a"))
    assert [(e.code, e.severity, e.message) for e in result.problems] == [
        ("endless-cycle", "error", "no arc leaves the cycle a → b → a")
    ]
    assert result.verdict == "unsound"


def test_a_circle_is_left_by_an_arc() -> None:
    assert found("start: a", "a: b", "b: end when ctx.n | default(0) > 3, a") == []
    assert found("start: start when output.data, end") == []
    assert found("start: start, end when event.name == 'step.failed'") == []


def test_an_arc_that_never_fires_leaves_no_circle() -> None:
    assert found("start: a", "a: start, end when ctx.n | default(0) > 3") == [
        ("endless-cycle", "error"),
        ("dead-arc", "warning"),
    ]


def test_a_circle_that_ends_only_when_no_guard_fits_is_a_warning_d39() -> None:
    assert found("start: start when output.data") == [("endless-cycle", "warning")]


def test_in_inclusive_mode_an_arc_that_always_stays_keeps_the_circle_going() -> None:
    assert found("start inclusive: start, end when output.data") == [("endless-cycle", "error")]


def test_branches_that_meet_without_a_declared_join_are_told_once_d36() -> None:
    result = checked(body("start inclusive: a, b", "a: c", "b: c", "c: d", "d: end"))
    joins = [each for each in result.problems if each.code == "undeclared-join"]
    assert [(each.message, each.related[0].note) for each in joins] == [
        ('branches of "start" meet in "c": it runs once for each token', '"start" forks here')
    ]


@pytest.mark.parametrize("declared", ["all", "each"])
def test_a_declared_join_is_fine_d36(declared: str) -> None:
    assert found("start inclusive: a, b", "a: c", "b: c", f"c {declared}: d", "d: end") == []


def test_a_branch_that_meets_the_fork_directly_is_a_meeting_too() -> None:
    assert found("start inclusive: a, b", "a: b", "b: end") == [("undeclared-join", "warning")]


def test_exclusive_branches_do_not_fork() -> None:
    assert found("start: a when output.data, b", "a: c", "b: c", "c: end") == []


def test_a_dynamic_target_makes_it_not_provable_unless_its_targets_are_listed_d41() -> None:
    dynamic = "workflow:\n- step: start\n  tool: {kind: noop}\n  next: {arcs: [{step: '{{ output.data }}'%s}]}\n- step: a\n  tool: {kind: noop}\n"
    open_ = checked(dynamic % "")
    assert (open_.verdict, [each.code for each in open_.problems]) == ("not-provable", ["not-provable"])
    closed = checked(dynamic % ", to: [a, end]")
    assert (closed.verdict, closed.problems) == ("sound", ())
    wrong = checked(dynamic % ", to: [b]")
    assert problem_places(wrong.errors) == [("unknown-step", 7, 50)]


def test_end_needs_no_step_and_may_be_one_d6() -> None:
    assert checked(body("start: end")).problems == ()
    assert checked(body("start: end", "end:")).problems == ()


def test_a_broken_next_does_not_make_other_steps_unreachable() -> None:
    result = checked("workflow:\n- step: start\n  next: [{step: a}]\n- step: a\n  tool: {kind: noop}\n")
    assert [each.code for each in result.problems] == ["old-dialect"]
