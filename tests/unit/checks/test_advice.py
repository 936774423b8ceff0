"""Advice (L6): warnings and infos about what runs, but rarely as meant."""

from __future__ import annotations

import pytest

from tests.playbooks import checked, problem_places, task


def test_rules_without_else_are_doubted_d23() -> None:
    rules = "rules: [{when: '{{ output.status == ''error'' }}', then: {do: fail}}]"
    body = task(f"kind: http\nurl: x\nspec:\n  policy:\n    {rules}")
    assert problem_places(checked(body).problems) == [("no-else", 11, 11)]
    assert checked(body.replace("    rules:", "    on_unmatched: fail\n          rules:")).problems == ()


def test_who_follows_the_advice_makes_no_success_of_an_error_d23() -> None:
    rules = "rules: [{when: '{{ output.error.retryable }}', then: {do: retry, attempts: 5, delay: 1}}]"
    body = task(f"kind: http\nurl: x\nspec:\n  policy:\n    {rules}")
    (told_of,) = checked(body).problems
    assert (told_of.code, told_of.fix) == ("no-else", "on_unmatched: fail")
    followed = checked(body.replace("    rules:", f"    {told_of.fix}\n          rules:"))
    assert followed.problems == ()
    assert followed.program is not None
    policy = followed.program.steps["start"].source.tasks[0].policy
    assert policy is not None
    assert policy.on_unmatched == "fail"  # an error fails the task, a success continues


GOES_ON = {
    "continue": "{else: {then: {do: continue}}}",
    "break": "{else: {then: {do: break}}}",
    "jump": "{when: true, then: {do: jump, to: t}}",
}


@pytest.mark.parametrize("directive", GOES_ON)
def test_rules_that_never_ask_for_an_error_and_let_it_go_on_are_doubted(directive: str) -> None:
    rules = f"[{{when: '{{{{ output.data.more }}}}', then: {{do: fail}}}}, {GOES_ON[directive]}]"
    body = task(f"kind: http\nname: t\nurl: x\nspec: {{policy: {{rules: {rules}}}}}")
    cycle = ["endless-jump"] if directive == "jump" else []  # only the failure leaves it
    assert [each.code for each in checked(body).problems] == [*cycle, "unseen-error"]


@pytest.mark.parametrize(
    "asked",
    ["output.status == 'ok'", "output.error.retryable", "output.http.status > 399", "t.status == 'ok'"],
)
def test_rules_that_ask_how_the_call_went_are_not_doubted(asked: str) -> None:
    rules = f'[{{when: "{{{{ {asked} }}}}", then: {{do: fail}}}}, {GOES_ON["continue"]}]'
    body = task(f"kind: http\nname: t\nurl: x\nspec: {{policy: {{rules: {rules}}}}}")
    assert checked(body).problems == ()


def test_an_else_alone_and_a_tool_that_does_nothing_are_not_doubted() -> None:
    alone = f"kind: http\nurl: x\nspec: {{policy: {{rules: [{GOES_ON['continue']}]}}}}"
    assert checked(task(alone)).problems == ()
    rules = f"[{{when: '{{{{ output.data.x }}}}', then: {{do: fail}}}}, {GOES_ON['continue']}]"
    assert checked(task(f"kind: noop\nspec: {{policy: {{rules: {rules}}}}}")).problems == ()


def test_a_policy_of_skip_rules_only_counts_as_none_d26() -> None:
    rules = "[{when: '{{ execution_id }}', then: {do: skip}}]"
    assert checked(task(f"kind: noop\nspec: {{policy: {{rules: {rules}}}}}")).problems == ()


def test_retry_says_how_often_and_how_long_d24_d25() -> None:
    rules = "[{when: '{{ output.status == ''error'' }}', then: {do: retry}}, {else: {then: {do: continue}}}]"
    found = checked(task(f"kind: http\nurl: x\nspec: {{policy: {{rules: {rules}}}}}")).problems
    assert problem_places(found) == [("retry-without-attempts", 9, 80), ("retry-without-delay", 9, 80)]


def test_ctx_written_in_a_parallel_loop_wants_a_reducer_d47() -> None:
    body = """\
        workflow:
        - step: start
          loop: {in: [1], iterator: i, spec: {mode: parallel%s}}
          tool:
            kind: noop
            set: {ctx.total: 1, iter.x: 1}
        """
    assert problem_places(checked(body % "").problems) == [("parallel-ctx", 9, 11)]
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
    assert [(each.code, each.severity, each.at.line) for each in found] == [("failure-without-arc", "info", 7)]
    assert checked(body % "}, {step: end, when: '{{ event.name == ''step.failed'' }}'").problems == ()


def test_secrets_in_plain_sight_are_doubted() -> None:
    body = """\
        workload: {api_token: abcdef, nested: {password: hunter2}, token_count: 5, secret: ""}
        workflow:
        - step: start
          tool: {kind: http, url: x, headers: {Authorization: Bearer abc, X-Api-Key: "{{ execution_id }}"}}
        """
    assert problem_places(checked(body).problems) == [
        ("secret-near-log", 4, 12),
        ("secret-near-log", 4, 40),
        ("secret-near-log", 7, 40),
    ]


@pytest.mark.parametrize(
    ("task", "unused"),
    [
        ("{kind: http, url: x}", True),
        ("{kind: http, url: x, auth: api}", False),
        ("{kind: http, url: x, headers: {X-Key: '{{ keychain.api }}'}}", False),
        ("{kind: http, url: x, headers: {X-Key: '{{ keychain[execution_id] }}'}}", False),
        ("{kind: secrets, input: {name: api}}", False),
        ("{kind: http, url: x, spec: {result: {store: {kind: s3, auth: api}}}}", False),
    ],
)
def test_a_keychain_entry_that_nothing_uses_is_an_info_d57(task: str, unused: bool) -> None:
    body = f"keychain: [{{name: api, kind: stored}}]\nworkflow:\n- step: start\n  tool: {task}\n"
    found = checked(body).problems
    assert [each for each in found if each.severity == "error"] == []
    assert [(each.code, each.severity) for each in found if each.at.line == 4] == (
        [("unused-credential", "info")] if unused else []
    )


@pytest.mark.parametrize(
    ("path", "fix"),
    [
        ("$.rows[0].id", None),
        ("$.paging.next", "paging.next"),
        ("rows[0]", None),
        ("a..b", None),
        (".a", None),
        ("", None),
        ("rows.*.id", None),
        ("{{ output.data.id }}", None),
    ],
)
@pytest.mark.parametrize("place", ["step", "task", "http"])
def test_a_path_that_selects_nothing_is_doubted(path: str, fix: str | None, place: str) -> None:
    select = f"{{result: {{select: {{id: '{path}'}}}}}}"
    step, task = {
        "step": (select, "{}"),
        "task": ("{}", select),
        "http": (f"{{http: {select}}}", "{}"),
    }[place]
    body = f"workflow:\n- step: start\n  spec: {step}\n  tool:\n    kind: http\n    url: x\n    spec: {task}\n"
    found = checked(body).problems
    assert [(each.code, each.fix) for each in found] == [("nothing-selected", fix)]


@pytest.mark.parametrize("path", ["id", "paging.next", "@id", "$count", "a b.c-d", "rows.0"])
def test_keys_with_dots_between_are_a_path(path: str) -> None:
    select = f"{{result: {{select: {{id: '{path}'}}}}}}"
    assert checked(f"workflow:\n- step: start\n  tool: {{kind: http, url: x, spec: {select}}}\n").problems == ()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("sh: ls {{ workload.x }}", []),
        ('sh: "{{ workload.x }} --help"', []),  # the name of a program
        ("sh: echo \"{{ workload.x | join(' ') }}\"", []),
        ("sh: echo --ids={{ workload.x | join(',') }}", []),
        ("sh: ls {{ workload.x | raw_shell }}", [("raw-shell", 8, 30)]),
        ("argv: [ls, '{{ workload.x | raw_shell }}']", [("raw-shell", 8, 35)]),
        ("input: {sh: '{{ workload.x }}'}", [("shell-word", 8, 19)]),
        ("sh: |\n  for f in {{ workload.x | join(' ') }}; do echo $f; done", [("shell-word", 9, 34)]),
    ],
)
def test_values_that_are_more_than_one_word_in_a_script_are_advised_d109(
    fields: str, expected: list[tuple[str, int, int]]
) -> None:
    body = "workload: {x: 1}\n" + task(f"kind: shell\n{fields}")
    found = [each for each in checked(body).problems if each.severity != "info"]
    assert [(code, line - 1, column) for code, line, column in problem_places(found)] == expected
