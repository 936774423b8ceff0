"""Rates by key on two servers and three workers: an outside server never counts more calls than the rate permits.

A busy machine may delay a call, and never makes one early. So the calls are counted from the beginning, and not
within each period: a delayed call would be counted in the next one.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

from noetl.engine.facts import FrameParked
from tests.distributed.cluster import SHORT_LEASE_S, Cluster, ClusterSize, open_cluster
from tests.distributed.effects import Effects, effects
from tests.playbooks import HEAD

KEYS, EACH = ("k0", "k1"), 30
COUNT, PER_S = 5, 2.0
BUSY, RETRY_AFTER_S = 8, 5
RATE = f"rate: {{count: {COUNT}, per_s: {PER_S}}}"


def playbook(limit: str, query: str = "") -> str:
    return HEAD + (
        'workload: {key: "", url: ""}\nworkflow:\n- step: start\n  tool:\n    kind: http\n'
        f'    url: "{{{{ workload.url }}}}/call/{{{{ execution_id }}}}?counted={{{{ workload.key }}}}{query}"\n'
        f'    spec: {{retry: {{attempts: 2, delay: 0}}, policy: {{limit: {{key: "{{{{ workload.key }}}}", {limit}}}}}}}\n'
    )


async def start(cluster: Cluster, outside: Effects, text: str) -> dict[str, list[str]]:
    """Executions by key, half of them from each server."""
    clients = [cluster.client(number) for number in range(cluster.size.servers)]
    digest = (await clients[0].register(text)).digest
    started: dict[str, list[str]] = {key: [] for key in KEYS}
    for number in range(len(KEYS) * EACH):
        key, client = KEYS[number % 2], clients[number // 2 % 2]
        workload = {"key": key, "url": outside.url}
        started[key].append((await client.start(digest=digest, workload=workload)).execution_id)
    for client in clients:
        await client.close()
    return started


async def end(cluster: Cluster) -> None:
    async def all_ended() -> bool:
        return set((await cluster.executions()).values()) == {"ok"}

    await cluster.until(all_ended)


async def began(cluster: Cluster, executions: list[str]) -> datetime:
    """When the first call asked for its permit."""
    rows = [row for each in executions for row in await cluster.rows(each)]
    return min(row.at for row in rows for fact in row.facts if isinstance(fact, FrameParked))


def most_early(arrivals: list[datetime], begin: datetime, burst: int) -> float:
    """By how many refill intervals of one call the calls were early; a negative number: they were not."""
    per_call = timedelta(seconds=PER_S / COUNT)
    return max(number - burst - (at - begin) / per_call for number, at in enumerate(arrivals, 1))


def test_a_rate_holds_across_servers_and_the_death_of_one(tmp_path: Path) -> None:
    async def work(cluster: Cluster, outside: Effects) -> None:
        started = await start(cluster, outside, playbook(RATE))
        await outside.until(lambda each: len(each.calls) >= len(KEYS) * EACH // 3)
        cluster.servers[0].kill()
        cluster.start_server(0)
        await end(cluster)
        for key, executions in started.items():
            early = most_early(outside.arrivals[key], await began(cluster, executions), COUNT)
            assert early <= 1, f"{key}: {early} intervals"
            for each in executions:
                await cluster.audited(each)

    size = ClusterSize(servers=2, workers=3, lease_s=SHORT_LEASE_S)
    with effects() as outside, open_cluster(tmp_path, size) as cluster:
        asyncio.run(work(cluster, outside))
    assert outside.repeated == {}
    assert {key: len(times) for key, times in outside.arrivals.items()} == dict.fromkeys(KEYS, EACH)


def test_retry_after_empties_the_bucket_for_everyone(tmp_path: Path) -> None:
    async def work(cluster: Cluster, outside: Effects) -> None:
        # One call at a time: no other call has got its permit before the answer with Retry-After.
        limit = f"in_flight: 1, {RATE}, respect_retry_after: true"
        started = await start(cluster, outside, playbook(limit, f"&busy={BUSY}&retry_after={RETRY_AFTER_S}"))
        await end(cluster)
        for key, executions in started.items():
            arrivals = outside.arrivals[key]
            before, after = arrivals[:BUSY], arrivals[BUSY:]
            assert most_early(before, await began(cluster, executions), COUNT) <= 1
            assert after[0] - before[-1] >= timedelta(seconds=RETRY_AFTER_S)
            # The bucket was empty: it gives one call, and refills from then on.
            assert most_early(after, before[-1] + timedelta(seconds=RETRY_AFTER_S), 1) <= 1

    with effects() as outside, open_cluster(tmp_path, ClusterSize(servers=2, workers=3)) as cluster:
        asyncio.run(work(cluster, outside))
    assert {key: len(times) for key, times in outside.arrivals.items()} == dict.fromkeys(KEYS, EACH + 1)
