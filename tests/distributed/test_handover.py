"""Servers that join and leave under load: requests wait for the new owner of a partition, and none is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from noetl.api.executions import StartRequest
from noetl.client import Client
from noetl.views.documents import ShowDocument
from tests.distributed.cluster import PATIENCE_S, Cluster, ClusterSize, open_cluster, repeated
from tests.playbooks import HEAD

CALLERS = 8
HANDOVERS = 2
TWO = (
    HEAD
    + """\
workflow:
- step: start
  tool: {kind: noop}
  next: {arcs: [{step: done}]}
- step: done
  tool: {kind: noop}
"""
)


async def _run(client: Client, digest: str) -> str:
    """One request without repetitions: a 503 fails the test."""
    response = await client.http.request(
        "POST", "/executions", params={"wait": 120}, body=StartRequest(digest=digest), retry=False, wait_s=PATIENCE_S
    )
    document = response.read(ShowDocument)
    assert document.status == "ok"
    return document.execution_id


async def _hand_over(cluster: Cluster) -> list[str]:
    ended: list[str] = []
    is_over = False

    async def call(client: Client, digest: str) -> None:
        while not is_over:
            ended.append(await _run(client, digest))

    async with cluster.client() as client, asyncio.TaskGroup() as tasks:
        digest = (await client.register(TWO)).digest
        for _ in range(CALLERS):
            tasks.create_task(call(client, digest))
        for _ in range(HANDOVERS):
            assert await asyncio.to_thread(cluster.servers[1].stop) == 0
            await asyncio.to_thread(cluster.start_server, 1)
            await cluster.until(cluster.is_shared)
            wanted = len(ended) + 2 * CALLERS  # some of them start after the handover

            async def went_on(wanted: int = wanted) -> bool:
                return len(ended) >= wanted

            await cluster.until(went_on)
        is_over = True
    return ended


@pytest.mark.parametrize(("workers", "server_slots"), [(2, 0), (0, 16)])
def test_no_request_is_refused_while_a_server_leaves_and_joins(workers: int, server_slots: int, tmp_path: Path) -> None:
    size = ClusterSize(servers=2, workers=workers, server_slots=server_slots, lease_s=120)
    with open_cluster(tmp_path, size) as cluster:
        ended = asyncio.run(_hand_over(cluster))
        assert asyncio.run(cluster.executions()) == dict.fromkeys(ended, "ok")
        for id in ended:
            asyncio.run(cluster.audited(id))
            assert repeated(asyncio.run(cluster.facts(id))) == []
