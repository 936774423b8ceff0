"""Problems that no other worker can solve: a call that kills its workers, and work for a pool without workers."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

import pytest

from noetl.control.live_execution import CERTAIN_FACTOR
from noetl.engine import facts
from tests.chaos.distributed.audit import Verdict, audited, report
from tests.chaos.distributed.cluster import CLOCK, ChaosCluster, Plan, opened
from tests.chaos.distributed.effects import serving
from tests.chaos.distributed.load import CHAIN, STEPS, Load, head

ENOUGH = 3  # after so many lost workers, a call is not repeated
EXECUTIONS = 30

# A shell is a child of a guard process, which is a child of the worker.
POISON = head("poison") + (
    'workload: {url: ""}\nworkflow:\n- step: start\n'
    "  tool: {kind: shell, sh: \"kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 60\"}\n"
)
FAR = head("far") + ('workload: {url: ""}\nworkflow:\n- {step: start, spec: {pool: gpu}, tool: {kind: noop}}\n')


@pytest.mark.parametrize("plan", [Plan(), Plan(workers=0, server_slots=16)], ids=["workers", "servers that run tasks"])
def test_a_call_that_kills_its_processes_fails_and_everything_else_continues(plan: Plan) -> None:
    asyncio.run(_poison(plan))


async def _poison(plan: Plan) -> None:
    async with opened(plan) as cluster, serving() as effects:
        load = Load(cluster, effects)
        await load.register(CHAIN, POISON)
        begun = CLOCK.monotonic()
        over = asyncio.Event()
        restarts = asyncio.ensure_future(_restart_processes(cluster, cluster.workers or cluster.servers, over))
        poison = await load.start("chaos/poison")
        await load.keep_starting("chaos/chain", EXECUTIONS, 0.5, ms=80)
        await cluster.until_all_ended()
        over.set()
        seconds, deaths = CLOCK.monotonic() - begun, await restarts
        verdict = await audited(load, may_fail=[poison])
        report(
            "a call that kills its workers" if cluster.workers else "a call that kills its servers",
            processes_lost=deaths,
            executions_beside=len(verdict.ok),
            effects=len(effects.arrivals),
            repeats=effects.repeats,
            seconds=seconds,
        )
        assert _kind(verdict, poison) == "poison"
        # A lost process with several frames is weaker evidence against each of them.
        assert ENOUGH <= deaths <= CERTAIN_FACTOR * ENOUGH
        assert len(verdict.ok) == EXECUTIONS
        assert len(effects.arrivals) == EXECUTIONS * STEPS


async def _restart_processes(cluster: ChaosCluster, names: Sequence[str], over: asyncio.Event) -> int:
    """Restart each of them that has died, until the event is set; returns the number of restarts."""
    ends: dict[str, asyncio.Future[object]] = {}
    ends[""] = asyncio.ensure_future(over.wait())
    deaths = 0
    while True:
        for name in names:
            if name not in ends:
                ends[name] = asyncio.ensure_future(cluster.children[name].wait())
        await asyncio.wait(ends.values(), return_when=asyncio.FIRST_COMPLETED)
        dead = [name for name, end in ends.items() if name and end.done()]
        if not dead:
            for end in ends.values():
                end.cancel()
            return deaths
        for name in dead:
            assert ends.pop(name).result() == -signal.SIGKILL
            deaths += 1
            await cluster.children[name].kill()
            await cluster.start(name)


def _kind(verdict: Verdict, id: str) -> str:
    (end,) = [each.fact for each in verdict.logs[id] if isinstance(each.fact, facts.Finished)]
    assert end.error is not None
    return end.error.kind


def test_work_for_a_pool_without_workers_reports_it_and_starts_when_a_worker_joins() -> None:
    asyncio.run(_wait_for_a_worker())


async def _wait_for_a_worker() -> None:
    async with opened(Plan(workers=1)) as cluster, serving() as effects:
        load = Load(cluster, effects)
        await load.register(FAR)
        id = await load.start("chaos/far")
        for client in cluster.clients:
            (step,) = (await client.show(id)).steps
            assert (step.status, step.why) == (
                "scheduled", 'waits for a worker: the pool "gpu" has none',
            )  # fmt: skip
        assert 'waits for a worker: the pool "gpu" has none' in await _shown_by_cli(cluster, id)
        begun = CLOCK.monotonic()
        await cluster.add("worker-gpu", "worker", "--pool", "gpu")
        await cluster.until_all_ended()
        report("a pool without workers", begun_after_s=CLOCK.monotonic() - begun)
        await audited(load)


async def _shown_by_cli(cluster: ChaosCluster, id: str) -> str:
    """The output of `noetl show` with a server."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "noetl", "show", id, "--server", cluster.clients[0].url,
        env={**os.environ, "NOETL_TOKEN": cluster.token, "NOETL_SERVER": cluster.clients[0].url},
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, _ = await process.communicate()
    return said.decode()
