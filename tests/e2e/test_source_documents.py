"""Every example of the source documents runs as written: in its dialect, after `migrate`, with small and large pages.

Its addresses lead to an API, a PostgreSQL and a NATS server on this machine.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import pytest
from aiohttp import web

import noetl
from noetl.playbook.migrate import migrate
from tests.e2e.processes import Workspace
from tests.e2e.serving import Api, serving_as
from tests.playbooks import HEAD
from tests.services import connected, database, postgres
from tests.services_nats import running_nats
from tests.source_documents import SEEDS, blocks

SMALL, LARGE = 1_000, 2_000_000  # bytes of a page
ROWS, PAGES = 20, 3  # rows of a page, pages of a path
ADDRESSES = ("https://api.example.com", "https://api.openai.com")
TABLES = """
CREATE TABLE pagination_test_results (endpoint text, page int, items jsonb);
CREATE TABLE results_ok (endpoint text, page int, items jsonb, body jsonb);
CREATE TABLE results_not_found (endpoint text, page int, path text);
CREATE TABLE answers (answer jsonb);
CREATE TABLE items AS SELECT generate_series(1, 7) AS id;
"""
# The tables that examples write to, with the column that holds a page.
BODIES = {
    "pagination_test_results": "items",
    "results_ok": "coalesce(items, body)",
    "results_not_found": "NULL::jsonb",
    "answers": "answer",
}
ITEMS = {"GET /items/1": 1, "GET /items/2": 1}
RECORDS = {"GET /api/v1/patient-records": 1}

# The requests of each example that has any.
REQUESTS: dict[str, dict[str, int]] = {
    "000_2.4_tool_task": {"GET /status": 1},
    "000_6.2_eval_each_directive": {"GET /v1/items": 1},
    "000_6.2_eval_structure": {"GET /v1/items": 1},
    "000_8.1_next": {"GET /greetings/ada": 1},
    "001_14_loop_pagination_sink": {"GET /api/v1/assessments": PAGES, "GET /api/v1/users": PAGES},
    "001_2.1_step": {**ITEMS, "GET /items/3": 1, "GET /report": 1},
    "001_6.1_eval_syntax": {"GET /cities/lis": 1},
    "002_1.4_task_policy": {"GET /items": 1},
    "002_2.1_keychain": {"POST /v1/responses": 1},
    "002_2.2_executor": {"GET /items": 1},
    "002_3.1_labelled_tasks": {"GET /items": 1},
    "002_3.1_unlabelled_tasks": {"GET /items": 1},
    "002_3.2_next_router": {"GET /greetings/ada": 1},
    "002_5.2_then_fields": ITEMS,
    "002_6_directives": {"GET /items": 1},
    "003_12_streaming_pagination": {"GET /api/v1/assessments": PAGES, "GET /gone": 1},
    "003_2.1_keychain": {"POST /v1/responses": 1},
    "003_5.1_executor_policy": {"GET /items": 1},
    "003_5.4_each_directive": ITEMS,
    "003_5.4_task_policy": ITEMS,
    "003_5.5_next_router": {"GET /greetings/ada": 1},
    "003_7.1_named_tasks": {"GET /": 2},
    "003_7.2_unnamed_tasks": {"GET /items": 1},
    "003_7.3_single_tool": {"GET /": 1},
    "003_7.4_normalized_task": {"GET /": 1},
    "003_7.5_task_names": {"GET /": 1, "POST /show": 1},
    "004_3.3_composite_tool": {"GET /": 1},
    "004_3.3_single_tool": {"GET /": 1},
    "004_4.2_tool_item_chaining": {"GET /api/v1/patient-records": 2 * PAGES},
    "004_6.1_set_flat_form": {"GET /v1/tokens/u-1": 1, "GET /v1/tokens/u-2": 1},
    "004_6.3_arc_set": {"GET /v1/items": 1},
    "004_6.3_step_set": {"GET /v1/items": 1},
    "004_7.2_reference_set": RECORDS,
    "004_7.3_hydrated_set": RECORDS,
    "004_7.5_resolve": RECORDS,
}
# The rows that each example stores: by table, all rows and those that hold a whole page.
STORED = {
    "001_14_loop_pagination_sink": {"pagination_test_results": (2 * PAGES, 2 * PAGES)},
    "002_2.1_keychain": {"answers": (1, 1)},
    "002_6_directives": {"results_ok": (1, 1)},
    "003_12_streaming_pagination": {"results_ok": (PAGES, PAGES), "results_not_found": (1, 0)},
    "003_2.1_keychain": {"answers": (1, 1)},
}
# Values of the workload, which are not part of the example: here, one endpoint that exists and one that does not.
WORKLOADS: dict[str, dict[str, Any]] = {
    "003_12_streaming_pagination": {
        "endpoints": [{"path": "/api/v1/assessments", "page_size": ROWS}, {"path": "/gone", "page_size": ROWS}]
    },
}


class Pages(Api):
    """Every path has three pages, each of 20 rows and of about `page_bytes`; `/gone` does not exist."""

    page_bytes = SMALL

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.calls.append(f"{request.method} {request.path}")
        if request.can_read_body:
            self.bodies.setdefault(request.path, []).append(await request.json())
        if request.path == "/gone":
            return web.json_response({"message": "no such endpoint"}, status=404)
        return web.json_response(self.page(int(request.query.get("page", "1"))))

    def page(self, number: int) -> dict[str, Any]:
        text = "x" * (self.page_bytes // ROWS - 25)
        rows = [{"id": place, "text": text} for place in range((number - 1) * ROWS, number * ROWS)]
        return {
            "data": rows,
            "paging": {"page": number, "hasMore": number < PAGES},
            "meta": {"page": number, "totalPages": PAGES},
            "count": ROWS, "population": 7, "items": [1, 2, 3],
        }  # fmt: skip


class Ran(NamedTuple):
    """What an execution did."""

    steps: list[tuple[str, int, int]]  # name, calls of tools, iterations that failed
    requests: dict[str, int]
    stored: dict[str, tuple[int, int]]


class Services(NamedTuple):
    api: Pages
    sql: asyncpg.Connection
    dsn: str

    async def stored(self) -> dict[str, tuple[int, int]]:
        """The rows of each table that has any, and how many hold a whole page. The tables are empty afterwards."""
        counts = {}
        for table, body in BODIES.items():
            whole = f"count(*) FILTER (WHERE octet_length(({body})::text) > {self.api.page_bytes * 0.9})"
            every, complete = await self.sql.fetchrow(f"SELECT count(*), {whole} FROM {table}")
            if every:
                counts[table] = (every, complete)
        await self.sql.execute(f"TRUNCATE {', '.join(BODIES)}")
        return counts


@pytest.fixture
def api() -> Iterator[Pages]:
    with serving_as(Pages) as api:
        yield api


def local(text: str, api: Pages) -> str:
    for address in ADDRESSES:
        text = text.replace(address, api.url)
    return text


async def ran(playbook: Path, services: Services, workload: dict[str, Any]) -> Ran:
    services.api.calls.clear()
    async with noetl.connect(playbook.with_suffix(".db")) as session:
        await session.secrets.set("pg_k8s", services.dsn)
        await session.secrets.set("openai_token", "sk-of-a-test")
        execution = await session.start(playbook, workload=workload, dialect="auto")
        result = await execution.result(120)
        assert result.error is None, result.error
        assert result.status == "ok"
        shown = await session.show(execution.id)
    steps = [(step.step, step.calls, step.iterations.failed if step.iterations else 0) for step in shown.steps]
    return Ran(steps, dict(Counter(services.api.calls)), await services.stored())


async def ran_in_all_ways(file: Path, folder: Path, api: Pages) -> list[Ran]:
    """In its own dialect and migrated, each with small and with large pages."""
    written = local(file.read_text("utf-8"), api)
    found = []
    async with database() as name, connected(name) as connection:
        await connection.execute(TABLES)
        services = Services(api, connection, postgres().dsn(name))
        for dialect, text in {"own": written, "migrated": migrate(written, file.name).text}.items():
            for api.page_bytes in (SMALL, LARGE):
                playbook = folder / f"{dialect}-{api.page_bytes}.yaml"
                playbook.write_text(text, "utf-8")
                found.append(await ran(playbook, services, WORKLOADS.get(file.stem, {})))
    return found


@pytest.mark.parametrize("file", sorted(SEEDS.glob("*.yaml")), ids=lambda file: file.stem)
def test_an_example_runs_as_written(file: Path, tmp_path: Path, api: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    if "nats_object" in file.read_text("utf-8"):
        with running_nats(tmp_path) as nats:
            monkeypatch.setenv("NOETL_RESULTS", f"{nats.url}/noetl-results")
            found = asyncio.run(ran_in_all_ways(file, tmp_path, api))
    else:
        found = asyncio.run(ran_in_all_ways(file, tmp_path, api))
    assert found == [Ran(found[0].steps, REQUESTS.get(file.stem, {}), STORED.get(file.stem, {}))] * 4
    assert all(failed == 0 for _, _, failed in found[0].steps)


def test_the_tables_name_existing_examples() -> None:
    names = {file.stem for file in SEEDS.glob("*.yaml")}
    assert {*REQUESTS, *STORED, *WORKLOADS} <= names
    assert {file.stem for file in SEEDS.glob("*.yaml") if "kind: http" in file.read_text("utf-8")} == {*REQUESTS}


def test_the_commands_migrate_and_run_the_pagination_of_001_with_large_pages(tmp_path: Path, api: Pages) -> None:
    api.page_bytes = LARGE
    workspace = Workspace(tmp_path)
    text = local((SEEDS / "001_14_loop_pagination_sink.yaml").read_text("utf-8"), api)
    old, new = workspace.write(text, "old.yaml"), workspace.write(text, "new.yaml")
    assert workspace.call("migrate", new, "--write").returncode == 0

    async def work() -> list[dict[str, tuple[int, int]]]:
        async with database() as name, connected(name) as connection:
            await connection.execute(TABLES)
            services = Services(api, connection, postgres().dsn(name))
            workspace.call("secrets", "set", "pg_k8s", "--value", services.dsn)
            found = []
            for playbook, dialect in ((old, "auto"), (new, "canonical")):
                code, document = await asyncio.to_thread(workspace.json, "run", playbook, "--dialect", dialect)
                assert (code, [step["step"] for step in document["steps"]][-1]) == (0, "validate_results")
                found.append(await services.stored())
            return found

    assert asyncio.run(work()) == [STORED["001_14_loop_pagination_sink"]] * 2


SHAPES = """\
workload: {url: ""}
workflow:
- step: start
  tool:
  - name: refused
    kind: http
    url: "{{ workload.url }}/gone"
    spec: {policy: {rules: [{else: {then: {do: continue, set: {ctx.output: "{{ output }}"}}}}]}}
  - {name: large, kind: http, url: "{{ workload.url }}/large", set: {ctx.large_ref: "{{ output.ref }}"}}
"""


def test_outputs_and_references_have_the_fields_of_002_5_2_and_004_7_4(tmp_path: Path, api: Pages) -> None:
    api.page_bytes = LARGE
    playbook = tmp_path / "shapes.yaml"
    playbook.write_text(HEAD + SHAPES, "utf-8")
    ctx: Any = noetl.run(playbook, workload={"url": api.url}, database=tmp_path / "noetl.db").raise_for_status().ctx
    output, ref = ctx["output"], ctx["large_ref"]
    fields = re.findall(r'"(\w+)":', next(block.text for block in blocks() if block.name == "002 §5.2"))
    assert {"data" if name == "result" else name for name in fields} <= {*output, *output["error"], *output["meta"]}
    assert (output["status"], output["error"]["retryable"], output["meta"]["attempt"]) == ("error", False, 1)
    fields = re.findall(r"^(\w+):", next(block.text for block in blocks() if block.name == "004 §7.4"), re.MULTILINE)
    # A reference to NoETL's own store needs no credential, and lives as long as its execution.
    assert {*fields} - {"output", "ref", "auth_reference", "ttl"} == {*ref, *ref["meta"]}
    assert ref["meta"]["bytes"] > LARGE * 0.9
