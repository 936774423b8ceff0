"""examples/pagination.yaml for real: a faulty API, PostgreSQL, DuckDB, and a kill in the middle of it."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.e2e.processes import PATIENCE_S, ROOT, Workspace
from tests.e2e.serving import Api, serving
from tests.services import connected, database, postgres

PLAYBOOK = ROOT / "examples" / "pagination.yaml"
NAMES = [f"endpoint{number:02}" for number in range(20)]
PAGES, ROWS = 15, 300
TOTALS = [{"endpoint": name, "items": ROWS, "pages": PAGES, "amount": sum(range(ROWS)) / 4} for name in NAMES]


def given(api: Api) -> list[str]:
    endpoints = ", ".join(f"{{name: {name}, path: /items/{name}, page_size: 20}}" for name in NAMES)
    return ["--set", f"api_url={api.url}", "--set", f"endpoints=[{endpoints}]"]


async def stored(name: str) -> list[tuple[str, int, int]]:
    async with connected(name) as connection:
        query = "SELECT endpoint, count(*), count(DISTINCT id) FROM items GROUP BY endpoint ORDER BY endpoint"
        return [tuple(row) for row in await connection.fetch(query)]


def parquet_of(workspace: Workspace, execution_id: str) -> Path:
    (report,) = [
        file
        for file in (workspace.db.parent / f"{workspace.db.name}-results" / execution_id).iterdir()
        if file.read_bytes()[:4] == b"PAR1"
    ]
    return report


@pytest.mark.parametrize("killed", [False, True], ids=["undisturbed", "killed in the middle"])
def test_rows_end_up_exactly_once_and_a_parquet_file_comes_out(tmp_path: Path, killed: bool) -> None:
    async def work() -> tuple[int, dict[str, Any], list[tuple[str, int, int]]]:
        async with database() as name:
            workspace.environment["WAREHOUSE_DSN"] = postgres().dsn(name)
            with serving() as api:
                if killed:
                    with workspace.started("run", PLAYBOOK, *given(api)) as begun:
                        assert await asyncio.to_thread(api.hundredth.wait, PATIENCE_S), "it ended before its time"
                        begun.process.kill()
                        assert begun.process.wait() == -signal.SIGKILL
                    code, document = await asyncio.to_thread(workspace.json, "resume", "last")
                else:
                    code, document = await asyncio.to_thread(workspace.json, "run", PLAYBOOK, *given(api))
                assert api.refused > 10
                assert len(api.calls) >= len(NAMES) * PAGES + api.refused
            return code, document, await stored(name)

    workspace = Workspace(tmp_path)
    code, document, rows = asyncio.run(work())
    assert (code, document["status"], document["error"]) == (0, "ok", None)
    assert document["output"]["data"] == TOTALS
    assert rows == [(name, ROWS, ROWS) for name in NAMES]
    report = parquet_of(workspace, document["execution_id"])
    columns = ("endpoint", "items", "pages", "amount")
    found = duckdb.read_parquet(str(report)).fetchall()
    assert [dict(zip(columns, row, strict=True)) for row in found] == TOTALS
    assert workspace.call("audit").returncode == 0
    assert workspace.call("replay", "last").returncode == 0
