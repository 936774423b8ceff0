"""Rows into a table of a SQLite file, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import apsw

from noetl.output import JSON, Output
from noetl.tools.sql.stored import Stored, quoted_column, quoted_table, stored_ref
from noetl.tools.sql.threads import StoppableThreads
from noetl.tools.sqlite.session import Authorizer, DatabaseFile, bind, open_failure, prepare, require_file
from noetl.tools.transfer.rows import Batches, Written
from noetl.tools.transfer.targets.table import TableWrite, on_conflict


class SqliteTarget:
    """Implements TransferWriter."""

    def __init__(self, file: DatabaseFile, write: TableWrite, threads: StoppableThreads) -> None:
        self._file = file
        self._write = write
        self._threads = threads

    async def write(self, columns: list[str], batches: Batches) -> Written:
        ref = stored_ref(
            Stored(table=self._write.table, columns=columns), {"system": "sqlite", "path": self._file.path}
        )
        run = self._threads.run
        connection = await run(self._open, _nothing)
        try:
            text = self._text(columns)
            async for batch in batches:
                await run(partial(_insert, connection, text, batch), connection.interrupt)
            await run(partial(connection.execute, "COMMIT"), connection.interrupt)
        finally:
            connection.close(True)  # an open transaction is rolled back
        return Written(ref)

    def _open(self) -> apsw.Connection:
        require_file(self._file)
        connection = apsw.Connection(self._file.path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            prepare(connection, Authorizer())
            # An unknown column in double quotes is an error, and not a text.
            connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
            connection.execute("BEGIN IMMEDIATE")
            if self._write.mode == "replace":
                connection.execute(f"DELETE FROM {quoted_table(self._write.table)}")
        except BaseException:
            connection.close(True)
            raise
        return connection

    def _text(self, columns: Sequence[str]) -> str:
        names = ", ".join(map(quoted_column, columns))
        marks = ", ".join("?" for _ in columns)
        insert = f"INSERT INTO {quoted_table(self._write.table)} ({names}) VALUES ({marks})"
        return insert + on_conflict(self._write, columns)

    def failure(self, error: Exception) -> Output:
        return open_failure(error, self._file)


def _insert(connection: apsw.Connection, text: str, rows: list[dict[str, JSON]]) -> None:
    connection.executemany(
        text, [tuple(bind(value, index) for index, value in enumerate(row.values())) for row in rows]
    )


def _nothing() -> None:
    """Opening a file needs no stop."""
