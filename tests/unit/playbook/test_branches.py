"""`choose`, `while` and `until` are read into tasks, rules and jumps (003 §14). Positions are those of the text."""

from __future__ import annotations

import pytest

from noetl.playbook.model import Rule, Task
from noetl.playbook.reader import read
from noetl.playbook.write import document, write
from tests.playbooks import checked, kinds, problem_places, reading, task

PIPELINE = """
    workflow:
    - step: start
      tool:
      - name: pages
        while:
          when: "{{ step.more | default(true) }}"
          tool:
          - {name: fetch, kind: http, url: x, set: {step.more: "{{ output.data.more }}"}}
          - choose:
            - when: "{{ output.data.kind == 'a' }}"
              then: {name: one, kind: http, url: one}
            - else:
                then:
                - kind: noop
                - {name: two, kind: noop, spec: {policy: {rules: [{when: "{{ ctx.x | default(1) }}", then: {do: skip}}]}}}
      - desc: Look again
        until:
          tool: {kind: http, url: y}
          when: "{{ output.data.ready }}"
    """


def tasks(body: str) -> tuple[Task, ...]:
    found = reading(body)
    assert found.playbook is not None
    return found.playbook.steps[0].tasks


def jumps(each: Task) -> list[str]:
    return [_word(rule) for rule in each.policy.rules] if each.policy else []


def _word(rule: Rule) -> str:
    return f"{'else ' if rule.when is None else ''}{rule.do}{'' if rule.to is None else f' {rule.to}'}"


def test_each_becomes_one_noop_and_its_tasks_stay_as_they_are() -> None:
    made = tasks(PIPELINE)
    assert [(each.name, each.kind, each.form, each.after) for each in made] == [
        ("pages", "noop", "while", None),
        ("fetch", "http", "task", None),
        ("pages_choose_1", "noop", "choose", None),
        ("one", "http", "task", "pages"),
        ("pages_choose_1_else_task_0", "noop", "task", None),
        ("two", "noop", "task", None),
        ("two_end", "noop", "jump", None),
        ("until_1_task", "http", "task", None),
        ("until_1", "noop", "until", None),
    ]
    rules = {each.name: jumps(each) for each in made if each.form != "task"}
    assert rules == {
        "pages": ["jump fetch", "else jump until_1_task"],
        "pages_choose_1": ["jump one", "else jump pages_choose_1_else_task_0"],
        "two_end": ["else jump pages"],
        "until_1": ["break", "else jump until_1_task"],
    }
    assert made[-1].desc == "Look again"


def test_the_written_playbook_has_only_tasks_and_reads_the_same() -> None:
    playbook = reading(PIPELINE).playbook
    assert playbook is not None
    again = read(write(playbook), kinds()).playbook
    assert again is not None
    assert document(again) == document(playbook)
    assert {each.form for each in again.steps[0].tasks} == {"task"}
    one = again.steps[0].tasks[3]
    assert one.policy is not None
    assert (one.policy.on_unmatched, jumps(one)) == ("fail", ["jump pages"])


def test_the_pipeline_has_no_problems() -> None:
    assert checked(PIPELINE).problems == ()


@pytest.mark.parametrize(
    ("body", "problem", "message"),
    [
        ("choose: []", ("missing-key", 7, 7), '"choose" has no branches'),
        ("choose: {when: true}", ("wrong-type", 7, 7), '"choose" is a mapping; expected a list'),
        ("choose:\n- then: {kind: noop}", ("missing-key", 8, 9), 'a branch needs "when" or "else"'),
        ("choose:\n- when: true", ("missing-then", 8, 9), 'the branch has no action; add "then"'),
        ("choose:\n- when: true\n  then: []", ("missing-key", 9, 9), 'there are no tasks under "then"'),
        ("choose:\n- else: {then: []}", ("missing-key", 8, 16), 'there are no tasks under "then"'),
        ("choose:\n- else:", ("missing-then", 8, 9), '"else" is empty'),
        (
            "choose:\n- else: {then: {kind: noop}}\n- when: true\n  then: {kind: noop}",
            ("rule-order", 8, 9),
            '"else" must be the last branch',
        ),
        ("while:", ("missing-key", 7, 7), '"while" has no value'),
        ("until:\n  when: '{{ ctx.x | default(1) }}'", ("missing-key", 8, 9), 'there are no tasks under "tool"'),
        ("while: {when: false, tool: }", ("missing-key", 7, 28), 'there are no tasks under "tool"'),
        ("kind: noop\nwhile: {}", ("misplaced-key", 8, 7), '"while" is an item of its own in the list under "tool", without a kind'),
        ("while: {when: false, tool: {kind: noop}}\nset: {}", ("unknown-key", 8, 7), 'while has no key "set"; its keys are "name", "desc", "while"'),
        (
            "name: ctx\nchoose: [{else: {then: {kind: noop}}}]",
            ("bad-name", 7, 13),
            '"ctx" is a scope or function of templates; choose another task name',
        ),
        (
            "choose: [{else: {then: {kind: noop, name: choose_0}}}]",
            ("duplicate-task", 7, 49),
            'task "choose_0" is defined twice: one of them has no name of its own, and gets this one',
        ),
        ("choose: [{else: {then: {do: break, kind: noop}}}]", ("unknown-key", 7, 31), '"do" belongs in a rule: spec.policy.rules of a task'),
    ],
)  # fmt: skip
def test_a_bad_form_is_reported_where_it_stands(body: str, problem: tuple[str, int, int], message: str) -> None:
    errors = checked(task(body)).errors
    assert (problem_places(errors), [each.message for each in errors]) == ([problem], [message])


def test_while_needs_a_guard() -> None:
    (error,) = checked(task("while: {tool: {kind: noop}}")).errors
    assert (error.code, error.at.line, error.fix) == ("missing-key", 7, 'when: "{{ step.more }}"')


def test_they_are_not_keys_of_a_step() -> None:
    (error,) = checked("workflow:\n- step: start\n  until: {}\n  tool: {kind: noop}\n").errors
    assert (error.code, error.at.line, error.message) == (
        "misplaced-key", 6, '"until" belongs under "tool", where it replaces a task',
    )  # fmt: skip


def test_a_labelled_task_of_an_older_dialect_may_have_such_a_name() -> None:
    (error,) = checked(task("while: {kind: noop}")).errors
    assert error.code == "old-dialect"


@pytest.mark.parametrize(
    ("guard", "task_input", "problem"),
    [
        ("output.status == 'error'", "", ("fetch.status", 9)),
        ("output.http.status == 404", "", ("fetch.http", 9)),
        ("fetch.status == 'error' and fetch.http.status == 404 and output.data", "", None),
        ("output.data", "output.status", ("fetch.status", 10)),
        ("output.data", "output.data.id", None),
    ],
)
def test_only_the_data_of_the_task_before_is_passed_on(
    guard: str, task_input: str, problem: tuple[str, int] | None
) -> None:
    body = """
        name: fetch
        kind: http
        url: x
        """
    choose = (
        f'    - choose:\n      - when: "{{{{ {guard} }}}}"\n'
        f'        then: {{name: use, kind: noop, input: {{x: "{{{{ {task_input or 1} }}}}"}}}}\n'
    )
    errors = checked(task(body) + choose).errors
    expected = [] if problem is None else [("not-in-scope", problem[0], problem[1] + 2)]
    assert [(each.code, each.fix, each.at.line) for each in errors] == expected


def test_arcs_cannot_read_other_parts_of_an_output_that_a_loop_passes_on() -> None:
    body = """
        workflow:
        - step: start
          tool:
          - until: {tool: {name: fetch, kind: http, url: x}, when: "{{ output.data }}"}
          next: {arcs: [{step: end, when: "{{ %s }}"}]}
        """
    assert [each.code for each in checked(body % "output.http.status == 200").errors] == ["not-in-scope"]
    assert checked(body % "output.data and output.status == 'ok'").errors == ()


def test_a_choose_at_the_beginning_has_no_output_to_read() -> None:
    found = checked(task('choose: [{when: "{{ output.data.x }}", then: {kind: noop}}]'))
    assert [each.code for each in found.problems] == ["no-output-yet"]
