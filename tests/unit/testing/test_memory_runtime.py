"""runtime(): a playbook runs in memory with tools that are functions, in virtual time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import Struct

from noetl.engine.commands import Cancel
from noetl.engine.facts import ForSignal, FrameParked, TaskDone
from noetl.engine.moves import RunTask
from noetl.errors import NotFound, PlaybookError
from noetl.output import JSON, Output, failed
from noetl.testing import FakeClock, runtime
from noetl.testing.memory_runtime import RunResult
from noetl.tool import Call, Tool
from tests.playbooks import HEAD

RETRIES = """\
workflow:
- step: start
  tool:
    kind: http
    url: "https://shop.example/orders"
    spec:
      policy:
        rules:
        - {when: "{{ output.status == 'error' }}", then: {do: retry, attempts: 4, delay: 1, backoff: exponential}}
  set: {ctx.orders: "{{ output.data.orders }}"}
"""


class Flaky:
    """A tool that fails some times, and then succeeds."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.urls: list[str] = []

    async def __call__(self, task: RunTask) -> Output:
        self.urls.append(task.input["url"])
        if len(self.urls) <= self.times:
            return failed("http", "503", retryable=True)
        return Output(data={"orders": 3})


def run(body: str, workload: dict[str, JSON] | None = None, **tools: object) -> RunResult:
    async def work() -> RunResult:
        async with runtime(tools=tools) as memory:  # type: ignore[arg-type]  # the tests below pass functions
            return await memory.run(HEAD + body, workload)

    return asyncio.run(work())


def test_a_retry_waits_longer_each_time() -> None:
    async def work() -> None:
        flaky = Flaky(3)
        async with runtime(tools={"http": flaky}) as memory:
            result = await memory.run(HEAD + RETRIES)
        assert memory.waits == [1.0, 2.0, 4.0]
        assert (result.status, result.ctx, result.error) == ("ok", {"orders": 3}, None)
        assert flaky.urls == ["https://shop.example/orders"] * 4
        done = [event.fact for event in memory.events if isinstance(event.fact, TaskDone)]
        assert [fact.directive for fact in done] == ["retry", "retry", "retry", "continue"]

    asyncio.run(work())


def test_waits_of_hours_take_no_time_and_step_timeouts_count_in_virtual_time() -> None:
    async def work() -> None:
        body = "workflow:\n- step: start\n  tool: {kind: wait, input: {seconds: 7200}}\n"
        async with runtime() as memory:
            assert (await memory.run(HEAD + body)).status == "ok"
            assert memory.clock.monotonic() == 7_200

    asyncio.run(work())


def test_a_tool_is_a_function_of_the_task_that_returns_data() -> None:
    body = 'workflow: [{step: start, tool: {kind: shop, input: {n: "{{ workload.n + 1 }}"}}}]\n'
    result = run(body, {"n": 1}, shop=lambda task: {"twice": task.input["n"] * 2})
    assert (result.status, result.output) == ("ok", {"twice": 4})


def test_an_exception_of_a_tool_is_a_failure_of_the_call() -> None:
    def shop(_: RunTask) -> JSON:
        raise ValueError("no such order")

    result = run("workflow: [{step: start, tool: {kind: shop}}]\n", shop=shop)
    assert (result.status, result.error) == ("error", failed("tool", "ValueError: no such order").error)


class Double(Tool):
    """A tool class, as a package would install it."""

    class Input(Struct):
        n: int

    kind = "double"

    async def run(self, input: Input, call: Call) -> Output:
        return Output(data=[input.n * 2, call.attempt])


def test_a_tool_class_runs_as_if_it_were_installed() -> None:
    result = run('workflow: [{step: start, tool: {kind: double, n: "{{ 20 + 1 }}"}}]\n', double=Double)
    assert result.output == [42, 1]


def test_kinds_without_an_entry_are_the_installed_tools() -> None:
    body = "workflow: [{step: start, tool: {kind: python, code: 'def main(): return 6 * 7'}}]\n"
    assert run(body).output == 42


def test_playbooks_call_each_other_by_path() -> None:
    async def work() -> JSON:
        child = "workload: {n: 0}\nworkflow: [{step: start, tool: {kind: noop, input: {n: '{{ workload.n }}'}}}]\n"
        parent = "workflow: [{step: start, tool: {kind: playbook, path: child, input: {n: 5}}}]\n"
        async with runtime({"child": HEAD + child, "parent": HEAD + parent}) as memory:
            return (await memory.run("parent")).output

    assert asyncio.run(work()) == {"n": 5}


def test_a_file_can_be_run_and_problems_are_raised(tmp_path: Path) -> None:
    async def work() -> None:
        file = tmp_path / "orders.yaml"
        file.write_text(HEAD + "workflow: [{step: start, tool: {kind: nope}}]\n")
        async with runtime() as memory:
            with pytest.raises(PlaybookError, match="unknown-kind"):
                await memory.run(file)
            with pytest.raises(NotFound, match='no playbook "orders": give its text, its file as a Path'):
                await memory.run("orders")

    asyncio.run(work())


def test_an_execution_waits_for_a_signal_and_can_be_cancelled() -> None:
    async def work() -> None:
        body = HEAD + "workflow: [{step: start, tool: {kind: wait, signal: go}}]\n"
        clock = FakeClock()
        async with runtime(clock=clock) as memory:
            ids = [await memory.start(body) for _ in range(2)]
            await clock.settle()
            parked = [event.fact.until for event in memory.events if isinstance(event.fact, FrameParked)]
            assert parked == [ForSignal(name="go")] * 2
            await memory.signal(ids[0], "go", {"ok": True})
            await memory.command(ids[1], Cancel())
            await memory.sweep()
            for id in ids:
                await memory.end(id)
            assert [memory.state(id).status for id in ids] == ["ok", "cancelled"]

    asyncio.run(work())


def test_a_test_that_waits_for_an_execution_without_an_end_gets_a_timeout() -> None:
    async def work() -> None:
        async with runtime(timeout_s=0.01) as memory:
            with pytest.raises(TimeoutError):
                await memory.run(HEAD + "workflow: [{step: start, tool: {kind: wait, signal: go}}]\n")

    asyncio.run(work())


def test_the_package_imports_nothing_before_it_is_used() -> None:
    code = "import sys, noetl.testing; print([n for n in sys.modules if n.startswith('noetl.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['noetl.testing']"
