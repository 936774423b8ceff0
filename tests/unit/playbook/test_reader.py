"""The reader reports all problems of the shape, with code and position."""

from __future__ import annotations

import pytest

from noetl.playbook.model import Arc, Guard, Rule
from noetl.playbook.reader import read
from tests.playbooks import kinds, problem_places, reading, task


def test_a_document_that_is_no_mapping_is_not_a_playbook() -> None:
    assert problem_places(read("- 1\n", kinds()).problems) == [("not-a-playbook", 1, 1)]
    assert problem_places(read("", kinds()).problems) == [("not-a-playbook", 1, 1)]
    assert read("just text", kinds()).playbook is None


def test_all_problems_are_reported_at_once_and_the_rest_is_read() -> None:
    found = reading("""\
        workflow:
        - step: start
          desc: [1]
          tool: {kind: noop, nmae: x}
          nxt: {}
        - step: other thing
          tool: {kind: nop}
          next: {arcs: [{step: start, when: 3}]}
        extra: 1
        """)
    assert problem_places(found.problems) == [
        ("wrong-type", 6, 3),
        ("unknown-key", 7, 22),
        ("unknown-key", 8, 3),
        ("bad-name", 9, 9),
        ("unknown-kind", 10, 16),
        ("wrong-type", 11, 37),
        ("unknown-key", 12, 1),
    ]
    assert found.playbook is not None
    assert [task.kind for task in found.playbook.steps[0].tasks] == ["noop"]


def test_the_beginning_of_one_key_suggests_the_key() -> None:
    found = reading("""\
        keychain: [{name: token, kind: env, var: TOKEN}]
        workflow: [{step: start, next: {arcs: []}}]
        """)
    assert [(each.code, each.fix) for each in found.problems] == [("unknown-key", "variable")]


def test_root_keys_are_those_of_the_language_and_vars_is_named_d3() -> None:
    found = reading("vars: {a: 1}\nsteps: []\nworkflow: [{step: start, next: {arcs: []}}]\n")
    assert problem_places(found.problems) == [("old-dialect", 4, 1), ("unknown-key", 5, 1)]
    assert "workflow" in found.problems[1].message


def test_missing_required_keys_are_reported() -> None:
    found = read("kind: Playbok\nmetadata: {name: x}\n", kinds(), "t.yaml")
    assert problem_places(found.problems) == [
        ("bad-value", 1, 7),
        ("missing-key", 2, 1),
        ("missing-key", 1, 1),
        ("missing-key", 1, 1),
    ]
    assert found.problems[0].fix == "Playbook"


def test_two_letters_that_occur_in_another_word_get_no_suggestion() -> None:
    (found,) = reading("id: x\nworkflow: [{step: start, tool: {kind: noop}}]\n").problems
    assert (found.code, found.fix) == ("unknown-key", None)
    assert found.message.startswith('playbook has no key "id"; its keys are "apiVersion", "kind", ')


def test_unknown_keys_get_a_did_you_mean_at_every_level_d4() -> None:
    found = reading("""\
        executor: {spec: {policy: {limits: {cals: 3}}}}
        workflow:
        - step: start
          spec: {policy: {lifecycle: {timeout: 3}}}
          loop: {in: [1], iterator: x, spec: {mode: parallel, max_in_fligth: 3}}
          tool: {kind: http, input: {urll: x, url: y}, spec: {timeout: {conect: 3}}}
          next: {arcs: [{step: end, wen: "{{ true }}"}]}
        """)
    assert [(each.code, each.fix) for each in found.problems] == [
        ("unknown-key", "calls"),
        ("unknown-key", "timeout_s"),
        ("unknown-key", "max_in_flight"),
        ("unknown-key", "url"),
        ("unknown-key", "connect"),
        ("unknown-key", "when"),
    ]


def test_a_step_without_tool_and_next_is_a_warning_d7() -> None:
    found = reading("workflow:\n- step: start\n")
    assert problem_places(found.problems) == [("empty-step", 5, 3)]
    assert found.problems[0].severity == "warning"


def test_tasks_get_names_by_their_place_and_a_single_tool_by_its_step_d8() -> None:
    found = reading("""\
        workflow:
        - step: start
          tool: {kind: noop}
        - step: many
          tool: [{kind: noop}, {name: b, kind: noop}, {kind: noop}]
        """)
    assert found.playbook is not None
    names = [[task.name for task in step.tasks] for step in found.playbook.steps]
    assert names == [["start_task"], ["task_0", "b", "task_2"]]


def test_duplicate_task_names_are_problems_d8() -> None:
    found = reading("workflow:\n- step: start\n  tool:\n  - {name: task_1, kind: noop}\n  - {kind: noop}\n")
    assert problem_places(found.problems) == [("duplicate-task", 8, 5)]


def test_the_labelled_form_is_old_d8() -> None:
    found = reading("workflow:\n- step: start\n  tool:\n  - fetch: {kind: noop}\n")
    assert problem_places(found.problems) == [("old-dialect", 7, 5)]
    assert "noetl migrate" in found.problems[0].message


def test_tool_fields_may_be_beside_kind_or_under_input_but_not_both_d9() -> None:
    beside = reading(task("kind: http\nurl: x\nmethod: POST")).playbook
    under = reading(task("kind: http\ninput: {url: x, method: POST}")).playbook
    assert beside is not None
    assert under is not None
    assert beside.steps[0].tasks[0].input == under.steps[0].tasks[0].input == {"url": "x", "method": "POST"}
    twice = reading(task("kind: http\nurl: x\ninput:\n  url: y"))
    assert problem_places(twice.problems) == [("duplicate-field", 10, 9)]


def test_kinds_with_free_input_keep_their_fields_beside_kind_d9() -> None:
    found = reading(task("kind: python\ncode: 'result = 1'\ninput: {rows: 3, code: 4}"))
    assert found.problems == []
    assert found.playbook is not None
    read_task = found.playbook.steps[0].tasks[0]
    assert (read_task.fields, read_task.input) == ({"code": "result = 1"}, {"rows": 3, "code": 4})


def test_the_required_fields_of_a_tool_are_checked() -> None:
    assert problem_places(reading(task("kind: http")).problems) == [("missing-key", 7, 7)]
    assert problem_places(reading(task("kind: postgres")).problems) == [("missing-key", 7, 7)]
    assert problem_places(reading(task("kind: shell\nsh: ls\nargv: [ls]")).problems) == [("misplaced-key", 8, 7)]
    assert problem_places(reading(task("kind: http\nurl: [x]")).problems) == [("wrong-type", 8, 7)]


def test_any_field_of_a_tool_may_be_a_template() -> None:
    body = "kind: http\nurl: '{{ x }}'\nmethod: '{{ m }}'\nparams: '{{ p }}'\nspec: {timeout: 3}"
    assert reading(task(body)).problems == []
    assert problem_places(reading(task("kind: http\nurl: x\nparams: text")).problems) == [("wrong-type", 9, 15)]


def test_set_is_allowed_on_steps_tasks_arcs_and_in_then_and_nowhere_else_under_spec_d10() -> None:
    found = reading("""\
        workflow:
        - step: start
          set: {ctx.a: 1}
          tool:
            kind: noop
            set: {step.b: 1}
            spec:
              set: {ctx.c: 1}
              policy: {rules: [{else: {then: {do: continue, set: {ctx.d: 1}}}}]}
          next: {spec: {set: {}}, arcs: [{step: end, set: {ctx.e: 1}}]}
        """)
    assert problem_places(found.problems) == [("set-under-spec", 11, 7), ("set-under-spec", 13, 17)]


@pytest.mark.parametrize(
    ("rule", "position"),
    [
        ("{else: {do: continue}}", (10, 27)),  # D11
        ("{else: null, then: {do: continue}}", (10, 20)),  # D89
        ("{else: {}}", (10, 26)),
        ("{else: null}", (10, 20)),
        ("{when: '{{ ctx.a }}'}", (10, 19)),
        ("{when: '{{ ctx.a }}', do: fail}", (10, 41)),
    ],
)
def test_the_action_of_a_rule_is_under_then_d11_d89(rule: str, position: tuple[int, int]) -> None:
    found = reading(task(f"kind: noop\nspec:\n  policy:\n    rules: [{rule}]"))
    assert problem_places(found.problems) == [("missing-then", *position)]


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("{else: {then: }}", "missing-then"),
        ("{else: {then: {do: }}}", "missing-do"),
        ("{when: '{{ ctx.a }}', then: }", "missing-then"),
        ("{when: '{{ ctx.a }}', then: {do: }}", "missing-do"),
        ("{when: , then: {do: fail}}", "missing-key"),
        ("{else: {then: {do: jump, to: }}}", "missing-key"),
    ],
)
def test_a_null_counts_as_left_out_and_a_required_key_is_reported_d4(rule: str, code: str) -> None:
    found = reading(task(f"kind: noop\nspec:\n  policy:\n    rules: [{rule}]"))
    assert [each.code for each in found.problems] == [code]


def test_a_rule_is_read_whole() -> None:
    rules = "[{when: '{{ a }}', then: {do: retry, attempts: 3, backoff: linear, delay: 1, max_delay: 9, jitter: 0.2}}]"
    playbook = reading(task(f"kind: noop\nspec: {{policy: {{rules: {rules}}}}}")).playbook
    assert playbook is not None
    policy = playbook.steps[0].tasks[0].policy
    assert policy is not None
    at = ("workflow", 0, "tool", 0, "spec", "policy", "rules", 0)
    assert policy.rules == (
        Rule(when="{{ a }}", do="retry", attempts=3, backoff="linear", delay=1, max_delay=9, jitter=0.2, at=at),
    )


def test_keys_beside_the_wrong_directive_have_no_effect_and_say_so() -> None:
    found = reading(task("kind: noop\nspec: {policy: {rules: [{else: {then: {do: fail, to: x, delay: 1}}}]}}"))
    assert problem_places(found.problems) == [("no-effect", 8, 63), ("no-effect", 8, 56)]


def test_message_and_details_belong_to_fail_d105() -> None:
    """They are read into the rule, and have no effect with another directive."""
    rules = "[{when: '{{ a }}', then: {do: fail, message: 'no {{ b }}', details: {b: 1}}}]"
    playbook = reading(task(f"kind: noop\nspec: {{policy: {{rules: {rules}}}}}")).playbook
    assert playbook is not None
    policy = playbook.steps[0].tasks[0].policy
    assert policy is not None
    at = ("workflow", 0, "tool", 0, "spec", "policy", "rules", 0)
    assert policy.rules == (Rule(when="{{ a }}", do="fail", message="no {{ b }}", details={"b": 1}, at=at),)
    found = reading(task("kind: noop\nspec: {policy: {rules: [{else: {then: {do: break, message: x, details: {}}}}]}}"))
    assert problem_places(found.problems) == [("no-effect", 8, 57), ("no-effect", 8, 69)]
    wrong = reading(task("kind: noop\nspec: {policy: {rules: [{else: {then: {do: fail, message: 1, details: [1]}}}]}}"))
    assert problem_places(wrong.problems) == [("wrong-type", 8, 65), ("wrong-type", 8, 68)]


def test_else_is_the_last_rule_and_never_contains_skip_d26() -> None:
    rules = "[{else: {then: {do: skip}}}, {when: '{{ a }}', then: {do: fail}}]"
    found = reading(task(f"kind: noop\nspec: {{policy: {{rules: {rules}}}}}"))
    assert [each.code for each in found.problems] == ["rule-order"]
    alone = reading(task("kind: noop\nspec: {policy: {rules: [{else: {then: {do: skip}}}]}}"))
    assert [each.code for each in alone.problems] == ["else-skip"]


@pytest.mark.parametrize("target", ["x", "ctx", "workload.a", "output.x", "keychain.k", "ctx.a b", "ctx..a", "event.x"])
def test_set_targets_are_ctx_step_and_iter_d29(target: str) -> None:
    found = reading(f"workflow:\n- step: start\n  next: {{arcs: []}}\n  set:\n    {target}: 1\n")
    assert problem_places(found.problems) == [("bad-set-target", 8, 5)]


@pytest.mark.parametrize("word", ["case", "pipe", "sink", "retry"])
def test_reserved_words_are_problems_with_advice_d61(word: str) -> None:
    on_step = reading(f"workflow:\n- step: start\n  {word}: []\n  next: {{arcs: []}}\n")
    on_task = reading(task(f"kind: noop\n{word}: []"))
    assert problem_places(on_step.problems) == [("reserved-word", 6, 3)]
    assert problem_places(on_task.problems) == [("reserved-word", 8, 7)]


def test_placeholders_are_accepted_with_a_warning_d64() -> None:
    found = reading("""\
        workflow:
        - step: start
          spec: {policy: {admit: {mode: exclusive}, emit: {events: [x]}}}
          tool: {kind: noop, spec: {policy: {before: [], after: [], finally: [], mode: exclusive, rules: []}}}
          next: {spec: {policy: {}}, arcs: [{step: end, spec: {}}]}
        """)
    assert {each.code for each in found.problems} == {"reserved"}
    assert len(found.problems) == 8
    assert {each.severity for each in found.problems} == {"warning"}


def test_loop_policy_is_the_same_as_loop_spec_and_must_not_differ_d64() -> None:
    body = "workflow:\n- step: start\n  loop: {{in: [1], iterator: x, spec: {{mode: {0}, policy: {{mode: {1}}}}}}}\n  next: {{arcs: []}}\n"
    same = reading(body.format("parallel", "parallel"))
    assert same.problems == []
    assert problem_places(reading(body.format("parallel", "sequential")).problems) == [("conflicting-values", 6, 64)]


def test_tolerate_is_a_number_or_a_percentage_of_best_effort_d87() -> None:
    body = "workflow:\n- step: start\n  spec: {{policy: {{failure: {{{0}}}}}}}\n  next: {{arcs: []}}\n"
    assert reading(body.format("mode: best_effort, tolerate: 25%")).problems == []
    assert reading(body.format("mode: best_effort, tolerate: 5")).problems == []
    assert problem_places(reading(body.format("mode: best_effort, tolerate: many")).problems) == [("bad-value", 6, 58)]
    assert problem_places(reading(body.format("tolerate: 5")).problems) == [("misplaced-key", 6, 29)]


def test_admission_arcs_and_joins_are_read() -> None:
    playbook = reading("""\
        workflow:
        - step: start
          spec: {policy: {admit: {join: all, rules: [{when: "{{ ctx.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
          next: {spec: {mode: inclusive}, arcs: [{step: "{{ ctx.to }}", to: [start, end], set: {ctx.a: 1}}]}
        """).playbook
    assert playbook is not None
    step = playbook.steps[0]
    rules = ("workflow", 0, "spec", "policy", "admit", "rules")
    assert step.admit == (
        Guard(when="{{ ctx.go }}", allow=True, at=(*rules, 0)),
        Guard(when=None, allow=False, at=(*rules, 1)),
    )
    assert (step.join, step.mode) == ("all", "inclusive")
    at = ("workflow", 0, "next", "arcs", 0)
    assert step.arcs == (Arc(step="{{ ctx.to }}", set={"ctx.a": 1}, to=("start", "end"), at=at),)


def test_next_without_spec_and_tasks_with_desc_are_fine_d89() -> None:
    assert (
        reading("workflow:\n- step: start\n  tool: {kind: noop, desc: d}\n  next: {arcs: [{step: end}]}\n").problems
        == []
    )


def test_data_is_never_rendered_and_braces_in_it_are_doubted() -> None:
    found = reading("workload: {a: [{b: '{{ x }}'}]}\nworkflow: [{step: start, next: {arcs: []}}]\n")
    assert problem_places(found.problems) == [("template-in-data", 4, 20)]


def test_keychain_entries_are_read_by_their_kind_d84() -> None:
    found = reading("""\
        keychain:
        - {name: a, kind: env, variable: A}
        - {name: b, kind: postgres_credential, host: {env: H}, port: 5432}
        - {name: c, kind: vault}
        - {name: a, kind: bearer, tokn: x}
        workflow: [{step: start, next: {arcs: []}}]
        """)
    assert problem_places(found.problems) == [
        ("unknown-kind", 7, 19),
        ("unknown-key", 8, 27),
        ("duplicate-name", 8, 10),
    ]


def test_a_name_must_not_hide_a_scope() -> None:
    assert problem_places(reading(task("kind: noop\nname: output")).problems) == [("bad-name", 8, 13)]
    looped = "workflow:\n- step: start\n  loop: {in: [], iterator: index}\n  next: {arcs: []}\n"
    assert problem_places(reading(looped).problems) == [("bad-name", 6, 28)]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("workload: {$stored: 1}\n", (4, 12)),
        ("workload: {deep: [{$stored: 1}]}\n", (4, 20)),
        ("input: {a: {type: map, default: {$stored: 1}}}\n", (4, 34)),
        ("workbook: {b: {input: {$stored: 1}, tool: {kind: noop}}}\n", (4, 24)),
        ("workbook: {b: {tool: {kind: playbook, path: x, input: {$stored: 1}}}}\n", (4, 56)),
    ],
)
def test_the_key_of_stored_values_is_reserved_in_inputs_d91(body: str, place: tuple[int, int]) -> None:
    step = "workflow:\n- {step: start, input: {$stored: 1, a: {$stored: 1}}, tool: {kind: noop}}\n"
    assert sorted(problem_places(reading(body + step).problems)) == [("bad-name", *place), ("bad-name", 6, 25)]


def test_thousands_of_mistakes_do_not_make_the_reader_slow() -> None:
    """Suggestions need comparisons, so only the first mistakes get one."""
    steps = "".join(f"- step: s{number}\n  stpe: 1\n  next: {{arcs: []}}\n" for number in range(2_000))
    problems = reading("workflow:\n" + steps).problems
    assert len(problems) == 2_000
    assert (problems[0].fix, problems[-1].fix) == ("step", None)


@pytest.mark.parametrize(
    ("where", "key", "words"),
    [
        ("task", "pool: {max_size: 2}", "the connections of a postgres task are spec.connections"),
        ("task", "concurrency: 3", "connections of postgres by spec.connections"),
        ("step", "concurrency: 3", "parallel iterations are limited by loop.spec.max_in_flight"),
    ],
)
def test_knobs_for_pools_and_concurrency_name_those_that_work(where: str, key: str, words: str) -> None:
    inside = f"spec: {{{key}}}"
    body = f"workflow:\n- step: start\n  {'desc: x' if where == 'task' else inside}\n  tool:\n    kind: noop\n"
    body += f"    {inside}\n" if where == "task" else ""
    found = [each for each in reading(body).problems if each.code == "unknown-key"]
    assert [(each.at.line, words in each.message) for each in found] == [(9 if where == "task" else 6, True)]


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("rhai", "write the code in a `python` task"),
        ("container", "pip install ./plugins/container"),
        ("snowflake", "pip install './plugins/snowflake[connector]'"),
        ("script", "an `object` task"),
        ("agent", "kind `playbook`"),
        ("subscription", "`triggers`"),
        ("ducklake", "ATTACH"),
        ("provider", "`keychain`"),
    ],
)
def test_a_kind_of_the_public_engine_is_refused_with_what_to_write_instead(kind: str, advice: str) -> None:
    [problem] = reading(f"workflow:\n- step: start\n  tool: {{kind: {kind}, code: x}}\n").problems
    assert (problem.code, problem.at.line) == ("unknown-kind", 6)
    assert advice in (problem.fix or "")
