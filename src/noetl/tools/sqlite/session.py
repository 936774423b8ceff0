"""One call on a SQLite file. It runs in a thread and can be stopped from another one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from threading import Event
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from noetl.output import JSON, Failure, Output
from noetl.tools.errors import InvalidInput, ToolError
from noetl.tools.payload import bytes_of_base64
from noetl.tools.sql.statements import RowLimit, Statement, StatementResult, unique_names
from noetl.tools.sql.values import PLAIN_TYPES, to_json

BUSY_S: Final = 10.0  # how long a call waits for other writers
BUSY_STEP_S: Final = 0.01
STEPS: Final = 10_000  # instructions of SQLite's virtual machine between two checks for a stop
INT_MAX: Final = 2**63 - 1
_RETRYABLE: Final = (apsw.BusyError, apsw.LockedError)
_encode = msgspec.json.Encoder().encode


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
        self._attach = attach
        self._limit = limit
        self._stopped = Event()
        self._connection: apsw.Connection | None = None

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
            return _failure(error)
        if counted is not None and counted.rows is not None:
            self.counted = counted.rows[0]["count"]
        return Output(data=result.rows, own=_own_part(rowcount=result.rowcount))

    def _prepare(self, connection: apsw.Connection) -> None:
        self._connection = connection
        prepare(connection, attach=self._attach)
        connection.set_busy_handler(self._wait)
        connection.set_progress_handler(self._stopped.is_set, STEPS)

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
            return not self._stopped.is_set()

        values = tuple(bind(value, index) for index, value in enumerate(statement.values))
        before = connection.total_changes()
        cursor = connection.cursor()
        cursor.exec_trace = on_start
        # Placeholders are numbered, because a value can be used more than once.
        cursor.execute(statement.text(lambda index: f"?{index + 1}"), values)
        most = self._limit.max
        records = list(cursor if most is None else islice(cursor, most + 1))
        self._limit.check(len(records))
        changed = connection.changes() if connection.total_changes() != before else 0
        if not columns:
            return StatementResult(None, changed)
        names = unique_names(columns)
        rows = [row_of(names, record) for record in records]
        return StatementResult(rows, changed or len(rows))


def prepare(connection: apsw.Connection, *, attach: bool = False) -> None:
    """Untrusted SQL: it may use no other file, and functions of the schema have no side effects."""
    connection.set_busy_timeout(int(BUSY_S * 1000))
    connection.execute("PRAGMA trusted_schema = 0")
    if not attach:
        connection.authorizer = _authorize


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


def _authorize(code: int, first: str | None, second: str | None, _database: str | None, _trigger: str | None) -> int:
    """Deny access to other files and to extensions. VACUUM uses ATTACH with an empty name."""
    if code == apsw.SQLITE_ATTACH and first != "":
        return apsw.SQLITE_DENY
    if code == apsw.SQLITE_FUNCTION and (second or "").lower() == "load_extension":
        return apsw.SQLITE_DENY
    return apsw.SQLITE_OK


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
