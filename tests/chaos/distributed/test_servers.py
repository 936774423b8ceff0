"""Servers that die or stall: acknowledged work is kept, and other servers continue their executions."""

from __future__ import annotations

import asyncio
import signal
from statistics import median

from tests.chaos.distributed.audit import audited, report
from tests.chaos.distributed.cluster import (
    BUSY_S,
    CLOCK,
    LEASE_S,
    ChaosCluster,
    Plan,
    kill_again_and_again,
    opened,
)
from tests.chaos.distributed.effects import serving
from tests.chaos.distributed.load import (
    CHAIN,
    CHILD,
    CHILD_STEPS,
    CHILDREN,
    FAMILY,
    STEPS,
    WIDTH,
    Chance,
    Load,
    loop,
)

KILLS_EACH = 25
EXECUTIONS = 100
FAILOVERS = 10
FAMILIES = 40
ITEMS = 150


def test_servers_that_are_killed_fifty_times_lose_no_acknowledged_start() -> None:
    asyncio.run(_kill_servers())


async def _kill_servers() -> None:
    async with opened(Plan(named=True)) as cluster, serving() as effects:
        load = Load(cluster, effects)
        await load.register(CHAIN)
        begun = CLOCK.monotonic()
        looking = asyncio.ensure_future(load.keep_looking())
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(load.keep_starting("chaos/chain", EXECUTIONS, 0.7, ms=80))
            for name in cluster.servers:
                life_s = Chance(name).between(0.1, 2.5)
                tasks.create_task(kill_again_and_again(cluster, name, KILLS_EACH, life_s))
        await cluster.until_all_ended()
        seconds = CLOCK.monotonic() - begun
        looking.cancel()
        verdict = await audited(load)
        report(
            "servers killed",
            kills=2 * KILLS_EACH,
            acknowledged=len(load.acked),
            starts_tried_again=load.refused,
            facts_shown=len(load.seen),
            effects=len(effects.arrivals),
            repeats=effects.repeats,
            stuck_most_s=verdict.worst_stuck_s(),
            recovered_most_s=verdict.check_recovery(cluster.faults),
            seconds=seconds,
        )
        assert len(verdict.ok) == len(load.acked) == EXECUTIONS
        assert all(len(effects.paths[id]) == STEPS for id in load.acked)
        assert len(load.seen) > 2 * EXECUTIONS


def test_another_server_takes_over_within_a_lease_and_the_former_owner_is_refused() -> None:
    asyncio.run(_fail_over())


async def _fail_over() -> None:
    """Both servers own parents, children and loops."""
    async with opened() as cluster, serving() as effects:
        load = Load(cluster, effects)
        await load.register(CHILD, FAMILY, loop(ITEMS, full=WIDTH))
        begun, takeovers = CLOCK.monotonic(), list[float]()
        starting = asyncio.ensure_future(load.keep_starting("chaos/family", FAMILIES, 2.2, ms=150))
        stale = 0.0
        # A stopped server may have nothing to write at that moment: the test repeats until one had.
        while len(takeovers) < FAILOVERS or (not stale and len(takeovers) < 2 * FAILOVERS):
            await load.start("chaos/loop-item", ms=100)
            name = cluster.servers[len(takeovers) % 2]
            fail = _kill_one if len(takeovers) < FAILOVERS / 2 else _stop_one
            takeovers.append(await fail(cluster, name))
            await cluster.until_shared()
            stale = await cluster.metric("noetl_stale_writes_refused_total")
        await starting
        await cluster.until_all_ended()
        seconds, verdict = CLOCK.monotonic() - begun, await audited(load)
        widths = [most for id, most in effects.most_at_once.items() if id in load.acked]
        report(
            "servers failed over",
            failovers=len(takeovers),
            executions=len(verdict.states),
            takeover_p50_s=median(takeovers),
            takeover_most_s=max(takeovers),
            stale_appends_refused=int(stale),
            loops_widest=max(widths),
            repeats=effects.repeats,
            stuck_most_s=verdict.worst_stuck_s(),
            recovered_most_s=verdict.check_recovery(cluster.faults),
            seconds=seconds,
        )
        assert len(verdict.ok) == FAMILIES * (1 + CHILDREN) + len(takeovers)
        families = [id for id, path in load.acked.items() if path == "chaos/family"]
        assert len(families) == FAMILIES
        assert len(effects.arrivals) == FAMILIES * CHILDREN * CHILD_STEPS + len(takeovers) * ITEMS
        assert set(widths) == {WIDTH}
        assert median(takeovers) <= LEASE_S + 1 + BUSY_S
        assert max(takeovers) <= LEASE_S * 4 / 3 + 0.5 + BUSY_S, "the other server checks three times in a lease"
        assert stale > 0


async def _kill_one(cluster: ChaosCluster, name: str) -> float:
    await cluster.kill(name)
    seconds = await cluster.until_shared(1)
    await cluster.start(name)
    return seconds


async def _stop_one(cluster: ChaosCluster, name: str) -> float:
    await cluster.until_something_happens()
    cluster.signal(name, signal.SIGSTOP)
    seconds = await cluster.until_shared(1)
    cluster.signal(name, signal.SIGCONT)
    return seconds
