"""How long a worker waits: when it stops, when no server answers, and for a call without end; and what it leaves."""

from __future__ import annotations

import asyncio
import gc

import pytest
from msgspec.structs import replace

from noetl.engine import facts
from noetl.engine.commands import Report
from noetl.engine.moves import RunTask
from noetl.errors import Unavailable
from noetl.output import Output, failed
from noetl.ports import Grant, Link, ReportAnswer
from noetl.testing.memory_runtime import MemoryRuntime, RuntimeParts
from noetl.worker.frame_driver import FrameDriver
from tests.unit.control.runtimes import memory_runtime, run_in
from tests.unit.worker.test_calls import NO_RESPONSE

LATE = """\
workflow:
- step: start
  spec: {policy: {lifecycle: {deadline_s: 0.01}}}
  tool: {kind: http, url: x}
"""
ONE = "workflow:\n- {step: start, tool: {kind: http, url: x}}\n"


def test_a_call_whose_step_has_ended_without_it_is_not_waited_for() -> None:
    stopped = asyncio.Event()

    async def slow(_: RunTask) -> Output:
        try:
            await runtime.clock.sleep(3_600)
        finally:
            stopped.set()
        return Output()

    runtime = memory_runtime({"t": LATE}, slow)

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("t", id="e")
        await runtime.end("e")
        before_s = runtime.clock.monotonic()
        await runtime.worker.drain(60.0)
        assert runtime.clock.monotonic() - before_s < 60

    run_in(runtime, work)
    assert stopped.is_set()
    assert runtime.worker.drivers == {}
    [late] = [event.fact for event in runtime.events if isinstance(event.fact, facts.StepFailed)]
    assert (late.error.kind, late.error.message) == (
        "timeout", "start#1 timed out 0.01 s after its token was made (lifecycle.deadline_s)",
    )  # fmt: skip


@pytest.mark.parametrize("timeout", ["0.01", "{total: 0.01}"])
def test_a_call_that_takes_longer_than_its_timeout_is_cancelled_and_may_be_tried_again_d33(
    timeout: str,
) -> None:
    cancelled = asyncio.Event()

    async def never(_: RunTask) -> Output:
        answer: asyncio.Future[Output] = asyncio.get_running_loop().create_future()
        try:
            return await answer
        finally:
            cancelled.set()

    runtime = memory_runtime({"t": ONE.replace("url: x", f"url: x, spec: {{timeout: {timeout}}}")}, never)

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("t", id="e")
        await runtime.end("e")

    run_in(runtime, work)
    assert cancelled.is_set()
    [done] = [event.fact for event in runtime.events if isinstance(event.fact, facts.TaskDone)]
    expected = failed("timeout", 'task "start_task" timed out after 0.01 s', retryable=True)
    assert done.output == replace(expected, own=NO_RESPONSE)


class AwayLink:
    """No server answers the first reports."""

    def __init__(self, link: Link, times: int) -> None:
        self.start, self.begin = link.start, link.begin
        self._report, self._times = link.report, times

    async def report(self, execution_id: str, report: Report, *, room: int = 0) -> ReportAnswer:
        self._times -= 1
        if self._times >= 0:
            raise Unavailable("no server is there")
        return await self._report(execution_id, report, room=room)


def test_a_result_is_kept_for_minutes_while_no_server_is_there_and_its_call_is_made_once() -> None:
    calls: list[str] = []

    async def answer(called: RunTask) -> Output:
        calls.append(called.task.name)
        return Output()

    def away(link: Link) -> Link:
        return AwayLink(link, 150)  # type: ignore[return-value]  # the test uses no other request

    runtime = memory_runtime({"t": ONE}, answer, parts=RuntimeParts(link=away))

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("t", id="e")
        await runtime.end("e")

    run_in(runtime, work)
    assert len(calls) == 1
    assert sum(runtime.waits) > 300


class SlowLink:
    """Grants a frame at once, and answers later."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.granted, self.answer = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._link, name)

    async def begin(self, execution_id: str, frame: str, worker: str) -> Grant | None:
        grant = await self._link.begin(execution_id, frame, worker)
        self.granted.set()
        await self.answer.wait()
        return grant


def test_a_worker_that_stops_gives_back_a_frame_whose_grant_is_on_its_way() -> None:
    links: list[SlowLink] = []

    def slow(link: Link) -> Link:
        links.append(SlowLink(link))
        return links[0]  # type: ignore[return-value]  # it passes the other requests on

    runtime = memory_runtime({"t": ONE}, parts=RuntimeParts(link=slow))

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("t", id="e")
        await links[0].granted.wait()
        stopping = asyncio.create_task(runtime.worker.drain(60.0))
        assert not (await asyncio.wait([stopping], timeout=0))[0]
        links[0].answer.set()
        await stopping
        assert await runtime.control.begin("e", "start#1", "another worker") is not None

    run_in(runtime, work, slots=1)


def test_frames_leave_no_work_for_the_garbage_collector() -> None:
    body = (
        "workflow:\n- step: start\n  loop: {in: '{{ range(20) }}', iterator: n}\n"
        "  tool: {kind: noop, input: {n: '{{ iter.n }}'}}\n"
    )

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("t", id="e")
        await runtime.end("e")

    memory = memory_runtime({"t": body})
    gc.collect()
    gc.disable()
    try:
        run_in(memory, work, slots=1)
        left = [each for each in gc.get_objects() if isinstance(each, FrameDriver)]
        assert len(left) <= 1, "a driver that has ended is freed without the collector"
    finally:
        gc.enable()
