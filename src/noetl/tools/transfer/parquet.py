"""Parquet files, read and written by DuckDB in a private database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import duckdb

from noetl.output import JSON
from noetl.tools.duckdb.session import BATCH_ROWS, OBJECT_BYTES_MAX, RowReader, quote_name, quote_text
from noetl.tools.sql.rows import OpenRows
from noetl.tools.sql.threads import StoppableThreads

MEMORY: Final = "512MiB"
GROUP_ROWS: Final = 20_000  # of one row group, which DuckDB holds in memory


@contextmanager
def private_database(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory that can use the files of this folder only."""
    connection = duckdb.connect(":memory:", config={"threads": "1"})
    settings = (
        "TimeZone = 'UTC'",
        "python_enable_replacements = false",
        "autoinstall_known_extensions = false",
        "autoload_known_extensions = false",
        "preserve_insertion_order = true",
        f"memory_limit = '{MEMORY}'",
        f"temp_directory = {quote_text(folder / 'spilled')}",
        f"allowed_directories = [{quote_text(folder)}]",
        "enable_external_access = false",
        "lock_configuration = true",
    )
    try:
        connection.execute("".join(f"SET {setting};" for setting in settings))
        yield connection
    finally:
        connection.close()


@asynccontextmanager
async def open_parquet(file: Path, threads: StoppableThreads) -> AsyncIterator[OpenRows]:
    """Raises the errors of DuckDB."""
    with private_database(file.parent) as connection:
        query = f"SELECT * FROM read_parquet({quote_text(file)})"
        await threads.run(partial(connection.execute, query), connection.interrupt)
        reader = RowReader(connection)

        async def batches() -> AsyncIterator[list[dict[str, JSON]]]:
            while batch := await threads.run(partial(reader.fetch, BATCH_ROWS), connection.interrupt):
                yield batch

        yield OpenRows(reader.columns, batches())


async def write_parquet(rows: Path, columns: Sequence[str], file: Path, threads: StoppableThreads) -> None:
    """`rows`: NDJSON with the keys c0, c1, …; the types of the columns follow from all values."""
    with private_database(file.parent) as connection:
        names = ", ".join(f"c{index} AS {quote_name(name)}" for index, name in enumerate(columns))
        if rows.stat().st_size:
            options = f"format='newline_delimited', sample_size=-1, maximum_object_size={OBJECT_BYTES_MAX}"
            source = f"SELECT {names} FROM read_json({quote_text(rows)}, {options})"
        else:
            nulls = ", ".join(f"NULL::VARCHAR AS {quote_name(name)}" for name in columns)
            source = f"SELECT {nulls} WHERE false"
        text = f"COPY ({source}) TO {quote_text(file)} (FORMAT parquet, ROW_GROUP_SIZE {GROUP_ROWS})"
        await threads.run(partial(connection.execute, text), connection.interrupt)
