"""Forks on a cluster: the owner of the new execution plans it; any server may have owned the old one (D114)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from noetl.api.executions import ForkRequest
from tests.api.test_forks import BROKEN, FIXED
from tests.distributed.cluster import Cluster, ClusterSize, open_cluster

FORKS = 8  # one server owns all of them with a probability of one in 128
LARGE = BROKEN.replace("list(range(n))", "[str(each) * 50 for each in range(n)]").replace("sum(rowz)", "len(rowz)")


async def _forks(cluster: Cluster) -> None:
    async with cluster.client(0) as client:
        for broken, fixed, result in (
            (BROKEN, FIXED, 3),
            (LARGE, LARGE.replace("rowz", "rows"), 5_000),
        ):
            workload = {} if result == 3 else {"n": 5_000}
            old = (await client.start_text(broken, workload)).execution_id
            assert (await cluster.ended(old)).status == "error"
            for number in range(FORKS):
                async with cluster.client(number % 2) as other:
                    answer = await other.fork(old, ForkRequest(text=fixed))
                assert answer.plan.kept == ("start#1",)
                assert isinstance(answer.execution_id, str)
                shown = await cluster.ended(answer.execution_id)
                assert (shown.status, shown.output and shown.output.data) == ("ok", result)


def test_any_server_forks_any_execution(tmp_path: Path) -> None:
    with open_cluster(tmp_path, ClusterSize(servers=2, workers=1)) as cluster:
        asyncio.run(_forks(cluster))
