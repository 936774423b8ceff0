"""One call on Snowflake with a connection of its own. It runs in a thread and can be stopped from another one."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

import msgspec

from noetl.ids import trace_id
from noetl.output import JSON, Failure, Output
from noetl.tool import Call
from noetl.tools.errors import InvalidInput, TooLarge, ToolError
from noetl.tools.sql.statements import (
    RowLimit,
    Statement,
    StatementResult,
    parse_statement,
    parse_statements,
    refuse_transactions,
    unique_names,
)
from noetl.tools.sql.values import to_json

if TYPE_CHECKING:
    from noetl_snowflake.tool import SnowflakeInput

ROWS_BYTES_MAX: Final = 256 * 1024 * 1024  # of the rows of one statement, in memory
BATCH_ROWS: Final = 1_000
LOGIN_S: Final = 30
STATEMENT_S_MAX: Final = 604_800  # of Snowflake
_SEMI_STRUCTURED: Final = frozenset({5, 9, 10})  # VARIANT, OBJECT, ARRAY in the description of a column
_RETRYABLE: Final = frozenset({604, 625, 390114, 250001, 250003})  # canceled, expired session, no connection
_ACCOUNT: Final = re.compile(r"[\w.-]{1,250}\Z")
_OPTIONS: Final = ("role", "warehouse", "database", "schema")
_encode = msgspec.json.Encoder().encode


def connect_options(fields: Mapping[str, str], input: SnowflakeInput, call: Call) -> dict[str, Any]:
    """The arguments for the driver. Names with the prefix `sf_` are accepted. Raises InvalidInput."""
    known = {name.removeprefix("sf_"): value for name, value in fields.items()}
    account, user = known.get("account", ""), known.get("user", "")
    if not _ACCOUNT.match(account) or not user:
        raise InvalidInput("the credential needs `account` and `user`, and `password`, `private_key` or `token`")
    options: dict[str, Any] = {
        "account": account, "user": user, "paramstyle": "qmark", "autocommit": True, "application": "NoETL",
        "login_timeout": LOGIN_S, "session_parameters": {"QUERY_TAG": f"noetl:{trace_id(call.execution_id)}"},
    }  # fmt: skip
    if "private_key" in known:
        options["private_key"] = _der(known["private_key"], known.get("private_key_passphrase"))
    elif "token" in known:
        options |= {"authenticator": "oauth", "token": known["token"]}
    elif "password" in known:
        options["password"] = known["password"]
    else:
        raise InvalidInput("the credential needs `password`, `private_key` or `token`")
    options |= {name: known[name] for name in ("host", "port", "protocol") if name in known}
    for name in _OPTIONS:
        value = getattr(input, name) or known.get(name)
        if value:
            options[name] = value
    return options


def _der(pem: str, passphrase: str | None) -> bytes:
    from cryptography.hazmat.primitives import serialization

    try:
        key = serialization.load_pem_private_key(pem.encode(), passphrase.encode() if passphrase else None)
    except (ValueError, TypeError):
        raise InvalidInput("`private_key` of the credential is not a private key in PEM form") from None
    return key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


class SnowflakeSession:
    """Connects, runs the statements and disconnects."""

    def __init__(self, connect: Callable[[], Any], input: SnowflakeInput, spec: dict[str, JSON]) -> None:
        """Raises ToolError for SQL that cannot run."""
        self._connect = connect
        self._input = input
        self._statements = _statements(input)
        self._limit = RowLimit(spec)
        self._timeout_s = _timeout_s(spec)
        self._stopped = Event()
        self._connection: Any = None
        self._query_id: str | None = None
        self._canceler: Thread | None = None

    def stop(self) -> None:
        """From another thread: cancels the running statement, once there is one. A session serves one call only."""
        self._stopped.set()
        session = getattr(self._connection, "session_id", None)
        if session is not None and (self._canceler is None or not self._canceler.is_alive()):
            self._canceler = Thread(target=self._cancel, args=(session,), name="snowflake-cancel")
            self._canceler.start()

    def _cancel(self, session: int) -> None:
        with suppress(Exception):  # the statement ends at its timeout instead
            connection = self._connect()
            try:
                connection.cursor().execute("SELECT SYSTEM$CANCEL_ALL_QUERIES(?)", (session,))
            finally:
                connection.close()

    def run(self) -> Output:
        try:
            self._connection = connection = self._connect()
        except Exception as error:  # noqa: BLE001  # the driver raises its own errors, and those of its HTTP client
            return _failure(error, None)
        try:
            result = self._run_all(connection)
        except ToolError as error:
            return error.output()
        except Exception as error:  # noqa: BLE001  # the same
            return _failure(error, self._query_id)
        finally:
            self._connection = None
            if self._canceler is not None:
                self._canceler.join()
            with suppress(Exception):
                connection.close()
        own: dict[str, JSON] = {"snowflake": {"rowcount": result.rowcount, "query_id": self._query_id}}
        return Output(data=result.rows, own=own)

    def _run_all(self, connection: Any) -> StatementResult:
        cursor = connection.cursor()
        rows = self._input.rows
        if len(self._statements) == 1 and rows is None:
            return self._run_one(cursor, self._statements[0])
        found: list[Any] | None = None
        count: int | None = None
        cursor.execute("BEGIN")
        try:
            if rows is not None:
                count = self._run_rows(cursor, self._statements[0], rows)
            else:
                for statement in self._statements:
                    result = self._run_one(cursor, statement)
                    found = result.rows if result.rows is not None else found
                    count = result.rowcount
            cursor.execute("COMMIT")
        except BaseException:
            with suppress(Exception):  # the connection is closed next, which also rolls back
                cursor.execute("ROLLBACK")
            raise
        return StatementResult(found, count)

    def _run_rows(self, cursor: Any, statement: Statement, rows: list[Any]) -> int:
        text = statement.text(lambda _: "?")
        count = 0
        for row in rows:
            if self._stopped.is_set():
                raise InvalidInput("the call was cancelled")
            values = list(row.values()) if isinstance(row, dict) else row
            cursor.execute(text, tuple(bind(value) for value in values), timeout=self._timeout_s)
            self._query_id = cursor.sfqid
            count += cursor.rowcount or 0
        return count

    def _run_one(self, cursor: Any, statement: Statement) -> StatementResult:
        values = tuple(bind(statement.values[index]) for index in statement.indexes)
        cursor.execute(statement.text(lambda _: "?"), values or None, timeout=self._timeout_s)
        self._query_id = cursor.sfqid
        if not _returns_rows(statement, cursor):
            return StatementResult(None, cursor.rowcount)
        names = unique_names(column[0] for column in cursor.description)
        decoders = [_from_json if column[1] in _SEMI_STRUCTURED else to_json for column in cursor.description]
        found: list[Any] = []
        size = 0
        while batch := cursor.fetchmany(BATCH_ROWS):
            for record in batch:
                size += 240 + sum(map(sys.getsizeof, record))
                made = [decode(value) for decode, value in zip(decoders, record, strict=True)]
                found.append(made if self._input.row_format == "lists" else dict(zip(names, made, strict=True)))
            self._limit.check(len(found))
            if size > ROWS_BYTES_MAX:
                raise TooLarge(f"the rows are too large (limit ROWS_BYTES_MAX: {ROWS_BYTES_MAX:,} bytes)")
        return StatementResult(found, len(found))


def _statements(input: SnowflakeInput) -> list[Statement]:
    if input.query is not None:
        found = [parse_statement(input.query, input.params, style="?", places=False)]
    elif input.command is None:
        raise InvalidInput("`query` or `command` is required")
    elif input.rows is not None:
        if input.params is not None or input.command.values:
            raise InvalidInput("`rows` are the values of the statement; it can have no `params` and no {{ }}")
        marks = sum(piece.count("?") for piece in input.command.text)
        found = parse_statements(input.command, [None] * marks, style="?", places=False)
        if len(found) != 1:
            raise InvalidInput(f"with `rows` the command must be one statement, but it has {len(found)}")
        wrong = next((index for index, row in enumerate(input.rows) if len(row) != len(found[0].indexes)), None)
        if wrong is not None:
            counts = f"{len(input.rows[wrong])} values, and the statement has {len(found[0].indexes)} `?`"
            raise InvalidInput(f"row {wrong} has {counts}")
    else:
        found = parse_statements(input.command, input.params, style="?", places=False)
    for statement in found:
        refuse_transactions(statement)
    if input.rows is not None and input.query is not None:
        raise InvalidInput("`rows` belongs to `command`")
    return found


_READS: Final = frozenset(
    {"SELECT", "WITH", "SHOW", "DESC", "DESCRIBE", "VALUES", "CALL", "LIST", "LS", "EXPLAIN", "TABLE"}
)


def _returns_rows(statement: Statement, cursor: Any) -> bool:
    """Every statement of Snowflake returns a row, also INSERT: only those of reading statements are data."""
    return statement.verb in _READS and cursor.description is not None


def bind(value: JSON) -> str | int | float | bool | None:
    """Lists and mappings become JSON text."""
    if isinstance(value, list | dict):
        return _encode(value).decode()
    bound: str | int | float | bool | None = value
    return bound


def _from_json(value: Any) -> JSON:
    if not isinstance(value, str):
        return to_json(value)
    try:
        decoded: JSON = msgspec.json.decode(value)
    except msgspec.DecodeError:  # `undefined`, which JSON does not have
        return None if value == "undefined" else value
    return decoded


def _timeout_s(spec: dict[str, JSON]) -> int | None:
    timeout = spec.get("timeout")
    seconds = timeout.get("total") if isinstance(timeout, dict) else timeout
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or seconds <= 0:
        return None
    return max(1, min(int(seconds), STATEMENT_S_MAX))


def _failure(error: Exception, query_id: str | None) -> Output:
    code, sqlstate = getattr(error, "errno", None), getattr(error, "sqlstate", None)
    message = str(getattr(error, "msg", None) or error)[:1000]
    own: dict[str, JSON] = {
        "snowflake": {
            "code": code if isinstance(code, int) else None,
            "sqlstate": sqlstate if isinstance(sqlstate, str) else None,
            "message": message,
            "query_id": getattr(error, "sfqid", None) or query_id,
        }
    }
    retryable = code in _RETRYABLE or isinstance(error, OSError)
    failure = Failure(kind="snowflake", message=message or type(error).__name__, retryable=retryable)
    return Output(status="error", own=own, error=failure)
