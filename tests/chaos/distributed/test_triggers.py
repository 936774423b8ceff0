"""Triggers of two servers of which one is killed again and again: every firing and every message is one execution.

TRIGGER_S and TRIGGERS set the duration and the number of cron triggers: 600 and 1000 take ten minutes and a killed server
every 30 seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import nats
from nats.errors import Error as NatsError

from tests.chaos.distributed.audit import report
from tests.chaos.distributed.cluster import CLOCK, ChaosCluster, Plan, opened, until
from tests.playbooks import HEAD

SECONDS = float(os.environ.get("TRIGGER_S", "60"))
COUNT = int(os.environ.get("TRIGGERS", "60"))
KILL_EVERY_S = min(30.0, SECONDS / 6)
INTERVALS = 5  # triggers that fire every second
MESSAGE_EVERY_S = 0.2
_AT = "catchup: all, workload: {at: '{{ trigger.scheduled_at }}'}"
ROWS = [
    *(f'{{name: c{number}, kind: cron, cron: "* * * * *", jitter_s: {number % 20}, {_AT}}}' for number in range(COUNT)),
    *(f"{{name: i{number}, kind: interval, every_s: 1, {_AT}}}" for number in range(INTERVALS)),
    "{name: events, kind: nats, stream: ORDERS, deliver: all, workload: {at: '{{ message.data }}'}}",
]
TEXT = (
    HEAD.replace("path: t", "path: chaos/triggers")
    + "workload: {at: ''}\ntriggers:\n"
    + "".join(f"- {row}\n" for row in ROWS)
    + "workflow:\n- step: start\n  tool: {kind: noop, input: {at: '{{ workload.at }}'}}\n"
)


def test_every_firing_is_one_execution_although_servers_are_killed() -> None:
    asyncio.run(_kill_servers())


async def _kill_servers() -> None:
    async with opened(Plan(named=True)) as cluster:
        client = await nats.connect(cluster.nats)
        await client.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
        await cluster.clients[0].register(TEXT)
        sent: list[str] = []
        begun = CLOCK.monotonic()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_send(client, sent))
            kills = tasks.create_task(_kill(cluster))
        found, late = await _settled(cluster, sent)
        report(
            "triggers while servers are killed",
            kills=kills.result(),
            firings=sum(len(each) for name, each in found.items() if name != "events"),
            messages=len(sent),
            executions=sum(sum(each.values()) for each in found.values()),
            most_seconds_late=late,
            seconds=CLOCK.monotonic() - begun,
        )
        await client.close()
    for name, times in found.items():
        assert set(times.values()) == {1}, (name, times.most_common(3))
    assert set(found.pop("events")) == set(sent)
    assert len(found) == COUNT + INTERVALS
    for name, times in found.items():
        ordered = sorted(map(datetime.fromisoformat, times))
        step = timedelta(seconds=60 if name.startswith("c") else 1)
        assert ordered == [ordered[0] + number * step for number in range(len(ordered))], name
        assert (ordered[-1] - ordered[0]) / timedelta(seconds=1) > SECONDS - 130, name


async def _send(client: Any, sent: list[str]) -> None:
    """Messages for the stream, at a constant rate."""
    begun = CLOCK.monotonic()
    while CLOCK.monotonic() - begun < SECONDS:
        data = f"m{len(sent)}"
        with suppress(NatsError, TimeoutError):
            await client.jetstream().publish("orders.new", data.encode(), headers={"Nats-Msg-Id": data})
            sent.append(data)
        await CLOCK.sleep(MESSAGE_EVERY_S)


async def _kill(cluster: ChaosCluster) -> int:
    """Kill one server after the other."""
    begun, kills = CLOCK.monotonic(), 0
    while CLOCK.monotonic() - begun < SECONDS - KILL_EVERY_S:
        await CLOCK.sleep(KILL_EVERY_S / 2)
        name = cluster.servers[kills % len(cluster.servers)]
        await cluster.kill(name)
        await CLOCK.sleep(KILL_EVERY_S / 2)  # the other server does everything
        await cluster.start(name)
        kills += 1
    return kills


async def _settled(cluster: ChaosCluster, sent: list[str]) -> tuple[dict[str, Counter[str]], float]:
    """By trigger: how many executions there are for each time or message; and how late the latest began, in seconds.

    The triggers are paused when all messages are handled, each has fired and none is overdue, so that nothing is in between.
    A cron trigger may fire for the first time only after the sending has ended: its minute plus its jitter.
    """
    query = "SELECT count(*) FROM noetl.log WHERE first_seq = 1 AND body::text LIKE '%chaos/triggers:events%'"

    async def all_messages_came() -> bool:
        return int((await cluster.rows(query))[0][0]) >= len(set(sent))

    await until(all_messages_came)

    async def all_fired() -> bool:
        missing = "SELECT count(*) FROM noetl.triggers WHERE fired = 0 OR due_at < now() - interval '3 seconds'"
        return int((await cluster.rows(missing))[0][0]) == 0

    await until(all_fired)
    await cluster.rows("UPDATE noetl.triggers SET paused = true")
    await cluster.until_all_ended()
    found: dict[str, Counter[str]] = {}
    late = 0.0
    for at, body in await cluster.rows("SELECT at, body FROM noetl.log WHERE first_seq = 1"):
        fact = json.loads(body)[0]
        name, value = fact["by"].removeprefix("trigger chaos/triggers:"), fact["workload"]["at"]
        found.setdefault(name, Counter())[value] += 1
        if name != "events":
            late = max(late, (at - datetime.fromisoformat(value)).total_seconds())
    return found, late
