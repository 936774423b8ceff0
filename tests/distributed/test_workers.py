"""The list of workers shows what they run for all servers, on every server."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

from tests.distributed.cluster import Cluster, ClusterSize, open_cluster
from tests.playbooks import HEAD

SLOW = HEAD + (
    'workload: {file: ""}\n'
    'workflow:\n'
    '- step: start\n'
    '  tool: {kind: shell, argv: [sh, -c, "while [ ! -e $0 ]; do sleep 0.2; done", "{{ workload.file }}"]}\n'
)  # fmt: skip
WIDE = SLOW.replace(
    "  tool:", '  loop: {in: "{{ range(9) }}", iterator: n, spec: {mode: parallel, max_in_flight: 9}}\n  tool:'
)
GPU = HEAD + "workflow:\n- step: start\n  spec: {pool: gpu}\n  tool: {kind: shell, argv: ['true']}\n"


async def _listed(cluster: Cluster, server: int) -> dict[str, Any]:
    async with cluster.client(server) as client:
        return await client.workers()


def _running(listed: dict[str, Any]) -> set[str]:
    return {frame["execution_id"] for worker in listed["workers"] for frame in worker["running"]}


async def _start_on_both(cluster: Cluster, text: str, workload: dict[str, Any]) -> set[str]:
    """Executions until each of two servers owns one."""
    started: dict[str, int | None] = {}
    while set(started.values()) != {0, 1}:
        execution_id = await cluster.start(text, workload)
        started[execution_id] = await cluster.owner(execution_id)
    return set(started)


async def _until_running(cluster: Cluster, executions: set[str]) -> None:
    async def all_run() -> bool:
        return all([_running(await _listed(cluster, server)) == executions for server in (0, 1)])

    await cluster.until(all_run)


def test_each_server_lists_what_workers_run_for_all_servers(tmp_path: Path) -> None:
    with open_cluster(tmp_path, ClusterSize(servers=2, workers=2)) as cluster:
        executions = asyncio.run(_start_on_both(cluster, SLOW, {"file": str(tmp_path / "file")}))
        waiting = asyncio.run(_start_on_both(cluster, GPU, {}))
        asyncio.run(_until_running(cluster, executions))
        for server in (0, 1):
            listed = asyncio.run(_listed(cluster, server))
            assert listed["complete"] is True
            assert {each["pool"]: each["waiting"] for each in listed["pools"]} == {"default": 0, "gpu": len(waiting)}
        cluster.servers[1].send(signal.SIGSTOP)  # it still has its lease
        try:
            listed = asyncio.run(_listed(cluster, 0))
        finally:
            cluster.servers[1].send(signal.SIGCONT)
        assert listed["complete"] is False
        assert _running(listed) < executions
        (tmp_path / "file").touch()


def test_each_server_says_that_an_execution_holds_its_share(tmp_path: Path) -> None:
    why = 'waits for a slot: the execution holds 6 of the 8 slots of the pool "default", its share (NOETL_SLOT_RESERVE)'
    size = ClusterSize(servers=2, workers=1, slots=8, variables={"NOETL_SLOT_RESERVE": "0.25"})
    with open_cluster(tmp_path, size) as cluster:
        wide = asyncio.run(cluster.start(WIDE, {"file": str(tmp_path / "file")}))

        async def said() -> list[str | None]:
            found = []
            for server in (0, 1):
                async with cluster.client(server) as client:
                    [step] = (await client.show(wide)).steps
                    found.append(step.why)
            return found

        async def all_say_so() -> bool:
            return await said() == [why, why]

        asyncio.run(cluster.until(all_say_so))
        for server in (0, 1):
            [pool] = asyncio.run(_listed(cluster, server))["pools"]
            assert (pool["slots"], pool["share"]) == (8, 6)
        (tmp_path / "file").touch()


def test_servers_of_one_machine_without_names_are_several_workers(tmp_path: Path) -> None:
    with open_cluster(tmp_path, ClusterSize(servers=2, workers=0, server_slots=4)) as cluster:
        for server in cluster.servers:
            assert server.stop() == 0, server.output()
            named = server.program.command
            option = named.index("--name")
            server.start(server.program._replace(command=[*named[:option], *named[option + 2 :]]))

        async def has_both() -> bool:
            listed = await _listed(cluster, 0)
            return {server.pid for server in cluster.servers} <= {worker["pid"] for worker in listed["workers"]}

        asyncio.run(cluster.until(has_both, timeout_s=60))
