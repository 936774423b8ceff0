"""COPY: from a Ref into a table, and from a query into a Ref."""

from __future__ import annotations

import asyncio
import json
from hashlib import sha256

import pytest

from noetl.adapters.memory import MemoryResults
from noetl.output import JSON, Output
from noetl.tools.postgres.tool import Copy, PostgresInput
from tests.unit.tools.calls import call
from tests.unit.tools.databases import PostgresOn, new_database, sql

NDJSON, LIST, CSV = "application/x-ndjson", "application/json", "text/csv; charset=utf-8"
TABLE = "CREATE TABLE a (id int, name text, more jsonb, tags text[], at timestamptz, fine bool)"


async def copy_in(pg: PostgresOn, body: str | bytes, content_type: str, **named: JSON) -> Output:
    results = MemoryResults()
    ref = await results.put("e1", body.encode() if isinstance(body, str) else body, content_type)
    copy = Copy(table=named.pop("table", "a"), from_ref=ref, **named)
    asked = call(spec={"timeout": 60}, results=results)._replace(auth=pg.auth)
    return await pg.tool.run(PostgresInput(copy=copy), asked)


ROWS: list[dict[str, JSON]] = [
    {"id": 1, "name": 'a "quoted", \\N\n line', "more": {"k": [1]}, "tags": ["x", 'y"z'], "at": "2026-01-31T12:00:00Z", "fine": True},
    {"id": 2, "name": "", "more": [None], "tags": [], "at": None, "fine": False},
    {"id": 3, "name": None, "more": None, "tags": None, "at": None, "fine": None},
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "content_type"),
    [("\n".join(map(json.dumps, ROWS)) + "\n\n", NDJSON), (json.dumps(ROWS), LIST), ("\n".join(map(json.dumps, ROWS)), "")],
    ids=["ndjson", "list", "no content type"],
)  # fmt: skip
def test_rows_are_loaded_unchanged(body: str, content_type: str) -> None:
    async def work() -> None:
        async with new_database() as pg:
            await pg.make(TABLE)
            output = await copy_in(pg, body, content_type)
            assert output.error is None, output.error
            assert (output.data, output.own["pg"]["rowcount"]) == ({"rows": 3}, 3)
            assert await pg.rows("SELECT * FROM a ORDER BY id") == ROWS

    asyncio.run(work())


def test_csv_is_loaded_by_its_header() -> None:
    async def work() -> None:
        async with new_database() as pg:
            await pg.make(TABLE)
            body = '\ufeffname,id,fine\r\n"a ""b""\r\nc",1,true\r\n"",2,\r\n'
            output = await copy_in(pg, body, CSV)
            assert output.error is None, output.error
            assert await pg.rows("SELECT id, name, fine FROM a ORDER BY id") == [
                {"id": 1, "name": 'a "b"\r\nc', "fine": True},
                {"id": 2, "name": "", "fine": None},
            ]

    asyncio.run(work())


def test_lists_are_loaded_by_position_and_columns_selects() -> None:
    async def work() -> None:
        async with new_database() as pg:
            await pg.make("CREATE SCHEMA s; CREATE TABLE s.a (id int, name text)")
            output = await copy_in(pg, '["x", 1]\n["y", 2]', NDJSON, table="s.a", columns=["name", "id"])
            assert output.error is None, output.error
            await copy_in(pg, '{"id": 3, "other": 1}', NDJSON, table="s.a", columns=["id"])
            assert await pg.rows("SELECT name, id FROM s.a ORDER BY id") == [
                {"name": "x", "id": 1}, {"name": "y", "id": 2}, {"name": None, "id": 3},
            ]  # fmt: skip

    asyncio.run(work())


@pytest.mark.parametrize(
    ("body", "content_type", "named", "message"),
    [
        ('{"id": 1}\n{"id": 2, "naem": 3}', NDJSON, {}, 'row 2 has the key "naem"'),
        ('{"id": 1}\nnope', NDJSON, {}, "not valid JSON"),
        ('{"id": 1}\n5', NDJSON, {}, "row 2 is neither"),
        ("[1]", NDJSON, {}, "`columns` is required"),
        ("[1, 2]", NDJSON, {"columns": ["id"]}, "row 1 is neither"),
        ('{"id": 1}', LIST, {}, "not a list of rows"),
        ("{", LIST, {}, "not valid JSON"),
        ("", CSV, {}, "no header"),
        ('{"id": 1}', NDJSON, {"table": "a."}, "`table` is not a table name"),
        ('{"a]": 1}', NDJSON, {}, "not valid in SQL"),
    ],
)
def test_invalid_rows_are_an_error_and_nothing_is_loaded(
    body: str, content_type: str, named: dict[str, JSON], message: str
) -> None:
    async def work() -> None:
        async with new_database() as pg:
            await pg.make(TABLE)
            output = await copy_in(pg, body, content_type, **named)
            assert output.error is not None
            assert output.error.kind == "input"
            assert message in output.error.message
            assert await pg.rows("SELECT * FROM a") == []

    asyncio.run(work())


def test_a_rejected_row_rolls_back_all_rows_and_is_not_shown() -> None:
    async def work() -> None:
        async with new_database() as pg:
            await pg.make("CREATE TABLE a (id int PRIMARY KEY)")
            for body in ('{"id": 1}\n{"id": "canary"}', '{"id": 77123}\n{"id": 77123}'):
                output = await copy_in(pg, body, NDJSON)
                assert output.error is not None
                assert output.error.kind == "postgres"
                assert "canary" not in str(output)
                assert "77123" not in str(output)
            assert await pg.rows("SELECT * FROM a") == []

    asyncio.run(work())


def test_a_missing_or_invalid_ref_is_an_error() -> None:
    async def work() -> None:
        async with new_database() as pg:
            await pg.make(TABLE)
            gone = await MemoryResults().put("e1", b"{}", NDJSON)
            for ref, kind in (
                (gone, "reference"),
                ({}, "input"),
                ({**gone, "locator": 5}, "input"),
                ({"meta": 5}, "input"),
            ):
                asked = call(results=MemoryResults())._replace(auth=pg.auth)
                output = await pg.tool.run(PostgresInput(copy=Copy(table="a", from_ref=ref)), asked)
                assert output.error is not None
                assert (output.error.kind, output.error.retryable) == (kind, False)

    asyncio.run(work())


@pytest.mark.parametrize(
    ("to", "content_type", "body"),
    [
        (
            "ndjson",
            NDJSON,
            '{"n":2,"t":"a\\"b","j":{"k":1},"z":null}\n{"n":3,"t":"a\\"b","j":{"k":1},"z":null}\n',
        ),
        ("csv", "text/csv", '"n","t","j","z"\n2,"a""b","{""k"":1}",\n3,"a""b","{""k"":1}",\n'),
    ],
)
def test_rows_are_stored_behind_a_ref(to: str, content_type: str, body: str) -> None:
    async def work() -> None:
        async with new_database() as pg:
            results = MemoryResults()
            source = (
                "SELECT n, {{ t }}::text AS t, '{\"k\": 1}'::jsonb AS j, NULL AS z FROM generate_series(2, :last) n"
            )
            copy = Copy(query=sql(source, {"t": 'a"b'}), to="csv" if to == "csv" else "ndjson")
            asked = call(results=results)._replace(auth=pg.auth)
            output = await pg.tool.run(PostgresInput(copy=copy, params={"last": 3}), asked)
            assert output.error is None, output.error
            assert output.ref is not None
            assert output.data == {"rows": 2}
            assert (await results.get(output.ref)).decode() == body
            digest = sha256(body.encode()).hexdigest()
            meta = {"content_type": content_type, "bytes": len(body), "sha256": digest, "count": 2}
            assert output.ref["meta"] == meta

    asyncio.run(work())


def test_stored_rows_can_be_loaded_again() -> None:
    async def work() -> None:
        async with new_database() as pg:
            await pg.make(TABLE)
            await copy_in(pg, json.dumps(ROWS * 500), LIST)
            for to in ("ndjson", "csv"):
                results = MemoryResults()
                asked = call(results=results)._replace(auth=pg.auth)
                copy = Copy(query=sql("SELECT id, name, fine FROM a"), to="csv" if to == "csv" else "ndjson")
                output = await pg.tool.run(PostgresInput(copy=copy), asked)
                await pg.make("DROP TABLE IF EXISTS b; CREATE TABLE b (LIKE a)")
                again = await pg.tool.run(PostgresInput(copy=Copy(table="b", from_ref=output.ref)), asked)
                assert again.own["pg"]["rowcount"] == 1500
                same = "SELECT count(*) AS n FROM a JOIN b USING (id) WHERE a.name IS NOT DISTINCT FROM b.name"
                assert await pg.rows(same) == [{"n": 750_000}]

    asyncio.run(work())


@pytest.mark.parametrize("copy", [Copy(), Copy(table="a"), Copy(from_ref={}), Copy(query=sql("DROP TABLE x"))])
def test_an_incomplete_copy_is_refused(copy: Copy) -> None:
    async def work() -> None:
        async with new_database() as pg:
            output = await pg.run(PostgresInput(copy=copy))
            assert output.error is not None

    asyncio.run(work())
