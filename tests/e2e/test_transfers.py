"""`transfer` by the command line: large, interrupted and repeated transfers end with the right rows."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.processes import NOETL, PATIENCE_S, Workspace
from tests.measured_process import Measured, run_measured
from tests.playbooks import HEAD
from tests.services import connected, database, postgres

ROWS = 100_000
CHAIN = (
    HEAD
    + """\
keychain: [{name: db, kind: postgres_credential}]
workflow:
- step: start
  tool:
  - name: out
    kind: transfer
    source: {kind: postgres, auth: db, query: "SELECT id, name, amount, day FROM orders"}
    target: {kind: object, url: orders.csv}
  - {name: sqlite, kind: sqlite, path: a.db, command: "CREATE TABLE orders (id INTEGER PRIMARY KEY, name, amount, day)"}
  - name: lite
    kind: transfer
    source: {kind: object, url: orders.csv}
    target: {kind: sqlite, path: a.db, table: orders}
  - name: duckdb
    kind: duckdb
    database: a.duckdb
    command: "CREATE TABLE orders (id BIGINT, name VARCHAR, amount DECIMAL(12, 2), day TIMESTAMP)"
  - name: duck
    kind: transfer
    source: {kind: sqlite, path: a.db, table: orders}
    target: {kind: duckdb, path: a.duckdb, table: orders}
  - name: park
    kind: transfer
    source: {kind: duckdb, path: a.duckdb, table: orders}
    target: {kind: object, url: orders.parquet}
  - name: back
    kind: transfer
    source: {kind: object, url: orders.parquet}
    target: {kind: postgres, auth: db, table: copied}
    mode: upsert
    key: [id]
  - name: end
    kind: noop
    input: {rows: "{{ back.transfer.rows }}", bytes: "{{ out.transfer.bytes }}"}
"""
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def run_transfer(workspace: Workspace, file: Path) -> Measured:
    return run_measured([NOETL, "run", file, "--format", "json"], workspace.folder, workspace.environment)


ORDERS = """\
CREATE TABLE orders AS SELECT n AS id, 'customer ü, ' || n AS name, n / 100.0 AS amount,
  timestamp '2026-01-01' + n * interval '1 second' AS day FROM generate_series(1, {rows}) n;
CREATE TABLE copied (LIKE orders, PRIMARY KEY (id));
"""
LOST = "SELECT count(*) FROM (TABLE orders EXCEPT TABLE copied) x"


def test_rows_pass_through_all_systems_unchanged_d110(workspace: Workspace) -> None:
    async def work() -> None:
        async with database() as name, connected(name) as connection:
            await asyncio.to_thread(workspace.call, "secrets", "set", "db", input=postgres().dsn(name))
            await connection.execute(ORDERS.format(rows=ROWS))
            done = await asyncio.to_thread(run_transfer, workspace, workspace.write(CHAIN))
            assert done.code == 0, done.stdout
            assert json.loads(done.stdout)["output"]["data"] == {
                "rows": ROWS, "bytes": (workspace.folder / "orders.csv").stat().st_size,
            }  # fmt: skip
            assert (await connection.fetchval("SELECT count(*) FROM copied"), await connection.fetchval(LOST)) == (
                ROWS,
                0,
            )

    asyncio.run(work())


def test_a_million_rows_need_no_more_memory_than_few_d110(workspace: Workspace) -> None:
    text = (
        HEAD
        + """\
keychain: [{name: db, kind: postgres_credential}]
workflow:
- step: start
  tool:
  - name: out
    kind: transfer
    source: {kind: postgres, auth: db, table: orders}
    target: {kind: object, url: orders.ndjson}
  - name: back
    kind: transfer
    source: {kind: object, url: orders.ndjson}
    target: {kind: postgres, auth: db, table: copied}
    mode: upsert
    key: [id]
"""
    )

    async def work(rows: int) -> float:
        async with database() as name, connected(name) as connection:
            await asyncio.to_thread(workspace.call, "secrets", "set", "db", input=postgres().dsn(name))
            await connection.execute(ORDERS.format(rows=rows))
            done = await asyncio.to_thread(run_transfer, workspace, workspace.write(text))
            assert (done.code, json.loads(done.stdout)["output"]["data"]) == (0, {"rows": rows}), done.stdout
            assert await connection.fetchval(LOST) == 0
            return done.peak_mib

    few, million = asyncio.run(work(20_000)), asyncio.run(work(1_000_000))
    assert million < few + 40, f"{few:.0f} MiB, {million:.0f} MiB"  # as Python objects, the rows take 500 MB


def test_a_killed_transfer_leaves_nothing_and_resume_repeats_it(workspace: Workspace) -> None:
    text = (
        HEAD
        + """\
keychain: [{name: db, kind: postgres_credential, dsn: {env: TEST_DSN}}]
workflow:
- step: start
  tool:
    kind: transfer
    source: {kind: postgres, auth: db, query: "SELECT n AS id, slow() AS name FROM generate_series(1, 3000) n"}
    target: {kind: postgres, auth: db, table: copied}
"""
    )

    async def work() -> None:
        async with database() as name, connected(name) as connection, connected(name) as gate:
            workspace.environment["TEST_DSN"] = postgres().dsn(name)
            await connection.execute("CREATE TABLE copied (id bigint, name text)")
            # Each row waits for a lock, so the transfer stands still in the middle.
            await connection.execute(
                "CREATE FUNCTION slow() RETURNS text LANGUAGE sql VOLATILE AS "
                "'SELECT pg_advisory_lock_shared(7)::text || pg_advisory_unlock_shared(7)::text'"
            )
            await gate.execute("SELECT pg_advisory_lock(7)")
            process = subprocess.Popen(
                [NOETL, "run", workspace.write(text)],
                cwd=workspace.folder,
                env=workspace.environment,
                stdout=subprocess.DEVNULL,
            )
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            while not await connection.fetchval(waiting):
                await asyncio.to_thread(os.sched_yield)
            process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(process.wait, PATIENCE_S)
            assert await connection.fetchval("SELECT count(*) FROM copied") == 0
            await gate.execute("SELECT pg_advisory_unlock(7)")
            done = await asyncio.to_thread(workspace.call, "resume", "last")
            assert done.returncode == 0, done.stdout + done.stderr
            assert await connection.fetchval("SELECT count(*), count(DISTINCT id) FROM copied") == 3000

    asyncio.run(work())


def test_both_credentials_are_checked_before_the_run_and_never_shown(workspace: Workspace) -> None:
    text = (
        HEAD
        + """\
keychain:
- {name: shop, kind: postgres_credential}
- {name: lake, kind: aws_credential}
workflow:
- step: start
  tool:
    kind: transfer
    source: {kind: postgres, auth: shopp, table: orders}
    target: {kind: object, auth: lake, url: "s3://shop/orders.csv"}
"""
    )
    done = workspace.call("check", workspace.write(text))
    assert done.returncode == 2
    assert 'unknown-credential: keychain has no entry "shopp"; did you mean "shop"?' in done.stdout
    assert "unused-credential" in done.stdout  # shop
    file = workspace.write(text.replace("shopp", "shop"))
    fine = workspace.call("check", file)
    assert (fine.returncode, "unused-credential" in fine.stdout) == (0, False), fine.stdout
    explained = workspace.call("explain", file).stdout
    assert "postgres orders → object s3://shop/orders.csv" in explained
    assert workspace.call("secrets", "set", "shop", input="postgresql://u:canary-1@127.0.0.1:1/x").returncode == 0
    keys = {"access_key_id": "canary-22", "secret_access_key": "canary-333"}
    assert workspace.call("secrets", "set", "lake", input=json.dumps(keys)).returncode == 0
    code, document = workspace.json("run", file)
    assert (code, document["error"]["kind"]) == (1, "postgres")
    assert document["error"]["message"].startswith("source: PostgreSQL is unreachable")
    said = json.dumps(document) + workspace.call("events", "last", "--format", "jsonl").stdout
    assert "canary" not in said


def test_an_unknown_field_of_the_output_is_reported(workspace: Workspace) -> None:
    text = (
        HEAD
        + """\
workflow:
- step: start
  tool:
  - {name: move, kind: transfer, source: {kind: object, url: a.csv}, target: {kind: object, url: b.csv}}
  - {name: end, kind: noop, input: {n: "{{ move.transfer.row }}"}}
"""
    )
    done = workspace.call("check", workspace.write(text))
    assert done.returncode == 2
    assert 'did you mean "move.transfer.rows"?' in done.stdout
