"""Refs to rows in SQLite and DuckDB files: `stored` makes them, `resolve` fetches them (D98)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.memory import MemoryResults
from noetl.output import JSON, Output
from noetl.tool import Tool
from noetl.tools.duckdb.tool import DuckdbInput, DuckdbTool
from noetl.tools.resolve import ResolveInput, ResolveTool
from noetl.tools.sql.stored import Stored
from noetl.tools.sqlite.tool import SqliteInput, SqliteTool
from tests.unit.tools.calls import call
from tests.unit.tools.databases import sql

FILL = "CREATE TABLE t AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 2500) SELECT n, 'v' || n AS v FROM r"


class Database:
    """One kind of database file."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.tool: Tool = SqliteTool() if kind == "sqlite" else DuckdbTool(threads=2)

    async def command(self, source: str, stored: Stored | None = None, path: str = "x.db", **named: JSON) -> Output:
        given: dict[str, Any] = {"command": sql(source, named), "stored": stored}
        input = SqliteInput(path=path, **given) if self.kind == "sqlite" else DuckdbInput(database=path, **given)
        return await self.tool.run(input, call(folder=str(self.folder)))


async def resolve(ref: JSON, results: MemoryResults | None = None, *, trusted: bool = True, **fields: Any) -> Output:
    tool = ResolveTool()
    try:
        made = call(results=results)._replace(refs=(ref,) if trusted else ())
        return await tool.run(ResolveInput(ref=ref, **fields), made)
    finally:
        await tool.close()


def on(kind: str, folder: Path, work: Callable[[Database], Awaitable[None]]) -> None:
    async def main() -> None:
        database = Database(kind, folder)
        try:
            await work(database)
        finally:
            await database.tool.close()

    asyncio.run(main())


both = pytest.mark.parametrize("kind", ["sqlite", "duckdb"])


@both
def test_rows_that_were_stored_are_fetched_by_their_ref_d98(kind: str, tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        done = await database.command(FILL, Stored(table="t", where={"n": {"gt": 2}}, order=["n"], count=True))
        assert done.error is None, done.error
        assert done.ref is not None
        assert done.ref["locator"] == {
            "system": kind, "path": str(tmp_path / "x.db"), "table": "t", "where": {"n": {"gt": 2}}, "order": ["n"],
        }  # fmt: skip
        assert done.ref["meta"]["count"] == 2498
        every = await resolve(done.ref)
        assert every.data == [{"n": n, "v": f"v{n}"} for n in range(3, 2501)]
        assert (await resolve(done.ref, limit=2)).data == [{"n": 3, "v": "v3"}, {"n": 4, "v": "v4"}]
        assert (await resolve(done.ref, slice="10:12", columns=["n"])).data == [{"n": 13}, {"n": 14}]
        assert (await resolve(done.ref, slice="2497:", limit=9)).data == [{"n": 2500, "v": "v2500"}]
        assert (await resolve(done.ref, slice="10:12", path="$[0].v")).data == "v13"
        assert (await resolve(done.ref, limit=0)).data == []

    on(kind, tmp_path, work)


@both
def test_rows_are_streamed_into_the_result_store_d98(kind: str, tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        done = await database.command(FILL, Stored(table="t", order=["n"]))
        results = MemoryResults()
        for to, first in (("ndjson", b'{"n":1,"v":"v1"}'), ("csv", b'"n","v"')):
            output = await resolve(done.ref, results, to=to)
            assert (output.data, output.error) == ({"rows": 2500}, None)
            assert output.ref is not None
            assert output.ref["meta"]["count"] == 2500
            body = await results.get(output.ref)
            assert body.startswith(first)
            assert len(body.splitlines()) == (2500 if to == "ndjson" else 2501)

    on(kind, tmp_path, work)


@both
def test_a_ref_that_is_data_is_refused_d99(kind: str, tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        done = await database.command(FILL, Stored(table="t"))
        refused = await resolve(done.ref, trusted=False)
        assert refused.error is not None
        assert refused.error.kind == "reference"
        assert refused.error.message.startswith("`ref` is data that looks like a Ref")

    on(kind, tmp_path, work)


@both
@pytest.mark.parametrize(
    ("change", "fields", "words"),
    [
        ({"table": "nope"}, {}, "nope"),
        ({"columns": ["nope"]}, {}, "nope"),
        ({"table": 'x" ; DROP TABLE t; --'}, {}, "DROP"),
        ({"path": "/no/such/folder/x.db"}, {}, "cannot"),
        ({"system": "oracle"}, {}, "not a system that can be read; known: postgres, sqlite, duckdb, s3, gs, az, file"),
        ({"path": 3}, {}, "the Ref names no file"),
        ({}, {"slice": "-3:"}, "needs numbers of at least 0"),
        ({}, {"columns": ["w"]}, '"w"'),
        ({}, {"to": "csv", "path": "$"}, "`path` selects a part of `output.data`"),
    ],
)
def test_a_ref_that_does_not_fit_the_database_is_an_error(
    kind: str, change: dict[str, JSON], fields: dict[str, Any], words: str, tmp_path: Path
) -> None:
    async def work(database: Database) -> None:
        done = await database.command(FILL, Stored(table="t", columns=["n", "v"]))
        assert done.ref is not None
        ref = {**done.ref, "locator": {**done.ref["locator"], **change}}
        output = await resolve(ref, **fields)
        assert output.error is not None
        assert words in output.error.message.replace("Cannot", "cannot"), output.error
        assert (await resolve(done.ref, limit=1)).data == [{"n": 1, "v": "v1"}]

    on(kind, tmp_path, work)


@both
def test_a_name_that_cannot_be_used_stops_the_statement_before_it_has_an_effect_d98(kind: str, tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        done = await database.command(FILL, Stored(table="t", where={"n": {"like": 1}}))
        assert done.error is not None
        assert done.error.kind == "input"
        again = await database.command(FILL, Stored(table="t"))
        assert again.error is None, again.error

    on(kind, tmp_path, work)


def test_memory_cannot_be_referenced(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        done = await database.command(FILL, Stored(table="t"), path=":memory:")
        assert done.error is not None
        assert done.error.kind == "input"

    for kind in ("sqlite", "duckdb"):
        on(kind, tmp_path, work)


def test_stored_of_duckdb_needs_a_file(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        output = await database.tool.run(DuckdbInput(command=sql(FILL), stored=Stored(table="t")), call())
        assert output.error is not None
        assert output.error.message.startswith("`stored` needs `database`")

    on("duckdb", tmp_path, work)


def test_a_file_of_duckdb_keeps_its_tables_and_none_of_the_task(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        folder = str(tmp_path)
        rows = [{"n": 1}, {"n": 2}]
        made = DuckdbInput(
            command=sql("CREATE TABLE sums AS SELECT sum(n) AS total FROM orders"),
            tables={"orders": rows},
            database="x.db",
        )
        assert (await database.tool.run(made, call(folder=folder))).error is None
        read = DuckdbInput(query=sql("SELECT table_name FROM duckdb_tables()"), database="x.db")
        assert (await database.tool.run(read, call(folder=folder))).data == [{"table_name": "sums"}]
        shadowed = DuckdbInput(query=sql("SELECT * FROM sums"), tables={"Sums": rows}, database="x.db")
        refused = await database.tool.run(shadowed, call(folder=folder))
        assert refused.error is not None
        assert 'table "Sums" also exists in the file' in refused.error.message
        outside = DuckdbInput(query=sql("SELECT * FROM read_csv('/etc/passwd')"), database="x.db")
        denied = await database.tool.run(outside, call(folder=folder))
        assert denied.error is not None

    on("duckdb", tmp_path, work)


def test_calls_on_one_file_of_duckdb_wait_for_each_other(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        await database.command("CREATE TABLE t (n INTEGER)")
        outputs = await asyncio.gather(*(database.command(f"INSERT INTO t VALUES ({n})") for n in range(12)))
        assert [output.error for output in outputs] == [None] * 12
        read = DuckdbInput(query=sql("SELECT count(*) AS n FROM t"), database="x.db")
        assert (await database.tool.run(read, call(folder=str(tmp_path)))).data == [{"n": 12}]

    on("duckdb", tmp_path, work)
