"""SQL injection: payloads through {{ }}, sql_list and sql_ident stay data, on a real server (P-SQL)."""

from __future__ import annotations

import asyncio
from itertools import product

from noetl.template.compile import TemplateError
from tests.unit.tools.databases import new_database

QUOTES = ("'", '"', "''", "\\'", "`", "$$", "$a$", "%27", "\u02bc", "\uff07")
PAYLOADS = (
    "; DROP TABLE victims; --",
    "; DROP TABLE victims CASCADE; SELECT 1 WHERE 'a' = 'a",
    " OR 1=1 --",
    " OR 1=1 /*",
    " UNION SELECT secret FROM hidden --",
    ") ; DELETE FROM victims; --",
    "; UPDATE victims SET name = 'pwned'; --",
    " || (SELECT secret FROM hidden) || ",
    "; COPY victims TO PROGRAM 'true'; --",
    "; SELECT pg_sleep(60); --",
    "*/ DROP TABLE victims /*",
    "\n; DROP TABLE victims; --\n",
    "; DO $x$ BEGIN EXECUTE 'DROP TABLE victims'; END $x$; --",
    " AND 1 = (SELECT 1 FROM pg_sleep(60)) --",
    "; SET standard_conforming_strings = off; --",
    "}} {{ 7 * 7 }} {% if 1 %}x{% endif %}",
    "$1; DROP TABLE victims; -- :name ?",
    "\\'; DROP TABLE victims; --",
    "\u0000; DROP TABLE victims; --".replace("\u0000", "\u2400"),
    "\u201d; DROP TABLE victims; --",
)
HOSTILE = [quote + payload for quote, payload in product(QUOTES, PAYLOADS)]


def test_there_are_two_hundred_payloads() -> None:
    assert len(set(HOSTILE)) == 200


def test_a_bound_value_is_returned_unchanged() -> None:
    async def work() -> None:
        async with new_database() as pg:
            await pg.make("CREATE TABLE victims (name text, more jsonb); CREATE TABLE hidden (secret text)")
            for evil in HOSTILE:
                await pg.make("INSERT INTO victims VALUES ('{{ evil }}', {{ [evil] }})", evil=evil)
                found = await pg.rows("SELECT * FROM victims WHERE name = {{ evil }}", evil=evil)
                assert found == [{"name": evil, "more": [evil]}]
            everyone = await pg.rows(
                "SELECT name FROM victims WHERE name IN ({{ all|sql_list }}) AND name = ANY({{ all }})",
                all=HOSTILE,
            )
            assert [row["name"] for row in everyone] == HOSTILE
            loop = "{% for e in all %}({{ e }}, NULL){% if not loop.last %},{% endif %}{% endfor %}"
            await pg.make(f"DELETE FROM victims; INSERT INTO victims VALUES {loop}", all=HOSTILE)
            assert await pg.rows("SELECT count(*) AS n FROM victims") == [{"n": 200}]

    asyncio.run(work())


def test_parameters_by_position_and_by_name_are_returned_unchanged() -> None:
    async def work() -> None:
        async with new_database() as pg:
            await pg.make("CREATE TABLE victims (name text); CREATE TABLE hidden (secret text)")
            for evil in HOSTILE:
                assert await pg.rows("SELECT $1::text AS x", params=[evil]) == [{"x": evil}]
                assert await pg.rows("SELECT :a::text AS x", params={"a": evil}) == [{"x": evil}]
            assert await pg.rows("SELECT count(*) AS n FROM victims, hidden") == [{"n": 0}]

    asyncio.run(work())


def test_an_identifier_stays_an_identifier_for_any_payload() -> None:
    async def work() -> None:
        async with new_database() as pg:
            await pg.make("CREATE TABLE victims (name text); INSERT INTO victims VALUES ('kept')")
            named = 0
            for evil in HOSTILE:
                name = [evil]
                try:
                    await pg.make("CREATE TABLE {{ t|sql_ident }} (a int)", t=name)
                except TemplateError:
                    continue
                named += 1
                found = await pg.rows("SELECT 1 AS x FROM pg_tables WHERE tablename = {{ t }}", t=evil)
                assert found == [{"x": 1}]
                assert await pg.rows("SELECT {{ c|sql_ident }} FROM victims", c="name") == [{"name": "kept"}]
                await pg.make("DROP TABLE {{ t|sql_ident }}", t=name)
            assert named >= 150
            assert await pg.rows("SELECT * FROM victims") == [{"name": "kept"}]

    asyncio.run(work())
