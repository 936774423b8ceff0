"""One call of DuckDB: its tables as files in a private directory, a fresh locked database, and the result.

The SQL is untrusted. It can read no file except the tables of the task, unless `spec` grants more.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final, NamedTuple

import duckdb
import msgspec

from noetl.output import JSON, Failure
from noetl.tool import Call, unmasked
from noetl.tools.errors import InvalidInput, TooLarge
from noetl.tools.payload import InvalidJson, decode_json, is_json, is_ref, media_type
from noetl.tools.sql.statements import Statement, parse_statements, unique_names
from noetl.tools.sql.stored import count_statement, rows_in
from noetl.tools.sql.values import PLAIN_TYPES, to_json

if TYPE_CHECKING:
    from noetl.tools.duckdb.tool import DuckdbInput, DuckdbSpec

DATA_BYTES_MAX = 64 * 1024 * 1024  # of rows that are returned as data
DATA_ROWS_MAX = 1_000_000  # the same; a row needs at least 240 bytes of memory
BATCH_ROWS = 1_000
MESSAGE_CHARS_MAX = 2_000
CHUNK_BYTES = 1 << 18
TABLES_MAX = 100
FILE = "db"  # the name of the attached file in SQL
BUSY_STEP_S = 0.05
BUSY_TRIES = 200  # BUSY_STEP_S apart: 10 s
OBJECT_BYTES_MAX = 16 * 1024 * 1024  # of one row of JSON; DuckDB reserves as much for each thread
CHANGING: Final = frozenset({"INSERT", "UPDATE", "DELETE", "COPY", "MERGE"})  # they report a row count

CONTENT_TYPES: Final = {"parquet": "application/vnd.apache.parquet", "csv": "text/csv", "json": "application/json"}
_NDJSON: Final = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}
)
_PARQUET: Final = b"PAR1"  # the first bytes of a Parquet file; its Ref may have another content type


class TableFile(NamedTuple):
    """A table of the task, as a file for DuckDB."""

    name: str
    file: Path
    reader: str  # DuckDB's function that reads it, with {file} for the path
    copied: bool  # True: read once into a table; False: a view, which is faster for Parquet


class DuckdbResult(NamedTuple):
    data: JSON = None
    rows: int | None = None  # None: the last statement does not report it
    columns: list[str] | None = None
    file: Path | None = None
    counted: int | None = None  # the rows of `stored`, if they were counted
    error: Failure | None = None


class DuckdbSession:
    """`run` is called in a thread, `stop` from any thread, everything else in the event loop."""

    def __init__(self, input: DuckdbInput, spec: DuckdbSpec) -> None:
        self.input = input
        self.database = ""  # absolute path of the file to work on; "": memory only
        self.ref: dict[str, JSON] | None = None  # of `stored`
        self.mask: Callable[[JSON], JSON] = unmasked  # of the call
        self._spec = spec
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._stop = Event()
        self.disk_bytes = spec.disk_mb * 1024 * 1024
        self.folder = Path()  # private to the call; see make_folder
        self._has_folder = False
        self.tables: list[TableFile] = []

    def make_folder(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="noetl-duckdb-"))
        self._has_folder = True

    def remove_folder(self) -> None:
        if self._has_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    async def write_tables(self, tables: Mapping[str, JSON], call: Call) -> None:
        """Write the tables to disk. Raises ToolError and the errors of the result store."""
        if len(tables) > TABLES_MAX:
            raise InvalidInput(f"the task has {len(tables)} tables (limit TABLES_MAX: {TABLES_MAX})")
        budget = _DiskBudget(self.disk_bytes)
        for index, (name, source) in enumerate(tables.items()):
            file = self.folder / f"table_{index}"
            if is_ref(source):
                with file.open("wb") as opened:
                    async for chunk in call.results.read(source):
                        budget.take(len(chunk))
                        opened.write(chunk)
                self.tables.append(await asyncio.to_thread(_table_file, name, file, source))
            elif isinstance(source, list) and all(isinstance(row, dict) for row in source):
                body = msgspec.json.encode(source)
                budget.take(len(body))
                await asyncio.to_thread(file.write_bytes, body)
                self.tables.append(TableFile(name, file, _json_reader("array"), copied=True))
            else:
                raise InvalidInput(f'table "{name}" must be a Ref (as in `output.ref`) or a list of mappings')

    def stop(self) -> None:
        self._stop.set()
        connection = self._connection
        if connection is not None:
            with suppress(duckdb.Error):  # it may have been closed in the meantime
                connection.interrupt()

    def run(self) -> DuckdbResult:
        """Raises ToolError. Errors of DuckDB are part of the result."""
        try:
            with duckdb.connect(":memory:", config={"threads": str(self._threads())}) as connection:
                self._connection = connection
                try:
                    if self.database:
                        attach(connection, self.database, self._stop)
                        self._refuse_shadowed(connection)
                    self._lock(connection)
                    self._load_tables(connection)
                    return self._counted(connection, self._run(connection))
                finally:
                    self._connection = None
        except duckdb.Error as error:
            return DuckdbResult(error=failure_of(error))
        except (TypeError, ValueError, OverflowError, NotImplementedError, RuntimeError) as error:
            # DuckDB's Python binding raises any of these for a parameter that it cannot convert.
            return DuckdbResult(error=Failure(kind="duckdb", message=f"{type(error).__name__}: {error}"))

    def _threads(self) -> int:
        cores = os.cpu_count() or 1
        return min(self._spec.threads or cores, cores)

    def _lock(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Set the limits and deny access to files. SQL cannot change these settings afterwards."""
        spec = self._spec
        settings = [
            f"memory_limit = '{spec.memory_mb}MiB'",
            f"temp_directory = {quote_text(self.folder / 'spilled')}",
            f"max_temp_directory_size = '{spec.disk_mb}MiB'",
            "python_enable_replacements = false",  # otherwise SQL can read variables of this Python code
            "allow_persistent_secrets = false",
            "TimeZone = 'UTC'",
        ]
        if self.database:  # the SQL creates tables in the file; those of the task stay in memory
            settings.append(f"search_path = '{FILE}.main,memory.main'")
        if not spec.external_access:
            files = [table.file for table in self.tables]
            if self.input.to is not None:
                files.append(self._result_file(self.input.to))
            settings += [
                "autoinstall_known_extensions = false",
                "autoload_known_extensions = false",
                f"allowed_paths = [{', '.join(map(quote_text, files))}]",
                f"allowed_directories = [{', '.join(map(quote_text, spec.folders or []))}]",
                "enable_external_access = false",
                "lock_configuration = true",
            ]
        connection.execute("".join(f"SET {setting};" for setting in settings))

    def _counted(self, connection: duckdb.DuckDBPyConnection, result: DuckdbResult) -> DuckdbResult:
        if self.ref is None or self.input.stored is None or not self.input.stored.count:
            return result
        connection.execute(*executable(count_statement(rows_in(self.ref["locator"]))))
        counted = connection.fetchone()
        return result._replace(counted=counted[0] if counted else None)

    def _load_tables(self, connection: duckdb.DuckDBPyConnection) -> None:
        for table in self.tables:
            what = "TABLE" if table.copied else "VIEW"
            source = table.reader.format(file=quote_text(table.file))
            self._check_stopped()
            connection.execute(f"CREATE {what} memory.main.{quote_name(table.name)} AS SELECT * FROM {source}")

    def _refuse_shadowed(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Raises InvalidInput for a table of the task that the file has, too: the SQL would read the other one."""
        connection.execute(f"SELECT lower(table_name) FROM information_schema.tables WHERE table_catalog = '{FILE}'")
        known = {str(row[0]) for row in connection.fetchall()}
        for table in self.tables:
            if table.name.lower() in known:
                raise InvalidInput(f'table "{table.name}" also exists in the file of `database`; name it differently')

    def _run(self, connection: duckdb.DuckDBPyConnection) -> DuckdbResult:
        input = self.input
        sql = input.query or input.command
        if sql is None:
            raise InvalidInput("`query` or `command` is required")
        statements = parse_statements(sql, input.params, style="?")
        if input.query is None:
            for statement in statements:
                self._check_stopped()
                connection.execute(*executable(statement))
            return _row_count(connection, statements[-1])
        text, values = executable(statements[0])
        count = len(statements) if len(statements) > 1 else len(connection.extract_statements(text))
        if count > 1:
            raise InvalidInput(f"`query` must be one statement, but has {count}; use `command` for several")
        if input.to is not None:
            return self._write_result(connection, text, values, input.to)
        self._check_stopped()
        connection.execute(text, values)
        return self._read_rows(connection)

    def _check_stopped(self) -> None:
        """An interrupt ends only the running statement, so the flag is checked before each one."""
        if self._stop.is_set():
            raise InvalidInput("the call was stopped")

    def _read_rows(self, connection: duckdb.DuckDBPyConnection) -> DuckdbResult:
        reader = RowReader(connection)
        rows: list[JSON] = []
        size = 0
        while made := reader.fetch(BATCH_ROWS):
            self._check_stopped()
            size += len(msgspec.json.encode(made))
            if size > DATA_BYTES_MAX or len(rows) > DATA_ROWS_MAX:
                limit = f"(limits DATA_BYTES_MAX: {DATA_BYTES_MAX:,} bytes, DATA_ROWS_MAX: {DATA_ROWS_MAX:,} rows)"
                raise TooLarge(f"the rows are too large for `output.data` {limit}; write a file with `to`")
            rows += made
        return DuckdbResult(data=rows, rows=len(rows), columns=reader.columns)

    def _write_result(
        self, connection: duckdb.DuckDBPyConnection, query: str, values: list[JSON], form: str
    ) -> DuckdbResult:
        file = self._result_file(form)
        connection.execute(f"SELECT * FROM ({query}\n) LIMIT 0", values)
        columns = _columns(connection)
        options = {"parquet": "FORMAT parquet", "csv": "FORMAT csv, HEADER", "json": "FORMAT json, ARRAY true"}
        self._check_stopped()
        connection.execute(f"COPY ({query}\n) TO {quote_text(file)} ({options[form]})", values)
        counted = connection.fetchone()
        if form == "parquet":
            self._refuse_secrets(connection, file)
        return DuckdbResult(rows=counted[0] if counted else None, columns=columns, file=file)

    def _refuse_secrets(self, connection: duckdb.DuckDBPyConnection, file: Path) -> None:
        """Raises InvalidInput. A compressed file cannot be masked."""
        if self.mask is unmasked:
            return
        connection.execute(f"SELECT * FROM read_parquet({quote_text(file)})")
        reader = RowReader(connection)
        while rows := reader.fetch(BATCH_ROWS):
            self._check_stopped()
            if self.mask(rows) is not rows:
                raise InvalidInput(
                    "the rows contain the value of a credential, which Parquet cannot mask; use `to: csv`"
                )

    def _result_file(self, form: str) -> Path:
        return self.folder / f"result.{form}"


class RowReader:
    """The rows of the last query of a connection, as JSON objects."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self.columns = _columns(connection)
        types = [str(column[1]) for column in connection.description or []]
        self._json_columns = [name for name, kind in zip(self.columns, types, strict=True) if kind == "JSON"]

    def fetch(self, count: int) -> list[dict[str, JSON]]:
        made = [
            {
                column: value if type(value) in PLAIN_TYPES else to_json(value)
                for column, value in zip(self.columns, row, strict=True)
            }
            for row in self._connection.fetchmany(count)
        ]
        for column in self._json_columns:
            for row in made:
                row[column] = _decode_column(row[column])
        return made


class _DiskBudget:
    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, size: int) -> None:
        """Raises TooLarge."""
        if size > self._left:
            raise TooLarge("the tables need more disk space than spec.disk_mb allows")
        self._left -= size


def _table_file(name: str, file: Path, ref: dict[str, JSON]) -> TableFile:
    """How to read a file, by its first bytes or by the content type of its Ref. Raises InvalidInput."""
    with file.open("rb") as opened:
        if opened.read(len(_PARQUET)) == _PARQUET:
            return TableFile(name, file, "read_parquet({file})", copied=False)
    content_type = str(ref.get("meta", {}).get("content_type", "application/json"))
    media = media_type(content_type)
    if media in _NDJSON:
        return TableFile(name, file, _json_reader("newline_delimited"), copied=True)
    if is_json(media):
        return TableFile(name, file, _json_reader("auto"), copied=True)
    if media in ("text/csv", "application/csv"):
        return TableFile(name, file, "read_csv({file})", copied=True)
    raise InvalidInput(f'table "{name}" has the type {content_type}; it must be JSON, NDJSON, CSV or Parquet')


def _json_reader(form: str) -> str:
    return f"read_json({{file}}, format='{form}', maximum_object_size={OBJECT_BYTES_MAX})"


async def read_chunks(file: Path) -> AsyncIterator[bytes]:
    with file.open("rb") as opened:
        while chunk := await asyncio.to_thread(opened.read, CHUNK_BYTES):
            yield chunk


def executable(statement: Statement) -> tuple[str, list[JSON]]:
    """Text and values for DuckDB: `$1` is the first value, and can occur more than once."""
    return statement.text(lambda index: f"${index + 1}"), list(statement.values)


def _columns(connection: duckdb.DuckDBPyConnection) -> list[str]:
    return unique_names(column[0] for column in connection.description or [])


def _decode_column(value: JSON) -> JSON:
    """A value of a column of type JSON, which DuckDB returns as text."""
    if not isinstance(value, str):
        return value
    try:
        return decode_json(value.encode())
    except (InvalidJson, UnicodeEncodeError):
        return value  # DuckDB accepts some JSON that an output cannot hold, such as numbers out of range


def _row_count(connection: duckdb.DuckDBPyConnection, last: Statement) -> DuckdbResult:
    """How many rows the last statement of a command has changed."""
    if last.verb not in CHANGING:
        return DuckdbResult()
    counted = connection.fetchone()
    return DuckdbResult(rows=counted[0] if counted and isinstance(counted[0], int) else None)


def attach(connection: duckdb.DuckDBPyConnection, path: str, stop: Event, *, read_only: bool = False) -> None:
    """Open a file. Another call or process may use it: wait for a while. Raises DuckDB's error."""
    text = f"ATTACH {quote_text(path)} AS {FILE} ({'READ_ONLY' if read_only else 'READ_WRITE'})"
    for left in range(BUSY_TRIES, -1, -1):
        try:
            connection.execute(text)
            return
        except duckdb.Error as error:
            if not left or not is_busy(error) or stop.wait(BUSY_STEP_S):
                raise


def is_busy(error: duckdb.Error) -> bool:
    """Whether another call or process uses the file."""
    return "Unique file handle conflict" in str(error) or "Conflicting lock" in str(error)


def quote_text(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def failure_of(error: duckdb.Error) -> Failure:
    """The first paragraph of DuckDB's message states the error; the rest is the position, or advice."""
    head, _, rest = str(error).partition("\n\n")
    message = " ".join(_lines(head))
    if isinstance(error, duckdb.OutOfMemoryException):
        return Failure(kind="duckdb", message=f"{message} (the limits are spec.memory_mb and spec.disk_mb)")
    if isinstance(error, duckdb.PermissionException):
        message += "; spec.folders and spec.external_access grant more access"
    if is_busy(error):
        return Failure(kind="duckdb", message="another call or process uses the database file", retryable=True)
    details: dict[str, JSON] = {"where": rest[:MESSAGE_CHARS_MAX]} if rest.startswith("LINE ") else {}
    return Failure(kind="duckdb", message=message[:MESSAGE_CHARS_MAX], details=details)


def _lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if line.strip())
