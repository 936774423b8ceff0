"""Rows of a DuckDB file in batches, for tools that pass rows on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from threading import Event

import duckdb

from noetl.output import JSON, Output
from noetl.tools.duckdb.session import BATCH_ROWS, FILE, RowReader, attach, executable, failure_of
from noetl.tools.errors import InvalidInput
from noetl.tools.sql.rows import OpenRows
from noetl.tools.sql.statements import Statement
from noetl.tools.sql.threads import StoppableThreads

SETTINGS = (
    "TimeZone = 'UTC'",
    "python_enable_replacements = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    f"search_path = '{FILE}.main'",
    "enable_external_access = false",
    "lock_configuration = true",
)


class DuckdbRows:
    """Implements RowSource. The file is opened for reading only."""

    def __init__(self, path: str, threads: StoppableThreads) -> None:
        self._path = path
        self._threads = threads

    @asynccontextmanager
    async def open(self, statement: Statement) -> AsyncIterator[OpenRows]:
        stop = Event()
        connection = duckdb.connect(":memory:", config={"threads": "1"})

        def interrupt() -> None:
            stop.set()
            connection.interrupt()

        try:
            await self._threads.run(partial(self._start, connection, statement, stop), interrupt)
            reader = RowReader(connection)

            async def batches() -> AsyncIterator[list[dict[str, JSON]]]:
                while batch := await self._threads.run(partial(reader.fetch, BATCH_ROWS), interrupt):
                    yield batch

            yield OpenRows(reader.columns, batches())
        finally:
            connection.close()

    def _start(self, connection: duckdb.DuckDBPyConnection, statement: Statement, stop: Event) -> None:
        attach(connection, self._path, stop, read_only=True)
        connection.execute("".join(f"SET {setting};" for setting in SETTINGS))
        connection.execute(*executable(statement))

    def failure(self, error: Exception) -> Output:
        return duckdb_failure(error)


def duckdb_failure(error: Exception) -> Output:
    """An error of DuckDB; others are raised again."""
    if isinstance(error, duckdb.Error):
        return Output(status="error", error=failure_of(error))
    if isinstance(error, TypeError | ValueError | OverflowError | RuntimeError):
        # DuckDB's Python binding raises any of these for a parameter that it cannot convert.
        return InvalidInput(f"{type(error).__name__}: {error}").output()
    raise error
