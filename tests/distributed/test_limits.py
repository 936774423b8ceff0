"""Limits by key on two servers and three workers: an outside server never counts more than the limit permits."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from statistics import mean

import pytest

from noetl.engine.facts import Requested, TaskDone
from tests.distributed.cluster import Cluster, ClusterSize, open_cluster
from tests.distributed.effects import Effects, effects
from tests.playbooks import HEAD

KEYS, EACH, LIMIT = 5, 40, 3
SIZE = ClusterSize(servers=2, workers=3, lease_s=20.0)
CALL = 'kind: http, url: "{{ workload.url }}/call/{{ execution_id }}?counted={{ workload.key }}&ms=100"'
SHARED = f'limit: {{key: "{{{{ workload.key }}}}", in_flight: {LIMIT}}}'
KINDS = {
    "execution": f"""
executor: {{spec: {{policy: {{concurrency: {{key: "{{{{ workload.key }}}}", limit: {LIMIT}}}}}}}}}
workflow: [{{step: start, tool: {{{CALL}}}}}]
""",
    "step": f"workflow: [{{step: start, spec: {{policy: {{{SHARED}}}}}, tool: {{{CALL}}}}}]\n",
    "task": f"workflow: [{{step: start, tool: {{{CALL}, spec: {{policy: {{{SHARED}}}}}}}}}]\n",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_holds_across_servers_and_nobody_starves(kind: str, tmp_path: Path) -> None:
    with effects() as outside, open_cluster(tmp_path, SIZE) as cluster:
        waits = asyncio.run(_run(cluster, outside, KINDS[kind]))
        assert asyncio.run(_permits(cluster)) == []
    assert outside.most_at_once.keys() == {f"k{number}" for number in range(KEYS)}
    assert max(outside.most_at_once.values()) <= LIMIT
    assert outside.repeated == {}
    longest = [max(some) for some in waits.values()]
    assert max(longest) <= 2 * mean(longest), longest


async def _run(cluster: Cluster, outside: Effects, body: str) -> dict[str, list[float]]:
    """The seconds from each request to its call, by key."""
    text = HEAD + 'workload: {key: "", url: ""}\n' + body
    seats = asyncio.Semaphore(16)
    clients = [cluster.client(number) for number in range(SIZE.servers)]
    digest = (await clients[0].register(text)).digest

    async def start(number: int) -> tuple[str, str]:
        key = f"k{number % KEYS}"
        async with seats:
            workload = {"key": key, "url": outside.url}
            return key, (await clients[number % len(clients)].start(digest=digest, workload=workload)).execution_id

    started = await asyncio.gather(*(start(number) for number in range(KEYS * EACH)))
    for client in clients:
        await client.close()

    async def all_ended() -> bool:
        return set((await cluster.executions()).values()) == {"ok"}

    await cluster.until(all_ended)

    async def all_released() -> bool:
        return await _permits(cluster) == []

    await cluster.until(all_released)
    waits: dict[str, list[float]] = {}
    for key, execution_id in started:
        await cluster.audited(execution_id)
        requested, called = await _instants(cluster, execution_id)
        waits.setdefault(key, []).append((called - requested).total_seconds())
    return waits


async def _instants(cluster: Cluster, execution_id: str) -> tuple[datetime, datetime]:
    """When it was requested, and when its call began."""
    rows = await cluster.rows(execution_id)
    (requested,) = [row.at for row in rows for fact in row.facts if isinstance(fact, Requested)]
    (called,) = [fact.started_at for row in rows for fact in row.facts if isinstance(fact, TaskDone)]
    assert called is not None
    return requested, called


async def _permits(cluster: Cluster) -> list[str]:
    async with cluster.connected() as connection:
        return [row[0] for row in await connection.fetch("SELECT holder FROM noetl.permits")]
