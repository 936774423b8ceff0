"""A worker that leaves, one that nobody answers, a call without end: what is waited for, and what is not."""

from __future__ import annotations

import asyncio

import pytest

from noetl.clock import SystemClock
from noetl.engine import facts
from noetl.engine.commands import Report
from noetl.engine.moves import RunTask
from noetl.errors import Unavailable
from noetl.output import Output, failed
from noetl.ports import Link, ReportAnswer
from tests.unit.control.houses import MemoryHouse, run_house

LATE = """\
workflow:
- step: start
  spec: {policy: {lifecycle: {deadline_s: 0.01}}}
  tool: {kind: http, url: x}
"""
ONE = "workflow:\n- {step: start, tool: {kind: http, url: x}}\n"


def test_a_call_whose_step_has_ended_without_it_is_not_waited_for() -> None:
    stopped = asyncio.Event()

    async def never(_: RunTask) -> Output:
        answer: asyncio.Future[Output] = asyncio.get_running_loop().create_future()
        try:
            return await answer
        finally:
            stopped.set()

    house = MemoryHouse({"t": LATE}, never)

    async def work(house: MemoryHouse) -> None:
        await house.start("e", "t")
        await house.end("e")
        async with asyncio.timeout(10):
            await house.worker.drain(60.0)

    run_house(house, work)
    assert stopped.is_set()
    assert house.worker.drivers == {}
    [late] = [told.fact for told in house.told if isinstance(told.fact, facts.StepFailed)]
    assert (late.error.kind, late.error.message) == (
        "timeout", "start#1 took longer than its lifecycle.deadline_s allows",
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

    house = MemoryHouse({"t": ONE.replace("url: x", f"url: x, spec: {{timeout: {timeout}}}")}, never)

    async def work(house: MemoryHouse) -> None:
        await house.start("e", "t")
        await house.end("e")

    run_house(house, work)
    assert cancelled.is_set()
    [done] = [told.fact for told in house.told if isinstance(told.fact, facts.TaskDone)]
    assert done.output == failed(
        "timeout", 'task "start_task" took longer than its timeout of 0.01 s', retryable=True
    )


class QuickClock(SystemClock):
    """Whoever sleeps is woken at once."""

    slept_s = 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        await super().sleep(0)


class AwayLink:
    """So many reports find no server."""

    def __init__(self, link: Link, times: int) -> None:
        self.begin, self._report, self._times = link.begin, link.report, times

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
        return AwayLink(link, 150)  # type: ignore[return-value]  # nothing else is asked

    house, clock = MemoryHouse({"t": ONE}, answer, link=away), QuickClock()
    house.worker.clock = clock

    async def work(house: MemoryHouse) -> None:
        await house.start("e", "t")
        await house.end("e")

    run_house(house, work)
    assert len(calls) == 1
    assert clock.slept_s > 300
