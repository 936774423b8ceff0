"""What happened is counted from committed facts."""

from __future__ import annotations

from weakref import ref

from noetl.control.live_execution import LiveExecution
from noetl.engine.facts import StepDone
from noetl.engine.state import State
from noetl.telemetry.control_metrics import FACTS_MAX, FactMetrics
from noetl.telemetry.metrics import PLAYBOOKS_MAX, Metrics, make_registry
from tests.unit.engine.test_results import program_of
from tests.unit.telemetry.runtimes import ID, MeasuredRuntime, rendered, run_in, run_whole

TWO = """\
workflow:
- {step: start, tool: {kind: noop, input: {n: 1}}, next: {arcs: [{step: b}]}}
- {step: b, tool: {name: last, kind: noop, input: {n: 2}}}
"""
LOOP = """\
workflow:
- step: start
  loop: {in: "{{ [1, 2, 3] }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  spec: {policy: {failure: {mode: best_effort}}}
  tool: {kind: python, input: {n: "{{ iter.n }}"}, code: "def main(n): return 1 / (n - 2)"}
"""
TRIED = """\
workflow:
- step: start
  tool:
  - name: ask
    kind: python
    code: "def main(): raise ValueError('no')"
    spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, attempts: 3, delay: 0}}]}}
"""


def counts(timing: object) -> dict[object, int]:
    return {labels: sum(cell.counts) for labels, cell in getattr(timing, "cells").items()}  # noqa: B009


def test_an_execution_is_counted_with_its_steps_and_calls() -> None:
    runtime, log = run_whole(TWO)
    meters = runtime.metrics.facts
    assert dict(meters.started.values) == {"t": 1}
    assert dict(meters.ended.values) == {("t", "ok"): 1}
    assert counts(meters.execution_s) == {"ok": 1}
    assert counts(meters.step_s) == {"ok": 2, "error": 0}
    assert counts(meters.step_wait_s) == {(): 2}
    assert counts(meters.task_s) == {("noop", "ok"): 2}
    assert sum(meters.facts.values.values()) == len(log)
    assert meters.facts.values["step.scheduled"] == 2


def test_iterations_and_failures_are_counted_apart() -> None:
    runtime, _ = run_whole(LOOP)
    meters = runtime.metrics.facts
    assert dict(meters.iterations.values) == {"ok": 2, "error": 1}
    assert counts(meters.task_s) == {("python", "ok"): 2, ("python", "error"): 1}
    assert counts(meters.step_wait_s) == {(): 0}  # in a loop, the time when a frame became due is unknown


def test_retries_are_counted_by_the_kind_of_tool() -> None:
    runtime, _ = run_whole(TRIED)
    meters = runtime.metrics.facts
    assert dict(meters.retries.values) == {"python": 2}
    assert dict(meters.ended.values) == {("t", "error"): 1}
    assert counts(meters.step_s) == {"ok": 0, "error": 1}


def test_what_waits_in_the_queue_is_timed_from_pointer_to_begin() -> None:
    runtime, _ = run_whole(TWO)
    meters = runtime.metrics.queue
    assert dict(meters.put.values) == dict(meters.taken.values) == dict(meters.done.values) == {"default": 1}
    assert counts(meters.wait_s) == {"default": 1}
    assert dict(runtime.metrics.link.handed_on.values) == {(): 1}


def test_facts_that_wait_are_counted_when_they_are_many_or_when_somebody_reads() -> None:
    runtime, log = run_whole(TWO)
    seen, counts = runtime.fact_metrics, runtime.metrics.facts.facts.values
    live, before = runtime.control.executions[ID], counts["step.done"]
    few = [event for event in log if isinstance(event.fact, StepDone)]
    seen(live, few)
    assert counts["step.done"] == before
    rendered(make_registry(runtime.metrics))
    assert counts["step.done"] == before + 2
    seen(live, few * FACTS_MAX)
    assert counts["step.done"] == before + 2 + 2 * FACTS_MAX


def test_paths_beyond_the_limit_share_one_label() -> None:
    runtime = MeasuredRuntime(p=TWO)
    for number in range(PLAYBOOKS_MAX):
        runtime.metrics.playbook(f"known/{number}")
    run_in(runtime, lambda runtime: runtime.whole("p"))
    assert dict(runtime.metrics.facts.ended.values) == {("other", "ok"): 1}


def test_a_commit_without_facts_does_not_keep_its_execution_in_memory() -> None:
    live = LiveExecution("e", program_of(TWO), 1, State(execution_id="e"))
    metrics = FactMetrics(Metrics())
    alive = ref(live)
    metrics(live, [])
    del live
    assert alive() is None
