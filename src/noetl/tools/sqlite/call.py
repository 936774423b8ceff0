"""One call on one file of SQLite, in a thread of its own: opened, worked on, closed; it can be stopped."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from math import isfinite
from threading import Event
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from noetl.output import JSON, Failure, Output, failed
from noetl.tools.json_values import in_base64
from noetl.tools.sql_text import BadSql, Statement, distinct, refuse_transactions

BUSY_S: Final = 10.0  # how long it waits for others who write
BUSY_STEP_S: Final = 0.01
STEPS: Final = 10_000  # of SQLite's machine between two looks at whether it is to stop
INT_MAX: Final = 2**63 - 1
_RETRYABLE: Final = (apsw.BusyError, apsw.LockedError)
_encode = msgspec.json.Encoder().encode


class Done(NamedTuple):
    """What one statement gave."""

    rows: list[dict[str, JSON]] | None  # None: it gives none
    touched: int


class File(NamedTuple):
    path: str
    written: str  # by the author


class Unopened(Exception):
    """There is no database to work on; the message is for the author."""

    def __init__(self, message: str, cause: apsw.Error) -> None:
        super().__init__(message)
        self.cause = cause


class TooManyRows(Exception):
    """More than spec.max_rows."""


class Work:
    """What is to be done to one file."""

    def __init__(
        self, file: File, found: Sequence[Statement], *, attach: bool, max_rows: JSON = None
    ) -> None:
        self._file = file
        self._statements = found
        self._attach = attach
        self._max_rows = max_rows if isinstance(max_rows, int) else None
        self._stopped = Event()
        self._connection: apsw.Connection | None = None

    def stop(self) -> None:
        """From another thread: whatever runs ends soon, and nothing of it stays."""
        self._stopped.set()
        connection = self._connection
        if connection is not None:
            connection.interrupt()

    def run(self) -> Output:
        try:
            for statement in self._statements:
                refuse_transactions(statement)
            connection = self._opened()
            try:
                self._prepare(connection)
                done = self._all(connection)
            finally:
                self._connection = None
                connection.close(True)
        except BadSql as error:
            return failed("input", str(error))
        except Unopened as error:
            return _failure(error.cause, str(error))
        except TooManyRows as error:
            return failed("payload-too-large", str(error))
        except apsw.Error as error:
            return _failure(error)
        return Output(data=done.rows, own={"sqlite": {"code": None, "rowcount": done.touched}})

    def _opened(self) -> apsw.Connection:
        try:
            return apsw.Connection(
                self._file.path, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
            )
        except apsw.CantOpenError as error:
            raise Unopened(
                f'"{self._file.written}" can not be opened: {_reason(self._file)}', error
            ) from error

    def _prepare(self, connection: apsw.Connection) -> None:
        self._connection = connection
        connection.set_busy_handler(self._wait)
        connection.set_progress_handler(self._stopped.is_set, STEPS)
        connection.execute("PRAGMA trusted_schema = 0")
        if not self._attach:
            connection.authorizer = _allowed

    def _wait(self, tries: int) -> bool:
        """Someone else writes. True: try again."""
        return tries * BUSY_STEP_S < BUSY_S and not self._stopped.wait(BUSY_STEP_S)

    def _all(self, connection: apsw.Connection) -> Done:
        if len(self._statements) == 1:
            # Some statements, VACUUM for one, run outside of a transaction only.
            return self._one(connection, self._statements[0])
        rows: list[dict[str, JSON]] | None = None
        touched = 0
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in self._statements:
                done = self._one(connection, statement)
                rows = done.rows if done.rows is not None else rows
                touched = done.touched
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        return Done(rows, touched)

    def _one(self, connection: apsw.Connection, statement: Statement) -> Done:
        described: list[str] | None = None

        def begins(cursor: apsw.Cursor, _sql: str, _values: Any) -> bool:
            nonlocal described
            described = [str(column[0]) for column in cursor.get_description()]
            return not self._stopped.is_set()

        values = tuple(_bound(value, place) for place, value in enumerate(statement.values))
        before = connection.total_changes()
        cursor = connection.cursor()
        cursor.exec_trace = begins
        # Each value has a place by its number, since one may stand in the text more than once.
        cursor.execute(statement.text(lambda place: f"?{place + 1}"), values)
        records = []
        for record in cursor:
            records.append(record)
            if self._max_rows is not None and len(records) > self._max_rows:
                raise TooManyRows(f"there are more rows than spec.max_rows: {self._max_rows:,}")
        changed = connection.changes() if connection.total_changes() != before else 0
        if not described:
            return Done(None, changed)
        names = distinct(described)
        rows = [{name: _plain(value) for name, value in zip(names, row, strict=True)} for row in records]
        return Done(rows, changed or len(rows))


def _reason(file: File) -> str:
    """Why SQLite could not open it, which it does not say."""
    try:
        with open(file.path, "r+b"):
            return "SQLite can not use it"
    except FileNotFoundError:
        if not os.path.isdir(os.path.dirname(file.path)):
            return f'there is no folder "{os.path.dirname(file.written)}"; make it first'
        return "its folder may not be written to"
    except OSError as error:
        return error.strerror or str(error)


def _allowed(code: int, first: str | None, second: str | None, _database: str | None, _by: str | None) -> int:
    """No other files, and no programs: ATTACH with an empty name is what VACUUM does."""
    if code == apsw.SQLITE_ATTACH and first != "":
        return apsw.SQLITE_DENY
    if code == apsw.SQLITE_FUNCTION and (second or "").lower() == "load_extension":
        return apsw.SQLITE_DENY
    return apsw.SQLITE_OK


def _bound(value: JSON, place: int) -> str | int | float | bytes | None:
    """A JSON value as SQLite holds it: booleans are numbers, lists and maps JSON text."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and not -INT_MAX - 1 <= value <= INT_MAX:
        raise BadSql(f"the value of ?{place + 1} is a whole number of more than 64 bits")
    if type(value) is dict and list(value) == ["base64"]:
        try:
            return base64.b64decode(str(value["base64"]), validate=True)
        except ValueError:
            raise BadSql(f"the value of ?{place + 1} is no base64") from None
    if isinstance(value, list | dict):
        return _encode(value).decode()
    bound: str | int | float | None = value
    return bound


def _plain(value: Any) -> JSON:
    if type(value) is bytes:
        return in_base64(value)
    if type(value) is float and not isfinite(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _failure(error: apsw.Error, words: str | None = None) -> Output:
    extended = getattr(error, "extendedresult", 0) or 0
    code = apsw.mapping_extended_result_codes.get(extended) or apsw.mapping_result_codes.get(extended & 255)
    words = words or str(error).removeprefix(f"{type(error).__name__}: ")
    failure = Failure(
        kind="sqlite",
        message=words[:1000] or type(error).__name__,
        retryable=isinstance(error, _RETRYABLE),
        details={"code": str(code) if code else None},
    )
    return Output(
        status="error", error=failure, own={"sqlite": {"code": failure.details["code"], "rowcount": None}}
    )
