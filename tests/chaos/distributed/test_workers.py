"""Workers that die and workers that stall: what they had goes to others, and what they say too late counts for nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.chaos.distributed.audit import audited, p99, told
from tests.chaos.distributed.effects import serving
from tests.chaos.distributed.house import CLOCK, LEASE_S, House, Plan, opened, until
from tests.chaos.distributed.load import CHAIN, HOLD, STEPS, Chance, Load, loop
from tests.chaos.distributed.wiretap import Reported, Wiretap, listening

KILLS_EACH = 17
EXECUTIONS = 100
ITEMS = 2_000
STOPS = 10
HELD = 9  # calls that are held at once


async def kill_again_and_again(house: House, name: str, kills: int, life_s: tuple[float, float]) -> list[float]:
    """At moments by chance; each time it is started again. The instants."""
    chance, instants = Chance(name), []
    for _ in range(kills):
        await CLOCK.sleep(chance(*life_s))
        instants.append(await house.kill(name))
        await house.start(name)
    return instants


def test_workers_that_are_killed_fifty_times_cost_a_lease_and_nothing_else() -> None:
    asyncio.run(_kill_workers())


async def _kill_workers() -> None:
    async with opened(Plan(slots=16)) as house, serving() as effects:
        load = Load(house, effects)
        await load.register(CHAIN, loop(ITEMS))
        begun = CLOCK.monotonic()
        async with asyncio.TaskGroup() as tasks:
            long = tasks.create_task(load.start("chaos/loop-item", ms=80))
            tasks.create_task(load.keep_starting("chaos/chain", EXECUTIONS, 0.45, ms=80))
            killers = [
                tasks.create_task(kill_again_and_again(house, name, KILLS_EACH, (0.2, 2.8)))
                for name in house.workers
            ]
        killing_s = CLOCK.monotonic() - begun
        await house.until_all_ended(60)
        whole_s = CLOCK.monotonic() - begun
        verdict = await audited(load)
        kills = sum(len(each.result()) for each in killers)
        told(
            "workers killed",
            kills=kills,
            executions=len(verdict.states),
            interrupted_calls=len(effects.resumed),
            resume_p99_s=p99(effects.resumed),
            resume_most_s=max(effects.resumed),
            repeats=effects.repeats,
            requests=effects.requests,
            stuck_most_s=verdict.worst_stuck_s(),
            killing_s=killing_s,
            whole_s=whole_s,
        )
        assert kills == KILLS_EACH * 3 > 50
        assert len(verdict.ok) == EXECUTIONS + 1
        assert all(len(effects.paths[id]) == STEPS for id, path in load.acked.items() if path == "chaos/chain")
        assert len(effects.paths[long.result()]) == ITEMS
        assert effects.interrupted == {}
        assert len(effects.resumed) > 20
        assert p99(effects.resumed) <= LEASE_S + 2


def test_a_worker_that_was_stopped_beyond_its_lease_is_refused_and_one_result_counts() -> None:
    asyncio.run(_stop_workers())


async def _stop_workers() -> None:
    async with opened(Plan(slots=8)) as house, serving() as effects, listening(house.nats) as tap:
        load = Load(house, effects)
        await load.register(HOLD)
        chance, late, taken_over = Chance("stop"), 0, list[float]()
        for _ in range(STOPS // 2):
            spared = house.workers[int(chance() * 3)]
            some = await _stop_all_but(spared, load)
            late, taken_over = late + len(some), taken_over + some
            await until(lambda wanted=late: _true(len(_late(tap)) >= wanted), 30)
            effects.release()
            await house.until_all_ended(30)
        verdict, whys = await audited(load), Counter(why for _, why in _late(tap))
        told(
            "workers stopped",
            stops=STOPS,
            stale_reports=whys.total(),
            refused=whys.total() - whys["go"],
            taken_over_p99_s=p99(taken_over),
            repeats=effects.repeats,
            **whys,
        )
        assert len(verdict.ok) == HELD * STOPS // 2
        assert effects.repeats == late > STOPS
        assert whys["go"] == 0
        assert whys["fenced"] > STOPS / 2
        assert p99(taken_over) <= LEASE_S + 2


async def _stop_all_but(spared: str, load: Load) -> list[float]:
    """Calls are held, two of three workers are stopped, the third takes over, the two wake up.

    Half of the calls are over by then, half of them are still in the third one's hands. For each that was
    taken over: how long it took.
    """
    house, effects = load.house, load.effects
    before = effects.keys("/first")
    for number in range(HELD):
        await load.start("chaos/hold", holds=1 + number % 2)
    await until(lambda: _true(len(effects.keys("/first")) == len(before) + HELD), 30)
    held = effects.keys("/first") - before
    stopped = [name for name in house.workers if name != spared]
    stolen = [key for key in held if worker_of(house, effects.callers[key]) in stopped]
    for name in stopped:
        house.signal(name, signal.SIGSTOP)
    at = CLOCK.monotonic()
    for key in held:
        effects.gates[key][0].set()  # the answer lies in the stopped one's socket
    await until(lambda: _true(all(len(effects.arrivals[key]) == 2 for key in stolen)), 40)
    over = [key for key in stolen if len(effects.gates[key]) == 1]
    await until(lambda: _true(len(effects.keys("/after")) >= len(over)), 30)
    for name in stopped:
        house.signal(name, signal.SIGCONT)
    return [effects.arrivals[key][1] - at for key in stolen]


def _late(tap: Wiretap) -> list[tuple[Reported, str]]:
    """Reports of results whose frame another one had by then, with an epoch of its own."""
    newest: dict[tuple[str, str], tuple[int, int]] = {}
    for report, _ in tap.answers:
        place = (report.execution_id, report.frame)
        newest[place] = max(newest.get(place, (0, 0)), report.epoch)
    return [
        (report, why)
        for report, why in tap.answers
        if report.facts and report.epoch < newest[report.execution_id, report.frame]
    ]


async def _true(holds: bool) -> bool:
    return holds


def worker_of(house: House, port: int) -> str:
    """Whose end of a connection is at this port of 127.0.0.1?"""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {f"socket:[{line[9]}]" for line in lines if int(line[1].rpartition(":")[2], 16) == port}
    for name in house.workers:
        for link in Path(f"/proc/{house.pid(name)}/fd").iterdir():
            with suppress(OSError):
                if os.readlink(link) in inodes:
                    return name
    raise AssertionError(f"nobody has port {port}")
