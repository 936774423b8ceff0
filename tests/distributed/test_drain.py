"""After SIGTERM, a worker finishes its calls and returns the rest, a server releases its partitions; no call is repeated."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from noetl.clock import SystemClock
from tests.distributed.cluster import PARTITIONS, Cluster, ClusterSize, open_cluster, repeated
from tests.distributed.effects import Effects, effects
from tests.playbooks import HEAD

# Two calls end at once. The next eight wait for the signal, and then take a second: the process stops meanwhile.
LOOP = (
    HEAD
    + """\
workload: {url: "", many: 24}
workflow:
- step: start
  loop: {in: "{{ range(workload.many) }}", iterator: n, spec: {mode: parallel, max_in_flight: 8}}
  tool: {kind: http, input: {method: POST, url: "{{ workload.url }}/{{ 'call' if iter.n < 2 else 'gate/signal' }}/{{ iter.n }}", params: {ms: "{{ 0 if iter.n < 2 else 1000 }}"}}}
"""
)
clock = SystemClock()


async def _soundly_ended(cluster: Cluster, id: str, server: int = 0) -> None:
    document = await cluster.ended(id, server)
    assert document.status == "ok"
    await cluster.audited(id)
    assert repeated(await cluster.facts(id)) == []


async def _worker_leaves(cluster: Cluster, served: Effects) -> float:
    id = await cluster.start(LOOP, {"url": served.url})
    await served.until(lambda seen: seen.out == 8 and seen.answered == 2)
    begun = clock.monotonic()
    cluster.workers[0].send(signal.SIGTERM)
    served.open("signal")
    assert await asyncio.to_thread(cluster.workers[0].wait) == 0
    took = clock.monotonic() - begun
    await _soundly_ended(cluster, id)
    assert clock.monotonic() - begun < cluster.size.lease_s / 2  # no lease must run out
    return took


def test_a_worker_that_gets_sigterm_finishes_its_calls_and_none_is_repeated(tmp_path: Path) -> None:
    with effects() as served, open_cluster(tmp_path, ClusterSize(workers=2, slots=6, lease_s=120)) as cluster:
        took = asyncio.run(_worker_leaves(cluster, served))
        print(f"the worker left in {took:.2f} s")
        assert (len(served.calls), served.repeated, served.most) == (24, {}, 8)
        assert took < cluster.size.lease_s / 2


async def _server_leaves(cluster: Cluster, served: Effects) -> float:
    id = await cluster.start(LOOP, {"url": served.url})
    await served.until(lambda seen: seen.out == 8 and seen.answered == 2)
    owner = await cluster.owner(id)
    assert owner is not None
    other = 1 - owner

    async def is_taken() -> bool:
        return list((await cluster.owners()).values()) == [other] * PARTITIONS

    begun = clock.monotonic()
    cluster.servers[owner].send(signal.SIGTERM)
    served.open("signal")
    await cluster.until(is_taken)
    took = clock.monotonic() - begun
    assert await asyncio.to_thread(cluster.servers[owner].wait) == 0
    await _soundly_ended(cluster, id, other)
    return took


def test_a_server_that_gets_sigterm_releases_its_partitions_at_once(tmp_path: Path) -> None:
    """With long leases: the other server must not wait for one to run out."""
    with (
        effects() as served,
        open_cluster(tmp_path, ClusterSize(servers=2, workers=2, lease_s=120)) as cluster,
    ):
        took = asyncio.run(_server_leaves(cluster, served))
        print(f"the other server took its partitions in {took:.2f} s")
        assert (len(served.calls), served.repeated, served.most) == (24, {}, 8)
        assert took < cluster.size.lease_s / 2
