"""`duckdb` runs untrusted SQL with no access except to its tables and its result file (test 17)."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from noetl.adapters.memory import MemoryResults
from noetl.output import JSON, Failure, Output, clean
from noetl.ports import ResultStore
from noetl.tools.duckdb.session import DATA_BYTES_MAX, TABLES_MAX
from noetl.tools.duckdb.tool import DuckdbInput, DuckdbTool
from tests.e2e.processes import Workspace
from tests.playbooks import HEAD
from tests.unit.tools.calls import call

ROWS = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


@pytest.fixture(autouse=True)
def folder_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A private directory for temporary files, so that files of other tests are not counted."""
    own = tmp_path.with_name(f"{tmp_path.name}-temporary")
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own))


def ran(spec: dict[str, JSON] | None = None, results: ResultStore | None = None, **fields: Any) -> Output:
    """SQL is text, or the pieces and values of its templates."""
    given = {
        name: {"text": [value]} if name in ("query", "command") and isinstance(value, str) else value
        for name, value in fields.items()
    }

    async def go() -> Output:
        tool = DuckdbTool(threads=1)
        try:
            return await tool.run(msgspec.convert(given, DuckdbInput), call(spec=spec, results=results))
        finally:
            await tool.close()

    before = leftovers()
    output = asyncio.run(go())
    assert leftovers() == before
    assert clean(output.data) == output.data
    return output


def leftovers() -> set[str]:
    return set(os.listdir(tempfile.gettempdir()))


def error_of(output: Output) -> Failure:
    assert output.status == "error"
    assert output.error is not None
    return output.error


def test_a_query_returns_rows_as_mappings_d83() -> None:
    output = ran(query="SELECT 1 AS n, 'x' AS t UNION ALL SELECT 2, NULL ORDER BY n")
    assert output == Output(
        data=[{"n": 1, "t": "x"}, {"n": 2, "t": None}], own={"duckdb": {"rows": 2, "columns": ["n", "t"]}}
    )


@pytest.mark.parametrize(
    ("sql", "data"),
    [
        ("1.50::DECIMAL(9, 2)", 1.5),
        ("12345678901234567890.12345::DECIMAL(38, 5)", "12345678901234567890.12345"),
        ("170141183460469231731687303715884105727::HUGEINT", 2**127 - 1),
        ("'nan'::DOUBLE", "NaN"),
        ("[1.5::DOUBLE, '-inf'::DOUBLE]", [1.5, "-Infinity"]),
        ("TIMESTAMP '2020-01-02 03:04:05.6'", "2020-01-02T03:04:05.600000"),
        ("TIMESTAMPTZ '2020-01-01 00:00:00+02'", "2019-12-31T22:00:00Z"),
        ("DATE '2020-01-02'", "2020-01-02"),
        ("TIME '10:00:00'", "10:00:00"),
        ("INTERVAL '90 minutes'", "1:30:00"),
        ("'\\xFF'::BLOB", {"base64": "/w=="}),
        ("{'a': 1, 'b': [1.5::DECIMAL(2, 1)]}", {"a": 1, "b": [1.5]}),
        ("map {1: 'x', 2: 'y'}", {"1": "x", "2": "y"}),
        ("map {true: 1}", {"true": 1}),
        ("array_value(1, 2)", [1, 2]),
        ("'6f0c1a52-1111-4222-8333-444455556666'::UUID", "6f0c1a52-1111-4222-8333-444455556666"),
        ("'a'::ENUM('a', 'b')", "a"),
        ("'{\"a\": [1, null]}'::JSON", {"a": [1, None]}),
        ("NULL", None),
    ],
)
def test_every_type_becomes_plain_json(sql: str, data: JSON) -> None:
    assert ran(query=f"SELECT {sql} AS v").data == [{"v": data}]


def test_columns_with_the_same_name_get_a_number() -> None:
    assert ran(query="SELECT 1 AS a, 2 AS a").data == [{"a": 1, "a_2": 2}]


def test_parameters_are_bound_by_position_and_by_name() -> None:
    assert ran(query="SELECT ? + ? AS n", params=[1, 2]).data == [{"n": 3}]
    assert ran(query="SELECT :a || :a AS t", params={"a": "'; DROP", "unused": 1}).data == [{"t": "'; DROP'; DROP"}]


def test_values_of_templates_are_bound_and_never_inserted_into_the_text() -> None:
    sql = {"text": ["SELECT ", " AS a, ", " AS b, :c AS c"], "values": ["'x", [1]]}
    assert ran(query=sql, params={"c": 3}).data == [{"a": "'x", "b": [1], "c": 3}]


def test_values_of_templates_reach_every_statement_of_a_command() -> None:
    sql = {"text": ["CREATE TABLE t (n INT); INSERT INTO t VALUES (", "), (", ")"], "values": [1, 2]}
    output = ran(command=sql)
    assert output == Output(own={"duckdb": {"rows": 2, "columns": None}})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"query": "SELECT 1; SELECT 2"},
            "`query` must be one statement, but has 2; use `command` for several",
        ),
        (
            {"command": "SELECT 1", "to": "csv"},
            "`to` writes the rows of a `query`, but the task has no `query`",
        ),
        (
            {"query": "SELECT 1", "tables": {"t": 5}},
            'table "t" must be a Ref (as in `output.ref`) or a list of mappings',
        ),
        (
            {"query": "SELECT 1", "tables": {f"t{n}": [] for n in range(TABLES_MAX + 1)}},
            "the task has 101 tables (limit TABLES_MAX: 100)",
        ),
        ({}, "`query` or `command` is required"),
    ],
)
def test_invalid_fields_are_an_error_of_kind_input(fields: dict[str, Any], message: str) -> None:
    assert error_of(ran(**fields)) == Failure(kind="input", message=message)


@pytest.mark.parametrize(
    "fields",
    [
        {"query": " -- nothing"},
        {"query": {"text": ["SELECT ? + ", ""], "values": [1]}, "params": [1]},
        {"query": "SELECT ?", "params": []},
        {"query": "SELECT :a", "params": {}},
    ],
)
def test_params_that_do_not_match_the_sql_are_an_error_of_kind_input(fields: dict[str, Any]) -> None:
    assert error_of(ran(**fields)).kind == "input"


def test_parameters_reach_every_statement_of_a_command() -> None:
    output = ran(command="CREATE TABLE t (n INT); INSERT INTO t VALUES (?), (?)", params=[1, 2])
    assert output.own == {"duckdb": {"rows": 2, "columns": None}}


def test_an_invalid_option_is_an_error_of_kind_input() -> None:
    error = error_of(ran(query="SELECT 1", spec={"memory_mb": "much"}))
    assert error == Failure(kind="input", message="spec: Expected `int`, got `str` - at `$.memory_mb`")


def test_an_sql_error_has_a_message_and_a_position() -> None:
    error = error_of(ran(query="SELECT * FROM nowhere"))
    assert error.kind == "duckdb"
    assert not error.retryable
    assert error.message.startswith("Catalog Error: Table with name nowhere does not exist!")
    assert error.details["where"].startswith("LINE 1: SELECT * FROM nowhere")


@pytest.mark.parametrize("value", [2**200, "\ud800", {"a": {}}])
def test_a_parameter_that_cannot_be_bound_raises_no_exception(value: JSON) -> None:
    output = ran(query="SELECT :v AS v", params={"v": value})
    assert output.status in ("ok", "error")
    assert output.error is None or output.error.kind == "duckdb"


def test_rows_of_an_earlier_task_are_a_table() -> None:
    output = ran(query="SELECT sum(a)::INT AS n FROM t JOIN u USING (a)", tables={"t": ROWS, "u": [{"a": 2}]})
    assert output.data == [{"n": 2}]


def test_a_table_without_rows_is_empty() -> None:
    assert ran(query="SELECT count(*) AS n FROM t", tables={"t": []}).data == [{"n": 0}]


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_a_written_file_can_be_read_as_a_table(form: str) -> None:
    results = MemoryResults()
    query = "SELECT a, b FROM t WHERE a > :least ORDER BY a"
    written = ran(query=query, params={"least": 0}, tables={"t": ROWS}, to=form, results=results)
    assert written.data is None
    assert written.own == {"duckdb": {"rows": 2, "columns": ["a", "b"]}}
    assert written.ref is not None
    content_types = {
        "parquet": "application/vnd.apache.parquet",
        "csv": "text/csv",
        "json": "application/json",
    }
    assert (written.ref["meta"]["content_type"], written.ref["meta"]["count"]) == (content_types[form], 2)
    read = ran(query='SELECT * FROM "the ""table""" ORDER BY a', tables={'the "table"': written.ref}, results=results)
    assert read.data == ROWS


def test_ndjson_is_a_table() -> None:
    results = MemoryResults()
    ref = asyncio.run(results.put("e1", b'{"a": 1}\n{"a": 2}\n', "application/x-ndjson"))
    assert ran(query="SELECT sum(a)::INT AS n FROM t", tables={"t": ref}, results=results).data == [{"n": 3}]


def test_a_missing_or_unsuitable_ref_is_an_error() -> None:
    results = MemoryResults()
    ref = asyncio.run(results.put("e1", b"hello", "text/plain"))
    error = error_of(ran(query="SELECT 1", tables={"t": ref}, results=results))
    assert error.message == 'table "t" has the type text/plain; it must be JSON, NDJSON, CSV or Parquet'
    assert error_of(ran(query="SELECT 1", tables={"t": ref})).kind == "reference"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM '/etc/hostname'",
        "SELECT * FROM read_csv('{folder}/secret.csv')",
        "SELECT * FROM glob('/*')",
        "COPY (SELECT 1) TO '{folder}/out.csv'",
        "ATTACH '{folder}/x.db'",
        "EXPORT DATABASE '{folder}/all'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '8GB'",
        "SET threads = 64",
        "SET enable_external_access = true",
        "RESET allowed_paths",
        "SET profiling_output = '{folder}/profile'",
        "CALL enable_logging(storage = 'file', storage_path = '{folder}/log')",
        "SELECT * FROM input",
    ],
)
def test_sql_has_no_access_to_files_or_settings_unless_granted(sql: str, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    assert error_of(ran(command=sql.format(folder=tmp_path))).kind == "duckdb"
    assert [file.name for file in tmp_path.iterdir()] == ["secret.csv"]


def test_no_setting_can_be_changed() -> None:
    """Of all settings that DuckDB knows; the schema belongs to the connection, which ends with the call."""
    with duckdb.connect(":memory:") as connection:
        known = [str(row[0]) for row in connection.execute("SELECT name FROM duckdb_settings()").fetchall()]
    assert {"memory_limit", "allowed_paths", "enable_logging"} <= set(known)
    for name in set(known) - {"schema", "search_path"}:
        assert "locked" in error_of(ran(command=f"RESET {name}")).message, name


def test_sql_can_read_and_write_only_the_granted_folder(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    spec = {"folders": [str(inside)]}
    assert ran(command=f"COPY (SELECT 7 AS n) TO '{inside}/n.csv'", spec=spec).status == "ok"
    assert ran(query=f"SELECT * FROM read_csv('{inside}/n.csv')", spec=spec).data == [{"n": 7}]
    for path in (outside / "n.csv", inside / ".." / "out" / "n.csv"):
        assert error_of(ran(command=f"COPY (SELECT 7 AS n) TO '{path}'", spec=spec)).kind == "duckdb"
    assert list(outside.iterdir()) == []


def test_a_folder_is_relative_to_the_playbook(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "n.csv").write_text("n\n7\n")
    query, spec = {"text": [f"SELECT * FROM read_csv('{tmp_path}/in/n.csv')"]}, {"folders": ["in"]}
    fields = msgspec.convert({"query": query}, DuckdbInput)

    async def go() -> list[Output]:
        tool = DuckdbTool(threads=1)
        made = [await tool.run(fields, call(spec=spec, folder=folder)) for folder in (str(tmp_path), "/nowhere", None)]
        await tool.close()
        return made

    there, elsewhere, nowhere = asyncio.run(go())
    assert there.data == [{"n": 7}]
    assert error_of(elsewhere).kind == "duckdb"
    assert (
        error_of(nowhere).message
        == 'spec.folders: "in" is relative, but this playbook was not read from a file; use an absolute path'
    )


def test_external_access_can_be_granted(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("n\n7\n")
    output = ran(query=f"SELECT * FROM read_csv('{tmp_path}/n.csv')", spec={"external_access": True})
    assert output.data == [{"n": 7}]


def test_memory_and_disk_have_limits_and_the_error_names_them() -> None:
    sql = "SELECT max(x) AS m FROM (SELECT i AS x FROM range(4000000) r(i) ORDER BY hash(i) LIMIT 3900000)"
    error = error_of(ran(query=sql, spec={"memory_mb": 32, "disk_mb": 1, "threads": 1}))
    assert error.message.startswith("Out of Memory Error")
    assert error.message.endswith("(the limits are spec.memory_mb and spec.disk_mb)")


def test_tables_that_are_too_large_are_refused() -> None:
    error = error_of(ran(query="SELECT 1", tables={"t": ROWS}, spec={"disk_mb": 0}))
    assert error == Failure(
        kind="payload-too-large", message="the tables need more disk space than spec.disk_mb allows"
    )


def test_too_many_rows_are_refused_with_a_hint() -> None:
    error = error_of(ran(query=f"SELECT repeat('x', 1000000) AS t FROM range({DATA_BYTES_MAX // 1000000 + 2})"))
    assert error.kind == "payload-too-large"
    assert error.message.endswith("write a file with `to`")


class Announcing(MemoryResults):
    """Signals the read of a table, which happens just before the SQL runs."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        async for chunk in super().read(ref):
            yield chunk
        self.asked.set()


def test_a_cancelled_call_ends_its_query_and_leaves_nothing_behind() -> None:
    async def go() -> None:
        tool, results = DuckdbTool(threads=1), Announcing()
        ref = await results.put("e1", b'[{"a": 1}]', "application/json")
        sql = {"text": ["SELECT count(*) FROM t, range(100000000000) r(i) WHERE hash(i) = 3"]}
        fields = msgspec.convert({"query": sql, "tables": {"t": ref}}, DuckdbInput)
        running = asyncio.create_task(tool.run(fields, call(results=results)))
        await results.asked.wait()
        running.cancel()
        async with asyncio.timeout(60):
            with pytest.raises(asyncio.CancelledError):
                await running
        output = await tool.run(msgspec.convert({"query": {"text": ["SELECT 1 AS n"]}}, DuckdbInput), call())
        assert output.data == [{"n": 1}]
        await tool.close()

    before, threads = leftovers(), threading.active_count()
    asyncio.run(go())
    assert leftovers() == before
    assert threading.active_count() <= threads


def test_a_call_that_waits_for_a_thread_can_be_cancelled() -> None:
    async def go() -> None:
        tool = DuckdbTool(threads=1)
        endless = {"text": ["SELECT count(*) FROM range(100000000000) r(i) WHERE hash(i) = 3"]}
        fields = msgspec.convert({"query": endless}, DuckdbInput)
        running = [asyncio.create_task(tool.run(fields, call())) for _ in range(2)]
        await asyncio.wait(running, timeout=0.05)
        for each in reversed(running):
            each.cancel()
        async with asyncio.timeout(60):
            done = await asyncio.gather(*running, return_exceptions=True)
        assert [type(each) for each in done] == [asyncio.CancelledError] * 2
        await tool.close()

    asyncio.run(go())


def test_a_playbook_binds_its_templates_and_passes_tables_by_ref(tmp_path: Path) -> None:
    text = """\
workload: {least: 2, text: "'; DROP TABLE t; --"}
workflow:
- step: start
  tool:
  - name: write
    kind: duckdb
    query: "SELECT i AS n, {{ workload.text }} AS text FROM range(5) r(i) WHERE i >= {{ workload.least }}"
    to: parquet
  - name: read
    kind: duckdb
    tables: {t: "{{ write.ref }}", more: "{{ [{'n': 4, 'word': 'four'}] }}"}
    query: "SELECT n, text, word FROM t JOIN more USING (n) WHERE n > :least"
    params: {least: "{{ workload.least }}"}
"""
    workspace = Workspace(tmp_path)
    code, document = workspace.json("run", workspace.write(HEAD + text))
    assert (code, document["error"]) == (0, None)
    assert document["output"]["data"] == [{"n": 4, "text": "'; DROP TABLE t; --", "word": "four"}]
