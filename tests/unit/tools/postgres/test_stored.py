"""Refs to rows in PostgreSQL: `stored` makes them, `resolve` fetches them with the credential of the Ref (D98)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from noetl.adapters.memory import MemoryResults
from noetl.errors import NotFound
from noetl.output import JSON, Output
from noetl.tool import Auth
from noetl.tools.postgres.tool import Copy, PostgresInput
from noetl.tools.resolve import ResolveInput, ResolveTool
from noetl.tools.sql.stored import Stored
from tests.services import PASSWORD, postgres
from tests.unit.tools.calls import call
from tests.unit.tools.databases import PostgresOn, credential, new_database, sql

FILL = "INSERT INTO rows SELECT n, 'v' || n, 7 FROM generate_series(1, 2500) n"


async def resolve(
    here: PostgresOn, ref: JSON, results: MemoryResults | None = None, auth: Auth | None = None, **fields: Any
) -> Output:
    async def fetched(name: str) -> Auth:
        if name != "pg":
            raise NotFound(f'keychain entry "{name}": the playbook does not declare it')
        return auth or here.auth

    tool = ResolveTool()
    try:
        made = call(results=results, spec={"timeout": 60})._replace(refs=(ref,), credential=fetched)
        return await tool.run(ResolveInput(ref=ref, **fields), made)
    finally:
        await tool.close()


def on_rows(work: Callable[[PostgresOn], Awaitable[None]]) -> None:
    async def main() -> None:
        async with new_database() as here:
            await here.make("CREATE TABLE rows (n int PRIMARY KEY, v text, batch int)")
            await work(here)

    asyncio.run(main())


def test_rows_that_were_stored_are_fetched_by_their_ref_d98() -> None:
    async def work(here: PostgresOn) -> None:
        stored = Stored(
            table="public.rows", columns=["n", "v"], where={"batch": 7, "n": {"gt": 2}}, order=["n"], count=True
        )
        done = await here.run(PostgresInput(command=sql(FILL), stored=stored))
        assert (done.data, done.own["pg"]["rowcount"]) == ({"rows": 2500}, 2500)
        assert done.ref == {
            "type": "relational",
            "locator": {
                "system": "postgres", "table": "public.rows", "columns": ["n", "v"],
                "where": {"batch": 7, "n": {"gt": 2}}, "order": ["n"],
            },
            "auth_reference": "keychain/pg",
            "meta": {"content_type": "application/json", "count": 2498},
        }  # fmt: skip
        assert (await resolve(here, done.ref)).data == [{"n": n, "v": f"v{n}"} for n in range(3, 2501)]
        part = await resolve(here, done.ref, slice="10:12", columns=["v"])
        assert part.data == [{"v": "v13"}, {"v": "v14"}]
        results = MemoryResults()
        output = await resolve(here, done.ref, results, to="ndjson")
        assert output.data == {"rows": 2498}
        assert output.ref is not None
        assert (await results.get(output.ref)).count(b"\n") == 2498

    on_rows(work)


def test_a_copy_and_a_query_can_store_rows_too() -> None:
    async def work(here: PostgresOn) -> None:
        results = MemoryResults()
        ref = await results.put("e1", b'[{"n": 1, "v": "a", "batch": 3}]', "application/json")
        copy = PostgresInput(copy=Copy(table="rows", from_ref=ref), stored=Stored(table="rows", where={"batch": 3}))
        done = await here.tool.run(copy, call(results=results)._replace(auth=here.auth))
        assert (await resolve(here, done.ref)).data == [{"n": 1, "v": "a", "batch": 3}]
        insert = sql("INSERT INTO rows VALUES (2, 'b', 3) RETURNING n")
        asked = await here.run(PostgresInput(query=insert, stored=Stored(table="rows")))
        assert asked.data == {"rows": 1}
        wrong = await here.run(PostgresInput(copy=Copy(query=sql("SELECT 1")), stored=Stored(table="rows")))
        assert wrong.error is not None
        assert wrong.error.message.startswith("`copy` with `query` reads rows")

    on_rows(work)


def test_names_and_values_in_a_locator_never_become_sql_d98() -> None:
    async def work(here: PostgresOn) -> None:
        done = await here.run(PostgresInput(command=sql(FILL), stored=Stored(table="rows")))
        assert done.ref is not None
        for change in (
            {"table": 'rows"; DROP TABLE rows; --'},
            {"table": "rows WHERE false"},
            {"table": "(SELECT 1) x"},
            {"columns": ['n" FROM pg_shadow; --']},
            {"where": {'n" = 1 OR "n': 1}},
            {"order": ["n; DROP TABLE rows"]},
            {"where": {"v": "x' OR '1' = '1"}},
            {"where": {"v": {"gt": "zzz'; DROP TABLE rows; --"}}},
        ):
            ref = {**done.ref, "locator": {**done.ref["locator"], **change}}
            output = await resolve(here, ref)
            assert output.data in (None, []), change
            assert (await here.rows("SELECT count(*) AS n FROM rows")) == [{"n": 2500}]

    on_rows(work)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (
            {"auth_reference": "keychain/other"},
            "credential",
            'keychain entry "other": the playbook does not declare it',
        ),
        ({"auth_reference": None}, "input", "PostgreSQL needs a keychain entry"),
        ({"auth_reference": "secret"}, "input", "must be keychain/<name>"),
    ],
)
def test_the_credential_is_the_one_that_the_ref_names_d98(change: dict[str, JSON], kind: str, words: str) -> None:
    async def work(here: PostgresOn) -> None:
        done = await here.run(PostgresInput(command=sql(FILL), stored=Stored(table="rows")))
        assert done.ref is not None
        output = await resolve(here, {**done.ref, **change})
        assert output.error is not None
        assert (output.error.kind, words in output.error.message) == (kind, True), output.error

    on_rows(work)


def test_a_refused_credential_is_fetched_once_more() -> None:
    async def work(here: PostgresOn) -> None:
        done = await here.run(PostgresInput(command=sql(FILL), stored=Stored(table="rows")))
        at = {"host": "127.0.0.1", "port": str(postgres().port), "user": "postgres", "database": here.name}
        good, stale = credential(password=PASSWORD, **at), credential(password="an old password", **at)

        async def renew() -> Auth:
            return good

        output = await resolve(here, done.ref, auth=stale._replace(renew=renew), limit=1)
        assert output.error is None
        assert len(output.data) == 1
        refused = await resolve(here, done.ref, auth=stale)
        assert refused.error is not None
        assert refused.error.kind == "postgres"
        assert "an old password" not in refused.error.message

    on_rows(work)


def test_rows_that_are_too_large_for_data_need_a_format() -> None:
    async def work(here: PostgresOn) -> None:
        big = "INSERT INTO rows SELECT n, repeat('x', 1000000), 1 FROM generate_series(1, 70) n"
        done = await here.run(PostgresInput(command=sql(big), stored=Stored(table="rows")))
        output = await resolve(here, done.ref)
        assert output.error is not None
        assert output.error.kind == "payload-too-large"
        assert output.error.message.endswith("use `limit`, `slice`, or `to: ndjson`")
        assert (await resolve(here, done.ref, to="ndjson")).data == {"rows": 70}

    on_rows(work)
