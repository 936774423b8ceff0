"""PostgreSQL and NATS that die, stall and forget: everything goes on when they are back, and nothing is lost."""

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

from noetl.adapters.nats.stream import STREAM
from noetl.defaults import POOL
from tests.chaos.distributed.audit import audited, told
from tests.chaos.distributed.effects import serving
from tests.chaos.distributed.house import CLOCK, LEASE_S, House, opened
from tests.chaos.distributed.load import CHAIN, STEPS, Chance, Load

EXECUTIONS = 80
KILLS = 3
SESSIONS = 20
SWEEP_S = 10  # a pointer that nobody has followed for so long is put again
STALLED_S = 6.0


def test_postgresql_killed_and_its_sessions_ended_cost_seconds_and_nothing_on_record() -> None:
    asyncio.run(_hurt_postgresql())


async def _hurt_postgresql() -> None:
    async with opened() as house, serving() as effects:
        load, chance, recovered = Load(house, effects), Chance("postgresql"), list[float]()
        await load.register(CHAIN)
        looking = asyncio.ensure_future(load.keep_looking())
        starting = asyncio.ensure_future(load.keep_starting("chaos/chain", EXECUTIONS, 0.4, ms=80))
        for _ in range(KILLS):
            await CLOCK.sleep(chance(1.0, 3.0))
            await house.kill("postgresql")
            await CLOCK.sleep(chance(0.0, 2.0))
            await house.start("postgresql")
            recovered.append(await house.until_something_happens())
        for turn in range(SESSIONS):
            await CLOCK.sleep(chance(0.1, 0.6))
            await _end_some_sessions(house, turn)
        recovered.append(await house.until_something_happens())
        await starting
        await house.until_all_ended(60)
        looking.cancel()
        verdict, busiest = await audited(load), _connects_per_s(house)
        told(
            "PostgreSQL hurt",
            kills=KILLS,
            sessions_ended=SESSIONS,
            executions=len(verdict.states),
            recovered_most_s=max(recovered),
            connects_per_s_most=busiest,
            starts_tried_again=load.refused,
            repeats=effects.repeats,
            stuck_most_s=verdict.worst_stuck_s(),
        )
        assert len(verdict.ok) == len(load.acked) == EXECUTIONS
        assert all(len(effects.paths[id]) == STEPS for id in load.acked)
        assert max(recovered) <= 3
        assert busiest < 50


async def _end_some_sessions(house: House, turn: int) -> None:
    """Half of them: now the one that writes the log of a server, now others."""
    await house.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'noetl' AND pid % 2 = $1",
        turn % 2,
    )


def _connects_per_s(house: House) -> int:
    """In the busiest second, by PostgreSQL's own log: of those that came, whether let in or not."""
    text = (house.logs / "postgresql.log").read_text("utf-8", "replace")
    return max(Counter(re.findall(r"^(\d+)\.\d+ LOG:  connection received", text, re.MULTILINE)).values())


def test_nats_killed_stalled_wiped_and_without_its_stream_costs_a_sweep_and_nothing_else() -> None:
    asyncio.run(_hurt_nats())


async def _hurt_nats() -> None:
    faults: list[tuple[str, Callable[[House], Awaitable[None]]]] = [
        *[(f"killed {number}", _kill) for number in range(1, KILLS + 1)],
        ("stalled", _stall),
        ("wiped", _wipe),
        ("consumer deleted", _delete_consumer),
        ("stream deleted", _delete_stream),
    ]
    async with opened() as house, serving() as effects:
        load, chance, stuck = Load(house, effects), Chance("nats"), dict[str, float]()
        await load.register(CHAIN)
        starting = asyncio.ensure_future(load.keep_starting("chaos/chain", EXECUTIONS, 0.8, ms=80))
        for name, fault in faults:
            await CLOCK.sleep(chance(1.0, 3.0))
            await fault(house)
            stuck[name] = await house.until_something_happens()
            await load.start("chaos/chain", ms=20)
        await starting
        await house.until_all_ended(60)
        verdict = await audited(load)
        told(
            "NATS hurt",
            **{f"after it was {name}, s": seconds for name, seconds in stuck.items()},
            executions=len(verdict.states),
            starts_tried_again=load.refused,
            repeats=effects.repeats,
            stuck_most_s=verdict.worst_stuck_s(),
        )
        assert len(verdict.ok) == len(load.acked) == EXECUTIONS + len(faults)
        assert all(len(effects.paths[id]) == STEPS for id in load.acked)
        assert verdict.worst_stuck_s() <= SWEEP_S + LEASE_S + STALLED_S


async def _kill(house: House) -> None:
    await house.kill("nats")
    await house.start("nats")


async def _stall(house: House) -> None:
    house.signal("nats", signal.SIGSTOP)
    await CLOCK.sleep(STALLED_S)
    house.signal("nats", signal.SIGCONT)


async def _wipe(house: House) -> None:
    await house.kill("nats")
    shutil.rmtree(house.store)
    house.store.mkdir(mode=0o700)
    await house.start("nats")


async def _delete_consumer(house: House) -> None:
    client = await _client(house)
    with suppress(NotFoundError):
        await client.jetstream().delete_consumer(STREAM, POOL)
    await client.close()


async def _delete_stream(house: House) -> None:
    client = await _client(house)
    with suppress(NotFoundError):
        await client.jetstream().delete_stream(STREAM)
    await client.close()


async def _client(house: House) -> Client:
    client = Client()
    await client.connect(house.nats)
    return client
