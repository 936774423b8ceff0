"""`spec.result` from the playbook to the record: what stays beside the reference, how it is written, how long."""

from __future__ import annotations

import pytest

from noetl.engine import facts
from noetl.engine.moves import RunTask
from noetl.output import JSON, Output
from noetl.testing.memory_runtime import MemoryRuntime
from tests.unit.control.runtimes import memory_runtime, run_in

PLAYBOOK = """\
workflow:
- step: start
  tool: {{kind: http, url: x, spec: {{result: {result}}}}}
  next: {{arcs: [{{step: more, when: "{{{{ output.meta.select.next == 7 }}}}"}}]}}
- step: more
  tool: {{kind: noop, input: {{next: 7}}}}
"""
SELECT = "{select: {next: paging.next, none: paging.last}}"


def played(result: str, rows: int) -> tuple[Output | None, list[facts.Fact]]:
    async def answer(called: RunTask) -> Output:
        if called.task.kind == "noop":
            return Output(data=called.input)
        return Output(data={"rows": ["x" * 100] * rows, "paging": {"next": 7}})

    runtime = memory_runtime({"t": PLAYBOOK.format(result=result)}, answer)

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("t", id="e")
        await runtime.end("e")

    run_in(runtime, work)
    told = [each.fact for each in runtime.events]
    return runtime.control.executions["e"].state.end_output, told


@pytest.mark.parametrize("rows", [1, 5_000])
def test_selected_values_route_whatever_the_size_of_the_data(rows: int) -> None:
    output, told = played(SELECT, rows)
    assert output == Output(data={"next": 7})
    done = next(fact for fact in told if isinstance(fact, facts.TaskDone))
    assert done.output is not None
    assert done.output.meta["select"] == {"next": 7}
    assert (done.output.ref is None) == (rows == 1)


def test_what_is_selected_is_small() -> None:
    _, told = played("{select: {all: rows}}", 5_000)
    [failed] = [fact for fact in told if isinstance(fact, facts.StepFailed)]
    assert failed.error.kind == "payload-too-large"


def test_a_playbook_says_how_a_result_is_written_and_how_long_it_stays() -> None:
    _, told = played("{compression: gzip, ttl: 7d, inline_max_bytes: 100}", 50)
    done = next(fact for fact in told if isinstance(fact, facts.TaskDone))
    assert done.output is not None
    assert done.output.ref is not None
    meta: JSON = done.output.ref["meta"]
    assert (meta["encoding"], meta["ttl"], meta["bytes"] < meta["unpacked_bytes"]) == ("gzip", "7d", True)
