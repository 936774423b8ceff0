"""Servers and workers of 0.1.0 are replaced by those of this version one by one, under load: nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from noetl.client import Client
from noetl.clock import SystemClock
from noetl.engine.commands import SetBreakpoint
from noetl.errors import NoetlError
from noetl.session.debugger import RemoteDebugger
from tests.distributed.cluster import LOOK_S, NOETL, SHORT_LEASE_S, Cluster, ClusterSize, open_cluster, repeated
from tests.distributed.effects import Effects, effects
from tests.distributed.processes import Process
from tests.distributed.release import install_release
from tests.playbooks import HEAD

AT_ONCE = 4  # executions
BETWEEN = 6  # executions that end between two replacements
PLAYBOOK = (
    HEAD
    + """\
workload: {url: "", name: ""}
workflow:
- step: start
  loop: {in: "{{ range(6) }}", iterator: n, spec: {mode: parallel, max_in_flight: 3}}
  tool:
  - name: fetch
    kind: http
    input: {method: POST, url: "{{ workload.url }}/call/{{ workload.name }}-{{ iter.n }}", params: {ms: 30}}
    set: {iter.seen: "{{ output.data }}"}
  - {name: keep, kind: python, input: {n: "{{ iter.n }}"}, code: "def main(n):\\n    return n * 2"}
  next: {arcs: [{step: last}]}
- step: last
  tool: {kind: http, input: {method: POST, url: "{{ workload.url }}/call/{{ workload.name }}-last"}}
  set: {ctx.done: "{{ workload.name }}"}
"""
)
clock = SystemClock()


class Load:
    """Executions that start one after the other, on a server that is running."""

    def __init__(self, cluster: Cluster, served: Effects) -> None:
        self.cluster, self.served = cluster, served
        self.started: dict[str, str] = {}  # name → execution id
        self.ended = 0
        self.over = False

    async def run(self, lane: int) -> None:
        number = 0
        while not self.over:
            number += 1
            name = f"{lane}-{number}"
            self.started[name] = id = await self._start(name)
            document = await self._end(id)
            assert document == "ok", name
            self.ended += 1

    async def _start(self, name: str) -> str:
        """The idempotency key makes it safe to ask the other server after a connection that broke."""
        while True:
            async with self._client() as client:
                try:
                    registered = await client.register(PLAYBOOK)
                    workload = {"url": self.served.url, "name": name}
                    answer = await client.start(digest=registered.digest, workload=workload, key=name)
                except NoetlError:
                    await clock.sleep(LOOK_S)
                    continue
                return answer.execution_id

    async def _end(self, id: str) -> str:
        status = "running"

        async def has_ended() -> bool:
            nonlocal status
            status = (await self.cluster.executions()).get(id, "running")
            return status in ("ok", "error", "cancelled")

        await self.cluster.until(has_ended)
        return status

    def _client(self) -> Client:
        alive = [number for number, server in enumerate(self.cluster.servers) if server.alive and server.ready_line]
        return self.cluster.client(alive[len(self.started) % len(alive)])


async def _upgraded(cluster: Cluster, served: Effects, processes: Sequence[Process]) -> Load:
    """Replace processes by those of this version, one by one, under load."""
    load = Load(cluster, served)

    async def more() -> bool:
        return load.ended >= wanted

    async with asyncio.TaskGroup() as group:
        lanes = [group.create_task(load.run(lane)) for lane in range(AT_ONCE)]
        for process in processes:
            wanted = load.ended + BETWEEN
            await cluster.until(more)
            await asyncio.to_thread(cluster.replace, process, [NOETL])
        wanted = load.ended + BETWEEN
        await cluster.until(more)
        load.over = True
        await asyncio.wait(lanes)
    return load


async def _nothing_lost(cluster: Cluster, served: Effects, load: Load) -> None:
    calls = {f"{name}-{which}" for name in load.started for which in (*range(6), "last")}
    assert set(served.calls) == calls
    for id in load.started.values():
        assert repeated(await cluster.facts(id)) == []
        await cluster.audited(id)


@pytest.mark.parametrize("first", ["servers", "workers"])
def test_an_upgrade_from_the_release_under_load_loses_nothing(first: str, tmp_path: Path) -> None:
    """In either order: new servers have old workers for a time, or old servers new workers."""
    size = ClusterSize(servers=2, workers=2, slots=8, isolation="none", release=install_release(tmp_path / "release"))
    (tmp_path / "cluster").mkdir()
    with effects() as served, open_cluster(tmp_path / "cluster", size) as cluster:
        processes = [*cluster.servers, *cluster.workers]
        ordered = processes if first == "servers" else [*cluster.workers, *cluster.servers]
        load = asyncio.run(_upgraded(cluster, served, ordered))
        asyncio.run(_nothing_lost(cluster, served, load))
        print(f"{load.ended} executions ended during the upgrade; repeated requests: {served.repeated}")


async def _holds(cluster: Cluster, served: Effects) -> None:
    """The old worker runs other executions meanwhile; the new one stops at the breakpoint."""
    async with cluster.client() as client:
        held = await client.register(PLAYBOOK)
        workload = {"url": served.url, "name": "held"}
        point = SetBreakpoint(place="start.keep", when="iter.n == 0")
        id = (await client.start(digest=held.digest, workload=workload, breakpoints=[point])).execution_id
        for number in range(3):
            name = f"free-{number}"
            shown = await client.run(digest=held.digest, workload={**workload, "name": name})
            assert shown.status == "ok"
        assert not [each for each in served.calls if each.startswith("held-")]
        await asyncio.to_thread(cluster.replace, cluster.workers[0], [NOETL])
        debugger = RemoteDebugger(client.http, id)

        async def is_held() -> bool:
            return bool((await debugger.document()).held)

        await cluster.until(is_held)
        assert "held-last" not in served.calls
        await debugger.release()
        assert (await cluster.ended(id)).status == "ok"
        await cluster.audited(id)


def test_a_worker_of_the_release_gets_no_frames_that_it_would_have_to_hold(tmp_path: Path) -> None:
    release = install_release(tmp_path / "release")
    size = ClusterSize(servers=1, workers=1, lease_s=SHORT_LEASE_S, isolation="none", release=release)
    (tmp_path / "cluster").mkdir()
    with effects() as served, open_cluster(tmp_path / "cluster", size) as cluster:
        cluster.replace(cluster.servers[0], [NOETL])
        asyncio.run(_holds(cluster, served))
        assert "does not stop at the breakpoints" in cluster.servers[0].output()
