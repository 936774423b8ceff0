"""The state of an execution has a limit: one that grows without end is ended, and its neighbours go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import pytest

from noetl.control.deps import ControlSettings
from noetl.control.executions import FACTS_PER_COMMIT
from noetl.engine.facts import FrameParked
from noetl.output import JSON, Failure
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
ARC = '{step: work, when: "{{ workload.n > 0 }}"}'
CHAIN = STORM.replace(f"[{ARC}, {ARC}]", '[{step: work, when: "{{ ctx.n < 90 }}"}]')
CHAIN = CHAIN.replace("  next: {spec", '  set: {ctx.n: "{{ (ctx.n | default(0)) + 1 }}"}\n  next: {spec')
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
    memory = memory_runtime({"chain": LIMITED + TEXT + CHAIN}, settings=SETTINGS)

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


NEVER_DUE = ControlSettings(snapshot_bytes=1 << 40, state_bytes=LIMIT)  # no snapshot for its own sake
ONE_THIRD = TEXT.replace("x" * 5_000, "x" * (LIMIT // 5))  # the log has the text twice


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await turn()


def _has_ended(memory: MemoryRuntime) -> bool:
    return any(not each.state.live for each in memory.control.executions.values())


def _is_waiting(memory: MemoryRuntime, id: str) -> bool:
    return any(isinstance(each.fact, FrameParked) for each in memory.log(id))


def _limits(memory: MemoryRuntime, ids: Iterable[str]) -> list[dict[str, JSON]]:
    """The limits that ended the executions which have ended."""
    return [_failure(memory, id).details or {} for id in ids if not memory.state(id).live]


def test_many_executions_without_a_due_snapshot_are_added_up() -> None:
    memory = memory_runtime({"small": TEXT + WAITS}, settings=NEVER_DUE)
    ids = [f"e-{number}" for number in range(60)]

    async def work(memory: MemoryRuntime) -> None:
        for id in ids:
            await memory.start("small", id=id)
        await _until(lambda: _has_ended(memory) and _used(memory) <= LIMIT)

    run_in(memory, work)
    ended = _limits(memory, ids)
    assert ended == [{"limit": "NOETL_STATE_BYTES"}] * len(ended)
    assert 0 < len(ended) < len(ids)


def test_a_measured_state_counts_with_its_size_and_not_with_that_of_its_log() -> None:
    """The log of a chain is larger than the limit; its state is not."""
    chain = CHAIN.replace("ctx.n < 90", "ctx.n < 60")
    memory = memory_runtime({"chain": TEXT + chain}, settings=NEVER_DUE)

    async def work(memory: MemoryRuntime) -> None:
        await memory.start("chain", id="e")
        await memory.end("e")

    run_in(memory, work)
    assert memory.state("e").status == "ok"
    assert _log_bytes(memory, "e") > LIMIT


def test_as_many_are_ended_as_necessary() -> None:
    memory = memory_runtime({"large": ONE_THIRD + WAITS}, settings=NEVER_DUE)
    ids = [f"e-{number}" for number in range(4)]

    async def work(memory: MemoryRuntime) -> None:
        for id in ids:
            await memory.start("large", id=id)
        await _until(lambda: _has_ended(memory) and _used(memory) <= LIMIT)

    run_in(memory, work)
    assert 1 < len(_limits(memory, ids)) < len(ids)


def test_executions_that_were_loaded_count() -> None:
    """As after a restart: a process that ended for lack of memory must not load the same states again and again."""
    memory = memory_runtime({"large": ONE_THIRD + WAITS}, settings=NEVER_DUE._replace(state_bytes=0))
    ids = [f"e-{number}" for number in range(4)]

    async def work(memory: MemoryRuntime) -> None:
        for id in ids:
            await memory.start("large", id=id)
        await _until(lambda: all(_is_waiting(memory, id) for id in ids))
        memory.control.executions.clear()
        memory.control.settings = NEVER_DUE
        for id in ids:
            await memory.control.load(id)
        await _until(lambda: _has_ended(memory))

    run_in(memory, work)
    assert _limits(memory, ids)[0] == {"limit": "NOETL_STATE_BYTES"}


def _used(memory: MemoryRuntime) -> int:
    return sum(each.state_bytes for each in memory.control.executions.values() if each.state.live)


def test_an_execution_that_waits_is_ended_at_once() -> None:
    memory = memory_runtime({"waits": LIMITED.replace(str(LIMIT), "3000") + TEXT + WAITS}, settings=SETTINGS)

    async def work(memory: MemoryRuntime) -> None:
        await memory.start("waits", id="e")
        async with asyncio.timeout(10):
            while memory.state("e").live:
                await turn()

    run_in(memory, work)
    assert _failure(memory, "e").kind == "limit"
