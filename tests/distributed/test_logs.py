"""Lines that tasks print on a cluster: from any server, and up to the last second after `kill -9` of a worker."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from noetl.clock import SystemClock
from tests.distributed.cluster import Cluster, ClusterSize, open_cluster
from tests.e2e.test_logs import TICKING, ticks
from tests.playbooks import HEAD

FAST = HEAD.replace("path: t", "path: fast") + (
    "keychain: [{name: key, kind: stored}]\nworkflow:\n- step: start\n"
    "  loop: {in: '{{ range(20) }}', iterator: n, spec: {mode: parallel, max_in_flight: 4}}\n"
    "  tool: {kind: shell, env: {KEY: '{{ keychain.key }}'}, sh: 'echo item {{ iter.n }} $KEY'}\n"
)


def logs(cluster: Cluster, id: str, *arguments: str) -> list[str]:
    done = cluster.call("logs", id, *arguments, server=1)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


async def _printed(cluster: Cluster) -> None:
    async with cluster.client() as client:
        await client.set_credential("key", "correct-horse-battery")
    document = await cluster.run(FAST, {})
    assert document.status == "ok"
    lines = await asyncio.to_thread(logs, cluster, document.execution_id, "--follow", "--format", "jsonl")
    found = sorted((each["call"], each["text"]) for each in map(json.loads, lines))
    assert found == sorted((f"start#1[{n}]/1", f"item {n} ***") for n in range(20))


async def _killed(cluster: Cluster, seen: Path) -> None:
    id = await cluster.start(TICKING, {"seen": str(seen)})

    async def has_printed() -> bool:
        return seen.exists() and len(seen.read_text().splitlines()) >= 30

    await cluster.until(has_printed)
    for worker in cluster.workers:
        worker.kill()
    killed_at = SystemClock().now().timestamp()
    expected = sum(1 for at in seen.read_text().split() if float(at) < killed_at - 1)
    assert expected >= 15
    kept = ticks(await asyncio.to_thread(logs, cluster, id))
    assert kept == list(range(len(kept)))
    assert len(kept) >= expected
    async with cluster.client() as client:
        await client.cancel(id)


def test_lines_arrive_without_secrets_and_survive_the_death_of_their_worker(tmp_path: Path) -> None:
    size = ClusterSize(servers=2, workers=1, isolation="pools")
    with open_cluster(tmp_path, size) as cluster:
        asyncio.run(_printed(cluster))
        asyncio.run(_killed(cluster, tmp_path / "seen"))
