"""Everything about one task (D60)."""

from __future__ import annotations

import pytest

from noetl.net.program import Program
from noetl.views.explain import NoSuchTask, SpecRow, find_task, task_details
from tests.playbooks import checked, kinds


def program() -> Program:
    found = checked(
        """
        executor: {spec: {http: {timeout: {connect: 1}}, timeout: {read: 2}}}
        workflow:
        - step: start
          spec: {http: {redirects: 3}}
          loop: {in: [1], iterator: n, spec: {timeout: {total: 4}}}
          tool:
          - name: ask
            kind: http
            input: {url: "{{ workload.url }}", params: {n: "{{ iter.n }}"}}
            spec:
              verify: false
              policy: {rules: [{else: {then: {do: continue, set: {iter.got: "{{ output.data }}"}}}}]}
            set: {step.last: "{{ iter.n }}"}
          - {name: rest, kind: noop}
        - {step: alone, tool: {kind: noop}}
        - {step: idle}
        workbook:
          block: {tool: {kind: noop}}
        """
    ).program
    assert found is not None
    return found


def test_the_effective_spec_says_which_layer_each_value_comes_from() -> None:
    """D60, D63."""
    owner, task = find_task(program(), "start.ask")
    sheet = task_details(program(), kinds(), owner, task)
    assert sheet.spec == tuple(
        SpecRow(path=path, value=value, layer=layer)
        for path, value, layer in (
            ("redirects", "3", "step.spec.http"),
            ("timeout.connect", "1", "executor.spec.http"),
            ("timeout.read", "2", "executor.spec"),
            ("timeout.total", "4", "loop.spec"),
            ("verify", "false", "task.spec"),
        )
    )


def test_fields_reads_and_writes_of_the_task_are_listed() -> None:
    owner, task = find_task(program(), "start.ask")
    sheet = task_details(program(), kinds(), owner, task)
    assert (sheet.owner, sheet.fields, sheet.reads, sheet.writes) == (
        "start",
        (("url", "workload.url"), ("params.n", "iter.n")),
        ("iter.n", "output.data", "workload.url"),
        ("step.last", "iter.got"),
    )


@pytest.mark.parametrize(("name", "task"), [("alone", "alone_task"), ("block.block_task", "block_task")])
def test_the_only_task_needs_no_name_and_blocks_have_tasks_too(name: str, task: str) -> None:
    assert find_task(program(), name)[1].name == task


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("strat.ask", 'no step "strat"; there are block, start, alone, idle'),
        ("start", '"start" has several tasks; there are start.ask, start.rest'),
        ("start.sak", '"start" has no task "sak"; there are start.ask, start.rest'),
        ("idle.x", 'step "idle" has no tasks'),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_those_that_are(name: str, message: str) -> None:
    with pytest.raises(NoSuchTask) as caught:
        find_task(program(), name)
    assert str(caught.value) == message
