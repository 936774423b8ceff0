"""The state of an execution has a limit: one that grows without end is ended, and its neighbours go on."""

from __future__ import annotations

import asyncio

import pytest

from noetl.control.deps import ControlSettings
from noetl.control.executions import FACTS_PER_COMMIT
from noetl.engine.facts import FrameParked
from noetl.output import Failure
from noetl.ports import encode_facts
from noetl.slices import turn
from noetl.testing.memory_runtime import MemoryRuntime
from tests.unit.control.runtimes import memory_runtime, run_in

LIMIT = 200_000
LIMITED = f"executor: {{spec: {{policy: {{limits: {{state_bytes: {LIMIT}}}}}}}}}\n"
TEXT = f"workload: {{n: 1, text: {'x' * 5_000}}}\n"
# Each run of `work` starts two more. Its input is its own copy of the text.
STORM = """\
workflow:
- {step: start, next: {arcs: [{step: work}]}}
- step: work
  input: {text: "{{ workload.text ~ execution_id }}"}
  tool: {kind: http, url: "{{ input.text | length }}"}
  next: {spec: {mode: inclusive}, arcs: [{step: work, when: "{{ workload.n > 0 }}"}, {step: work, when: "{{ workload.n > 0 }}"}]}
"""
PURE_STORM = STORM.replace('  tool: {kind: http, url: "{{ input.text | length }}"}\n', "")  # only control works
WAITS = """\
workflow:
- step: start
  input: {text: "{{ workload.text ~ execution_id }}"}
  tool: {kind: wait, signal: go}
  set: {ctx.length: "{{ input.text | length }}"}
"""
SETTINGS = ControlSettings(snapshot_bytes=1_000)


def _failure(memory: MemoryRuntime, id: str) -> Failure:
    failure = memory.state(id).failure
    assert failure is not None
    return failure


def _log_bytes(memory: MemoryRuntime, id: str) -> int:
    return sum(len(encode_facts((each.fact,))) for each in memory.log(id))


@pytest.mark.parametrize("storm", [STORM, PURE_STORM], ids=["with calls", "of tokens only"])
def test_a_storm_of_tokens_ends_at_the_limit_of_its_state(storm: str) -> None:
    memory = memory_runtime({"storm": LIMITED + TEXT + storm, "neighbour": TEXT + WAITS}, settings=SETTINGS)

    async def work(memory: MemoryRuntime) -> None:
        await memory.start("neighbour", id="n")
        await memory.start("storm", id="e")
        await memory.end("e")
        await memory.signal("n", "go")
        await memory.end("n")

    run_in(memory, work)
    failure = _failure(memory, "e")
    assert (failure.kind, failure.details) == ("limit", {"limit": "limits.state_bytes"})
    assert f"the limit is limits.state_bytes ({LIMIT:,} bytes)" in failure.message
    assert _log_bytes(memory, "e") < LIMIT + FACTS_PER_COMMIT * 6_000  # one commit more
    assert memory.state("n").status == "ok"


def test_a_large_state_that_shrinks_again_is_no_excess() -> None:
    """A long chain writes more into its log than its state may have."""
    arc = '{step: work, when: "{{ workload.n > 0 }}"}'
    chain = STORM.replace(f"[{arc}, {arc}]", '[{step: work, when: "{{ ctx.n < 90 }}"}]')
    chain = chain.replace("  next: {spec", '  set: {ctx.n: "{{ (ctx.n | default(0)) + 1 }}"}\n  next: {spec')
    memory = memory_runtime({"chain": LIMITED + TEXT + chain}, settings=SETTINGS)

    async def work(memory: MemoryRuntime) -> None:
        await memory.start("chain", id="e")
        await memory.end("e")

    run_in(memory, work)
    assert memory.state("e").status == "ok"
    assert _log_bytes(memory, "e") > 2 * LIMIT


def test_the_largest_execution_ends_at_the_limit_of_the_process() -> None:
    large = TEXT.replace("x" * 5_000, "x" * 50_000)
    settings = SETTINGS._replace(state_bytes=LIMIT)
    memory = memory_runtime({"small": TEXT + WAITS, "large": large + WAITS}, settings=settings)

    async def work(memory: MemoryRuntime) -> None:
        await memory.start("large", id="large")
        for number in range(12):
            await memory.start("small", id=f"small-{number}")
        await memory.end("large")
        for number in range(12):
            while not any(isinstance(each.fact, FrameParked) for each in memory.log(f"small-{number}")):
                await turn()
            await memory.signal(f"small-{number}", "go")
            await memory.end(f"small-{number}")

    run_in(memory, work)
    failure = _failure(memory, "large")
    assert failure.details == {"limit": "NOETL_STATE_BYTES"}
    assert "this one has the most" in failure.message
    assert {memory.state(f"small-{number}").status for number in range(12)} == {"ok"}


def test_an_execution_that_waits_is_ended_at_once() -> None:
    memory = memory_runtime({"waits": LIMITED.replace(str(LIMIT), "3000") + TEXT + WAITS}, settings=SETTINGS)

    async def work(memory: MemoryRuntime) -> None:
        await memory.start("waits", id="e")
        async with asyncio.timeout(10):
            while memory.state("e").live:
                await turn()

    run_in(memory, work)
    assert _failure(memory, "e").kind == "limit"
