"""A playbook as a person would tell it."""

from __future__ import annotations

import pytest

from noetl.output import JSON
from noetl.playbook.model import Task
from noetl.views.explain import (
    ExplainedArc,
    ExplainedPart,
    ExplainedTask,
    Explanation,
    Input,
    explain,
    explain_task,
)
from tests.playbooks import checked, kinds


def explained(body: str) -> Explanation:
    program = checked(body).program
    assert program is not None
    return explain(program, kinds())


def test_a_playbook_is_explained_in_whole() -> None:
    told = explained(
        """
        keychain: [{name: api, kind: bearer, token: {env: T}}]
        workload: {url: "https://x", many: [1, 2]}
        workflow:
        - step: start
          desc: Ask
          tool:
            kind: http
            auth: api
            url: "{{ workload.url }}/{{ ctx.page }}"
            spec: {policy: {rules: [{else: {then: {do: continue, set: {ctx.page: 1}}}}]}}
          set: {ctx.got: "{{ output.data }}"}
          next:
            arcs:
            - {step: end, when: "{{ event.name == 'step.done' }}", set: {ctx.done: true}}
        """
    )
    task = ExplainedTask(
        name="start_task",
        kind="http",
        desc=None,
        essence="GET {{ workload.url }}/{{ ctx.page }}",
        auth="api",
        input=(),
        set=(),
        rules=("else continue; sets ctx.page",),
    )
    arc = ExplainedArc(
        to="end",
        when="event.name == 'step.done'",
        carries="success",
        back=False,
        dead=False,
        missing=False,
        set=("ctx.done",),
    )
    step = ExplainedPart(
        name="start",
        desc="Ask",
        entry=True,
        input=(),
        loops=(),
        policy=(),
        tasks=(task,),
        reads=("ctx.page", "workload.url"),
        writes=("ctx.done", "ctx.got", "ctx.page"),
        set=("ctx.got",),
        arcs=(arc,),
    )
    assert told == Explanation(
        name="t",
        path="t",
        version=None,
        desc=None,
        inputs=(
            Input(name="url", type="text", default='"https://x"'),
            Input(name="many", type="list", default="[1, 2]"),
        ),
        credentials=(("api", "bearer"),),
        steps=(step,),
        blocks=(),
    )


def test_steps_come_in_order_from_the_entry_and_the_unreached_ones_last() -> None:
    told = explained(
        """
        executor: {spec: {entry_step: first}}
        workflow:
        - {step: lost, tool: {kind: noop}}
        - {step: second, tool: {kind: noop}}
        - {step: first, next: {arcs: [{step: second}]}}
        """
    )
    assert [(each.name, each.entry, each.reached, each.ends) for each in told.steps] == [
        ("first", True, True, False),
        ("second", False, True, True),
        ("lost", False, False, True),
    ]


def test_arcs_say_where_they_lead_back_never_fire_or_lead_nowhere() -> None:
    told = explained(
        """
        workflow:
        - step: start
          next:
            arcs:
            - {step: start, when: "{{ ctx.again }}"}
            - {step: nowhere}
            - {step: end}
        """
    )
    assert [(arc.to, arc.back, arc.missing, arc.dead) for arc in told.steps[0].arcs] == [
        ("start", True, False, False),
        ("nowhere", False, True, False),
        ("end", False, False, True),
    ]


def test_dynamic_targets_are_told_with_what_limits_them() -> None:
    """D41."""
    told = explained(
        """
        workflow:
        - step: start
          next:
            arcs:
            - {step: "{{ ctx.a }}", to: [start, end], when: "{{ ctx.b }}"}
            - {step: "{{ ctx.c }}"}
        """
    )
    assert [arc.to for arc in told.steps[0].arcs] == ["ctx.a (one of start, end)", "ctx.c (any step)"]


def test_a_join_and_admission_are_told() -> None:
    """D35, D36."""
    told = explained(
        """
        workflow:
        - step: start
          spec: {policy: {admit: {join: all, rules: [{when: "{{ ctx.open }}", then: {allow: true}}]}}}
          tool: {kind: noop}
        """
    )
    assert (told.steps[0].join, told.steps[0].admission) == (
        "fires once, with all waiting tokens, when no other token can still reach it",
        ("admit when ctx.open", "else wait"),
    )


def test_a_block_is_told_like_a_step() -> None:
    """D59."""
    told = explained(
        """
        workflow:
        - {step: start, tool: {kind: workbook, block: b}}
        workbook:
          b:
            input: {x: 1}
            loop: {in: "{{ input.x }}", iterator: n}
            tool: {kind: noop}
        """
    )
    assert [(each.name, each.input, each.loops, each.ends) for each in told.blocks] == [
        ("b", (("x", "1"),), ("for each n in input.x, sequential",), False)
    ]
    assert told.steps[0].tasks[0].essence == "b"


@pytest.mark.parametrize(
    ("kind", "fields", "input", "essence"),
    [
        ("http", {}, {"url": "https://x", "method": "POST"}, "POST https://x"),
        ("postgres", {}, {"command": "\n  SELECT 1\n  FROM t\n"}, "SELECT 1 …"),
        ("duckdb", {}, {"query": "SELECT 1"}, "SELECT 1"),
        ("python", {"code": "result = 1"}, {"url": "not the essence"}, "result = 1"),
        ("shell", {}, {"argv": ["ls", "-l"]}, "ls -l"),
        ("playbook", {"path": "a/b"}, {}, "a/b"),
        ("secrets", {}, {"name": "api"}, "api"),
        ("noop", {}, {"url": "just data"}, None),
        ("unheard_of", {}, {"url": "https://x"}, "GET https://x"),
    ],
)
def test_the_essence_of_a_task_is_the_field_that_says_most(
    kind: str, fields: dict[str, JSON], input: dict[str, JSON], essence: str | None
) -> None:
    assert explain_task(Task(name="t", kind=kind, fields=fields, input=input, at=()), kinds()).essence == essence


def test_a_path_stands_for_everything_below_it() -> None:
    told = explained(
        """
        workload: {a: {b: 1}}
        workflow:
        - step: start
          tool: {kind: noop, input: {x: "{{ workload.a }}", y: "{{ workload.a.b }}", z: "{{ ctx.n }}"}}
        """
    )
    assert told.steps[0].reads == ("ctx.n", "workload.a")


def test_a_playbook_with_errors_is_explained_as_far_as_it_can_be_read() -> None:
    told = explained(
        """
        workflow:
        - step: start
          tool: {kind: http, urll: x}
          nxt: {}
        - 17
        """
    )
    assert [(each.name, [task.kind for task in each.tasks]) for each in told.steps] == [("start", ["http"])]


def test_control_characters_of_the_author_are_visible_in_an_explanation() -> None:
    told = explained(
        """
        workflow:
        - {step: start, desc: "\\e[31mred", tool: {kind: noop}}
        """
    )
    assert told.steps[0].desc == "␛[31mred"


def test_choose_and_loops_are_explained_as_they_were_written() -> None:
    told = explained(
        """
        workflow:
        - step: start
          tool:
          - name: pages
            while:
              when: "{{ step.more | default(true) }}"
              tool:
              - {name: fetch, kind: http, url: x, set: {step.more: "{{ output.data }}"}}
              - choose:
                - when: "{{ output.data }}"
                  then: {name: keep, kind: noop, spec: {policy: {rules: [{when: "{{ ctx.x }}", then: {do: skip}}]}}}
                - else: {then: {name: drop, kind: noop}}
          - until: {tool: {kind: noop, name: look, set: {ctx.x: 1}}, when: "{{ ctx.x }}"}
        """
    )

    def tree(tasks: tuple[ExplainedTask, ...]) -> list[JSON]:
        return [
            [each.name, each.kind, *({branch.when: tree(branch.tasks)} for branch in each.branches)] for each in tasks
        ]

    choose = [{"when output.data": [["keep", "noop"]]}, {"else": [["drop", "noop"]]}]
    pages = [["fetch", "http"], ["pages_choose_1", "choose", *choose]]
    assert tree(told.steps[0].tasks) == [
        ["pages", "while", {"while step.more | default(true)": pages}],
        ["until_1", "until", {"until ctx.x": [["look", "noop"]]}],
    ]
