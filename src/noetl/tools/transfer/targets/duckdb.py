"""Rows into a table of a DuckDB file, in one transaction.

Rows go through small NDJSON files, because DuckDB converts them to the types of the columns, and quickly.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import Final

import duckdb
import msgspec
from msgspec.structs import replace

from noetl.output import JSON, Output
from noetl.tools.duckdb.rows import SETTINGS, duckdb_failure
from noetl.tools.duckdb.session import OBJECT_BYTES_MAX, attach, quote_text
from noetl.tools.errors import InvalidInput
from noetl.tools.payload import base64_of
from noetl.tools.sql.stored import Stored, quoted_column, quoted_table, stored_ref
from noetl.tools.sql.threads import StoppableThreads
from noetl.tools.transfer.rows import Batches, Written
from noetl.tools.transfer.targets.table import TableWrite, json_value, on_conflict

FILE_ROWS = 10_000
_FILE: Final = re.compile(r'JSON transform error in file "[^"]*", in [^:]*: ')
_encode_lines = msgspec.json.Encoder().encode_lines


class DuckdbTarget:
    """Implements TransferWriter."""

    def __init__(self, path: str, write: TableWrite, threads: StoppableThreads) -> None:
        self._path = path
        self._write = write
        self._threads = threads

    async def write(self, columns: list[str], batches: Batches) -> Written:
        if not os.path.exists(self._path):
            raise InvalidInput(f'there is no file "{self._path}"')
        ref = stored_ref(Stored(table=self._write.table, columns=columns), {"system": "duckdb", "path": self._path})
        stop = Event()
        connection = duckdb.connect(":memory:", config={"threads": "1"})

        def interrupt() -> None:
            stop.set()
            connection.interrupt()

        try:
            with tempfile.TemporaryDirectory(prefix="noetl-transfer-") as folder:
                table = _Table(connection, self._write, Path(folder) / "rows.ndjson")
                await self._threads.run(partial(table.begin, self._path, columns, stop), interrupt)
                gathered: list[dict[str, JSON]] = []
                async for batch in batches:
                    gathered += batch
                    if len(gathered) >= FILE_ROWS:
                        await self._threads.run(partial(table.insert, gathered), interrupt)
                        gathered = []
                await self._threads.run(partial(table.insert, gathered), interrupt)
                await self._threads.run(partial(connection.execute, "COMMIT"), interrupt)
        finally:
            connection.close()  # an open transaction is rolled back
        return Written(ref)

    def failure(self, error: Exception) -> Output:
        output = duckdb_failure(error)
        if output.error is None:
            return output
        # Without the name of our file, and the advice for the author of the statement.
        message = _FILE.sub("", output.error.message).partition(" Try ")[0]
        return replace(output, error=replace(output.error, message=message))


class _Table:
    """The methods are called in a thread."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, write: TableWrite, file: Path) -> None:
        self._connection = connection
        self._write = write
        self._file = file
        self._insert = ""
        self._converts: list[tuple[str, Callable[[JSON], JSON]]] = []  # by column

    def begin(self, path: str, columns: Sequence[str], stop: Event) -> None:
        attach(self._connection, path, stop)
        allowed = f"allowed_directories = [{quote_text(self._file.parent)}]"
        self._connection.execute("".join(f"SET {setting};" for setting in (allowed, *SETTINGS)))
        self._connection.execute("BEGIN")
        names, table = ", ".join(map(quoted_column, columns)), quoted_table(self._write.table)
        described = self._connection.execute(f"DESCRIBE SELECT {names} FROM {table}").fetchall()
        types = [str(row[1]) for row in described]
        converts = ((name, _converter(kind)) for name, kind in zip(columns, types, strict=True))
        self._converts = [(name, convert) for name, convert in converts if convert is not None]
        read = ", ".join(f"c{index}: {quote_text(_read_as(kind))}" for index, kind in enumerate(types))
        values = ", ".join(_value(f"c{index}", kind) for index, kind in enumerate(types))
        options = f"format='newline_delimited', maximum_object_size={OBJECT_BYTES_MAX}, columns={{{read}}}"
        source = f"SELECT {values} FROM read_json({quote_text(self._file)}, {options})"
        self._insert = f"INSERT INTO {table} ({names}) {source}{on_conflict(self._write, columns)}"
        if self._write.mode == "replace":
            self._connection.execute(f"DELETE FROM {table}")

    def insert(self, rows: list[dict[str, JSON]]) -> None:
        if self._write.mode == "upsert":  # DuckDB refuses two rows with the same key in one statement
            rows = list({tuple(str(row[name]) for name in self._write.key): row for row in rows}.values())
        if not rows:
            return
        for name, convert in self._converts:
            for row in rows:
                row[name] = convert(row[name])
        numbered = ({f"c{index}": value for index, value in enumerate(row.values())} for row in rows)
        self._file.write_bytes(_encode_lines(numbered))
        self._connection.execute(self._insert)


def _read_as(kind: str) -> str:
    return "VARCHAR" if kind == "BLOB" else kind


def _value(name: str, kind: str) -> str:
    return f"from_base64({name})" if kind == "BLOB" else name


def _base64(value: JSON) -> JSON:
    """Binary data as base64; a text is encoded as UTF-8."""
    value = json_value(value)
    if isinstance(value, str):
        value = base64_of(value.encode())
    return value["base64"] if isinstance(value, dict) and list(value) == ["base64"] else value


def _converter(kind: str) -> Callable[[JSON], JSON] | None:
    if kind == "BLOB":
        return _base64
    nested = kind == "JSON" or kind.endswith("]") or kind.startswith(("STRUCT", "MAP"))
    return json_value if nested else None
