"""Triggers of two servers on PostgreSQL: every firing starts one execution, even if servers are killed."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

from tests.distributed.cluster import Cluster, ClusterSize, synced_postgres
from tests.playbooks import HEAD

COUNT = 10
TEXT = (
    HEAD.replace("path: t", "path: shop/poll")
    + "workload: {at: ''}\ntriggers:\n"
    + "".join(
        f"- {{name: t{number}, kind: interval, every_s: 1, catchup: all, workload: {{at: '{{{{ trigger.scheduled_at }}}}'}}}}\n"
        for number in range(COUNT)
    )
    + "workflow:\n- step: start\n  tool: {kind: noop, input: {at: '{{ workload.at }}'}}\n"
)
SIZE = ClusterSize(servers=2, workers=1, lease_s=3.0)


async def fired(cluster: Cluster) -> list[int]:
    async with cluster.connected() as connection:
        return [row[0] for row in await connection.fetch("SELECT fired FROM noetl.triggers ORDER BY name")]


async def requests(cluster: Cluster) -> Counter[tuple[str, str]]:
    """(trigger, scheduled time) of all executions."""
    query = "SELECT body FROM noetl.log WHERE first_seq = 1"
    async with cluster.connected() as connection:
        facts = [json.loads(row[0])[0] for row in await connection.fetch(query)]
    return Counter((each["by"], each["workload"]["at"]) for each in facts)


async def all_fired(cluster: Cluster, times: int) -> None:
    """Every trigger fires this many times more."""
    before = await fired(cluster)

    async def done() -> bool:
        return all(now >= then + times for then, now in zip(before, await fired(cluster), strict=True))

    await cluster.until(done)


def test_every_second_starts_one_execution_although_servers_are_killed(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, SIZE, synced_postgres())
    try:
        cluster.open()
        file = tmp_path / "t.yaml"
        file.write_text(TEXT, encoding="utf-8")
        assert cluster.call("register", file).returncode == 0
        asyncio.run(all_fired(cluster, 3))
        for number in (0, 1, 0):
            cluster.servers[number].kill()
            asyncio.run(all_fired(cluster, 3))  # the other server takes all triggers over
            cluster.start_server(number)
            asyncio.run(all_fired(cluster, 2))
        found = asyncio.run(requests(cluster))
    finally:
        cluster.close()
    assert set(found.values()) == {1}
    for number in range(COUNT):
        times = sorted(at for by, at in found if by == f"trigger shop/poll:t{number}")
        first = datetime.fromisoformat(times[0])
        expected = [first + timedelta(seconds=second) for second in range(len(times))]
        assert [datetime.fromisoformat(each) for each in times] == expected
        assert len(times) >= 15
