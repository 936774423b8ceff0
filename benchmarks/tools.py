"""The speed of tools: `python` in its child processes, SQL and COPY on a real PostgreSQL.

Run it with `python -m benchmarks tools`; each row has a name, a value and its unit.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from time import perf_counter

import msgspec

from benchmarks.sizes import scaled
from noetl.adapters.files import FileResults
from noetl.adapters.memory import MemoryResults
from noetl.output import JSON, Output
from noetl.playbook.kinds import Sql
from noetl.secret import Secret
from noetl.tool import Auth, Call
from noetl.tools.postgres.tool import Copy, PostgresInput, PostgresTool
from noetl.tools.python.tool import PythonInput, PythonTool
from noetl.tools.sqlite.tool import SqliteInput, SqliteTool
from tests.services import database, postgres

ROWS = scaled(1_000_000, 10_000)
CALLS = scaled(500, 20)
_TABLE = "CREATE TABLE a (id int8, name text, price numeric, at timestamptz, more jsonb)"


async def _lines(count: int) -> AsyncIterator[bytes]:
    """NDJSON of five columns, some 110 bytes a row."""
    encode = msgspec.json.Encoder().encode_lines
    for begin in range(0, count, 2_000):
        yield encode(
            [
                {
                    "id": n,
                    "name": f"customer {n}",
                    "price": n / 8,
                    "at": "2026-01-31T12:00:00Z",
                    "more": {"n": n},
                }
                for n in range(begin, begin + 2_000)
            ]
        )


class _Measured:
    """One tool on one database, with results as files."""

    def __init__(self, folder: Path, name: str) -> None:
        self.tool = PostgresTool()
        self.results = FileResults(folder / "results")
        auth = Auth("pg", "postgres_credential", {"dsn": Secret(postgres().dsn(name))}, self._renew)
        self.call = Call("k", 1, "e1", {}, None, {"timeout": 600}, self.results, auth=auth)

    async def _renew(self) -> Auth:
        assert self.call.auth is not None
        return self.call.auth

    async def run(self, **named: JSON) -> tuple[Output, float]:
        begun = perf_counter()
        output = await self.tool.run(PostgresInput(**named), self.call)
        assert output.error is None, output.error
        return output, perf_counter() - begun


async def _postgres(folder: Path) -> list[tuple[str, float, str]]:
    async with database() as name:
        pg = _Measured(folder, name)
        try:
            await pg.run(command=Sql([_TABLE]))
            ref = await pg.results.write("e1", _lines(ROWS), "application/x-ndjson")
            _, copied_in = await pg.run(copy=Copy(table="a", from_ref=ref))
            everything = Sql(["SELECT * FROM a"])
            ndjson, out_ndjson = await pg.run(copy=Copy(query=everything, to="ndjson"))
            csv, out_csv = await pg.run(copy=Copy(query=everything, to="csv"))
            await pg.run(command=Sql(["TRUNCATE a"]))
            _, in_csv = await pg.run(copy=Copy(table="a", from_ref=csv.ref))
            _, rows = await pg.run(query=Sql(["SELECT * FROM a LIMIT 200000"]))
            one = Sql(["SELECT name FROM a WHERE id = ", " LIMIT 1"], [1])
            await pg.run(command=Sql(["CREATE INDEX ON a (id)"]))
            calls = sum([(await pg.run(query=one))[1] for _ in range(CALLS)])
            assert ndjson.data == csv.data == {"rows": ROWS}
        finally:
            await pg.tool.close()
    return [
        ("postgres: COPY in, NDJSON, 1,000,000 rows", ROWS / copied_in, "rows/s"),
        ("postgres: COPY in, CSV, 1,000,000 rows", ROWS / in_csv, "rows/s"),
        ("postgres: COPY out, NDJSON, 1,000,000 rows", ROWS / out_ndjson, "rows/s"),
        ("postgres: COPY out, CSV, 1,000,000 rows", ROWS / out_csv, "rows/s"),
        ("postgres: rows of a query, 200,000 of five columns", 200_000 / rows, "rows/s"),
        ("postgres: one query of one row", calls / CALLS * 1e6, "µs"),
    ]


async def _sqlite(folder: Path) -> list[tuple[str, float, str]]:
    tool = SqliteTool()
    call = Call("k", 1, "e1", {}, None, {}, FileResults(folder / "results"), folder=str(folder))
    one = SqliteInput(path="a.db", query=Sql(["SELECT ", " AS n"], [1]))
    await tool.run(one, call)
    begun = perf_counter()
    for _ in range(CALLS):
        await tool.run(one, call)
    spent = perf_counter() - begun
    await tool.close()
    return [("sqlite: one query of one row", spent / CALLS * 1e6, "µs")]


async def _python() -> list[tuple[str, float, str]]:
    """One call after the other in a running child process."""
    tool, results = PythonTool(), MemoryResults()
    input = PythonInput(code="def main(n): return n + 1")
    try:
        call = Call("k", 1, "e", {"n": 1}, None, {"timeout": 60, "memory_mb": 512}, results)
        assert (await tool.run(input, call)).data == 2
        begun = perf_counter()
        for _ in range(CALLS):
            await tool.run(input, call)
        return [("python: a warm call", (perf_counter() - begun) / CALLS * 1e6, "µs")]
    finally:
        await tool.close()


def measure() -> list[tuple[str, float, str]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        databases = [*asyncio.run(_postgres(path)), *asyncio.run(_sqlite(path))]
    return [*databases, *asyncio.run(_python())]
