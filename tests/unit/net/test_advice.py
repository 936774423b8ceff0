"""Advice (L6): warnings and infos about what runs, but rarely as meant."""

from __future__ import annotations

from tests.playbooks import checked, task, told


def test_rules_without_else_are_doubted_d23() -> None:
    rules = "rules: [{when: '{{ output.status == ''error'' }}', then: {do: fail}}]"
    body = task(f"kind: http\nurl: x\nspec:\n  policy:\n    {rules}")
    assert told(checked(body).problems) == [("no-else", 11, 11)]
    assert checked(body.replace("    rules:", "    on_unmatched: fail\n          rules:")).problems == ()


def test_a_policy_of_skip_rules_only_counts_as_none_d26() -> None:
    rules = "[{when: '{{ execution_id }}', then: {do: skip}}]"
    assert checked(task(f"kind: noop\nspec: {{policy: {{rules: {rules}}}}}")).problems == ()


def test_retry_says_how_often_and_how_long_d24_d25() -> None:
    rules = "[{when: '{{ output.status == ''error'' }}', then: {do: retry}}, {else: {then: {do: continue}}}]"
    found = checked(task(f"kind: http\nurl: x\nspec: {{policy: {{rules: {rules}}}}}")).problems
    assert told(found) == [("retry-without-attempts", 9, 80), ("retry-without-delay", 9, 80)]


def test_ctx_written_in_a_parallel_loop_wants_a_reducer_d47() -> None:
    body = """\
        workflow:
        - step: start
          loop: {in: [1], iterator: i, spec: {mode: parallel%s}}
          tool:
            kind: noop
            set: {ctx.total: 1, iter.x: 1}
        """
    assert told(checked(body % "").problems) == [("parallel-ctx", 9, 11)]
    assert checked(body % ", policy: {reduce: {ctx.total: sum}}").problems == ()
    assert checked(body.replace("mode: parallel%s", "mode: sequential")).problems == ()


def test_a_working_step_whose_failure_no_arc_takes_is_an_info_d38() -> None:
    body = """\
        workflow:
        - step: start
          tool: {kind: http, url: x}
          next: {arcs: [{step: end%s}]}
        """
    found = checked(body % "").problems
    assert [(each.code, each.severity, each.at.line) for each in found] == [
        ("failure-without-arc", "info", 7)
    ]
    assert checked(body % "}, {step: end, when: '{{ event.name == ''step.failed'' }}'").problems == ()


def test_secrets_in_plain_sight_are_doubted() -> None:
    body = """\
        workload: {api_token: abcdef, nested: {password: hunter2}, token_count: 5, secret: ""}
        workflow:
        - step: start
          tool: {kind: http, url: x, headers: {Authorization: Bearer abc, X-Api-Key: "{{ execution_id }}"}}
        """
    assert told(checked(body).problems) == [
        ("secret-near-log", 4, 12),
        ("secret-near-log", 4, 40),
        ("secret-near-log", 7, 40),
    ]
