"""The same playbooks have the same results with `noetl run`, on one server, on two servers with two workers, and
on two servers that run the tasks themselves.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import asyncpg
import pytest

from noetl.errors import PlaybookError
from noetl.output import JSON
from noetl.ports import LogRow
from noetl.runtime.embedded import open_local_store
from tests.distributed.cluster import Cluster, ClusterSize, open_cluster, synced_postgres
from tests.distributed.final_states import final
from tests.e2e.processes import ROOT, Workspace
from tests.e2e.serving import Api, serving
from tests.e2e.test_acceptance import ARCS, HELD, LARGE, NESTED, PAGES, RETRY, ROUTED
from tests.playbooks import HEAD
from tests.services import PASSWORD

EXAMPLES, SEEDS = ROOT / "examples", ROOT / "tests" / "fixtures" / "seeds"
ENDPOINTS = [{"path": f"/endpoints/{name}", "page_size": 2} for name in ("good", "shaky", "gone", "closed")]
ITEMS = [{"name": f"endpoint{n}", "path": f"/items/endpoint{n}", "page_size": 20} for n in range(6)]
LARGE_VALUES = (ROOT / "tests/e2e/playbooks/large_values.yaml").read_text("utf-8")
SIZES = [
    ClusterSize(servers=1, workers=2),
    ClusterSize(servers=2, workers=2),
    ClusterSize(servers=2, workers=0, server_slots=16),
]


class Case(NamedTuple):
    """A playbook and its workload; the entry `url` or `api_url` is the address of its API."""

    name: str
    text: str
    workload: dict[str, Any] = {}
    url: str = "url"  # the name of the entry in the workload
    below: str = ""  # the path of the API
    status: str = "ok"
    polls: bool = False  # the number of its requests depends on the time
    unordered: tuple[str, ...] = ()  # keys of lists whose order is that of the ends of branches


def _example(name: str) -> str:
    return (EXAMPLES / f"{name}.yaml").read_text("utf-8")


def _nested_loops() -> str:
    """The example without the effect of `store_rooms`, as in its own test."""
    text = re.sub(r"keychain:.*?\n\n", "", _example("nested_loops"), flags=re.S)
    return re.sub(r"kind: postgres\n.*?\n\n", "kind: noop\n\n", text, flags=re.S)


CASES = [
    Case("2 retried", RETRY, below="/flaky/a?fails=2"),
    Case("2 used up", RETRY, below="/flaky/a?fails=9", status="error"),
    Case("3 routed 200", ROUTED, {"code": 200}),
    Case("3 routed 404", ROUTED, {"code": 404}),
    Case("4 pages", PAGES),
    Case("5 held", HELD),
    Case("6 nested", NESTED),
    Case("7 exclusive", ARCS % "exclusive"),
    Case("7 inclusive", ARCS % "inclusive"),
    Case("8 large", LARGE),
    Case("8 small", LARGE, {"bytes": 1000}),
    Case("large values, small", LARGE_VALUES, {"bytes": 10}),
    Case("large values", LARGE_VALUES, {"bytes": 200_000}),
    Case("003 12", (ROOT / "tests/e2e/playbooks/seed_003_12_streaming_pagination.yaml").read_text(), {"endpoints": ENDPOINTS}, "api_url"),
    *(
        Case(file.stem, file.read_text("utf-8"), {}, "api_url")
        for file in sorted(SEEDS.glob("004_[3467]*.yaml"))
    ),
    Case("hello", _example("hello")),
    Case("word_count", _example("word_count")),
    Case("quantum_sweep", _example("quantum_sweep"), polls=True),
    Case("fan_out_join", _example("fan_out_join"), {"city": "lisbon"}, "api_url", unordered=("branches",)),
    Case("fan_out_join, no air", _example("fan_out_join"), {"city": "oslo"}, "api_url", unordered=("branches",)),
    Case("saga", _example("saga"), {"amount": 640}, "api_url"),
    Case("saga, refused", _example("saga"), {"amount": 1640}, "api_url"),
    Case("polling", _example("polling"), {"month": "2026-03"}, "api_url"),
    Case("polling, broken", _example("polling"), {"month": "2026-13"}, "api_url"),
    Case("nested_loops", _nested_loops(), {}, "api_url"),
    Case("pagination", _example("pagination"), {"endpoints": ITEMS}, "api_url"),
]  # fmt: skip


@pytest.fixture(scope="module")
def variables() -> Iterator[dict[str, str]]:
    """The credentials of the examples, and a database for one of them."""
    server = synced_postgres()
    asyncio.run(_command(server.dsn(), "CREATE DATABASE warehouse"))
    dsn = f"postgresql://postgres:{PASSWORD}@127.0.0.1:{server.port}/warehouse"
    given = {"TRAVEL_API_TOKEN": "t", "REPORTS_API_TOKEN": "t", "WAREHOUSE_DSN": dsn}
    yield {**given, "NOETL_SECRET_VARIABLES": " ".join(given)}
    asyncio.run(_command(server.dsn(), "DROP DATABASE warehouse WITH (FORCE)"))


async def _command(dsn: str, command: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(command)
    finally:
        await connection.close()


@pytest.fixture(scope="module", params=SIZES, ids=lambda size: f"{size.servers}-servers-{size.workers}-workers")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, variables: dict[str, str]
) -> Iterator[Cluster]:
    size: ClusterSize = request.param
    with open_cluster(tmp_path_factory.mktemp("cluster"), size._replace(variables=variables)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory, variables: dict[str, str]) -> Callable[[Case], dict[str, JSON]]:
    """The result of a case with `noetl run`, computed once for all clusters."""
    known: dict[str, dict[str, JSON]] = {}

    def run(case: Case) -> dict[str, JSON]:
        if case.name not in known:
            own = Workspace(tmp_path_factory.mktemp("embedded"))
            own.environment |= variables
            known[case.name] = _embedded(own, case)
        return known[case.name]

    return run


def _embedded(own: Workspace, case: Case) -> dict[str, JSON]:
    with _served(case) as (api, workload):
        given = own.write(json.dumps(workload), "workload.json")
        code, document = own.json("run", own.write(case.text), "--dialect", "auto", "--workload", given)
    assert (code, document["status"]) == (0 if case.status == "ok" else 1, case.status), document
    disk = open_local_store(own.db)
    try:
        rows = asyncio.run(disk.store.read(document["execution_id"]))
    finally:
        disk.close()
    return _final(case, document["execution_id"], rows, api)


def _final(case: Case, execution_id: str, rows: list[LogRow], api: Api) -> dict[str, JSON]:
    made = final(execution_id, rows, {api.url: "API"}, case.unordered)
    if case.polls:
        steps: dict[str, Any] = made["steps"]
        made["steps"] = {id: {**step, "calls": None, "retries": None} for id, step in steps.items()}
    return made


@contextmanager
def _served(case: Case) -> Iterator[tuple[Api, dict[str, Any]]]:
    """A new API, and the workload with its address."""
    with serving() as api:
        yield api, {case.url: f"{api.url}{case.below}", **case.workload}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_playbook_has_the_same_result_as_with_noetl_run(
    case: Case, cluster: Cluster, embedded: Callable[[Case], dict[str, JSON]]
) -> None:
    expected = embedded(case)
    with _served(case) as (api, workload):
        document = asyncio.run(cluster.run(case.text, workload))
        rows = asyncio.run(cluster.rows(document.execution_id))
    assert _final(case, document.execution_id, rows, api) == expected
    assert asyncio.run(cluster.replayed(document.execution_id)) == []


@pytest.mark.parametrize(
    ("policy", "found"), [("[]", "bad-policy"), ("{rules: [{else: {then: {to: x}}}]}", "missing-do")]
)
def test_1_policies_are_validated_before_anything_runs(policy: str, found: str, cluster: Cluster) -> None:
    text = HEAD + f"workflow:\n- {{step: start, tool: {{kind: noop, spec: {{policy: {policy}}}}}}}\n"
    before = asyncio.run(cluster.executions())
    with pytest.raises(PlaybookError) as refused:
        asyncio.run(cluster.run(text, {}))
    assert {each.code for each in refused.value.problems if each.severity == "error"} == {found}
    assert asyncio.run(cluster.executions()) == before


def test_5_a_loop_reaches_its_max_in_flight(cluster: Cluster) -> None:
    """D46."""
    with serving() as api:
        document = asyncio.run(cluster.run(HELD, {"url": api.url}))
    assert (document.status, api.most, api.count("/held/"), api.count("/bell")) == ("ok", 3, 11, 20)


def test_all_logs_and_results_pass_the_audit_and_the_replay(cluster: Cluster) -> None:
    """The command line audits all executions of this cluster through the API, including one large result."""
    with serving() as api:
        document = asyncio.run(cluster.run(LARGE, {"url": api.url}))
    done = cluster.call("audit", "--format", "json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["findings"]) == (0, [])
    assert (found["executions"], found["results"] > 0) == (len(asyncio.run(cluster.executions())), True)
    assert cluster.call("replay", document.execution_id).returncode == 0
