"""The compiled playbook: what the engine needs to know beforehand of templates, loops and limits."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from noetl.net.program import CompiledPipeline, Program, ProjectedValue
from noetl.template.values import path_text
from tests.playbooks import checked


def program(body: str) -> Program:
    found = checked(body)
    assert found.program is not None
    assert found.errors == ()
    return found.program._replace(digest="digest")


def step(rest: str, name: str = "start") -> CompiledPipeline:
    body = "workflow:\n- step: start\n" + indent(dedent(rest), "  ")
    return program(body).steps[name].pipeline


def test_a_task_is_kept_when_some_template_of_its_frame_reads_it_by_name_d18() -> None:
    tasks = step("""\
        tool:
        - {name: by_input, kind: http, url: x}
        - {name: by_rule, kind: http, url: x}
        - {name: by_set, kind: http, url: x}
        - {name: by_path, kind: http, url: x}
        - {name: by_nobody, kind: http, url: x}
        - {name: reads, kind: playbook, path: "{{ by_path.data }}", input: {n: "{{ by_input.data }}"},
           set: {ctx.n: "{{ by_set.status }}"},
           spec: {policy: {rules: [{when: "{{ by_rule.data }}", then: {do: break}}, {else: {then: {do: continue}}}]}}}
        """).tasks
    assert {task.name for task in tasks if task.kept} == {"by_input", "by_rule", "by_set", "by_path"}


def sources(picks: tuple[ProjectedValue, ...]) -> list[tuple[list[str], bool]]:
    """What is read by each value that is evaluated when the step has ended, and is only its truth asked for?"""
    return [(sorted(path_text(read.path) for read in each.value.reads), each.asks) for each in picks]


@pytest.mark.parametrize(
    ("rest", "picks"),
    [
        ("set: {ctx.n: '{{ output.data.a.b }}'}", [(["output.data.a.b"], False)]),
        ("set: {ctx.n: '{{ output }}'}", [(["output"], False)]),
        ("set: {ctx.n: '{{ output.status }}'}", []),
        ("next: {arcs: [{step: end, when: '{{ output.data.a }}'}]}", [(["output.data.a"], True)]),
        ("next: {arcs: [{step: end, set: {ctx.n: '{{ output.data.b }}'}}]}", [(["output.data.b"], False)]),
        ("next: {arcs: [{step: '{{ output.data.c }}', to: [end]}]}", [(["output.data.c"], False)]),
    ],
)
def test_what_set_and_arcs_read_of_the_data_is_known_d52(rest: str, picks: list[tuple[list[str], bool]]) -> None:
    assert sources(step(f"tool: {{kind: http, url: x}}\n{rest}\n").picks) == picks


def test_a_failure_picks_only_what_its_own_arcs_read_d52() -> None:
    pipeline = step("""\
        tool: {kind: http, url: x}
        set: {ctx.a: "{{ output.data.a }}"}
        next:
          arcs:
          - {step: end, when: "{{ output.data.b }}"}
          - {step: end, when: "{{ event.status == 'error' and output.data.c }}", set: {ctx.d: "{{ output.data.d }}"}}
        """)
    failed = [(["event.status", "output.data.c"], True), (["output.data.d"], False)]
    assert sources(pipeline.failure_picks) == failed
    assert sources(pipeline.picks) == [(["output.data.a"], False), (["output.data.b"], True), *failed]


@pytest.mark.parametrize(
    ("expression", "meta", "ref"),
    [
        ("output.meta.attempt", True, False),
        ("output.ref.type", False, True),
        ("output", True, True),
        ("first.meta.ts", True, False),
        ("first.ref.type", False, True),
        ("first", True, True),
        ("output.data.meta", False, False),
        ("ctx.meta", False, False),
    ],
)
def test_it_is_known_whether_meta_and_ref_are_read_d21_d51(expression: str, meta: bool, ref: bool) -> None:
    pipeline = step(f"""\
        tool:
        - {{name: first, kind: http, url: x}}
        - {{name: second, kind: noop, input: {{seen: "{{{{ {expression} }}}}"}}}}
        """)
    assert (pipeline.reads_meta, pipeline.reads_ref) == (meta, ref)


def test_arcs_and_step_set_read_meta_and_ref_too_d51() -> None:
    pipeline = step("tool: {kind: http, url: x}\nset: {ctx.rows_ref: '{{ output.ref }}'}\n")
    assert (pipeline.reads_meta, pipeline.reads_ref) == (False, True)


def test_ctx_is_weighed_only_where_it_could_get_too_large_d55() -> None:
    def writes(count: int) -> str:
        return ", ".join(f"ctx.n{n}: 1" for n in range(count))

    assert not step(f"tool: {{kind: noop, set: {{{writes(16)}, step.n: 1}}}}\n").weighs_ctx
    assert step(f"tool: {{kind: noop, set: {{{writes(17)}}}}}\n").weighs_ctx
    assert step(f"tool: {{kind: noop, set: {{{writes(16)}}}}}\nset: {{ctx.more: 1}}\n").weighs_ctx


def test_inputs_and_fields_that_read_the_keychain_are_known_d20() -> None:
    body = """\
        keychain: [{name: a, kind: env, variable: A}, {name: b, kind: basic, user: u, password: {env: B}}]
        workflow:
        - step: start
          tool:
            kind: http
            url: "x/{{ workload.n }}"
            headers: {one: "{{ keychain.a }}", two: "{{ keychain.b.password }}"}
            json: {n: 1}
          next: {arcs: [{step: read}]}
        - step: read
          tool: {kind: python, code: main, libs: ["{{ keychain.a }}"], input: {n: "{{ keychain.b }}", m: 1}}
        workload: {n: 1}
        """
    steps = program(dedent(body)).steps
    [sent], [read] = steps["start"].pipeline.tasks, steps["read"].pipeline.tasks
    assert [set(sent.secret_inputs), set(sent.secret_fields)] == [{"headers"}, set()]
    assert [set(read.secret_inputs), set(read.secret_fields)] == [{"n"}, {"libs"}]


def test_a_policy_of_skips_only_counts_as_none_d26() -> None:
    skip = "{when: true, then: {do: skip}}"
    tasks = step(f"""\
        tool:
        - {{name: a, kind: noop, spec: {{policy: {{rules: [{skip}]}}}}}}
        - {{name: b, kind: noop, spec: {{policy: {{rules: [{skip}, {{else: {{then: {{do: fail}}}}}}]}}}}}}
        - {{name: c, kind: noop}}
        """).tasks
    assert [task.has_policy for task in tasks] == [False, True, False]
    assert [rule.place for rule in (*tasks[1].skips, *tasks[1].rules)] == [0, "else"]


def test_the_budget_of_calls_is_that_of_the_step_or_of_the_playbook_d87() -> None:
    body = """\
        executor: {spec: {policy: {limits: {calls: 7}}}}
        workflow:
        - {step: start, tool: {kind: noop}, next: {arcs: [{step: other}]}}
        - {step: other, tool: {kind: noop}, spec: {policy: {limits: {calls: 3}}}}
        """
    steps = program(dedent(body)).steps
    assert [each.pipeline.calls_max for each in steps.values()] == [7, 3]
    assert step("tool: {kind: noop}\n").calls_max == 100_000


def test_a_list_of_loops_is_a_loop_around_a_block_with_the_next_d45() -> None:
    body = """\
        workflow:
        - step: start
          loop: [{in: [1], iterator: a}, {in: [2], iterator: b}, {in: [3], iterator: c}]
          tool: {kind: noop}
          set: {ctx.n: 1}
        """
    found = program(dedent(body))
    outer, middle, inner = (
        found.steps["start"].pipeline,
        found.blocks["start/body."],
        found.blocks["start/body"],
    )
    chain = [(each.loop.iterator if each.loop else None, len(each.set)) for each in (outer, middle, inner)]
    assert chain == [("a", 1), ("b", 0), ("c", 0)]
    called = [each.tasks[0].code.get("block") for each in (outer, middle, inner)]
    assert called == ["start/body.", "start/body", None]


def test_a_step_reaches_itself_only_by_a_way_back_d36() -> None:
    body = """\
        workflow:
        - {step: start, tool: {kind: noop}, next: {arcs: [{step: a}]}}
        - {step: a, tool: {kind: noop}, next: {arcs: [{step: b, when: "{{ ctx.n }}"}, {step: end}]}}
        - {step: b, tool: {kind: noop, set: {ctx.n: false}}, next: {arcs: [{step: a}]}}
        """
    found = program(dedent(body))
    reached = {name: {each for each, bit in found.bits.items() if mask & bit} for name, mask in found.reach.items()}
    assert reached == {"start": {"a", "b"}, "a": {"a", "b"}, "b": {"a", "b"}}
