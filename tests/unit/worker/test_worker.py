"""A worker that leaves: what it waits for, and what it does not."""

from __future__ import annotations

import asyncio

from noetl.engine import facts
from noetl.engine.pipeline import RunTask
from noetl.output import Output
from tests.unit.control.houses import MemoryHouse, run_house

LATE = """\
workflow:
- step: start
  spec: {policy: {lifecycle: {deadline_s: 0.01}}}
  tool: {kind: http, url: x}
"""


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
            await house.worker.leave(60.0)

    run_house(house, work)
    assert stopped.is_set()
    assert house.worker.drives == {}
    [failed] = [told.fact for told in house.told if isinstance(told.fact, facts.StepFailed)]
    assert (failed.error.kind, failed.error.message) == (
        "timeout", "start#1 took longer than its lifecycle.deadline_s allows",
    )  # fmt: skip
