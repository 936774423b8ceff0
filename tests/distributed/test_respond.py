"""`respond` on a cluster: any server sends the answer, also while another one owns the execution (D110)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp

from tests.api.test_respond import EARLY, LONG, STORED
from tests.distributed.cluster import Cluster, ClusterSize, open_cluster

REQUESTS = 8  # one server owns all of these executions with a probability of one in 128


async def _answers(cluster: Cluster) -> None:
    for text in (EARLY, LONG, STORED):
        async with cluster.client() as client:
            await client.register(text)
    headers = {"Authorization": f"Bearer {cluster.token}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for number in range(REQUESTS):
            async with session.post(f"{cluster.url(1)}/run/t", json={"name": str(number)}) as answer:
                assert (answer.status, await answer.json()) == (202, {"for": str(number)})
                id = answer.headers["Noetl-Execution-Id"]
            async with cluster.client(0) as client:
                assert (await client.show(id)).status == "running"
                async for each in client.stream(id):
                    if getattr(each, "name", "") == "frame.parked":  # after the answer
                        break
                await client.signal(id, "go")
            assert (await cluster.ended(id)).status == "ok"
        async with session.post(f"{cluster.url(0)}/run/report") as answer:
            assert (await answer.read()).split() == [b"%d" % n for n in range(1, 200_001)]
        async with session.post(f"{cluster.url(1)}/run/long") as answer:
            assert await answer.text() == "x" * 200_000


def test_every_server_sends_the_answer(tmp_path: Path) -> None:
    with open_cluster(tmp_path, ClusterSize(servers=2, workers=1)) as cluster:
        asyncio.run(_answers(cluster))
