"""What no other worker can save: a call that takes its workers with it, and work for a pool that nobody serves."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from noetl.engine import facts
from tests.chaos.distributed.audit import Verdict, audited, told
from tests.chaos.distributed.effects import serving
from tests.chaos.distributed.house import CLOCK, House, Plan, opened
from tests.chaos.distributed.load import CHAIN, STEPS, Load, head

ENOUGH = 3  # workers that are lost with one call: it is then not made again
EXECUTIONS = 30

# A shell runs below a guard, and that below the worker.
POISON = head("poison") + (
    'workload: {url: ""}\nworkflow:\n- step: start\n'
    "  tool: {kind: shell, sh: \"kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 60\"}\n"
)
FAR = head("far") + (
    'workload: {url: ""}\nworkflow:\n- {step: start, spec: {pool: gpu}, tool: {kind: noop}}\n'
)


def test_a_call_that_takes_its_workers_with_it_is_given_up_and_everything_else_goes_on() -> None:
    asyncio.run(_poison())


async def _poison() -> None:
    async with opened() as house, serving() as effects:
        load = Load(house, effects)
        await load.register(CHAIN, POISON)
        begun = CLOCK.monotonic()
        over = asyncio.Event()
        nurse = asyncio.ensure_future(_nurse(house, over))
        poison = await load.start("chaos/poison")
        await load.keep_starting("chaos/chain", EXECUTIONS, 0.5, ms=80)
        await house.until_all_ended(90)
        over.set()
        seconds, deaths = CLOCK.monotonic() - begun, await nurse
        verdict = await audited(load, may_fail=[poison])
        told(
            "a call that kills its workers",
            workers_lost=deaths,
            executions_beside=len(verdict.ok),
            effects=len(effects.arrivals),
            repeats=effects.repeats,
            seconds=seconds,
        )
        assert _kind(verdict, poison) == "lost"
        # A worker that had other frames in hand, too, tells less of which of them was the cause.
        assert ENOUGH <= deaths <= 3 * ENOUGH
        assert len(verdict.ok) == EXECUTIONS
        assert len(effects.arrivals) == EXECUTIONS * STEPS


async def _nurse(house: House, over: asyncio.Event) -> int:
    """Start each worker that has died again, until all is over; how many that were."""
    ends: dict[str, asyncio.Future[object]] = {}
    ends[""] = asyncio.ensure_future(over.wait())
    deaths = 0
    while True:
        for name in house.workers:
            if name not in ends:
                ends[name] = asyncio.ensure_future(house.children[name].ended())
        await asyncio.wait(ends.values(), return_when=asyncio.FIRST_COMPLETED)
        dead = [name for name, end in ends.items() if name and end.done()]
        if not dead:
            for end in ends.values():
                end.cancel()
            return deaths
        for name in dead:
            assert ends.pop(name).result() == -signal.SIGKILL
            deaths += 1
            await house.children[name].kill()
            await house.start(name)


def _kind(verdict: Verdict, id: str) -> str:
    (end,) = [each.fact for each in verdict.logs[id] if isinstance(each.fact, facts.Finished)]
    assert end.error is not None
    return end.error.kind


def test_work_for_a_pool_without_workers_waits_says_so_and_goes_on_when_one_comes() -> None:
    asyncio.run(_wait_for_a_worker())


async def _wait_for_a_worker() -> None:
    async with opened(Plan(workers=1)) as house, serving() as effects:
        load = Load(house, effects)
        await load.register(FAR)
        id = await load.start("chaos/far")
        for client in house.clients:
            (step,) = (await client.show(id)).steps
            assert (step.status, step.why) == (
                "scheduled", 'waits for a worker: the pool "gpu" has none',
            )  # fmt: skip
        assert 'waits for a worker: the pool "gpu" has none' in await _told_by_cli(house, id)
        begun = CLOCK.monotonic()
        await house.add("worker-gpu", "worker", "--pool", "gpu")
        await house.until_all_ended(30)
        told("a pool without workers", begun_after_s=CLOCK.monotonic() - begun)
        await audited(load)


async def _told_by_cli(house: House, id: str) -> str:
    """By `noetl show`, asked of a server."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "noetl", "show", id, "--server", house.clients[0].url,
        env={**os.environ, "NOETL_TOKEN": house.token, "NOETL_SERVER": house.clients[0].url},
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, _ = await process.communicate()
    return said.decode()
