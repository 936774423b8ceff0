"""Notifications of two servers on PostgreSQL: each end is notified once, even if servers are killed."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

from noetl.client import Client
from noetl.errors import Unavailable
from tests.distributed.cluster import Cluster, ClusterSize, synced_postgres
from tests.playbooks import HEAD

TEXT = (
    HEAD.replace("path: t", "path: shop/load")
    + "workload: {n: 0}\nnotify:\n"
    + "- on: [failed, finished]\n  tool: {kind: noop, input: {n: '{{ workload.n }}', id: '{{ execution.id }}'}}\n"
    + "- on: [failed]\n  tool: {kind: noop, input: {message: '{{ execution.error.message }}'}}\n"
    + "workflow:\n- step: start\n  tool: {kind: shell, sh: 'exit {{ workload.n % 2 }}'}\n"
)
SIZE = ClusterSize(servers=2, workers=1, lease_s=3.0)
COUNT = 30  # executions before and after each kill


async def _start(client: Client, number: int) -> str:
    """The key makes a repeated request the same one."""
    while True:
        try:
            return (await client.start(path="shop/load", workload={"n": number}, key=f"n{number}")).execution_id
        except Unavailable:
            continue


async def _starts(cluster: Cluster, server: int, first: int) -> list[str]:
    async with cluster.client(server) as client:
        return [await _start(client, number) for number in range(first, first + COUNT)]


async def _told(cluster: Cluster) -> Counter[str]:
    """How often each notification was started: "<execution>/notify[0]@failed" → number."""
    query = "SELECT parent FROM noetl.heads WHERE parent IS NOT NULL"
    async with cluster.connected() as connection:
        return Counter(row[0] for row in await connection.fetch(query))


async def _is_over(cluster: Cluster) -> bool:
    query = (
        "SELECT (SELECT count(*) FROM noetl.heads WHERE status = 'running'), (SELECT count(*) FROM noetl.unnotified)"
    )
    async with cluster.connected() as connection:
        return tuple(await connection.fetchrow(query)) == (0, 0)


async def _requests(cluster: Cluster, ids: set[str]) -> dict[str, int]:
    query = "SELECT execution_id, body FROM noetl.log WHERE first_seq = 1"
    async with cluster.connected() as connection:
        rows = await connection.fetch(query)
    return {row[0]: json.loads(row[1])[0]["workload"]["n"] for row in rows if row[0] in ids}


def test_each_end_is_told_once_although_servers_are_killed(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, SIZE, synced_postgres())
    ids: list[str] = []
    try:
        cluster.open()
        file = tmp_path / "t.yaml"
        file.write_text(TEXT, encoding="utf-8")
        assert cluster.call("register", file).returncode == 0
        for number in (0, 1, 0):
            ids += asyncio.run(_starts(cluster, 1 - number, len(ids)))
            cluster.servers[number].kill()
            ids += asyncio.run(_starts(cluster, 1 - number, len(ids)))
            cluster.start_server(number)
        asyncio.run(cluster.until(lambda: _is_over(cluster)))
        told = asyncio.run(_told(cluster))
        numbers = asyncio.run(_requests(cluster, set(ids)))
    finally:
        cluster.close()
    assert set(told.values()) == {1}
    expected: set[str] = set()
    for id, n in numbers.items():
        failed = [f"{id}/notify[0]@failed", f"{id}/notify[1]@failed"]
        expected.update(failed if n % 2 else [f"{id}/notify[0]@finished"])
    assert set(told) == expected
    assert len(numbers) == 6 * COUNT
