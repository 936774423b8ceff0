"""PostgreSQL and NATS that die, stall or lose data: work continues when they are back, and no fact is lost."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

from nats.aio.client import Client
from nats.js.errors import NotFoundError

from noetl.adapters.nats.queue import STREAM
from noetl.defaults import POOL
from tests.chaos.distributed.audit import audited, report
from tests.chaos.distributed.cluster import BUSY_S, CLOCK, LEASE_S, ChaosCluster, opened
from tests.chaos.distributed.effects import serving
from tests.chaos.distributed.load import CHAIN, STEPS, Chance, Load

EXECUTIONS = 80
KILLS = 3
SESSIONS = 20
SWEEP_S = 10  # an unclaimed pointer is sent again after this time
STALLED_S = 6.0


def test_kills_of_postgresql_and_its_sessions_cost_seconds_and_no_fact() -> None:
    asyncio.run(_disturb_postgresql())


async def _disturb_postgresql() -> None:
    async with opened() as cluster, serving() as effects:
        load, chance, recovered = Load(cluster, effects), Chance("postgresql"), list[float]()
        await load.register(CHAIN)
        looking = asyncio.ensure_future(load.keep_looking())
        starting = asyncio.ensure_future(load.keep_starting("chaos/chain", EXECUTIONS, 0.4, ms=80))
        for _ in range(KILLS):
            await CLOCK.sleep(chance(1.0, 3.0))
            await cluster.kill("postgresql")
            await CLOCK.sleep(chance(0.0, 2.0))
            await cluster.start("postgresql")
            recovered.append(await cluster.until_something_happens())
        for turn in range(SESSIONS):
            await CLOCK.sleep(chance(0.1, 0.6))
            await _end_some_sessions(cluster, turn)
        recovered.append(await cluster.until_something_happens())
        await starting
        await cluster.until_all_ended()
        looking.cancel()
        verdict, busiest = await audited(load), _connects_per_s(cluster)
        report(
            "PostgreSQL hurt",
            kills=KILLS,
            sessions_ended=SESSIONS,
            executions=len(verdict.states),
            recovered_most_s=max(recovered),
            connects_per_s_most=busiest,
            starts_tried_again=load.refused,
            repeats=effects.repeats,
            stuck_most_s=verdict.worst_stuck_s(),
            continued_most_s=verdict.check_recovery(cluster.faults),
        )
        assert len(verdict.ok) == len(load.acked) == EXECUTIONS
        assert all(len(effects.paths[id]) == STEPS for id in load.acked)
        assert max(recovered) <= 3 + BUSY_S
        assert busiest < 50


async def _end_some_sessions(cluster: ChaosCluster, turn: int) -> None:
    """End half of the sessions: in turns those that write logs, and others."""
    await cluster.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'noetl' AND pid % 2 = $1",
        turn % 2,
    )
    cluster.record_end()


def _connects_per_s(cluster: ChaosCluster) -> int:
    """Connection attempts in the busiest second, from the log of PostgreSQL."""
    text = (cluster.logs / "postgresql.log").read_text("utf-8", "replace")
    return max(Counter(re.findall(r"^(\d+)\.\d+ LOG:  connection received", text, re.MULTILINE)).values())


def test_nats_that_is_killed_stalled_or_wiped_costs_one_sweep_and_no_result() -> None:
    asyncio.run(_disturb_nats())


async def _disturb_nats() -> None:
    faults: list[tuple[str, Callable[[ChaosCluster], Awaitable[None]]]] = [
        *[(f"killed {number}", _kill) for number in range(1, KILLS + 1)],
        ("stalled", _stall),
        ("wiped", _wipe),
        ("consumer deleted", _delete_consumer),
        ("stream deleted", _delete_stream),
    ]
    async with opened() as cluster, serving() as effects:
        load, chance, stuck = Load(cluster, effects), Chance("nats"), dict[str, float]()
        await load.register(CHAIN)
        starting = asyncio.ensure_future(load.keep_starting("chaos/chain", EXECUTIONS, 0.8, ms=80))
        for name, fault in faults:
            await CLOCK.sleep(chance(1.0, 3.0))
            await fault(cluster)
            stuck[name] = await cluster.until_something_happens()
            await load.start("chaos/chain", ms=20)
        await starting
        await cluster.until_all_ended()
        verdict = await audited(load)
        report(
            "NATS hurt",
            **{f"after it was {name}, s": seconds for name, seconds in stuck.items()},
            executions=len(verdict.states),
            starts_tried_again=load.refused,
            repeats=effects.repeats,
            stuck_most_s=verdict.worst_stuck_s(),
            continued_most_s=verdict.check_recovery(cluster.faults),
        )
        assert len(verdict.ok) == len(load.acked) == EXECUTIONS + len(faults)
        assert all(len(effects.paths[id]) == STEPS for id in load.acked)
        assert verdict.worst_stuck_s() <= SWEEP_S + LEASE_S + STALLED_S + BUSY_S


async def _kill(cluster: ChaosCluster) -> None:
    await cluster.kill("nats")
    await cluster.start("nats")


async def _stall(cluster: ChaosCluster) -> None:
    cluster.signal("nats", signal.SIGSTOP)
    await CLOCK.sleep(STALLED_S)
    cluster.signal("nats", signal.SIGCONT)


async def _wipe(cluster: ChaosCluster) -> None:
    await cluster.kill("nats")
    shutil.rmtree(cluster.store)
    cluster.store.mkdir(mode=0o700)
    await cluster.start("nats")


async def _delete_consumer(cluster: ChaosCluster) -> None:
    client = await _client(cluster)
    with suppress(NotFoundError):
        await client.jetstream().delete_consumer(STREAM, POOL)
    await client.close()
    cluster.record_end()


async def _delete_stream(cluster: ChaosCluster) -> None:
    client = await _client(cluster)
    with suppress(NotFoundError):
        await client.jetstream().delete_stream(STREAM)
    await client.close()
    cluster.record_end()


async def _client(cluster: ChaosCluster) -> Client:
    client = Client()
    await client.connect(cluster.nats)
    return client
