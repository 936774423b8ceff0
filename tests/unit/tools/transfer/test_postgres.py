"""`transfer` to and from a real PostgreSQL server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert, to_builtins

from noetl.errors import NotFound
from noetl.output import JSON, Output
from noetl.tool import Auth
from noetl.tools.transfer.tool import TransferInput, TransferTool
from tests.services import connected
from tests.unit.tools.calls import call
from tests.unit.tools.databases import PostgresOn, credential, new_database, sql

TABLE = """\
CREATE TABLE t (
  id bigint PRIMARY KEY, name text, at timestamptz, d numeric(30, 5), b bytea, j jsonb, l int[], ok boolean,
  made text NOT NULL DEFAULT 'here'
);
"""
COLUMNS = ["id", "name", "at", "d", "b", "j", "l", "ok"]
ROWS = """\
INSERT INTO t SELECT n, E'a "quoted",\\n' || n, '2026-01-02T03:04:05Z', 12345678901234567890.12345, '\\x00ff',
  '{"a": [1, null]}', '{1,NULL}', n > 1 FROM generate_series(1, 3) n;
INSERT INTO t (id, j) VALUES (4, '"text"'), (5, '"12"');
"""


class Transfers:
    def __init__(self, postgres: PostgresOn, folder: Path) -> None:
        self.postgres, self.folder, self.tool = postgres, folder, TransferTool()

    async def run(self, source: Any, target: Any, **fields: Any) -> Output:
        async def fetched(name: str) -> Auth:
            if name != "db":
                raise NotFound(f'keychain entry "{name}": the playbook does not declare it')
            return self.postgres.auth

        input = convert({"source": source, "target": target, **fields}, TransferInput)
        return await self.tool.run(input, call(folder=str(self.folder))._replace(credential=fetched))

    def write(self, *rows: JSON) -> dict[str, JSON]:
        (self.folder / "in.ndjson").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return {"kind": "object", "url": "in.ndjson"}


def db(table: str = "t", **more: JSON) -> dict[str, JSON]:
    return {"kind": "postgres", "auth": "db", "table": table, **more}


@asynccontextmanager
async def transfers(folder: Path) -> AsyncIterator[Transfers]:
    async with new_database() as postgres:
        await postgres.make(TABLE)
        made = Transfers(postgres, folder)
        try:
            yield made
        finally:
            await made.tool.close()


@pytest.mark.parametrize("name", ["x.ndjson", "x.csv", "x.parquet"])
def test_values_of_all_types_return_unchanged(tmp_path: Path, name: str) -> None:
    async def work() -> None:
        async with transfers(tmp_path) as made:
            await made.postgres.make(f"{ROWS} CREATE TABLE u (LIKE t INCLUDING ALL)")
            out = await made.run(db(), {"kind": "object", "url": name}, columns=COLUMNS)
            assert out.error is None, out.error
            back = await made.run({"kind": "object", "url": name}, db("u"))
            assert back.error is None, back.error
            assert back.data == {"rows": 5}
            columns = "id, name, at, d, b, l, ok, " + ("j" if name != "x.csv" else "NULL")
            lost = await made.postgres.rows(f"SELECT {columns} FROM t EXCEPT SELECT {columns} FROM u")
            assert lost == []
            assert await made.postgres.rows("SELECT DISTINCT made FROM u") == [{"made": "here"}]

    asyncio.run(work())


def test_a_query_has_bound_values(tmp_path: Path) -> None:
    async def work() -> None:
        async with transfers(tmp_path) as made:
            await made.postgres.make(ROWS)
            query = to_builtins(sql("SELECT id FROM t WHERE id > {{ n }}", {"n": 3}))
            source = {"kind": "postgres", "auth": "db", "query": query}
            output = await made.run(source, {"kind": "object", "url": "x.csv"})
            assert (output.data, (tmp_path / "x.csv").read_text()) == ({"rows": 2}, '"id"\n4\n5\n')
            deletes = {**source, "query": to_builtins(sql("DELETE FROM t RETURNING id"))}
            refused = await made.run(deletes, {"kind": "object", "url": "x.csv"})
            assert refused.error is not None
            assert refused.error.message == "source: `query` must be a SELECT"

    asyncio.run(work())


def test_append_replace_and_upsert(tmp_path: Path) -> None:
    async def work() -> None:
        async with transfers(tmp_path) as made:
            rows = made.postgres.rows
            assert (await made.run(made.write({"id": 1, "name": "a"}, {"id": 2, "name": "b"}), db())).error is None
            await made.postgres.make("UPDATE t SET made = 'kept'")
            again = made.write({"id": 2, "name": "B"}, {"id": 3, "name": "c"}, {"id": 3, "name": "C"})
            output = await made.run(again, db(), mode="upsert", key=["id"])
            assert output.error is None, output.error
            assert output.ref is not None
            assert (output.ref["auth_reference"], output.ref["locator"]["table"]) == ("keychain/pg", "t")
            assert await rows("SELECT id, name, made FROM t ORDER BY id") == [
                {"id": 1, "name": "a", "made": "kept"},
                {"id": 2, "name": "B", "made": "kept"},
                {"id": 3, "name": "C", "made": "here"},
            ]
            refused = await made.run(made.write({"id": 9}, {"id": 1}), db("public.t"))
            assert refused.error is not None
            assert (refused.error.kind, refused.error.details["sqlstate"]) == ("postgres", "23505")
            assert refused.error.message.startswith("target: duplicate key value violates unique constraint")
            assert await rows("SELECT count(*) AS n FROM t") == [{"n": 3}]
            assert (await made.run(made.write({"id": 5}), db(), mode="replace")).error is None
            assert await rows("SELECT id FROM t") == [{"id": 5}]
            no_index = await made.run(made.write({"id": 5, "name": "x"}), db(), mode="upsert", key=["name"])
            assert no_index.error is not None
            assert no_index.error.details["sqlstate"] == "42P10"
            only_key = await made.run(made.write({"id": 5}, {"id": 6}), db(), mode="upsert", key=["id"])
            assert (only_key.error, await rows("SELECT count(*) AS n FROM t")) == (None, [{"n": 2}])

    asyncio.run(work())


def test_readers_see_the_old_rows_until_the_end(tmp_path: Path) -> None:
    async def work() -> None:
        async with transfers(tmp_path) as made, connected(made.postgres.name) as reader:
            await made.postgres.make("INSERT INTO t (id) VALUES (1)")
            source = made.write({"id": 2}, {"id": 3})
            with (tmp_path / "in.ndjson").open("a") as file:
                file.write("broken\n")
            seen = []
            output = await made.run(source, db(), mode="replace")
            seen.append(await reader.fetchval("SELECT array_agg(id) FROM t"))
            assert output.error is not None
            assert output.error.message.startswith("source: a line after line")
            assert seen == [[1]]
            assert await reader.fetchval("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in%'") == 0

    asyncio.run(work())


@pytest.mark.parametrize(
    ("target", "kind", "message"),
    [
        (db("nope"), "postgres", 'target: relation "nope" does not exist'),
        (db() | {"auth": "other"}, "credential", 'target: keychain entry "other": the playbook does not declare it'),
        (db() | {"path": "x"}, "input", "target: `path` has no effect on kind `postgres`"),
        (db("t; DROP TABLE t"), "postgres", 'target: relation "t; DROP TABLE t" does not exist'),
    ],
)
def test_wrong_targets_are_explained(tmp_path: Path, target: JSON, kind: str, message: str) -> None:
    async def work() -> None:
        async with transfers(tmp_path) as made:
            output = await made.run(made.write({"id": 1}), target)
            assert output.error is not None
            assert output.error.kind == kind
            assert output.error.message.startswith(message)

    asyncio.run(work())


def test_a_wrong_password_is_not_shown(tmp_path: Path) -> None:
    async def work() -> None:
        async with transfers(tmp_path) as made:
            made.postgres.auth = credential(dsn="postgresql://ann:canary-of-tests@127.0.0.1:1/x")
            output = await made.run(db(), {"kind": "object", "url": "x.csv"})
            assert output.error is not None
            assert (output.error.kind, output.error.retryable) == ("postgres", True)
            assert output.error.message.startswith("source: PostgreSQL is unreachable")
            assert "canary" not in str(output)

    asyncio.run(work())
