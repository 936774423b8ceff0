"""Rows that do not fit into memory: a clear error, and the worker stays small."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from noetl.tools.postgres.session import BATCH_ROWS, FIRST_ROWS, ROWS_BYTES_MAX
from tests.unit.tools.databases import new_database

MB = 1024 * 1024
COLUMNS = ", ".join(f"repeat('x', 40000000) AS x{n}" for n in range(10))
LARGE = {
    "large values": "SELECT repeat('x', 50000000) AS x FROM generate_series(1, 100)",
    "one large row": f"SELECT {COLUMNS}",
    "many small rows": "SELECT NULL FROM generate_series(1, 5000000)",
    "JSON with many lists": "SELECT ('[' || repeat('[],', 1000000) || '[]]')::json FROM generate_series(1, 1000)",
    "all after small ones": "SELECT repeat('x', CASE WHEN n < 500 THEN 1 ELSE 9000000 END) FROM generate_series(1, 5000) n",
}


def peak_mb(path: Path = Path("/proc/self/status")) -> int:
    line = next(line for line in path.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) // 1024


@pytest.mark.parametrize("field", ["query", "command"])
@pytest.mark.parametrize("what", LARGE)
def test_rows_that_are_too_large_for_memory_are_an_error(what: str, field: str) -> None:
    async def work() -> None:
        async with new_database() as pg:
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins with the present value
            before = peak_mb()
            output = await getattr(pg, field)(LARGE[what])
            assert output.error is not None
            assert (output.error.kind, output.error.retryable) == ("payload-too-large", False)
            assert f"limit ROWS_BYTES_MAX: {ROWS_BYTES_MAX:,} bytes" in output.error.message
            assert "`copy: {query, to}`" in output.error.message
            assert peak_mb() - before < 3 * ROWS_BYTES_MAX // MB
            assert await pg.rows("SELECT 1 AS x") == [{"x": 1}]  # the next call has a connection

    asyncio.run(work())


def test_a_statement_with_too_large_rows_has_no_effect() -> None:
    async def work() -> None:
        async with new_database() as pg:
            await pg.make("CREATE TABLE a (n int)")
            large = "INSERT INTO a SELECT generate_series(1, 100) RETURNING repeat('x', 9000000)"
            for source in (large, f"INSERT INTO a VALUES (1); {large}"):
                output = await pg.command(source)
                assert output.error is not None
                assert output.error.kind == "payload-too-large"
            assert await pg.rows("SELECT count(*) AS count FROM a") == [{"count": 0}]

    asyncio.run(work())


@pytest.mark.parametrize("rows", [0, 1, FIRST_ROWS - 1, FIRST_ROWS, FIRST_ROWS + 1, FIRST_ROWS + BATCH_ROWS, 5_000])
def test_all_rows_are_read_whatever_the_size_of_the_batches(rows: int) -> None:
    async def work() -> None:
        async with new_database() as pg:
            for text in ("'x'", "repeat('x', 10000)"):
                found = await pg.rows(f"SELECT n, {text} AS x FROM generate_series(1, {rows}) n")
                assert [row["n"] for row in found] == list(range(1, rows + 1))

    asyncio.run(work())
