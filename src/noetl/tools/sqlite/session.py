"""One call on a SQLite file. It runs in a thread and can be stopped from another one."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import islice
from threading import Event
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from noetl.output import JSON, Failure, Output
from noetl.tools.errors import InvalidInput, TooLarge, ToolError
from noetl.tools.payload import bytes_of_base64
from noetl.tools.sql.statements import RowLimit, Statement, StatementResult, unique_names
from noetl.tools.sql.values import PLAIN_TYPES, to_json

BUSY_S: Final = 10.0  # how long a call waits for other writers
BUSY_STEP_S: Final = 0.01
STEPS: Final = 10_000  # instructions of SQLite's virtual machine between two checks for a stop
INT_MAX: Final = 2**63 - 1
VALUE_BYTES_MAX: Final = 64 * 1024 * 1024  # of one text or blob, also inside a statement
MEMORY_DATABASE_PAGES_MAX: Final = 65_536  # of 4 KiB, of `:memory:`, and of all attached databases without a file
PROCESS_BYTES_MAX: Final = 512 * 1024 * 1024  # that SQLite has allocated in this process; a statement above it stops
ROWS_BYTES_MAX: Final = 256 * 1024 * 1024  # of the rows of one statement, in memory
ROW_BYTES: Final = 240  # of a row without its values, in memory
_RETRYABLE: Final = (apsw.BusyError, apsw.LockedError)
_encode = msgspec.json.Encoder().encode

# SQL of authors shares the process with other calls, and in an embedded server with the server. The pragmas below
# affect only the connection or the file. All others are refused: some of them limit the heap of the whole process,
# keep data in memory without a limit, map files into memory, or let SQL damage the schema.
PRAGMAS: Final = frozenset({
    "analysis_limit", "application_id", "auto_vacuum", "automatic_index", "case_sensitive_like",
    "cell_size_check", "checkpoint_fullfsync", "collation_list", "compile_options", "data_version",
    "database_list", "defer_foreign_keys", "encoding", "foreign_key_check", "foreign_key_list", "foreign_keys",
    "freelist_count", "fullfsync", "function_list", "ignore_check_constraints", "incremental_vacuum",
    "index_info", "index_list", "index_xinfo", "integrity_check", "journal_mode", "journal_size_limit",
    "legacy_alter_table", "locking_mode", "module_list", "optimize", "page_count", "page_size", "pragma_list",
    "query_only", "quick_check", "read_uncommitted", "recursive_triggers", "reverse_unordered_selects",
    "secure_delete", "shrink_memory", "synchronous", "table_info", "table_list", "table_xinfo", "user_version",
    "wal_autocheckpoint", "wal_checkpoint",
})  # fmt: skip
PRAGMAS_READ: Final = frozenset({"cache_spill", "max_page_count", "mmap_size", "schema_version", "temp_store"})
PRAGMAS_UP_TO: Final = {"busy_timeout": int(BUSY_S * 1000), "cache_size": 16_384}  # the highest value, without sign
_FUNCTIONS_REFUSED: Final = frozenset({"load_extension", "fts3_tokenizer", "sqlite_log"})


class DatabaseFile(NamedTuple):
    path: str  # absolute, or ":memory:"
    written: str  # the path as the author wrote it, for messages


class SqliteSession:
    """Opens the file, runs the statements and closes it again."""

    def __init__(
        self,
        file: DatabaseFile,
        statements: Sequence[Statement],
        *,
        attach: bool,
        limit: RowLimit,
        count: Statement | None = None,
    ) -> None:
        """`count`: a statement to run after the others; its result is `counted`."""
        self._count = count
        self.counted: int | None = None
        self._file = file
        self._statements = statements
        self._limit = limit
        self._stopped = Event()
        self._connection: apsw.Connection | None = None
        self._authorizer = Authorizer(attach=attach, memory=file.path == ":memory:")
        self._is_over_memory = False

    def stop(self) -> None:
        """From another thread: the running statement ends soon, and the transaction is rolled back."""
        self._stopped.set()
        connection = self._connection
        if connection is not None:
            connection.interrupt()

    def run(self) -> Output:
        try:
            connection = apsw.Connection(self._file.path, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
        except apsw.Error as error:
            return open_failure(error, self._file)
        try:
            try:
                self._prepare(connection)
                result = self._run_all(connection)
                counted = None if self._count is None else self._run_one(connection, self._count)
            finally:
                self._connection = None
                connection.close(True)
        except ToolError as error:
            return error.output()
        except apsw.Error as error:
            return _failure(error, self._refusal(error))
        if counted is not None and counted.rows is not None:
            self.counted = counted.rows[0]["count"]
        return Output(data=result.rows, own=_own_part(rowcount=result.rowcount))

    def _prepare(self, connection: apsw.Connection) -> None:
        self._connection = connection
        prepare(connection, self._authorizer)
        connection.set_busy_handler(self._wait)
        connection.set_progress_handler(self._should_stop, STEPS)

    def _should_stop(self) -> bool:
        return self._uses_too_much() or self._stopped.is_set()

    def _uses_too_much(self) -> bool:
        self._is_over_memory = apsw.memory_used() > PROCESS_BYTES_MAX
        return self._is_over_memory

    def _refusal(self, error: apsw.Error) -> str | None:
        """What SQLite reports only as "not authorized" or "interrupted"."""
        if isinstance(error, apsw.AuthError):
            return self._authorizer.refused
        if isinstance(error, apsw.InterruptError | apsw.ExecTraceAbort) and self._is_over_memory:
            return f"SQLite has used more than {PROCESS_BYTES_MAX:,} bytes of memory (limit PROCESS_BYTES_MAX)"
        return None

    def _wait(self, tries: int) -> bool:
        """Another connection is writing. True: try again."""
        return tries * BUSY_STEP_S < BUSY_S and not self._stopped.wait(BUSY_STEP_S)

    def _run_all(self, connection: apsw.Connection) -> StatementResult:
        if len(self._statements) == 1:
            # Some statements, such as VACUUM, cannot run inside a transaction.
            return self._run_one(connection, self._statements[0])
        rows: list[dict[str, JSON]] | None = None
        rowcount: int | None = 0
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in self._statements:
                result = self._run_one(connection, statement)
                rows = result.rows if result.rows is not None else rows
                rowcount = result.rowcount
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        return StatementResult(rows, rowcount)

    def _run_one(self, connection: apsw.Connection, statement: Statement) -> StatementResult:
        columns: list[str] | None = None

        def on_start(cursor: apsw.Cursor, _sql: str, _values: Any) -> bool:
            nonlocal columns
            columns = [str(column[0]) for column in cursor.get_description()]
            if self._authorizer.has_attached:
                limit_attached(connection, self._authorizer)
            return not self._should_stop()  # the progress handler is not called in a short statement

        values = tuple(bind(value, index) for index, value in enumerate(statement.values))
        before = connection.total_changes()
        cursor = connection.cursor()
        cursor.exec_trace = on_start
        # Placeholders are numbered, because a value can be used more than once.
        cursor.execute(statement.text(lambda index: f"?{index + 1}"), values)
        records = self._records(cursor)
        changed = connection.changes() if connection.total_changes() != before else 0
        if not columns:
            return StatementResult(None, changed)
        names = unique_names(columns)
        rows = [row_of(names, record) for record in records]
        return StatementResult(rows, changed or len(rows))

    def _records(self, cursor: apsw.Cursor) -> list[tuple[Any, ...]]:
        """Raises TooLarge."""
        most = self._limit.max
        records: list[tuple[Any, ...]] = []
        size = 0
        for record in cursor if most is None else islice(cursor, most + 1):
            size += ROW_BYTES + sum(map(sys.getsizeof, record))
            if size > ROWS_BYTES_MAX:
                limit = f"(limit ROWS_BYTES_MAX: {ROWS_BYTES_MAX:,} bytes)"
                raise TooLarge(f"the rows are too large for `output.data` {limit}; read them in parts with `stored`")
            records.append(record)
        self._limit.check(len(records))
        return records


class Authorizer:
    """Decides what untrusted SQL may do. SQLite calls it while it compiles a statement."""

    def __init__(self, *, attach: bool = False, memory: bool = False) -> None:
        """`memory`: the database is in memory, so its size is limited."""
        self._attach = attach
        self.memory = memory
        self.refused: str | None = None  # the first refusal
        self.has_attached = False  # a statement attaches a database
        self.is_ours = False  # the SQL does not come from an author

    def __call__(
        self, code: int, first: str | None, second: str | None, database: str | None, _trigger: str | None
    ) -> int:
        """VACUUM uses ATTACH with an empty name."""
        reason: str | None = None
        if self.is_ours:
            return apsw.SQLITE_OK
        if code == apsw.SQLITE_PRAGMA:
            reason = self._pragma_refusal((first or "").lower(), second, database)
        elif code == apsw.SQLITE_ATTACH and first != "" and not self._attach:
            reason = "SQL may not open other files; spec.attach allows it"
        elif code == apsw.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS_REFUSED:
            reason = f"SQL may not call {second}"
        if reason is None:
            self.has_attached = self.has_attached or code == apsw.SQLITE_ATTACH
            return apsw.SQLITE_OK
        self.refused = self.refused or f"not authorized: {reason}"
        return apsw.SQLITE_DENY

    def _pragma_refusal(self, name: str, value: str | None, database: str | None) -> str | None:
        """`database`: None if the statement does not name it."""
        is_limited = self.memory or (database is not None and database.lower() != "main")  # by the number of pages
        is_fixed = name in PRAGMAS_READ or (name == "page_size" and is_limited)
        if value is None and (is_fixed or name in PRAGMAS_UP_TO):
            return None
        if is_fixed:
            return f"SQL may read PRAGMA {name}, but not change it"
        if name in PRAGMAS_UP_TO:
            most, digits = PRAGMAS_UP_TO[name], (value or "").lstrip("+-")
            is_small = digits.isdecimal() and int(digits[:20]) <= most
            return None if is_small else f"the highest value of PRAGMA {name} is {most}"
        return None if name in PRAGMAS else f"SQL may not use PRAGMA {name}"


def prepare(connection: apsw.Connection, authorizer: Authorizer) -> None:
    """Untrusted SQL: it affects the file and nothing else, and functions of the schema have no side effects."""
    connection.set_busy_timeout(int(BUSY_S * 1000))
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
    if authorizer.memory:
        connection.execute(f"PRAGMA max_page_count = {MEMORY_DATABASE_PAGES_MAX}")
    connection.authorizer = authorizer


def limit_attached(connection: apsw.Connection, authorizer: Authorizer) -> None:
    """Attached databases without a file share the pages of one `:memory:`."""
    authorizer.is_ours = True
    try:
        rows = connection.execute("PRAGMA database_list").fetchall()
        names = [str(name) for _, name, file in rows if not file and name not in ("main", "temp")]
        for name in names:
            quoted = name.replace('"', '""')
            connection.execute(f'PRAGMA "{quoted}".max_page_count = {MEMORY_DATABASE_PAGES_MAX // len(names)}')
    finally:
        authorizer.is_ours = False


class MissingFile(ToolError):
    """The database file does not exist, and this call does not create it."""

    kind = "sqlite"


def require_file(file: DatabaseFile) -> None:
    """Raises MissingFile."""
    if not os.path.exists(file.path):
        raise MissingFile(f'"{file.written}" cannot be opened: there is no such file')


def row_of(names: Sequence[str], record: Sequence[Any]) -> dict[str, JSON]:
    return {
        name: value if type(value) in PLAIN_TYPES else to_json(value) for name, value in zip(names, record, strict=True)
    }


def open_failure(error: Exception, file: DatabaseFile) -> Output:
    """An error of SQLite; one of opening the file names the reason."""
    if isinstance(error, apsw.CantOpenError):
        return _failure(error, f'"{file.written}" cannot be opened: {_open_error(file)}')
    if isinstance(error, apsw.Error):
        return _failure(error)
    raise error


def _open_error(file: DatabaseFile) -> str:
    """Why SQLite could not open the file. SQLite itself does not report the reason."""
    try:
        with open(file.path, "r+b"):
            return "SQLite cannot use it"
    except FileNotFoundError:
        if not os.path.isdir(os.path.dirname(file.path)):
            return f'the directory "{os.path.dirname(file.written)}" does not exist; create it first'
        return "its directory is not writable"
    except OSError as error:
        return error.strerror or str(error)


def bind(value: JSON, index: int) -> str | int | float | bytes | None:
    """A JSON value as a SQLite value: booleans become integers, lists and mappings JSON text."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and not -INT_MAX - 1 <= value <= INT_MAX:
        raise InvalidInput(f"the value of ?{index + 1} is an integer with more than 64 bits")
    try:
        binary = bytes_of_base64(value)
    except ValueError:
        raise InvalidInput(f"the value of ?{index + 1} is not valid base64") from None
    if binary is not None:
        return binary
    if isinstance(value, list | dict):
        return _encode(value).decode()
    bound: str | int | float | None = value
    return bound


def _failure(error: apsw.Error, message: str | None = None) -> Output:
    extended = getattr(error, "extendedresult", 0) or 0
    code = apsw.mapping_extended_result_codes.get(extended) or apsw.mapping_result_codes.get(extended & 255)
    message = message or str(error).removeprefix(f"{type(error).__name__}: ")
    failure = Failure(
        kind="sqlite",
        message=message[:1000] or type(error).__name__,
        retryable=isinstance(error, _RETRYABLE),
        details={"code": str(code) if code else None},
    )
    return Output(status="error", error=failure, own=_own_part(failure.details["code"], failure.message))


def _own_part(code: JSON = None, message: str | None = None, rowcount: int | None = None) -> dict[str, JSON]:
    return {"sqlite": {"code": code, "message": message, "rowcount": rowcount}}
