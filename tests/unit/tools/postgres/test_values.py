"""JSON values are converted to PostgreSQL types and back without loss."""

from __future__ import annotations

import asyncio

from noetl.output import JSON, clean
from tests.unit.tools.databases import new_database

UUID = "0199b3c2-0000-7000-8000-000000000001"


# type, value written, value read back
CASES: list[tuple[str, JSON, JSON]] = [
    ("int4", 5, 5),
    ("int4", "5", 5),
    ("int4", 5.0, 5),
    ("int8", 2**62, 2**62),
    ("float8", 1, 1.0),
    ("float8", 0.1, 0.1),
    ("float8", "NaN", "NaN"),
    ("float8", "-Infinity", "-Infinity"),
    ("numeric", 1.1, 1.1),
    ("numeric", 10, 10),
    ("numeric", "10.00", 10),
    ("numeric", "0.1234567890123456789", "0.1234567890123456789"),
    ("numeric", "NaN", "NaN"),
    ("bool", True, True),
    ("bool", "yes", True),
    ("text", "a'\"\\{{ x }}\u20ac\U0001f600", "a'\"\\{{ x }}\u20ac\U0001f600"),
    ("text", 5, "5"),
    ("text", True, "true"),
    ("text", {"a": [1]}, '{"a":[1]}'),
    ("varchar", "", ""),
    ("jsonb", {"a": [1, None, "x"]}, {"a": [1, None, "x"]}),
    ("jsonb", [1, 2], [1, 2]),
    ("jsonb", '{"already": "JSON"}', {"already": "JSON"}),
    ("json", 5, 5),
    ("jsonb[]", [{"a": 1}, None, [2]], [{"a": 1}, None, [2]]),
    ("int4[]", [1, None, 2], [1, None, 2]),
    ("int4[]", "{1,2}", [1, 2]),
    ("int4[]", ["1", 2], [1, 2]),
    ("int4[]", [], []),
    ("text[]", ['a"b', "c\\d", "NULL", "", None], ['a"b', "c\\d", "NULL", "", None]),
    ("timestamptz[]", ["2026-01-31T12:00:00Z", None], ["2026-01-31T12:00:00Z", None]),
    ("timestamptz", "2026-01-31T13:00:00+01:00", "2026-01-31T12:00:00Z"),
    ("timestamptz", "infinity", "infinity"),
    ("timestamp", "2026-01-31 12:00:00.5", "2026-01-31T12:00:00.500000"),
    ("date", "2026-01-31", "2026-01-31"),
    ("date", "-infinity", "-infinity"),
    ("time", "12:30", "12:30:00"),
    ("interval", "1 month 2 days", "1 mon 2 days"),
    ("uuid", UUID, UUID),
    ("bytea", {"base64": "AP8="}, {"base64": "AP8="}),
    ("inet", "10.0.0.1", "10.0.0.1"),
    ("int4range", "[1,5)", "[1,5)"),
    ("int4range", "empty", "empty"),
    ("bit(3)", "101", "101"),
    ("mood", "glad", "glad"),
    ("mood[]", ["glad", "sad"], ["glad", "sad"]),
    ("positive", 5, 5),
    ("pair", '(1,"a b")', {"n": 1, "t": "a b"}),
    ("point", "(1,2)", [1.0, 2.0]),
]


def test_every_type_is_written_and_read_back() -> None:
    async def work() -> None:
        async with new_database() as pg:
            await pg.make(
                "CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE TYPE pair AS (n int, t text);"
                "CREATE DOMAIN positive AS int CHECK (value > 0)"
            )
            found = []
            for kind, given, _ in CASES:
                await pg.make(f"CREATE TABLE a (x {kind}, y {kind})")
                await pg.make("INSERT INTO a VALUES ({{ x }}, {{ none }})", x=given)
                rows = await pg.rows("SELECT * FROM a")
                assert clean(rows) is rows
                found.append((kind, given, rows))
                await pg.make("DROP TABLE a")
            assert found == [(kind, given, [{"x": back, "y": None}]) for kind, given, back in CASES]

    asyncio.run(work())


def test_lists_work_with_any_and_with_in() -> None:
    async def work() -> None:
        async with new_database() as pg:
            source = "SELECT n FROM generate_series(1, 5) n WHERE n = ANY({{ xs }}) OR n IN ({{ ys|sql_list }})"
            assert await pg.rows(source, xs=[1, 2], ys=[5]) == [{"n": 1}, {"n": 2}, {"n": 5}]
            assert await pg.rows(source, xs=[], ys=[]) == []

    asyncio.run(work())


def test_columns_with_the_same_name_get_a_number() -> None:
    async def work() -> None:
        async with new_database() as pg:
            assert await pg.rows("SELECT 1 AS id, 2 AS id") == [{"id": 1, "id_2": 2}]

    asyncio.run(work())


def test_a_value_that_does_not_fit_is_named_by_its_position() -> None:
    async def work() -> None:
        async with new_database() as pg:
            output = await pg.query("SELECT {{ a }}::text, {{ b }}::int8", a="x", b=2**70)
            assert output.error is not None
            assert output.error.message == "the value of parameter $2 does not fit the type of the parameter"

    asyncio.run(work())
