"""Workers that die or stall: other workers get their frames, and late reports are refused."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from noetl.adapters.nats.queue import PULL_S
from noetl.engine.facts import FrameLost
from tests.chaos.distributed.audit import audited, p99, report, retry_quarantined
from tests.chaos.distributed.cluster import (
    BUSY_S,
    CLOCK,
    LEASE_S,
    ChaosCluster,
    Plan,
    kill_again_and_again,
    opened,
    until,
)
from tests.chaos.distributed.effects import serving
from tests.chaos.distributed.load import CHAIN, HOLD, STEPS, Chance, Load, loop
from tests.chaos.distributed.wiretap import Wiretap, listening

KILLS_EACH = 17
ITEMS = 2_000
ROUNDS = 3  # four of five workers are stopped in each round
STOPS = 4 * ROUNDS
RESEND_S = LEASE_S / 3  # an unclaimed pointer is sent again after this time
HELD = 12  # calls that are held at the same time


def test_workers_that_are_killed_fifty_times_cost_a_lease_and_no_result() -> None:
    asyncio.run(_kill_workers())


async def _kill_workers() -> None:
    async with opened() as cluster, serving() as effects, listening(cluster) as tap:
        load = Load(cluster, effects)
        await load.register(CHAIN, loop(ITEMS))
        begun, over = CLOCK.monotonic(), asyncio.Event()
        long = await load.start("chaos/loop-item", ms=80)
        starting = asyncio.ensure_future(load.keep_starting_until(over, "chaos/chain", 0.6, ms=80))
        killed = await asyncio.gather(*(_kill_in_calls(load, name) for name in cluster.workers))
        over.set()
        await starting
        await cluster.until_all_ended()
        seconds = CLOCK.monotonic() - begun
        retried = await retry_quarantined(load)
        verdict = await audited(load, retried=retried)
        kills = dict(zip(cluster.workers, killed, strict=True))
        resumed = tap.resumptions(kills)
        report(
            "workers killed",
            kills=sum(map(len, kills.values())),
            executions=len(verdict.states),
            frames_lost=len(resumed),
            resumed_p50_s=median(resumed),
            resumed_p90_s=quantiles(resumed, n=10)[-1],
            resumed_p99_s=p99(resumed),
            resumed_most_s=max(resumed),
            calls_cut_off=len(effects.resumed),
            made_again_p50_s=median(effects.resumed),
            made_again_p99_s=p99(effects.resumed),
            effects=len(effects.arrivals),
            repeats=effects.repeats,
            executions_quarantined=len(retried),
            stuck_most_s=verdict.worst_stuck_s(),
            seconds=seconds,
        )
        assert sum(map(len, kills.values())) > 50
        assert len(verdict.ok) == len(load.acked)
        chains = [id for id, path in load.acked.items() if path == "chaos/chain"]
        assert all(len(set(effects.paths[id].values())) == STEPS for id in chains)
        assert len(set(effects.paths[long].values())) == ITEMS
        interrupted = Counter(id for id, keys in effects.paths.items() for key in keys if key in effects.interrupted)
        assert interrupted <= retried, "an interrupted call was not repeated"
        # Each kill cuts a call off. Most frames come with the answer to a report, so that NATS shows fewer lost calls.
        assert len(effects.resumed) > 50
        for found in (resumed, effects.resumed):
            assert median(found) <= LEASE_S + 2 + BUSY_S
            # A few pointers are lost with workers that die before they begin, some of them twice.
            assert max(found) <= LEASE_S + 2 + 2 * (RESEND_S + 2) + BUSY_S


async def _kill_in_calls(load: Load, name: str) -> list[float]:
    """Kill a worker again and again, each time during a call, which gets no answer."""

    async def calls() -> bool:
        calling = {port for port, count in load.effects.ports.items() if count} & ports_of(load.cluster, name)
        load.effects.unanswered |= calling
        return bool(calling)

    return await kill_again_and_again(load.cluster, name, KILLS_EACH, Chance(name).between(1.0, 4.0), calls)


def test_a_worker_that_is_stopped_beyond_its_lease_is_refused_and_one_result_counts() -> None:
    asyncio.run(_stop_workers())


async def _stop_workers() -> None:
    async with opened(Plan(workers=5)) as cluster, serving() as effects, listening(cluster) as tap:
        load = Load(cluster, effects)
        await load.register(HOLD)
        chance, taken = Chance("stop"), dict[str, RepeatedCall]()
        for _ in range(ROUNDS):
            spared = cluster.workers[int(chance() * 5)]
            taken |= (some := await _stop_all_but(spared, load))
            # While the other worker is not done, the stale result is the only one.
            await _until_stale(tap, {id: 3 - each.holds for id, each in some.items()})
            effects.release()
            await cluster.until_all_ended()
        verdict = await audited(load)
        fenced = await cluster.metric("noetl_link_refused_total", operation="report", why="fenced")
        seconds = [each.seconds for each in taken.values()]
        report(
            "workers stopped",
            stops=STOPS,
            frames_taken_over=len(taken),
            stale_reports=sum(tap.results(id, "start#1") - 1 for id in taken),
            fenced=int(fenced),
            taken_over_p99_s=p99(seconds),
            repeats=effects.repeats,
        )
        assert len(verdict.ok) == HELD * ROUNDS
        assert effects.repeats == len(taken) > STOPS
        lost = {id: [each.fact for each in verdict.logs[id] if isinstance(each.fact, FrameLost)] for id in taken}
        assert all({fact.worker for fact in each} <= set(cluster.workers) for each in lost.values())
        assert all(each and {fact.frame for fact in each} == {"start#1"} for each in lost.values())
        # The other results arrive after the end of the frame, and are refused.
        assert fenced >= len([each for each in taken.values() if each.holds == 2])
        # NATS delivers pointers to stopped workers, too, until their requests expire.
        assert p99(seconds) <= max(LEASE_S, PULL_S) + RESEND_S + 2 + BUSY_S


async def _until_stale(tap: Wiretap, wanted: Mapping[str, int]) -> None:
    """Wait until as many workers have reported a result for each execution."""
    await until(lambda: _true(all(tap.results(id, "start#1") >= wanted[id] for id in wanted)))


class RepeatedCall(NamedTuple):
    """A call of a stopped worker that another worker has repeated."""

    holds: int  # 2: the other worker is not done when the stopped one continues
    seconds: float  # until it began


async def _stop_all_but(spared: str, load: Load) -> dict[str, RepeatedCall]:
    """Hold calls, stop all workers but one, let it take over, and continue the others.

    By then the remaining worker has finished half of the calls. Returns the repeated calls by execution.
    """
    cluster, effects = load.cluster, load.effects
    effects.is_holding = True
    ids = [await load.start("chaos/hold", holds=1 + number % 2) for number in range(HELD)]
    await until(lambda: _true(all(effects.key(id, "/first") for id in ids)))
    held = {id: effects.key(id, "/first") for id in ids}
    stopped = [name for name in cluster.workers if name != spared]
    stolen = {id: key for id, key in held.items() if worker_of(cluster, effects.callers[key]) in stopped}
    for name in stopped:
        cluster.signal(name, signal.SIGSTOP)
    at = CLOCK.monotonic()
    for key in held.values():
        effects.gates[key][0].set()  # the answer is in the socket of the stopped worker
    await until(lambda: _true(all(len(effects.arrivals[key]) > 1 for key in stolen.values())))
    over = [id for id, key in stolen.items() if len(effects.gates[key]) == 1]
    await until(lambda: _true(all(effects.key(id, "/after") for id in over)))
    for name in stopped:
        cluster.signal(name, signal.SIGCONT)
    return {id: RepeatedCall(1 + ids.index(id) % 2, effects.arrivals[key][1] - at) for id, key in stolen.items()}


async def _true(holds: bool) -> bool:
    return holds


def worker_of(cluster: ChaosCluster, port: int) -> str:
    """The worker whose end of a connection has this port of 127.0.0.1."""
    return next(name for name in cluster.workers if port in ports_of(cluster, name))


def ports_of(cluster: ChaosCluster, name: str) -> set[int]:
    """The local ports of the TCP connections of a process."""
    links = set()
    for link in Path(f"/proc/{cluster.pid(name)}/fd").iterdir():
        with suppress(OSError):
            links.add(os.readlink(link))
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(line[1].rpartition(":")[2], 16) for line in lines if f"socket:[{line[9]}]" in links}
