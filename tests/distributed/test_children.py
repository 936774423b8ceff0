"""A parent and its children on different servers: the owner of children is killed, and then that of the parent."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.distributed.cluster import SHORT_LEASE_S, Cluster, ClusterSize, open_cluster, repeated
from tests.distributed.effects import Effects, effects
from tests.playbooks import HEAD

CHILDREN = 20  # one server owns all of them with a probability of one in half a million
CHILD = HEAD.replace("path: t", "path: families/child") + (
    'workload: {n: 0, url: ""}\nworkflow:\n- step: start\n  tool:\n'
    '  - {name: first, kind: http, method: POST, url: "{{ workload.url }}/gate/a/{{ workload.n }}"}\n'
    '  - {name: second, kind: http, method: POST, url: "{{ workload.url }}/gate/b/{{ workload.n }}"}\n'
)
PARENT = HEAD.replace("path: t", "path: families/parent") + (
    f'workload: {{url: ""}}\nworkflow:\n- step: start\n'
    f'  loop: {{in: "{{{{ range({CHILDREN}) }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: {CHILDREN}}}}}\n'
    '  tool: {kind: playbook, path: families/child, input: {n: "{{ iter.n }}", url: "{{ workload.url }}"}}\n'
)


PLAN = HEAD.replace("path: t", "path: families/plan") + (
    'workload: {n: 0}\nworkflow: [{step: start, tool: {kind: noop, input: {n: "{{ workload.n }}"}}}]\n'
)
PLANNER = HEAD.replace("path: t", "path: families/planner") + (
    "workload: {plan: ''}\nworkflow:\n- step: start\n"
    "  loop: {in: [1, 2, 3, 4, 5, 6, 7, 8], iterator: n, spec: {mode: parallel}}\n"
    "  tool: {kind: playbook, document: '{{ workload.plan }}', input: {n: '{{ iter.n }}'}}\n"
)


async def _plans(cluster: Cluster) -> None:
    document = await cluster.run(PLANNER, {"plan": PLAN})
    assert document.output is not None
    assert document.output.data == [{"n": n} for n in range(1, 9)]
    children = await cluster.children(document.execution_id)
    for each in (document.execution_id, *children):
        assert (await cluster.audited(each)).status == "ok"
    async with cluster.client() as client:
        assert [each.path for each in await client.catalog.list()] == ["families/planner"]
        state = await cluster.audited(children[0])
        assert (await client.catalog.get(state.digest)).text == PLAN
    wrong = await cluster.run(PLANNER, {"plan": PLAN.replace("noop", "nop")}, 1)
    assert wrong.error is not None
    assert (wrong.error.kind, wrong.error.message.partition(",")[0]) == ("playbook", "the document has 1 problem")


def test_playbooks_that_tasks_make_run_on_any_server_d103(tmp_path: Path) -> None:
    with open_cluster(tmp_path, ClusterSize(servers=2, workers=2)) as cluster:
        asyncio.run(_plans(cluster))


async def _two_deaths(cluster: Cluster, served: Effects) -> None:
    async with cluster.client() as client:
        await client.register(CHILD)
    id = await cluster.start(PARENT, {"url": served.url})
    await served.until(lambda seen: seen.out == CHILDREN)
    parent_at = await cluster.owner(id)
    assert parent_at is not None
    children = await cluster.children(id)
    assert {await cluster.owner(child) for child in children} == {0, 1}
    # The owner of children is killed during their calls.
    await asyncio.to_thread(cluster.servers[1 - parent_at].kill)
    served.open("a")
    await served.until(lambda seen: sum(name.startswith("b/") for name in seen.calls) >= CHILDREN)
    await asyncio.to_thread(cluster.start_server, 1 - parent_at)
    await cluster.until(cluster.is_shared)
    # Then the owner of the parent is killed.
    parent_at = await cluster.owner(id)
    assert parent_at is not None
    await asyncio.to_thread(cluster.servers[parent_at].kill)
    served.open("b")
    document = await cluster.ended(id, 1 - parent_at)
    assert document.status == "ok"
    assert document.output is not None
    assert document.output.data == [{"name": f"b/{n}"} for n in range(CHILDREN)]
    assert sorted(await cluster.children(id)) == sorted(children)
    for each in (id, *children):
        assert (await cluster.audited(each)).status == "ok"
        assert repeated(await cluster.facts(each)) == []


def test_a_parent_and_its_children_survive_the_death_of_each_server(tmp_path: Path) -> None:
    size = ClusterSize(servers=2, workers=2, lease_s=SHORT_LEASE_S)
    with effects() as served, open_cluster(tmp_path, size) as cluster:
        asyncio.run(_two_deaths(cluster, served))
        print(f"{len(served.calls)} calls of {2 * CHILDREN}; again: {served.repeated}")
        assert len(set(served.calls)) == 2 * CHILDREN
