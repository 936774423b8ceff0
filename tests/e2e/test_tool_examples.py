"""The example on the page of each tool runs unchanged in a playbook that has the data it reads."""

from __future__ import annotations

import asyncio
import json
from contextlib import nullcontext
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from noetl.tool import Tools
from tests.e2e.processes import ROOT, Workspace
from tests.e2e.serving import serving
from tests.playbooks import HEAD, kinds
from tests.services import connected, database, postgres
from tests.services_nats import running_nats
from tests.unit.tools.mcp.mcp_http import serving as mcp_serving
from tests.unit.tools.mcp.mcp_server import server

AROUND = (
    HEAD
    + """\
keychain:
- {name: api_token, kind: env, variable: API_TOKEN}
- {name: broker, kind: nats_credential, url: {env: BROKER_URL}}
- {name: warehouse, kind: postgres_credential, dsn: {env: WAREHOUSE_DSN}}
workload: {api_url: "", tools_url: "", city: Bern}
workflow:
- step: start
  tool: {kind: python, code: "def main(): return [{'n': n} for n in range(200)]"}
  set: {ctx.rows_ref: "{{ output.ref }}"}
  next: {arcs: [{step: example}]}
- step: example
  tool:
EXAMPLE
workbook:
  notify: {tool: {kind: noop, input: {sent: "{{ input.text }}"}}}
"""
)
GIVES: dict[str, Any] = {
    "duckdb": [{"city": "Bern", "total": 7}, {"city": "Uster", "total": 5}],
    "http": {"total": 2},
    "mcp": {"found": "orders"},
    "nats": {"subject": "orders.created", "bytes": 25},
    "noop": {"greeting": "hello"},
    "playbook": {"text": "hello, you"},
    "postgres": [{"id": 1, "name": "Ada"}],
    "python": {"sum": 7},
    "resolve": [{"n": n} for n in range(100)],
    "sqlite": [{"n": 7}],
    "transfer": {"rows": 1},
    "wait": None,
    "workbook": {"sent": "done"},
}


def example_of(kind: str) -> str:
    tool = Tools.installed().make(kind)
    assert tool is not None
    assert tool.example
    return tool.example


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_the_example_of_a_tool_runs(kind: str, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    file = workspace.write(AROUND.replace("EXAMPLE", indent(example_of(kind), "    ")))
    workspace.write((ROOT / "examples" / "hello.yaml").read_text("utf-8"), "examples/hello")

    (tmp_path / "nats").mkdir()

    async def work() -> tuple[int, str]:
        async with database() as name, connected(name) as connection:
            await connection.execute("CREATE TABLE customers AS SELECT 1 AS id, 'Ada' AS name, 'Bern' AS city")
            workspace.environment |= {"API_TOKEN": "a-token-of-tests", "WAREHOUSE_DSN": postgres().dsn(name)}
            async with mcp_serving(server.streamable_http_app()) if kind == "mcp" else nullcontext("") as tools_url:
                with serving() as api:
                    api.items = {"total": 2}
                    urls = ("--set", f"api_url={api.url}/json", "--set", f"tools_url={tools_url}")
                    done = await asyncio.to_thread(workspace.call, "run", file, *urls, "--format", "json")
                    return done.returncode, done.stdout

    with running_nats(tmp_path / "nats") if kind == "nats" else nullcontext() as broker:
        workspace.environment |= {"BROKER_URL": "nats://127.0.0.1:9" if broker is None else broker.url}
        code, told = asyncio.run(work())
    document = json.loads(told)
    assert (code, document["status"], document["error"]) == (0, "ok", None)
    if kind in GIVES:
        assert document["output"]["data"] == GIVES[kind]
