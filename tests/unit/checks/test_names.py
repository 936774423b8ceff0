"""Names (L3): what exists, and what may be read at which place."""

from __future__ import annotations

import pytest

from noetl.checks.checker import check
from noetl.errors import Problem
from tests.playbooks import HEAD, checked, kinds, problem_places, task


def problems(body: str, *quiet: str) -> list[Problem]:
    return [each for each in checked(body).problems if each.severity != "info" and each.code not in quiet]


def codes(body: str) -> list[str]:
    return [each.code for each in problems(body)]


def noop(set_value: str) -> str:
    """A task whose `set` reads something."""
    return task(f'kind: noop\nset: {{step.x: "{set_value}"}}')


def test_the_entry_is_named_or_start_or_a_problem_d5() -> None:
    assert problem_places(problems("workflow:\n- step: a\n  tool: {kind: noop}\n")) == [("no-start", 4, 1)]
    entry = "executor: {spec: {entry_step: %s}}\nworkflow:\n- step: begin\n  tool: {kind: noop}\n"
    assert problems(entry % "begin") == []
    wrong = problems(entry % "begn")
    assert (problem_places(wrong), wrong[0].fix) == ([("no-start", 4, 31)], "begin")


def test_an_arc_to_nowhere_without_a_similar_name_lists_the_steps() -> None:
    found = problems("workflow:\n- step: start\n  next: {arcs: [{step: zzz}]}\n- step: store\n  tool: {kind: noop}\n")
    message = 'arc of "start" leads to "zzz", which is not a step; the steps are start, store'
    assert [each.message for each in found if each.code == "unknown-step"] == [message]


def test_an_arc_to_nowhere_is_told_with_the_nearest_name() -> None:
    found = problems(
        "workflow:\n- step: start\n  next: {arcs: [{step: valdate}]}\n- step: validate\n  tool: {kind: noop}\n"
    )
    message = 'arc of "start" leads to "valdate", which is not a step; did you mean "validate"?'
    assert [(each.code, each.message, each.fix) for each in found if each.code == "unknown-step"] == [
        ("unknown-step", message, "validate")
    ]


def test_a_jump_stays_in_its_pipeline() -> None:
    body = task("kind: noop\nname: a\nspec: {policy: {rules: [{else: {then: {do: jump, to: b}}}]}}")
    assert problem_places(problems(body)) == [("unknown-task", 9, 60)]


def test_a_root_name_that_no_scope_has_is_a_problem_d14() -> None:
    found = problems("workload: {api_url: x}\n" + noop("{{ api_url }}"))
    assert [(each.code, each.fix, each.at.column) for each in found] == [("unknown-name", "workload.api_url", 25)]
    assert codes(noop("{{ wrkload.x }}")) == ["unknown-name"]
    assert codes(noop("{{ nothing_like_it }}")) == ["unknown-name"]


@pytest.mark.parametrize("old", ["outcome.status", "args.x", "vars.x", "result.data"])
def test_names_of_older_dialects_are_named_as_such_d1(old: str) -> None:
    assert codes(noop("{{ " + old + " }}")) == ["old-dialect"]


PLACES = {
    "admission": "workflow:\n- step: start\n  spec: {policy: {admit: {rules: [{when: '%s', then: {allow: true}}]}}}\n  tool: {kind: noop}\n",
    "step input": "workflow:\n- step: start\n  input: {x: '%s'}\n  tool: {kind: noop}\n",
    "loop": "workflow:\n- step: start\n  loop: {in: '%s', iterator: i}\n  tool: {kind: noop}\n",
    "task": "workflow:\n- step: start\n  loop: {in: [1], iterator: i}\n  tool: [{kind: noop}, {kind: noop, input: {x: '%s'}}]\n",
    "task set": "workflow:\n- step: start\n  loop: {in: [1], iterator: i}\n  tool: {kind: noop, set: {iter.x: '%s'}}\n",
    "skip": "workflow:\n- step: start\n  loop: {in: [1], iterator: i}\n  tool: {kind: noop, spec: {policy: {rules: [{when: '%s', then: {do: skip}}]}}}\n",
    "step set": "workflow:\n- step: start\n  tool: {kind: noop}\n  set: {step.x: '%s'}\n",
    "arc": "workflow:\n- step: start\n  tool: {kind: noop}\n  next: {arcs: [{step: end, when: '%s'}]}\n",
}
READS = {
    "execution_id": "execution_id",
    "ctx": "ctx.x | default(0)",
    "step": "step.x | default(0)",
    "iter": "iter.index",
    "input": "input.x | default(0)",
    "output": "output.data",
    "event": "event.name",
    "keychain": "keychain.k",
    "_prev": "_prev",
    "_attempt": "_attempt",
}
TABLE = {
    #              exec ctx step iter input output event keychain _prev _attempt
    "admission": "  y    y   n    n    y     n      y     s        n     n",
    "step input": " y    y   n    n    n     n      n     s        n     n",
    "loop": "       y    y   n    n    y     n      n     s        n     n",
    "task": "       y    y   y    y    y     y      n     y        y     y",
    "task set": "   y    y   y    y    y     y      n     s        y     y",
    "skip": "       y    y   y    y    y     o      n     s        y     y",
    "step set": "   y    y   y    n    y     y      y     s        n     n",
    "arc": "        y    y   y    n    y     y      y     s        n     n",
}
ANSWERS = {"y": [], "n": ["not-in-scope"], "s": ["secret-in-log"], "o": ["output-in-skip"]}


@pytest.mark.parametrize("place", PLACES)
def test_each_place_sees_its_scopes_d18_d20_d26(place: str) -> None:
    keychain = "keychain: [{name: k, kind: env}]\n"
    for scope, answer in zip(READS, TABLE[place].split(), strict=True):
        body = keychain + PLACES[place] % ("{{ " + READS[scope] + " }}")
        assert (scope, [each.code for each in problems(body)]) == (scope, ANSWERS[answer])


def test_event_is_readable_in_the_input_of_a_join_d40() -> None:
    join = PLACES["step input"].replace("  tool", "  spec: {policy: {admit: {join: all}}}\n  tool")
    assert codes(join % "{{ event.tokens }}") == []


FIRST = """\
    workflow:
    - step: start
      tool:
      - {name: a, kind: noop, input: {x: "%s"}%s}
      - {name: b, kind: noop, input: {x: "{{ output.data }}"}%s}
    """
AGAIN = ", spec: {policy: {on_unmatched: fail, rules: [{when: '{{ output.status == ''error'' }}', then: {do: %s}}]}}"


def test_the_first_task_of_a_step_has_no_output_before_it_d18() -> None:
    (found,) = problems(FIRST % ("{{ output.data.rows }}", "", ""))
    assert (problem_places([found]), found.fix) == (
        [("no-output-yet", 7, 42)],
        'set: {ctx.x: "{{ output.data.rows }}"}',
    )
    assert codes(FIRST % ("{{ output }}", "", "")) == ["no-output-yet"]
    assert codes(FIRST % ("{{ output.data.rows | default(0) }}", "", "")) == []


@pytest.mark.parametrize(
    "again",
    [(AGAIN % "retry, attempts: 2, delay: 1", ""), ("", AGAIN % "jump, to: a")],
    ids=["a retry", "a jump"],
)
def test_a_retry_or_a_jump_brings_the_first_task_an_output(again: tuple[str, str]) -> None:
    assert codes(FIRST % ("{{ output.data.rows }}", *again)) == []


def test_earlier_tasks_are_read_by_name_inside_the_pipeline_d18() -> None:
    body = """\
        workflow:
        - step: start
          tool:
          - {name: a, kind: noop, set: {step.x: "{{ b.data | default(1) }}"}}
          - {name: b, kind: noop, set: {step.x: "{{ a.data }}", step.y: "{{ b.data }}"}}
          set: {step.z: "{{ a.data }}"}
        """
    assert problem_places(problems(body)) == [("task-not-run", 7, 45), ("not-in-scope", 9, 21)]


def test_a_task_after_a_jump_back_may_have_run_before() -> None:
    body = """\
        workflow:
        - step: start
          tool:
          - {name: a, kind: noop, set: {step.x: "{{ b.data | default(1) }}"}}
          - {name: b, kind: noop, spec: {policy: {rules: [{when: "{{ step.x }}", then: {do: jump, to: a}}, {else: {then: {do: break}}}]}}}
        """
    assert problems(body) == []


def test_task_input_lies_over_the_steps_in_rules_and_set_d19() -> None:
    body = """\
        workflow:
        - step: start
          input: {a: 1}
          tool: {kind: noop, input: {b: "{{ input.a }}", c: "{{ input.b }}"}, set: {step.x: "{{ input.a + input.b }}"}}
        """
    assert problem_places(problems(body)) == [("unbound-input", 7, 57)]


def test_an_input_that_reads_keychain_is_not_in_input_afterwards_d20() -> None:
    body = """\
        keychain: [{name: k, kind: env}]
        workflow:
        - step: start
          tool: {kind: http, url: x, headers: {x: "{{ keychain.k }}"}, set: {step.x: "{{ input.headers }}"}}
        """
    assert problem_places(problems(body)) == [("secret-in-log", 7, 82)]


@pytest.mark.parametrize("call", ["playbook, path: p", "workbook, block: b"])
def test_a_secret_is_not_handed_to_a_child_or_a_block_d20(call: str) -> None:
    body = f"""\
        keychain: [{{name: k, kind: env}}]
        workflow:
        - step: start
          tool: {{kind: {call}, input: {{x: "{{{{ keychain.k }}}}"}}}}
        workbook: {{b: {{tool: {{kind: noop}}}}}}
        """
    assert [each.code for each in problems(body, "unused-block")] == ["secret-in-log"]


def test_a_secret_is_no_part_of_a_ref_d98() -> None:
    body = """\
        keychain: [{name: pg, kind: postgres_credential}, {name: k, kind: env}]
        workflow:
        - step: start
          tool:
            kind: postgres
            auth: pg
            command: "INSERT INTO t VALUES ({{ keychain.k }})"
            stored: {table: t, where: {token: "{{ keychain.k }}"}}
        """
    assert [(each.code, each.at.line) for each in problems(body)] == [("secret-in-log", 11)]


def test_credentials_are_declared_d57() -> None:
    body = """\
        keychain: [{name: pg_main, kind: postgres_credential}]
        workflow:
        - step: start
          tool:
          - {kind: postgres, auth: pg_man, query: "select 1"}
          - {kind: http, url: "{{ keychain.api }}"}
          - {kind: secrets, input: {name: nobody}}
        """
    found = problems(body)
    assert problem_places(found) == [
        ("unknown-credential", 8, 28),
        ("unknown-credential", 9, 27),
        ("unknown-credential", 10, 35),
    ]
    assert found[0].fix == "pg_main"


def test_what_workload_does_not_declare_is_a_warning() -> None:
    found = problems(
        "workload: {a: {b: 1}, api_url: x}\n" + noop("{{ [workload.api_ur, workload.a.c, workload.x | default(1)] }}")
    )
    assert [(each.code, each.severity, each.fix) for each in found] == [
        ("undeclared-workload", "warning", "workload.api_url"),
        ("undeclared-workload", "warning", None),
    ]


def test_what_nothing_sets_is_a_warning() -> None:
    body = """\
        workflow:
        - step: start
          loop: {in: [1], iterator: city}
          tool:
            kind: noop
            set: {ctx.a.b: 1, step.s: 1, iter.i: 1}
            input: {ok: "{{ [ctx.a, ctx.a.b.c, step.s, iter.i, iter.city, iter.index, ctx.z is defined] }}", no: "{{ [ctx.x, step.t, iter.cty] }}"}
        """
    assert [(each.code, each.fix) for each in problems(body)] == [
        ("unset-ctx", None),
        ("unset-step", None),
        ("unset-iter", "iter.city"),
    ]


def test_iter_parent_needs_an_outer_loop_d45_d85() -> None:
    nested = """\
        workload: {cities: []}
        workflow:
        - step: start
          loop:
          - {in: "{{ workload.cities }}", iterator: city}
          - {in: "{{ iter.city.hotels }}", iterator: hotel}
          tool: {kind: noop, input: {x: "{{ iter.parent.city }}", y: "{{ iter.hotel }}"}}
        """
    assert problems(nested) == []
    assert codes(PLACES["task"] % "{{ iter.parent.x }}") == ["not-in-scope"]
    assert codes(PLACES["loop"] % "{{ iter.i }}") == ["not-in-scope"]


def test_a_block_sees_the_iter_of_whoever_calls_it_d59_d85() -> None:
    body = """\
        workflow:
        - step: start
          loop: {in: [1], iterator: city}
          tool: {kind: workbook, block: hotels, input: {n: 1}}
        workbook:
          hotels:
            loop: {in: "{{ iter.city.hotels }}", iterator: hotel}
            tool: {kind: noop, input: {x: "{{ iter.parent.city }}", y: "{{ input.n }}"}}
        """
    assert problems(body) == []


def test_iter_is_written_inside_an_iteration_only_d28() -> None:
    body = """\
        workflow:
        - step: start
          tool: {kind: noop, set: {iter.x: 1}}
          set: {iter.y: 1}
          next: {arcs: [{step: end, set: {iter.z: 1}}]}
        """
    assert problem_places(problems(body)) == [
        ("not-in-scope", 6, 28),
        ("iter-after-loop", 7, 9),
        ("iter-after-loop", 8, 35),
    ]


def test_the_parts_of_output_and_event_are_known_d21_d40() -> None:
    body = """\
        workflow:
        - step: start
          tool: {kind: http, url: x, set: {step.x: "{{ [output.http.status, output.dat, output.pg, output.error.knd] }}"}}
          next: {arcs: [{step: end, when: "{{ event.nam == 'step.done' }}"}]}
        """
    assert [(each.code, each.fix) for each in problems(body)] == [
        ("unknown-field", "output.data"),
        ("unknown-field", None),
        ("unknown-field", "output.error.kind"),
        ("unknown-field", "event.name"),
    ]


def test_blocks_exist_are_called_and_never_call_themselves() -> None:
    body = """\
        workflow:
        - step: start
          tool: {kind: workbook, block: hotles}
        workbook:
          hotels: {tool: {kind: workbook, block: rooms}}
          rooms: {tool: {kind: workbook, block: hotels}}
          alone: {tool: {kind: noop}}
        """
    assert problem_places(problems(body)) == [
        ("unknown-block", 6, 33),
        ("block-cycle", 8, 3),
        ("unused-block", 10, 3),
    ]


def test_now_is_refused_in_admission_d17() -> None:
    assert codes(PLACES["admission"] % "{{ now() }}") == ["impure"]
    assert codes(PLACES["admission"] % "{{ today() }}") == ["impure"]
    assert codes(PLACES["task"] % "{{ now() }}") == []


@pytest.mark.parametrize(
    ("target", "value", "told_code"),
    [
        ("ctx.rows_ref", "{{ output.ref }}", None),
        ("ctx.rows_ref", "{{ input.rows_ref }}", None),
        ("ctx.rows_ref", "{{ workload.rows }}", None),
        ("ctx.rows", "{{ output.data }}", None),
        ("ctx.rows", "{{ output.ref }}", "ref-unexpected"),
        ("ctx.rows", "{{ input.rows_ref }}", "ref-unexpected"),
        ("ctx.rows_ref", "{{ output.data }}", "ref-expected"),
        ("ctx.rows_ref", "{{ output.status }}", "ref-expected"),
        ("ctx.rows_ref", "x{{ output.ref }}", "ref-expected"),
        ("ctx.rows_ref", "constant", "ref-expected"),
        ("ctx.id", "{{ input.rows_ref.id }}", "ref-read-through"),
        ("ctx.id", "{{ output.ref.rows }}", "ref-read-through"),
        ("ctx.size", "{{ input.rows_ref.meta.bytes }}", None),
        ("ctx.rows", "{{ workload.rows_ref }}", "ref-unexpected"),
        ("ctx.id", "{{ workload.rows_ref.id }}", "ref-read-through"),
        # Names inside data are not names of the author (D99).
        ("ctx.next", "{{ output.data.next_ref }}", None),
        ("ctx.id", "{{ output.data.next_ref.id }}", None),
        ("ctx.rows_ref", "{{ output.data.next_ref }}", None),
    ],
)
def test_references_go_by_names_that_end_in_ref_d54(target: str, value: str, told_code: str | None) -> None:
    body = f"workload: {{rows: 1, rows_ref: null}}\nworkflow:\n- step: start\n  input: {{rows_ref: null}}\n  tool: {{kind: noop}}\n  set: {{{target}: '{value}'}}\n"
    assert codes(body) == ([told_code] if told_code else [])


def test_the_ref_field_of_a_tool_takes_a_reference_d54() -> None:
    body = "workflow:\n- step: start\n  input: {r_ref: null}\n  tool: {kind: resolve, ref: '{{ input.r_ref }}'}\n"
    assert problems(body) == []
    assert codes(body.replace("resolve, ref", "noop, input: {x").replace("'}", "'}}")) == ["ref-unexpected"]


def test_guards_are_templates_or_booleans_d15() -> None:
    arc = "workflow:\n- step: start\n  next: {arcs: [{step: end, when: %s}]}\n"
    assert problem_places(problems(arc % "ctx.x")) == [("not-a-guard", 6, 35)]
    assert codes(arc % "true") == []
    assert codes(arc % "'{{ true }}'") == []
    assert codes(arc % "false") == ["constant-guard"]
    assert codes(arc % "'{{ 1 == 2 }}'") == ["constant-guard"]


def test_a_guard_that_is_text_around_a_template_is_an_error_with_the_fix_d118() -> None:
    places = {
        "arc": ("workflow:\n- step: start\n  next: {arcs: [{step: end, when: '%s'}]}\n", 6, 35),
        "rule": (task("kind: noop\nspec: {policy: {rules: [{when: '%s', then: {do: fail}}, {else: {then: {do: continue}}}]}}"), 8, 38),
        "admission": (PLACES["admission"], 6, 42),
    }  # fmt: skip
    for body, line, column in places.values():
        (found,) = problems("workload: {a: 1}\n" + body % "{{ workload.a }} == b")
        assert (found.code, found.severity, found.at.line, found.at.column) == (
            "not-a-guard",
            "error",
            line + 1,
            column,
        )
        assert found.fix == "\"{{ workload.a == 'b' }}\""
        assert (
            found.message == "\"when\" is text around a template, which is always true; write {{ workload.a == 'b' }}"
        )


def test_template_faults_have_positions_d13() -> None:
    found = problems(noop("{{ execution_id | lowr }} {{ execution_id | truncate('x', 2, 3, 4, 5, 6) }}"))
    assert problem_places(found) == [("unknown-filter", 8, 40), ("bad-arguments", 8, 66)]


TEXT = "{% if execution_id %}a{% endif %}"


@pytest.mark.parametrize(
    "fields",
    [
        f"kind: shell\nsh: '{TEXT}'",
        f"kind: shell\nargv: [a, '{TEXT}']",
        f"kind: http\nurl: x\nparams: {{a: '{TEXT}'}}\nheaders: {{b: '{TEXT}'}}",
        f"kind: http\nurl: x\nmethod: POST\njson: {{a: [{{b: '{TEXT}'}}]}}",
        f"kind: http\nurl: x\nmethod: '{TEXT}'\nform: {{a: '{TEXT}'}}",
        f"kind: noop\ninput: {{a: {{b: '{TEXT}'}}}}",
        f"kind: python\ncode: 'def main(a): return a'\ninput: {{a: '{TEXT}'}}",
        f"kind: sqlite\npath: x\nquery: 'SELECT 1'\nparams: ['{TEXT}']",
    ],
)
def test_statements_stand_in_every_text_that_a_tool_receives_d106(fields: str) -> None:
    assert codes(task(fields)) == []


@pytest.mark.parametrize(
    ("body", "line", "column"),
    [
        (f"workflow:\n- step: start\n  tool: {{kind: noop, set: {{ctx.a: '{TEXT}'}}}}\n", 6, 39),
        (f"workflow:\n- step: start\n  set: {{ctx.a: '{TEXT}'}}\n  tool: {{kind: noop}}\n", 6, 20),
        (f"workflow:\n- step: start\n  input: {{a: '{TEXT}'}}\n  tool: {{kind: noop}}\n", 6, 18),
        (
            f"workflow:\n- step: start\n  tool: {{kind: noop}}\n  next: {{arcs: [{{step: end, when: '{TEXT}'}}]}}\n",
            7,
            39,
        ),
        (f"workflow:\n- step: start\n  loop: {{in: '{TEXT}', iterator: n}}\n  tool: {{kind: noop}}\n", 6, 18),
        (task(f"kind: wait\nseconds: '{TEXT}'"), 8, 20),
    ],
)
def test_statements_are_a_problem_in_when_set_in_and_numbers_d106(body: str, line: int, column: int) -> None:
    assert problem_places(problems(body)) == [("not-allowed", line, column)]


def test_program_code_is_no_template() -> None:
    assert codes(task("kind: python\ncode: 'result = {1: 2}[1]  # {{ x }} {% x'")) == []


@pytest.mark.parametrize(
    ("guard", "fix"),
    [
        ("output.status == 'success'", "'ok'"),
        ("'success' == output.status", "'ok'"),
        ("output.status in ['success', 'failed']", "'ok'"),
        ("event.name == 'loop.done'", "'step.done'"),
        ("event.name == 'step.don'", "'step.done'"),
    ],
)
def test_a_comparison_that_never_holds_is_told_d21_d40(guard: str, fix: str | None) -> None:
    found = problems(PLACES["arc"].replace("'%s'", '"%s"') % ("{{ " + guard + " }}"))
    assert [(each.code, each.fix) for each in found] == [("never-equal", fix)]


@pytest.mark.parametrize(
    ("guard", "code", "fix"),
    [
        ("output.error.kind == 'time_out'", "never-equal", "'timeout'"),
        ("output.error.kind in ['timeout', 'playbok']", "never-equal", "'playbook'"),
        ("output.status == 200", "never-equal", "output.http.status"),
        ("output.status_code == 200", "unknown-field", "output.http.status"),
        ("output.http.status_code == 200", "unknown-field", "output.http.status"),
        ("output.rows == 1", "unknown-field", "output.data.rows"),
        ("output.sttus == 'ok'", "unknown-field", "output.status"),
        ("response.data.a", "unknown-name", "output.data.a"),
        ("secrets.token", "unknown-name", "keychain.token"),
        ("item.a", "unknown-name", "iter.word.a"),
        ("loop.index", "unknown-name", "iter.index"),
        ("env.TOKEN", "unknown-name", None),
    ],
)
def test_names_and_values_of_other_languages_have_a_fix(guard: str, code: str, fix: str | None) -> None:
    rule = f'{{when: "{{{{ {guard} }}}}", then: {{do: break}}}}, {{else: {{then: {{do: continue}}}}}}'
    body = (
        "workflow:\n- step: start\n  loop: {in: [a], iterator: word}\n"
        f"  tool: {{kind: http, url: x, spec: {{policy: {{rules: [{rule}]}}}}}}\n"
    )
    found = [each for each in problems(body) if each.code in ("never-equal", "unknown-field", "unknown-name")]
    assert [(each.code, each.fix) for each in found] == [(code, fix)]


@pytest.mark.parametrize("kind", ["http", "timeout", "rule", "noop", "quota-of-our-plugin"])
def test_kinds_of_errors_and_of_tools_are_no_problem(kind: str) -> None:
    found = problems(PLACES["arc"].replace("'%s'", '"%s"') % f"{{{{ output.error.kind == '{kind}' }}}}")
    assert [each.code for each in found if each.code == "never-equal"] == []


def test_a_looped_step_ends_by_loop_done_d40() -> None:
    body = "workflow:\n- step: start\n  loop: {in: [1], iterator: i}\n  tool: {kind: noop}\n  next: {arcs: [{step: end, when: \"{{ event.name == '%s' }}\"}]}\n"
    assert codes(body % "loop.done") == []
    assert codes(body % "step.failed") == []
    assert codes(body % "step.done") == ["never-equal"]
    assert codes(body.replace("== '%s'", "in ['step.done', 'loop.done']")) == []


def rules_of(kind: str, when: str) -> str:
    fields = {"http": "url: https://example.com", "python": "code: result = 1", "noop": ""}[kind]
    return task(
        f"""\
        kind: {kind}
        name: work
        {fields}
        spec:
          policy:
            rules:
              - when: "{{{{ {when} }}}}"
                then: {{do: fail}}
              - else: {{then: {{do: continue}}}}
        """
    )


@pytest.mark.parametrize(
    ("kind", "when", "column", "fix"),
    [
        ("http", "output.status == 'error' and output.http.staus == 429", 54, "output.http.status"),
        ("http", "output.http.header['x'] == '1'", 25, "output.http.headers"),
        ("python", "output.py.exception_typ == 'KeyError'", 25, "output.py.exception_type"),
        ("http", "work.http.staus == 429 or output.status == 'error'", 25, "work.http.status"),
        ("http", "work.dta == 1 or output.status == 'error'", 25, "work.data"),
    ],
)
def test_an_unknown_field_of_a_tool_has_a_position_and_a_suggestion_d95(
    kind: str, when: str, column: int, fix: str
) -> None:
    found = problems(rules_of(kind, when), "unseen-error")
    assert [(each.code, each.severity, each.fix) for each in found] == [("unknown-field", "error", fix)]
    assert (found[0].at.line, found[0].at.column) == (13, column)


def test_an_unknown_field_with_a_default_is_a_warning_d95() -> None:
    found = problems(rules_of("http", "output.status == 'error' and output.http.staus | default(200) == 429"))
    assert [(each.code, each.severity) for each in found] == [("unknown-field", "warning")]


@pytest.mark.parametrize(
    "when",
    [
        "output.http.status == 429 and output.error.retryable",
        "output.status == 'error' and output.http.headers['retry-after'] == '1'",
        "work.http.status == 429 and work.status == 'error'",
        "output.http is defined and output.status == 'error'",
        "output.status == 'error' and output.pg.code | default('') == '40001'",
    ],
)
def test_fields_that_a_tool_describes_are_no_problem_d95(when: str) -> None:
    assert problems(rules_of("http", when)) == []


def test_the_own_part_of_a_tool_that_describes_no_fields_is_not_checked_d95() -> None:
    described = kinds()["http"]
    text = HEAD + rules_of("http", "output.http.anything == 1 and output.status == 'error'")
    for kind, expected in ((described, ["unknown-field"]), (described._replace(output_fields=None), [])):
        assert [each.code for each in check(text, {**kinds(), "http": kind}, "t.yaml").errors] == expected


def test_a_step_set_reads_event_d102() -> None:
    body = 'workflow:\n- step: start\n  tool: {kind: noop}\n  set: {ctx.a: "{{ event.%s }}"}\n'
    assert codes(body % "error.message | default('')") == []
    assert problem_places(problems(body % "nme")) == [("unknown-field", 7, 20)]
    assert problem_places(problems(body % "name == 'loop.done'")) == [("never-equal", 7, 20)]
    assert (
        codes(
            "workbook:\n  b: {tool: {kind: noop}, set: {ctx.a: '{{ event.name }}'}}\n"
            + "workflow:\n- {step: start, tool: {kind: workbook, block: b}}\n"
        )
        == []
    )


COMPENSATED = """\
workflow:
- step: start
  input: {who: you}
  tool: {kind: http, url: x, set: {step.seen: "{{ output.data }}"}}
  %s
  compensate:
    tool: {kind: noop, input: {x: "{{ %s }}"}}
"""


@pytest.mark.parametrize(
    ("reads", "found"),
    [
        ("output.data.id", []),
        ("output.http.status", []),
        ("input.who", []),
        ("step.seen", []),
        ("ctx.nothing", ["unset-ctx"]),
        ("input.whom", ["unbound-input"]),
        ("step.unseen", ["unset-step"]),
        ("output.pg.code", ["unknown-field"]),
        ("iter.n", ["not-in-scope"]),
        ("event.error", ["not-in-scope"]),
        ("start_task.data", ["unknown-name"]),
    ],
)
def test_a_compensation_reads_what_its_run_has_received_and_returned_d116(reads: str, found: list[str]) -> None:
    assert codes(COMPENSATED % ("", reads)) == found
    looped = COMPENSATED % ("loop: {in: [1, 2], iterator: n}", reads)
    assert codes(looped) == found, "also of a loop: there is one compensation for the run"


def test_the_pipeline_of_a_compensation_is_checked_like_any_other_d116() -> None:
    step = "workflow:\n- step: start\n  tool: {kind: noop}\n  compensate:\n    tool:\n    - %s\n"
    jump = "{name: a, kind: noop, spec: {policy: {rules: [{else: {then: {do: jump, to: %s}}}]}}}"
    assert codes(step % (jump % "b")) == ["unknown-task"]
    assert codes(step % (jump % "a")) == ["endless-jump"]
    assert codes(step % "{kind: http, url: x, auth: nobody}") == ["unknown-credential"]
    assert codes(step % "{kind: workbook, block: undo}") == ["unknown-block"]
    assert codes(step % "{kind: teleport}") == ["unknown-kind"]


def test_a_block_has_another_name_than_the_compensations_of_steps_d116() -> None:
    body = "workflow:\n- step: start\n  tool: {kind: workbook, block: compensate}\n%sworkbook: {compensate: {tool: {kind: noop}}}\n"
    assert codes(body % "") == []
    assert codes(body % "  compensate: {tool: {kind: noop}}\n") == ["bad-name"]


def test_a_compensation_without_anything_to_undo_is_a_warning_d116() -> None:
    body = "workflow:\n- step: start\n  compensate: {tool: {kind: noop}}\n  next: {arcs: [{step: end}]}\n"
    assert codes(body) == ["no-effect"]


def test_a_document_has_no_versions_d103() -> None:
    call = "workload: {plan: {}}\nworkflow:\n- step: start\n  tool: {kind: playbook, %s}\n"
    assert codes(call % "document: '{{ workload.plan }}'") == []
    assert codes(call % "document: '{{ workload.plan }}', version: 2") == ["misplaced-key"]
    assert codes(call % "document: '{{ workload.plan }}', path: x") == ["misplaced-key"]
    assert codes(call % "input: {n: 1}") == ["missing-key"]


@pytest.mark.parametrize(
    ("body", "line", "column"),
    [
        (task("kind: noop\nset: {ctx.a: '{{ ctx.b | default(omit()) }}'}"), 8, 40),
        (task("kind: noop\ninput: {a: ['{{ ctx.b | default(omit()) }}']}"), 8, 39),
        (task("kind: noop\ninput: {a: 'x {{ ctx.b | default(omit()) }}'}"), 8, 40),
        (task("kind: sqlite\npath: x\nquery: 'SELECT {{ ctx.b | default(omit()) }}'"), 9, 41),
        ("workflow:\n- step: start\n  next: {arcs: [{step: end, when: '{{ omit() }}'}]}\n", 6, 39),
    ],
)
def test_omit_is_the_whole_value_of_a_key_d96(body: str, line: int, column: int) -> None:
    found = problems(body, "unset-ctx")
    assert problem_places([each for each in found if each.code == "not-allowed"]) == [("not-allowed", line, column)]


OTHER_STEP = """\
workflow:
- step: start
  tool: [{name: fetch, kind: http, url: x}, {kind: noop}]
  next: {arcs: [{step: second}]}
- step: second
  tool: {kind: noop, input: {x: "{{ %s }}"}}
"""


@pytest.mark.parametrize(
    ("reads", "owner", "fix"),
    [
        ("start.data.a", 'step "start"', 'set: {ctx.a: "{{ output.data.a }}"}'),
        ("start.a", 'step "start"', 'set: {ctx.a: "{{ output.data.a }}"}'),
        ("start", 'step "start"', 'set: {ctx.start: "{{ output.data }}"}'),
        ("start.data", 'step "start"', 'set: {ctx.start: "{{ output.data }}"}'),
        ("start.status", 'step "start"', 'set: {ctx.start: "{{ output.status }}"}'),
        ("steps.start.output.data.a.b", 'step "start"', 'set: {ctx.b: "{{ output.data.a.b }}"}'),
        ("steps['start'].result[0]", 'step "start"', 'set: {ctx.start: "{{ output.data[0] }}"}'),
        ("fetch.data.a", 'task "fetch" of step "start"', 'set: {ctx.a: "{{ output.data.a }}"}'),
    ],
)
def test_the_output_of_another_step_is_set_there_and_read_from_ctx(reads: str, owner: str, fix: str) -> None:
    (found,) = problems(OTHER_STEP % reads)
    assert (found.code, found.fix) == ("unknown-name", fix)
    assert found.message.startswith(f"no scope has the output of {owner} here: write {fix} there, and read ctx.")


def test_the_fix_for_a_reference_fetches_the_data() -> None:
    (found,) = problems(task('kind: http\nurl: x\nset: {ctx.rows: "{{ output.ref }}"}'))
    assert (found.code, "kind resolve" in found.message) == ("ref-unexpected", True)
    assert found.fix == 'ctx.rows_ref: "{{ output.ref }}"\n…\n- {kind: resolve, ref: "{{ ctx.rows_ref }}"}'
    body = 'workflow:\n- step: start\n  tool:\n  - {kind: http, url: x}\n  - {kind: noop, input: {rows: "{{ output.ref }}"}}\n'
    (found,) = problems(body)
    assert found.fix == '- {name: fetched, kind: resolve, ref: "{{ output.ref }}"}\n…\nrows: "{{ fetched.data }}"'


@pytest.mark.parametrize(("kind", "fields"), [("object", "get: a.json"), ("nats", "kv: get, bucket: b, key: k")])
def test_a_reason_is_not_the_kind_of_an_error(kind: str, fields: str) -> None:
    body = f"""
        workflow:
        - step: start
          tool:
            kind: {kind}
            input: {{{fields}}}
            spec: {{policy: {{rules: [{{when: "{{{{ output.error.kind == 'not-found' }}}}", then: {{do: continue}}}}]}}}}
    """
    found = [each for each in problems(body) if each.code == "never-equal"]
    assert [(each.message, each.fix) for each in found] == [
        (
            f'no error has the kind "not-found": the kind is {kind}, and the reason is output.{kind}.code',
            f"output.{kind}.code",
        )
    ]
