"""Rows of a SQLite file in batches, for tools that pass rows on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice

import apsw

from noetl.output import JSON, Output
from noetl.tools.sql.rows import OpenRows
from noetl.tools.sql.statements import Statement, unique_names
from noetl.tools.sql.threads import StoppableThreads
from noetl.tools.sqlite.session import Authorizer, DatabaseFile, bind, open_failure, prepare, require_file, row_of

BATCH_ROWS = 1_000


class SqliteRows:
    """Implements RowSource. The file is opened for reading only."""

    def __init__(self, file: DatabaseFile, threads: StoppableThreads) -> None:
        self._file = file
        self._threads = threads

    @asynccontextmanager
    async def open(self, statement: Statement) -> AsyncIterator[OpenRows]:
        connection = await self._threads.run(self._connect, _nothing)
        try:
            cursor = connection.cursor()
            columns: list[str] = []

            def on_start(started: apsw.Cursor, _sql: str, _values: object) -> bool:
                columns[:] = unique_names(str(column[0]) for column in started.get_description())
                return True

            cursor.exec_trace = on_start
            values = tuple(bind(value, index) for index, value in enumerate(statement.values))
            text = statement.text(lambda index: f"?{index + 1}")
            await self._threads.run(partial(cursor.execute, text, values), connection.interrupt)
            yield OpenRows(columns, self._batches(connection, cursor, columns))
        finally:
            connection.close(True)

    def _connect(self) -> apsw.Connection:
        require_file(self._file)
        connection = apsw.Connection(self._file.path, flags=apsw.SQLITE_OPEN_READONLY)
        prepare(connection, Authorizer())
        # An unknown column in double quotes is an error, and not a text.
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        return connection

    async def _batches(
        self, connection: apsw.Connection, cursor: apsw.Cursor, columns: list[str]
    ) -> AsyncIterator[list[dict[str, JSON]]]:
        def fetch() -> list[dict[str, JSON]]:
            return [row_of(columns, record) for record in islice(cursor, BATCH_ROWS)]

        while batch := await self._threads.run(fetch, connection.interrupt):
            yield batch

    def failure(self, error: Exception) -> Output:
        return open_failure(error, self._file)


def _nothing() -> None:
    """Opening a file needs no stop."""
