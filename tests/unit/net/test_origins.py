"""Which paths hold a Ref by their origin, and which hold data (D99)."""

from __future__ import annotations

import pytest

from noetl.checks.checker import check
from noetl.net.program import Program
from tests.playbooks import HEAD, kinds

BODY = """\
workload: {table_ref: null, options: {file_ref: null}}
workbook:
  load:
    tool:
    - {name: inner, kind: noop, set: {step.a_ref: "{{ input.given_ref }}", step.b_ref: "{{ input.mixed_ref }}"}}
workflow:
- step: start
  input: {good_ref: "{{ workload.table_ref }}", bad_ref: "{{ workload.options.file_ref }}"}
  tool:
  - {name: first, kind: noop, set: {ctx.own_ref: "{{ output.ref }}"}}
  - {name: second, kind: noop, set: {ctx.page: "{{ output.data }}", ctx.nested.deep_ref: "{{ output.ref }}"}}
  - {name: third, kind: noop, set: {ctx.page.next_ref: "{{ output.ref }}"}}
  - name: call
    kind: workbook
    block: load
    input: {given_ref: "{{ ctx.own_ref }}", mixed_ref: "{{ ctx.own_ref }}"}
  - name: again
    kind: workbook
    block: load
    input: {given_ref: "{{ input.good_ref }}", mixed_ref: "{{ first.data.x_ref }}"}
  - name: last
    kind: noop
    input: {mine_ref: "{{ first.ref }}", other_ref: "{{ first.data }}"}
    set: {%s}
"""


def program(body: str) -> Program:
    checked = check(HEAD + body, kinds(), "t.yaml")
    assert checked.program is not None
    return checked.program


@pytest.mark.parametrize(
    ("value", "origin"),
    [
        ("{{ output.ref }}", True),
        ("{{ first.ref }}", True),
        ("{{ ctx.own_ref }}", True),
        ("{{ ctx.nested.deep_ref }}", True),
        ("{{ workload.table_ref }}", True),
        ("{{ input.good_ref }}", True),
        ("{{ input.mine_ref }}", True),
        ("{{ output.data }}", False),
        ("{{ output.data.own_ref }}", False),
        ("{{ first.data.ref }}", False),
        ("{{ _prev.own_ref }}", False),
        ("{{ ctx.page.next_ref }}", False),  # ctx.page is data
        ("{{ ctx.page.other_ref }}", False),
        ("{{ workload.options.file_ref }}", False),
        ("{{ input.bad_ref }}", False),
        ("{{ input.other_ref }}", False),
        ("{{ ctx.own_ref or output.data }}", False),
        ("{{ ctx.own_ref | default(output.data) }}", False),
        ("{{ ctx.missing.x_ref }}", False),
        ("{{ ctx.own_ref", False),
    ],
)
def test_a_path_is_an_origin_or_holds_data_d99(value: str, origin: bool) -> None:
    compiled = program(BODY % f"'ctx.target_ref': '{value}'")
    assert compiled.steps["start"].pipeline.tasks[-1].set[0].origin is origin


def test_an_input_of_a_block_is_an_origin_if_every_call_binds_one_d99() -> None:
    compiled = program(BODY % "ctx.x: 1")
    writes = compiled.blocks["load"].tasks[0].set
    assert [(write.target, write.origin) for write in writes] == [("step.a_ref", True), ("step.b_ref", False)]


def test_blocks_that_call_each_other_are_no_origin_d99() -> None:
    compiled = program(
        """\
workbook:
  a: {tool: {kind: workbook, block: b, input: {x_ref: "{{ input.x_ref }}"}}}
  b: {tool: [{name: t, kind: workbook, block: a, input: {x_ref: "{{ input.x_ref }}"}, set: {step.y_ref: "{{ input.x_ref }}"}}]}
workflow: [{step: start, tool: {kind: workbook, block: a, input: {x_ref: "{{ workload.x_ref }}"}}}]
"""
    )
    assert compiled.blocks["b"].tasks[0].set[0].origin is False


@pytest.mark.parametrize(
    ("value", "origin"),
    [
        ("{type: relational, locator: {table: t}}", True),
        ('{type: "{{ output.data.type }}", locator: {table: t}}', False),
        ("{type: relational}", False),
        ("null", False),
    ],
)
def test_a_mapping_that_the_author_wrote_is_a_ref_d99(value: str, origin: bool) -> None:
    compiled = program(f"workflow: [{{step: start, tool: {{kind: noop}}, set: {{ctx.a_ref: {value}}}}}]\n")
    assert compiled.steps["start"].pipeline.set[0].origin is origin


@pytest.mark.parametrize(
    ("items", "origin"), [("{{ workload.rows_ref }}", True), ("{{ workload.rows }}", False), ("{{ [1] }}", False)]
)
def test_the_items_of_a_loop_are_a_ref_by_their_origin_d99(items: str, origin: bool) -> None:
    body = f"workload: {{rows: 1, rows_ref: null}}\nworkflow: [{{step: start, loop: {{in: '{items}', iterator: i}}, tool: {{kind: noop}}}}]\n"
    loop = program(body).steps["start"].pipeline.loop
    assert loop is not None
    assert loop.origin is origin
