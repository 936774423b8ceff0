"""One direction between a server and NATS stops: its executions continue when it works again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from noetl.clock import SystemClock
from noetl.errors import Unavailable
from tests.distributed.cluster import SHORT_LEASE_S, Cluster, ClusterSize, open_cluster, repeated
from tests.distributed.effects import Effects, effects
from tests.distributed.half_open import Direction, HalfOpenProxy, half_open_proxy
from tests.playbooks import HEAD

EXECUTIONS = 24
RECOVERY_S = SHORT_LEASE_S + 5.0  # after the end of the cut, every execution makes progress within this time
BUSY_S = 10.0  # added to it: the machine may run other work; the test prints the exact figures
# The first call waits until the direction is cut.
CHAIN = (
    HEAD
    + """\
workload: {url: "", n: 0}
workflow:
- step: start
  tool: {kind: http, input: {method: POST, url: "{{ workload.url }}/gate/cut/{{ workload.n }}"}}
  next: {arcs: [{step: second}]}
- step: second
  tool: {kind: http, input: {method: POST, url: "{{ workload.url }}/call/second-{{ workload.n }}"}}
  next: {arcs: [{step: third}]}
- step: third
  tool: {kind: http, input: {method: POST, url: "{{ workload.url }}/call/third-{{ workload.n }}"}}
"""
)
clock = SystemClock()


def connect_through(cluster: Cluster, server: int, proxy: HalfOpenProxy) -> None:
    """Start a server again, with a connection to NATS through the proxy."""
    process = cluster.servers[server]
    process.stop()
    url = cluster.nats_url().replace(f":{cluster.nats_port}", f":{proxy.port}")
    process.start(process.program._replace(environment={**process.program.environment, "NOETL_NATS": url}))
    asyncio.run(cluster.until(cluster.is_shared))


async def cut_and_restore(
    cluster: Cluster, served: Effects, proxy: HalfOpenProxy, direction: Direction, lasts_s: float = 0.0
) -> float:
    """Seconds from the end of the cut to the end of all executions. `lasts_s`: of the cut, after it was noticed."""
    ids = [await cluster.start(CHAIN, {"url": served.url, "n": number}) for number in range(EXECUTIONS)]
    await served.until(lambda seen: seen.out == EXECUTIONS)
    others = [id for id in ids if await cluster.owner(id) == 0]
    assert 0 < len(others) < EXECUTIONS
    proxy.cut(direction)
    served.open("cut")
    async with cluster.client(1) as client:

        async def is_noticed() -> bool:
            try:
                await client.http.request("GET", "/ready", retry=False)
            except Unavailable:
                return True
            return False

        await cluster.until(is_noticed)
    for id in others:  # the other server is not affected
        assert (await cluster.ended(id)).status == "ok"
    await clock.sleep(lasts_s)
    begun, restored_at = clock.monotonic(), clock.now()
    proxy.restore()
    for id in ids:
        assert (await cluster.ended(id)).status == "ok"
    took = clock.monotonic() - begun
    for id in ids:
        await cluster.audited(id)
        assert repeated(await cluster.facts(id)) == []
        later = [row.at for row in await cluster.rows(id) if row.at > restored_at]
        if later:  # otherwise it has ended before
            waited_s = (min(later) - restored_at).total_seconds()
            assert waited_s <= RECOVERY_S + BUSY_S, f"{id} went on {waited_s:.1f} s after the cut"
    return took


@pytest.mark.parametrize("direction", ["to", "from"])
def test_executions_continue_after_one_direction_to_nats_was_cut(tmp_path: Path, direction: Direction) -> None:
    with (
        effects() as served,
        open_cluster(tmp_path, ClusterSize(servers=2, workers=2, lease_s=SHORT_LEASE_S)) as cluster,
        half_open_proxy(cluster.nats_port) as proxy,
    ):
        connect_through(cluster, 1, proxy)
        took = asyncio.run(cut_and_restore(cluster, served, proxy, direction))
        assert took <= RECOVERY_S + BUSY_S
        print(f"all executions ended {took:.2f} s after the cut of the direction {direction} NATS")
