"""`max_in_flight` across workers and servers, parents on few slots, and pools; the called service counts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.engine import facts
from tests.distributed.cluster import SHORT_LEASE_S, Cluster, ClusterSize, open_cluster, repeated
from tests.distributed.effects import Effects, effects
from tests.playbooks import HEAD

LOOP = (
    HEAD
    + """\
workload: {url: "", many: 10, ms: 10}
workflow:
- step: start
  loop: {in: "{{ range(workload.many) }}", iterator: n, spec: {mode: parallel, max_in_flight: 7}}
  tool: {kind: http, input: {method: POST, url: "{{ workload.url }}/call/{{ iter.n }}", params: {full: 7, ms: "{{ workload.ms }}"}}}
"""
)
# A call that takes longer than its lease, beside a loop that keeps the execution busy.
BUSY = (
    HEAD
    + """\
workload: {url: "", many: 9000, ms: 14000}
workflow:
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: slow}, {step: fast}]}
- step: slow
  tool: {kind: http, input: {method: POST, url: "{{ workload.url }}/call/slow", params: {ms: "{{ workload.ms }}"}}}
- step: fast
  loop: {in: "{{ range(workload.many) }}", iterator: n, spec: {mode: parallel, max_in_flight: 60}}
  tool: {kind: http, input: {method: POST, url: "{{ workload.url }}/call/{{ iter.n }}"}}
"""
)
CHILD = HEAD.replace("path: t", "path: width/child") + (
    'workload: {n: 0}\nworkflow:\n- step: start\n  tool: {kind: noop, input: {n: "{{ workload.n }}"}}\n'
    '  next: {arcs: [{step: twice}]}\n- step: twice\n  tool: {kind: noop, input: {n: "{{ workload.n * 2 }}"}}\n'
)
PARENT = HEAD.replace("path: t", "path: width/parent") + (
    "workflow:\n- step: start\n"
    '  loop: {in: "{{ range(100) }}", iterator: n, spec: {mode: parallel, max_in_flight: 100}}\n'
    '  tool: {kind: playbook, path: width/child, input: {n: "{{ iter.n }}"}}\n'
)
# The ids of the process and of its ancestors.
WHERE = """\
    kind: python
    code: |
      def main():
          import os
          pids, pid = [], os.getpid()
          while pid > 1:
              pids.append(pid)
              pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
          return pids
"""
POOLED = HEAD.replace("path: t", "path: width/pooled") + (
    f"workflow:\n- step: start\n  tool:\n{WHERE}  next: {{arcs: [{{step: far}}]}}\n"
    f"- step: far\n  spec: {{pool: gpu}}\n  tool:\n{WHERE}"
)


@pytest.fixture
def served() -> Iterator[Effects]:
    with effects() as served:
        yield served


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with open_cluster(tmp_path_factory.mktemp("width"), ClusterSize(servers=1, workers=2)) as cluster:
        yield cluster


def test_a_loop_on_two_workers_reaches_and_keeps_its_max_in_flight(cluster: Cluster, served: Effects) -> None:
    document = asyncio.run(cluster.run(LOOP, {"url": served.url, "many": 200, "ms": 100}))
    assert document.status == "ok"
    assert (served.most, len(served.calls), served.repeated) == (7, 200, {})
    asyncio.run(cluster.audited(document.execution_id))


def test_a_loop_keeps_its_max_in_flight_while_its_server_dies(tmp_path: Path, served: Effects) -> None:
    """The new owner polls the workers for their frames before it dispatches more."""

    async def work(cluster: Cluster) -> None:
        id = await cluster.start(LOOP, {"url": served.url, "many": 100, "ms": 300})
        await served.until(lambda seen: seen.answered > 20)
        owner = await cluster.owner(id)
        assert owner is not None
        await asyncio.to_thread(cluster.servers[owner].kill)
        document = await cluster.ended(id, 1 - owner)
        assert document.status == "ok"
        await cluster.audited(id)
        log = await cluster.facts(id)
        assert repeated(log) == []
        assert sum(isinstance(fact, facts.IterationDone) for fact in log) == 100

    with open_cluster(tmp_path, ClusterSize(servers=2, workers=2, lease_s=SHORT_LEASE_S)) as cluster:
        asyncio.run(work(cluster))
    print(f"{len(served.calls)} calls of 100; again: {served.repeated}")
    assert served.most == 7
    assert len(set(served.calls)) == 100


def test_a_long_call_keeps_its_lease_while_its_execution_is_always_busy(tmp_path: Path, served: Effects) -> None:
    """Heartbeats during a commit count, too."""
    with open_cluster(tmp_path, ClusterSize(workers=2, slots=40, lease_s=SHORT_LEASE_S)) as cluster:
        document = asyncio.run(cluster.run(BUSY, {"url": served.url}))
    assert document.status == "ok"
    assert (len(served.calls), served.repeated) == (9001, {})


def test_a_parent_of_a_hundred_children_finishes_on_two_slots(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        async with cluster.client() as client:
            await client.register(CHILD)
        document = await cluster.run(PARENT, {})
        assert document.output is not None
        assert document.output.data == [{"n": 2 * n} for n in range(100)]
        children = await cluster.children(document.execution_id)
        assert len(children) == 100
        for id in (document.execution_id, *children):
            await cluster.audited(id)

    with open_cluster(tmp_path, ClusterSize(workers=1, slots=2)) as cluster:
        asyncio.run(work(cluster))


def test_a_step_runs_in_its_pool_and_waits_when_the_pool_has_no_workers(cluster: Cluster) -> None:
    async def waiting() -> str:
        async with cluster.client() as client:
            id = await cluster.start(POOLED, {})
            async for each in client.stream(id):
                if getattr(each, "name", "") == "step.scheduled" and getattr(each, "step_run_id", "") == "far#1":
                    break
            document = await client.show(id)
        assert document.status == "running"
        assert [(step.id, step.status) for step in document.steps] == [
            ("start#1", "ok"),
            ("far#1", "scheduled"),
        ]
        return id

    id = asyncio.run(waiting())
    text = cluster.call("show", id).stdout
    assert "far" in text
    assert "scheduled" in text
    worker = cluster.add_worker(slots=2, pool="gpu")
    try:
        assert asyncio.run(cluster.ended(id)).status == "ok"
        done = [fact for fact in asyncio.run(cluster.facts(id)) if isinstance(fact, facts.TaskDone)]
        near, far = [fact.output.data for fact in done if fact.output is not None]
        assert worker.pid in far
        assert worker.pid not in near
    finally:
        worker.stop()
        cluster.workers.remove(worker)
