"""The ways through a pipeline (L5 for tasks)."""

from __future__ import annotations

import pytest

from tests.playbooks import checked, problem_places

CODES = {"unreachable-task", "endless-jump", "fall-through", "dead-rule"}


def found(*tasks: str) -> list[tuple[str, str]]:
    """What L5 says of tasks written as `name: rule; rule`, a rule as `when ?: then`, e.g. `a: jump c ? ctx.x; break`."""
    problems = checked(_body(tasks)).problems
    return [(each.code, each.message.split('"')[1]) for each in problems if each.code in CODES]


def _body(tasks: tuple[str, ...]) -> str:
    lines = ["workflow:", "- step: start", "  tool:"]
    for each in tasks:
        name, _, rules = each.partition(":")
        lines.append(f"  - name: {name}")
        lines.append("    kind: http")
        lines.append("    url: x")
        written = [_rule(rule.strip()) for rule in rules.split(";") if rule.strip()]
        if written:
            lines.append(f"    spec: {{policy: {{rules: [{', '.join(written)}]}}}}")
    return "\n".join(lines)


def messages(*tasks: str) -> list[tuple[str, str]]:
    problems = checked(_body(tasks)).problems
    return [(each.severity, each.message) for each in problems if each.code == "endless-jump"]


def _rule(rule: str) -> str:
    do, _, when = rule.partition("?")
    do, *to = do.split()
    then = f"{{do: {do}" + (f", to: {to[0]}" if to else "") + "}"
    return f'{{when: "{{{{ {when.strip()} }}}}", then: {then}}}' if when else f"{{else: {{then: {then}}}}}"


def test_a_pipeline_without_rules_is_fine() -> None:
    assert found("a", "b", "c") == []


def test_tasks_that_no_way_comes_to_are_told() -> None:
    assert found("a: break", "b", "c") == [("unreachable-task", "b"), ("unreachable-task", "c")]
    assert found("a: jump c", "b", "c") == [("unreachable-task", "b")]


def test_pagination_jumps_back_and_is_fine() -> None:
    assert found("init", "fetch", "store", "paginate: jump fetch ? ctx.more | default(0); break") == []


def test_a_circle_of_jumps_that_no_rule_leaves_is_an_error() -> None:
    problems = checked(
        "workflow:\n- step: start\n  tool:\n"
        "  - {name: a, kind: noop, spec: {policy: {rules: [{else: {then: {do: continue}}}]}}}\n"
        "  - {name: b, kind: noop, spec: {policy: {rules: [{else: {then: {do: jump, to: a}}}]}}}\n"
    ).problems
    assert [(each.code, each.severity, each.message) for each in problems] == [
        ("endless-jump", "error", "no rule leaves the cycle a → b → a")
    ]


JUMPS_BACK = """\
workflow:
- step: start
  tool:
  - name: init
    kind: noop
  - name: work
    kind: http
    url: x
    spec: {policy: {rules: %s}}
"""


@pytest.mark.parametrize(
    "rules",
    [
        "[{else: {then: {do: jump, to: work}}}]",
        "[{when: true, then: {do: jump, to: work}}]",
        "[{when: \"{{ output.status == 'error' }}\", then: {do: retry, attempts: 2, delay: 1}}, {else: {then: {do: jump, to: work}}}]",
        "[{when: '{{ output.data.a }}', then: {do: jump, to: init}}, {else: {then: {do: jump, to: work}}}]",
    ],
)
def test_a_pipeline_whose_every_path_jumps_back_is_unsound_d111(rules: str) -> None:
    result = checked(JUMPS_BACK % rules)
    first = 7 if "to: init" in rules else 9
    assert problem_places(result.errors) == [("endless-jump", first, 5)]
    assert result.verdict == "unsound"


@pytest.mark.parametrize("tasks", [("a", "b: jump a"), ("a: retry ? output.status == 'error'; jump b", "b: jump a")])
def test_a_call_that_may_fail_does_not_leave_a_cycle_d111(tasks: tuple[str, ...]) -> None:
    assert messages(*tasks) == [("error", "no rule leaves the cycle a → b → a; it ends only when a call fails")]


def test_a_branch_that_jumps_back_for_ever_is_an_error_although_another_ends_d111() -> None:
    tasks = ("a: jump c ? ctx.x | default(0); break", "c: jump c")
    assert messages(*tasks) == [("error", "no rule leaves the cycle c → c")]


def test_a_cycle_that_only_a_failure_leaves_is_doubted_d111() -> None:
    said = "the cycle a → a ends only with do: fail: no way leads to the end of the pipeline"
    assert messages("a: fail ? output.status == 'error'; jump a") == [("warning", said)]


def test_a_pipeline_that_always_fails_or_retries_is_no_cycle() -> None:
    assert found("a: fail") == []
    assert found("a: retry") == []


def test_a_forward_jump_into_a_fall_through_is_the_storage_mistake_of_003() -> None:
    route = "route: jump store_404 ? ctx.s | default(0) == 404; jump store_200"
    assert found("fetch", route, "store_200", "store_404", "paginate: break") == [("fall-through", "route")]
    good = found("fetch", route, "store_200: jump paginate", "store_404: jump paginate", "paginate: break")
    assert good == []


def test_skipping_one_task_ahead_is_told_until_it_is_said_with_a_jump() -> None:
    assert found("a: jump c ? ctx.x | default(0); continue", "b", "c") == [("fall-through", "a")]
    assert found("a: jump c ? ctx.x | default(0); continue", "b: jump c", "c") == []


def test_rules_behind_one_that_always_matches_are_dead() -> None:
    assert found("a: fail ? true; continue") == [("dead-rule", "a")]


def test_on_unmatched_fail_goes_on_when_ok_d23() -> None:
    problems = checked(
        "workflow:\n- step: start\n  tool:\n"
        "  - {name: a, kind: noop, spec: {policy: {on_unmatched: fail, rules: [{when: '{{ ctx.x }}', then: {do: break}}]}}}\n"
        "  - {name: b, kind: noop}\n"
    ).problems
    assert [each.code for each in problems] == ["unset-ctx"]


LOOP = "workflow:\n- step: start\n  tool:\n  - {name: first, kind: noop, set: {step.more: true}}\n  - %s\n  - {name: last, kind: noop}\n"


@pytest.mark.parametrize(
    ("loop", "severity", "message"),
    [
        (
            "{name: w, while: {when: true, tool: {name: a, kind: noop}}}",
            "error",
            "no rule leaves the cycle w → a → w; it ends only when a call fails",
        ),
        (
            "{name: u, until: {when: false, tool: {name: a, kind: noop}}}",
            "error",
            "no rule leaves the cycle a → u → a; it ends only when a call fails",
        ),
        (
            '{name: w, while: {when: "{{ step.more }}", tool: {name: a, kind: noop, set: {step.mor: 0}}}}',
            "warning",
            'no task in the while "w" changes step.more, so its guard stays the same',
        ),
        (
            '{name: u, until: {when: "{{ step.more and workload.n | default(1) }}", tool: {name: a, kind: noop}}}',
            "warning",
            'no task in the until "u" changes step.more, workload.n, so its guard stays the same',
        ),
    ],
)
def test_a_loop_that_cannot_end_is_reported_at_its_guard(loop: str, severity: str, message: str) -> None:
    (problem,) = [each for each in checked(LOOP % loop).problems if each.code == "endless-jump"]
    assert (problem.severity, problem.message) == (severity, message)
    line = (LOOP % loop).splitlines()[problem.at.line - 4]
    assert line[problem.at.column - 1 :].startswith(("true", "false", '"{{ step.more'))


@pytest.mark.parametrize(
    "loop",
    [
        '{while: {when: "{{ step.more }}", tool: {kind: noop, set: {step.more: false}}}}',
        '{while: {when: "{{ step.more }}", tool: {kind: workbook, block: b}}}',
        '{until: {when: "{{ output.data }}", tool: {kind: http, url: x}}}',
        '{until: {when: "{{ look.data }}", tool: {name: look, kind: http, url: x}}}',
        "{until: {when: \"{{ now() > '2027' }}\", tool: {kind: http, url: x}}}",
        "{while: {when: true, tool: {kind: http, url: x, spec: {policy: {rules: "
        '[{when: "{{ output.data }}", then: {do: jump, to: last}}, {else: {then: {do: continue}}}]}}}}}',
        '{choose: [{when: "{{ step.more }}", then: {kind: noop}}, {else: {then: [{kind: noop}, {kind: noop}]}}]}',
        '{choose: [{when: "{{ step.more }}", then: {kind: noop}}, {when: true, then: {kind: noop}}]}',
    ],
)
def test_loops_and_branches_that_end_are_fine(loop: str) -> None:
    body = LOOP % loop + "workbook: {b: {tool: {kind: noop, set: {step.more: false}}}}\n"
    assert [each.message for each in checked(body).problems if each.code in CODES] == []


def test_a_branch_after_one_that_is_always_taken_is_dead() -> None:
    loop = (
        '{name: c, choose: [{when: true, then: {kind: noop}}, {when: "{{ step.more }}", then: {name: x, kind: noop}}]}'
    )
    codes = [(each.code, each.message) for each in checked(LOOP % loop).problems]
    assert codes == [
        ("dead-rule", 'an earlier rule of "c" always matches'),
        ("unreachable-task", 'no path through the pipeline reaches "x"'),
    ]
