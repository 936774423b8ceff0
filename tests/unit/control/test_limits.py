"""Limits by key that executions share (D113), on a whole runtime in memory with virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from functools import wraps
from typing import ParamSpec

import pytest

from noetl.adapters.memory import MemoryStore
from noetl.adapters.memory_limits import MemoryLimits
from noetl.engine.commands import Cancel, Retry
from noetl.engine.facts import Cancelled, Finished, FrameParked, PermitGranted, StepScheduled, StepWaiting, TaskDone
from noetl.engine.moves import RunTask
from noetl.engine.state import State
from noetl.errors import Rejected, Unavailable
from noetl.output import JSON, Failure, Output, failed
from noetl.ports import KeyState, Limits, PermitAnswer, PermitEntry, PermitRequest, Rate
from noetl.testing.fake_clock import FakeClock
from noetl.testing.memory_runtime import MemoryRuntime, RuntimeParts, runtime
from tests.playbooks import HEAD

P = ParamSpec("P")


def in_loop(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """Run a test in an event loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


STEP = """
workload: {key: a}
workflow:
  - step: start
    spec: {policy: {limit: {key: "{{ workload.key }}", in_flight: 2}}}
    tool: {name: call, kind: work, input: {key: "{{ workload.key }}"}}
"""
EXECUTION = """
executor: {spec: {policy: {concurrency: {key: "{{ workload.key }}", limit: 1, when_full: WHEN}}}}
workload: {key: a}
workflow:
  - step: start
    tool: {name: call, kind: work, input: {key: "{{ workload.key }}"}}
"""


def _book(body: str) -> dict[str, str]:
    return {"t": HEAD + body}


class Counting:
    """A tool that takes a second, and counts its calls at once."""

    def __init__(self, clock: FakeClock, seconds: float = 1.0) -> None:
        self.clock = clock
        self.seconds = seconds
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.began: list[tuple[str, datetime]] = []

    async def __call__(self, task: RunTask) -> JSON:
        key = str(task.input["key"])
        self.now[key] += 1
        self.most[key] = max(self.most[key], self.now[key])
        self.began.append((key, self.clock.now()))
        await self.clock.sleep(self.seconds)
        self.now[key] -= 1
        return None


async def _until(memory: MemoryRuntime, ids: Sequence[str]) -> list[State]:
    for id in ids:
        await memory.end(id)
    return [memory.state(id) for id in ids]


class FragileLimits:
    """Limits whose store does not answer for a while, or whose answers are lost."""

    def __init__(self, inner: Limits) -> None:
        self.inner = inner
        self.calls: list[str] = []
        self.fails: set[str] = set()  # methods that have no effect
        self.loses: set[str] = set()  # methods whose answers are lost

    async def _do(self, name: str, *args: object, **options: object) -> object:
        self.calls.append(name)
        if name in self.fails:
            raise Unavailable("the store does not answer")
        answer = await getattr(self.inner, name)(*args, **options)
        if name in self.loses:
            raise Unavailable("the answer is lost")
        return answer

    async def acquire(self, request: PermitRequest, at: datetime, *, wait: bool = True) -> PermitAnswer:
        answer = await self._do("acquire", request, at, wait=wait)
        assert isinstance(answer, PermitAnswer)
        return answer

    async def release(self, holders: Sequence[str], at: datetime) -> list[str]:
        answer = await self._do("release", holders, at)
        assert isinstance(answer, list)
        return answer

    async def advance(self, key: str, at: datetime) -> PermitAnswer:
        answer = await self._do("advance", key, at)
        assert isinstance(answer, PermitAnswer)
        return answer

    async def block(self, key: str, until: datetime, rate: Rate | None = None) -> None:
        await self._do("block", key, until, rate)

    async def entries(self, keys: Sequence[str] | None = None) -> list[PermitEntry]:
        answer = await self._do("entries", keys)
        assert isinstance(answer, list)
        return answer

    async def keys(self) -> dict[str, KeyState]:
        answer = await self._do("keys")
        assert isinstance(answer, dict)
        return answer


@in_loop
async def test_runs_of_a_step_share_a_limit_across_executions() -> None:
    clock = FakeClock(auto_advance=True)
    tool, limits = Counting(clock), MemoryLimits()
    async with runtime(
        _book(STEP), tools={"work": tool}, clock=clock, slots=16, parts=RuntimeParts(limits=limits)
    ) as memory:
        ids = [await memory.start("t", {"key": key}) for _ in range(6) for key in "ab"]
        states = await _until(memory, ids)
    assert {state.status for state in states} == {"ok"}
    assert tool.most == {"a": 2, "b": 2}
    assert await limits.entries() == []


@in_loop
async def test_first_come_first_served() -> None:
    clock = FakeClock(auto_advance=True)
    tool = Counting(clock)
    body = STEP.replace("in_flight: 2", "in_flight: 1").replace(
        'limit: {key: "{{ workload.key }}"', "limit: {key: shop"
    )
    body = body.replace('input: {key: "{{ workload.key }}"}', 'input: {key: "{{ execution_id }}"}')
    async with runtime(_book(body), tools={"work": tool}, clock=clock, slots=16) as memory:
        ids = [await memory.start("t") for _ in range(8)]
        await _until(memory, ids)
    assert [id for id, _ in tool.began] == ids


@in_loop
async def test_executions_without_limits_ask_the_store_nothing() -> None:
    """Only the first sweep of a process looks for permits that another one has left."""
    clock = FakeClock(auto_advance=True)
    limits = FragileLimits(MemoryLimits())
    body = "workflow: [{step: start, tool: {kind: work, input: {key: a}}}]\n"
    async with runtime(
        _book(body), tools={"work": Counting(clock)}, clock=clock, parts=RuntimeParts(limits=limits)
    ) as memory:
        for _ in range(3):
            assert (await memory.run("t")).status == "ok"
            await memory.sweep()
    assert limits.calls == ["entries"]


@in_loop
async def test_permits_that_a_dead_server_left_are_released_although_nobody_waits() -> None:
    clock = FakeClock(auto_advance=True)
    limits, store = FragileLimits(MemoryLimits()), MemoryStore(clock, 1)
    parts = RuntimeParts(limits=limits, store=store)
    async with runtime(_book(STEP), tools={"work": Counting(clock)}, clock=clock, parts=parts) as memory:
        limits.fails = {"release"}
        await _until(memory, [await memory.start("t", {"key": f"k{number}"}) for number in range(40)])
    limits.fails = set()
    assert len(await limits.entries()) == 40
    await clock.sleep(11)
    async with runtime(_book(STEP), tools={"work": Counting(clock)}, clock=clock, parts=parts) as memory:
        for _ in range(4):
            await memory.sweep()
    assert await limits.entries() == []


@in_loop
async def test_a_rate_lets_a_burst_through_and_then_one_after_the_other() -> None:
    clock = FakeClock(auto_advance=True)
    tool = Counting(clock, seconds=0.5)
    body = STEP.replace("in_flight: 2", "rate: {count: 3, per_s: 60}")
    async with runtime(_book(body), tools={"work": tool}, clock=clock, slots=16) as memory:
        began = clock.now()
        await _until(memory, [await memory.start("t") for _ in range(6)])
    after = [round((at - began).total_seconds()) for _, at in tool.began]
    assert after == [0, 0, 0, 20, 40, 60]


TASK = """
workflow:
  - step: start
    loop: {in: "{{ range(12) }}", iterator: n, spec: {mode: parallel, max_in_flight: 12}}
    tool:
      name: call
      kind: work
      input: {key: "{{ iter.n % 2 }}"}
      spec: {policy: {limit: {key: "shop {{ iter.n % 2 }}", in_flight: 2}}}
"""


@in_loop
async def test_calls_of_a_task_share_a_limit_and_hold_no_worker_while_they_wait() -> None:
    clock = FakeClock(auto_advance=True)
    tool, limits = Counting(clock), MemoryLimits()
    async with runtime(
        _book(TASK), tools={"work": tool}, clock=clock, slots=4, parts=RuntimeParts(limits=limits)
    ) as memory:
        ids = [await memory.start("t") for _ in range(2)]
        states = await _until(memory, ids)
        parked = [each for each in memory.log(ids[0]) if isinstance(each.fact, FrameParked)]
    assert {state.status for state in states} == {"ok"}
    assert tool.most == {"0": 2, "1": 2}, "four slots are enough for two keys"
    assert len(parked) == 12
    assert await limits.entries() == []


RETRY_AFTER = """
workload: {first: true}
workflow:
  - step: start
    tool:
      name: call
      kind: work
      input: {first: "{{ workload.first }}"}
      spec:
        retry: {attempts: ATTEMPTS}
        policy:
          limit: {key: shop, rate: {count: 10, per_s: 1}, respect_retry_after: RESPECTS}
          rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, attempts: 2}}]
"""


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize("respects", [True, False])
@in_loop
async def test_retry_after_holds_up_everything_with_the_key(attempts: int, respects: bool) -> None:
    clock = FakeClock(auto_advance=True)
    calls: list[tuple[bool, datetime]] = []

    async def work(task: RunTask) -> Output:
        calls.append((bool(task.input["first"]), clock.now()))
        await clock.sleep(0.01)
        if len(calls) == 1:
            error = Failure(kind="http", message="429", retryable=True, details={"retry_after_s": 30.0})
            return Output(status="error", error=error)
        return Output()

    body = RETRY_AFTER.replace("ATTEMPTS", str(attempts)).replace("RESPECTS", str(respects).lower())
    async with runtime(_book(body), tools={"work": work}, clock=clock) as memory:
        first = await memory.start("t")
        while not calls:
            await clock.sleep(0.001)
        await clock.sleep(1)
        second = await memory.start("t", {"first": False})
        await _until(memory, [first, second])
    began = calls[0][1]
    after = [round((at - began).total_seconds()) for _, at in calls]
    assert after == ([0, 30, 30] if respects else [0, 0, 1])
    assert Counter(is_first for is_first, _ in calls) == {True: 2, False: 1}


@in_loop
async def test_executions_of_a_key_run_one_after_the_other() -> None:
    clock = FakeClock(auto_advance=True)
    tool = Counting(clock)
    body = EXECUTION.replace("WHEN", "queue")
    async with runtime(_book(body), tools={"work": tool}, clock=clock) as memory:
        ids = [await memory.start("t", {"key": key}) for key in ("a", "a", "b", "a")]
        states = await _until(memory, ids)
        waits = [
            [each.fact for each in memory.log(id) if isinstance(each.fact, StepWaiting | PermitGranted)] for id in ids
        ]
    assert {state.status for state in states} == {"ok"}
    assert tool.most == {"a": 1, "b": 1}
    waiting = [StepWaiting(token=">0", limit="1 execution", key="a"), PermitGranted()]
    assert waits == [[], waiting, [], waiting]


@in_loop
async def test_an_execution_is_refused_and_recorded_when_the_limit_is_reached() -> None:
    clock = FakeClock(auto_advance=True)
    limits = MemoryLimits()
    body = EXECUTION.replace("WHEN", "refuse")
    async with runtime(
        _book(body), tools={"work": Counting(clock)}, clock=clock, parts=RuntimeParts(limits=limits)
    ) as memory:
        first = await memory.start("t")
        other = await memory.start("t", {"key": "b"})
        for _ in range(2):  # the second time, it is in the log
            with pytest.raises(Rejected, match=f'with the key "a"; running: {first}') as refused:
                await memory.start("t", id="e")
            assert refused.value.code == "concurrency"
        state = memory.state("e")
        assert (state.status, state.failure and state.failure.kind) == ("error", "concurrency")
        await _until(memory, [first, other])
        assert (await memory.run("t")).status == "ok"
    assert await limits.entries() == []


@in_loop
async def test_a_new_execution_replaces_the_oldest_one() -> None:
    clock = FakeClock(auto_advance=True)
    tool = Counting(clock, seconds=100)
    body = EXECUTION.replace("WHEN", "replace").replace("limit: 1", "limit: 2")
    async with runtime(_book(body), tools={"work": tool}, clock=clock, slots=16) as memory:
        ids = [await memory.start("t") for _ in range(2)]
        while tool.now["a"] < 2:
            await clock.sleep(0.001)
        ids += [await memory.start("t") for _ in range(3)]
        sweeping = asyncio.ensure_future(_sweep(memory))
        states = await _until(memory, ids)
        sweeping.cancel()
        reasons = [each.fact.reason for id in ids for each in memory.log(id) if isinstance(each.fact, Cancelled)]
    assert [state.status for state in states] == ["cancelled", "cancelled", "cancelled", "ok", "ok"]
    assert reasons == [f"replaced by {id}" for id in ids[2:]]
    live = 0
    for each in memory.events:
        live += isinstance(each.fact, StepScheduled)
        live -= isinstance(each.fact, Finished) and bool(memory.state(each.execution_id).fired)
        assert live <= 2, "it begins when the one that it replaces has ended"


async def _sweep(memory: MemoryRuntime) -> None:
    while True:
        await memory.clock.sleep(2)
        await memory.sweep()


@in_loop
async def test_a_retry_waits_for_its_turn_again() -> None:
    clock = FakeClock(auto_advance=True)
    calls: list[str] = []

    async def work(task: RunTask) -> Output:
        calls.append(str(task.key))
        await clock.sleep(5)
        return failed("work", "it did not work") if len(calls) == 1 else Output()

    body = EXECUTION.replace("WHEN", "queue")
    async with runtime(_book(body), tools={"work": work}, clock=clock) as memory:
        result = await memory.run("t")
        assert result.status == "error"
        second = await memory.start("t")
        await memory.command(result.id, Retry())
        third = await memory.start("t")
        await _until(memory, [second, third])
        names = [type(each.fact) for each in memory.log(result.id)][-9:]
        order = [each.execution_id for each in memory.events if isinstance(each.fact, TaskDone)]
    assert names[:3] == [StepScheduled, StepWaiting, PermitGranted]
    assert order == [result.id, second, result.id, third]


@in_loop
async def test_a_refused_retry_changes_nothing() -> None:
    clock = FakeClock(auto_advance=True)
    limits, outputs = MemoryLimits(), [failed("work", "no"), Output()]

    async def work(_task: RunTask) -> Output:
        await clock.sleep(5)
        return outputs.pop(0)

    body = EXECUTION.replace("WHEN", "refuse")
    async with runtime(_book(body), tools={"work": work}, clock=clock, parts=RuntimeParts(limits=limits)) as memory:
        first = await memory.run("t")
        second = await memory.start("t")
        with pytest.raises(Rejected, match="at most 1 execution") as refused:
            await memory.command(first.id, Retry())
        assert refused.value.code == "concurrency"
        assert memory.state(first.id).status == "error"
        await memory.end(second)
        with pytest.raises(Rejected, match="nothing to retry"):
            await memory.command(second, Retry())
        await clock.sleep(0.001)
    assert await limits.entries() == []


@in_loop
async def test_a_cancelled_execution_gives_its_place_in_the_queue_away() -> None:
    clock = FakeClock(auto_advance=True)
    limits, tool = MemoryLimits(), Counting(clock, seconds=10)
    body = EXECUTION.replace("WHEN", "queue")
    async with runtime(_book(body), tools={"work": tool}, clock=clock, parts=RuntimeParts(limits=limits)) as memory:
        ids = [await memory.start("t") for _ in range(3)]
        await memory.command(ids[1], Cancel())
        await memory.sweep()
        states = await _until(memory, ids)
    assert [state.status for state in states] == ["ok", "cancelled", "ok"]
    assert await limits.entries() == []


@pytest.mark.parametrize("body", [STEP, TASK, EXECUTION.replace("WHEN", "queue")], ids=["step", "task", "execution"])
@pytest.mark.parametrize("lost", ["fails", "loses"])
@pytest.mark.parametrize("method", ["acquire", "release"])
@in_loop
async def test_the_sweeper_repeats_requests_and_releases_that_were_lost(body: str, lost: str, method: str) -> None:
    clock = FakeClock(auto_advance=True)
    limits, tool = FragileLimits(MemoryLimits()), Counting(clock)
    parts = RuntimeParts(limits=limits)
    async with runtime(_book(body), tools={"work": tool}, clock=clock, slots=16, parts=parts) as memory:
        ids = [await memory.start("t") for _ in range(3)]
        setattr(limits, lost, {method})
        await clock.sleep(3)
        setattr(limits, lost, set())
        sweeping = asyncio.ensure_future(_sweep(memory))
        states = await _until(memory, ids)
        last = await memory.run("t")
        sweeping.cancel()
    assert {state.status for state in states} == {last.status} == {"ok"}
    assert max(tool.most.values()) == (1 if "concurrency" in body else 2)


@in_loop
async def test_permits_of_a_server_that_died_are_released_by_the_next_one() -> None:
    """The first server dies after its commits and before its releases; the log is complete."""
    clock = FakeClock(auto_advance=True)
    limits, store = FragileLimits(MemoryLimits()), MemoryStore(clock, 1)
    parts = RuntimeParts(limits=limits, store=store)
    tool = Counting(clock)
    async with runtime(_book(STEP), tools={"work": tool}, clock=clock, parts=parts) as memory:
        limits.fails = {"release"}
        ids = [await memory.start("t") for _ in range(2)]
        await _until(memory, ids)
        waiting = [await memory.start("t") for _ in range(3)]
        await clock.sleep(1)
    assert len([each for each in await limits.entries() if each.holds]) == 2
    limits.fails = set()
    async with runtime(_book(STEP), tools={"work": tool}, clock=clock, parts=parts) as memory:
        sweeping = asyncio.ensure_future(_sweep(memory))
        for id in waiting:
            await memory.end(id)
        sweeping.cancel()
    assert tool.most == {"a": 2}
    assert timedelta(seconds=10) <= tool.began[2][1] - tool.began[0][1] < timedelta(seconds=20)
