"""D65 on two servers: a refused request to any server is in the log, and both servers return it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from noetl.client import PlaybookRefused
from noetl.engine.facts import Evaluated, Processed, Requested
from noetl.errors import NotFound, Rejected
from tests.distributed.cluster import Cluster, ClusterSize, open_cluster
from tests.playbooks import HEAD

BROKEN = HEAD + "workflow:\n- step: start\n  tool: {kind: noop}\n  next: {arcs: [{step: nowhere}]}\n"


async def _refused_by(cluster: Cluster, server: int) -> None:
    async with cluster.client(server) as client, cluster.client(1 - server) as other:
        with pytest.raises(NotFound, match="the log records the request as ") as unknown:
            await client.start("no/such", {"n": 1})
        with pytest.raises(PlaybookRefused) as wrong:
            await client.start_text(BROKEN)
        ids = str(unknown.value).rpartition(" ")[2], wrong.value.execution_id
        requested, evaluated, processed = await cluster.facts(ids[0])
        assert requested == Requested(path="no/such", digest="", workload={"n": 1}, by="tests")
        assert isinstance(evaluated, Evaluated)
        assert (evaluated.error is not None, processed) == (True, Processed(status="error"))
        wrongly = (await cluster.facts(ids[1]))[1]
        assert isinstance(wrongly, Evaluated)
        assert wrongly.error is not None
        assert (wrongly.error.kind, wrongly.error.message[:26]) == ("problems", "the playbook has 1 problem")
        for id in ids:
            assert await cluster.owner(id) == server
            assert (await cluster.audited(id)).status == "error"
            assert await cluster.replayed(id) == []
            for each in (client, other):
                assert (await each.show(id)).status == "error"
                with pytest.raises(Rejected, match="never-began"):
                    await each.retry(id)


def test_a_refused_request_to_any_server_is_in_the_log(tmp_path: Path) -> None:
    async def both(cluster: Cluster) -> None:
        for server in (0, 1):
            await _refused_by(cluster, server)
        assert list((await cluster.executions()).values()) == ["error"] * 4

    with open_cluster(tmp_path, ClusterSize(servers=2, workers=1)) as cluster:
        asyncio.run(both(cluster))
