"""One call of DuckDB, as a thread does it: a fresh database behind locked doors, the statements, the rows.

The author's SQL is untrusted: it opens no file but the tables that it was given, unless it was granted more.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import duckdb
import msgspec

from noetl.output import JSON, Failure
from noetl.tools.duckdb.values import plain_row
from noetl.tools.sql_text import BadSql, Statement, distinct
from noetl.tools.sql_text import statements as read_statements

if TYPE_CHECKING:
    from noetl.tools.duckdb.tool import DuckdbInput, DuckdbSpec

DATA_BYTES_MAX = 64 * 1024 * 1024  # of rows that come back as data
ROWS_AT_ONCE = 1_000
MESSAGE_CHARS_MAX = 2_000
CHANGING = frozenset({"INSERT", "UPDATE", "DELETE", "COPY", "MERGE"})  # they say how many rows


class Unfit(Exception):
    """It can not be run as it was asked for; the message is for the author."""

    def __init__(self, message: str, kind: str = "input") -> None:
        super().__init__(message)
        self.kind = kind


class Table(NamedTuple):
    """A table that was put on disk for the call."""

    name: str
    file: Path
    reader: str  # the call of DuckDB's function that reads it, with {file} in it
    lasting: bool  # read in once; else again by each query, which for Parquet is less work


class Found(NamedTuple):
    """How it went."""

    data: JSON = None
    rows: int | None = None  # None: the last statement does not say
    columns: list[str] | None = None
    file: Path | None = None
    error: Failure | None = None


class Session:
    """Made and cleared by the loop; `work` is the thread's, `stop` may be called from anywhere."""

    def __init__(self, input: DuckdbInput, spec: DuckdbSpec) -> None:
        self._input = input
        self._spec = spec
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._stopped = False
        self.disk_bytes = spec.disk_mb * 1024 * 1024
        self.folder = Path()  # private to the call, once it is made
        self._made = False
        self.tables: list[Table] = []
        self.found = Found()

    def make_folder(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="noetl-duckdb-"))
        self._made = True

    def clear(self) -> None:
        if self._made:
            shutil.rmtree(self.folder, ignore_errors=True)

    def stop(self) -> None:
        self._stopped = True
        connection = self._connection
        if connection is not None:
            with suppress(duckdb.Error):  # It may have been closed just now.
                connection.interrupt()

    def work(self) -> None:
        """Raises Unfit. What DuckDB says stands in `found`."""
        try:
            with duckdb.connect(":memory:", config={"threads": str(self._threads())}) as connection:
                self._connection = connection
                try:
                    self._lock(connection)
                    self._load(connection)
                    self.found = self._run(connection)
                finally:
                    self._connection = None
        except duckdb.Error as error:
            self.found = Found(error=failure_of(error))
        except (TypeError, ValueError, OverflowError, NotImplementedError, RuntimeError) as error:
            # A parameter that DuckDB's binding can not carry over is said in many ways.
            self.found = Found(error=Failure(kind="duckdb", message=f"{type(error).__name__}: {error}"))

    def _threads(self) -> int:
        cores = os.cpu_count() or 1
        return min(self._spec.threads or cores, cores)

    def _lock(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Limits, and then the doors: nothing that the SQL does can open them again."""
        spec = self._spec
        settings = [
            f"memory_limit = '{spec.memory_mb}MiB'",
            f"temp_directory = {quoted(self.folder / 'spilled')}",
            f"max_temp_directory_size = '{spec.disk_mb}MiB'",
            "python_enable_replacements = false",  # else SQL reads the variables of our own code
            "allow_persistent_secrets = false",
            "TimeZone = 'UTC'",
        ]
        if not spec.external_access:
            files = [table.file for table in self.tables]
            if self._input.to is not None:
                files.append(self._result_file(self._input.to))
            settings += [
                "autoinstall_known_extensions = false",
                "autoload_known_extensions = false",
                f"allowed_paths = [{', '.join(map(quoted, files))}]",
                f"allowed_directories = [{', '.join(map(quoted, spec.folders or []))}]",
                "enable_external_access = false",
                "lock_configuration = true",
            ]
        connection.execute("".join(f"SET {setting};" for setting in settings))

    def _load(self, connection: duckdb.DuckDBPyConnection) -> None:
        for table in self.tables:
            what = "TABLE" if table.lasting else "VIEW"
            source = table.reader.format(file=quoted(table.file))
            self._check()
            connection.execute(f"CREATE {what} {identifier(table.name)} AS SELECT * FROM {source}")

    def _run(self, connection: duckdb.DuckDBPyConnection) -> Found:
        input = self._input
        sql = input.query or input.command
        if sql is None:
            raise Unfit("`query` or `command` must be given")
        try:
            statements = read_statements(sql, input.params, style="?")
        except BadSql as error:
            raise Unfit(str(error)) from error
        if input.query is None:
            for statement in statements:
                self._check()
                connection.execute(*_executable(statement))
            return _counted(connection, statements[-1])
        text, values = _executable(statements[0])
        count = len(statements) if len(statements) > 1 else len(connection.extract_statements(text))
        if count > 1:
            raise Unfit(f"`query` takes one statement, and here are {count}; `command` takes several")
        if input.to is not None:
            return self._copied(connection, text, values, input.to)
        self._check()
        connection.execute(text, values)
        return self._rows(connection)

    def _check(self) -> None:
        """An interrupt ends the statement that runs, and only that one."""
        if self._stopped:
            raise Unfit("it was stopped")

    def _rows(self, connection: duckdb.DuckDBPyConnection) -> Found:
        columns = _columns(connection)
        types = [str(column[1]) for column in connection.description or []]
        documents = [name for name, kind in zip(columns, types, strict=True) if kind == "JSON"]
        rows: list[JSON] = []
        size = 0
        while batch := connection.fetchmany(ROWS_AT_ONCE):
            self._check()
            made = [plain_row(columns, row, documents) for row in batch]
            size += len(msgspec.json.encode(made))
            if size > DATA_BYTES_MAX:
                limit = f"(limit DATA_BYTES_MAX: {DATA_BYTES_MAX:,} bytes)"
                raise Unfit(
                    f"there are too many rows for data {limit}; `to` writes a file", "payload-too-large"
                )
            rows += made
        return Found(data=rows, rows=len(rows), columns=columns)

    def _copied(
        self, connection: duckdb.DuckDBPyConnection, query: str, values: list[JSON], form: str
    ) -> Found:
        file = self._result_file(form)
        connection.execute(f"SELECT * FROM ({query}\n) LIMIT 0", values)
        columns = _columns(connection)
        options = {
            "parquet": "FORMAT parquet",
            "csv": "FORMAT csv, HEADER",
            "json": "FORMAT json, ARRAY true",
        }
        self._check()
        connection.execute(f"COPY ({query}\n) TO {quoted(file)} ({options[form]})", values)
        counted = connection.fetchone()
        return Found(rows=counted[0] if counted else None, columns=columns, file=file)

    def _result_file(self, form: str) -> Path:
        return self.folder / f"result.{form}"


def _executable(statement: Statement) -> tuple[str, list[JSON]]:
    """As DuckDB takes it: `$1` stands for the first value, as often as it is there."""
    return statement.text(lambda place: f"${place + 1}"), list(statement.values)


def _columns(connection: duckdb.DuckDBPyConnection) -> list[str]:
    return distinct(column[0] for column in connection.description or [])


def _counted(connection: duckdb.DuckDBPyConnection, last: Statement) -> Found:
    """Of a command that changes rows, how many."""
    if last.verb not in CHANGING:
        return Found()
    counted = connection.fetchone()
    return Found(rows=counted[0] if counted and isinstance(counted[0], int) else None)


def granted(folders: list[str], own: str | None) -> list[str]:
    """The folders that SQL may use, as full paths. Raises Unfit."""
    found = []
    for folder in folders:
        if not os.path.isabs(folder) and own is None:
            raise Unfit(f'folder "{folder}" is relative to the playbook, and this one came from no file')
        found.append(os.path.join(own or "", folder))
    return found


def quoted(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def failure_of(error: duckdb.Error) -> Failure:
    """The first paragraph says what is wrong; behind it DuckDB shows where, or gives advice of its own."""
    head, _, rest = str(error).partition("\n\n")
    message = " ".join(_lines(head))
    if isinstance(error, duckdb.OutOfMemoryException):
        return Failure(kind="duckdb", message=f"{message} (the limits are spec.memory_mb and spec.disk_mb)")
    if isinstance(error, duckdb.PermissionException):
        message += "; spec.folders and spec.external_access grant more"
    details: dict[str, JSON] = {"where": rest[:MESSAGE_CHARS_MAX]} if rest.startswith("LINE ") else {}
    return Failure(kind="duckdb", message=message[:MESSAGE_CHARS_MAX], details=details)


def _lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if line.strip())
