"""One call on one PostgreSQL connection: statements are prepared, values bound, rows read in batches.

Only the extended protocol is used: a text with several statements is split here and never sent as a whole.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from noetl.errors import NoetlError
from noetl.output import JSON, Failure, Output, failed
from noetl.tool import Call
from noetl.tools.errors import InvalidInput, ToolError, store_failure
from noetl.tools.postgres.received import ReceivedBytes, rows_too_large
from noetl.tools.postgres.values import BoundValue, RowConverter, cast_placeholder, encode_parameter
from noetl.tools.sql.statements import (
    RowLimit,
    Statement,
    StatementResult,
    parse_statement,
    parse_statements,
    refuse_transactions,
)
from noetl.tools.sql.stored import Stored, count_statement, rows_in, stored_ref

if TYPE_CHECKING:
    from noetl.tools.postgres.tool import PostgresInput

BATCH_ROWS = 1_000
FIRST_ROWS = 100  # of the first batch; the size of its rows decides about the next one
BATCH_BYTES = 16 * 1024 * 1024
ROWS_BYTES_MAX = 256 * 1024 * 1024  # of the rows of one statement, or of one batch that is passed on
ROW_BYTES, VALUE_BYTES = 240, 56  # of Python's objects, beside the bytes of a value
ROLLBACK_S = 5.0
TIMEOUT_MAX_MS = 2_147_483_647
_READS: Final = frozenset({"SELECT", "VALUES", "SHOW", "TABLE"})
# Statements that return rows and may run inside a transaction, so a cursor can read their rows.
_CURSOR: Final = frozenset({"SELECT", "VALUES", "TABLE", "WITH", "INSERT", "UPDATE", "DELETE", "MERGE"})

# Serialization failure, deadlock, lost connection, shutdown, too many connections: a retry may succeed.
RETRYABLE: Final = re.compile(r"40001|40003|40P01|08...|57P0.|53300")
UNKNOWN: Final = re.compile(r"40003|08...")
CANCELED: Final = "57014"
CREDENTIAL: Final = re.compile(r"28...")
_NAMES: Final = ("constraint_name", "table_name", "column_name", "schema_name", "data_type_name")
_VALUES: Final = re.compile(r'".*"', re.DOTALL)
_ARGUMENT: Final = re.compile(r"\Ainvalid input for query argument \$(\d+)")


class PostgresSession:
    """A connection while one call uses it."""

    def __init__(self, connection: Any, call: Call) -> None:
        self.connection = connection
        self.call = call
        self.unknown = False  # if the connection is lost now, the sent statement may have taken effect
        self._limit = RowLimit(call.spec)
        self._received = ReceivedBytes.of(connection)
        self._batch_bytes = 0  # memory that the last batch needs

    async def run(self, input: PostgresInput) -> Output:
        try:
            if input.stored is not None:
                ref = self._ref(input.stored)  # before the statement: invalid names must have no effect
            await self.set_timeout()
            output = await self._execute(input)
            if input.stored is None or output.status == "error":
                return output
            if input.stored.count:
                counted = await self._query(count_statement(rows_in(ref["locator"])))
                assert counted.rows is not None
                ref = self._ref(input.stored, counted.rows[0]["count"])
            return replace(output, data={"rows": output.own["pg"]["rowcount"]}, ref=ref)
        except ToolError as error:
            return error.output()
        except NoetlError as error:
            return store_failure(error)
        except Exception as error:  # noqa: BLE001  # the driver raises OSError, its own errors and others
            return failure_of(error, unknown=self.unknown)

    def _ref(self, stored: Stored, count: int | None = None) -> dict[str, JSON]:
        auth = self.call.auth
        return stored_ref(stored, {"system": "postgres"}, auth.name if auth is not None else None, count)

    async def _execute(self, input: PostgresInput) -> Output:
        from noetl.tools.postgres.copy import copy_in, copy_out

        if input.copy is not None and input.copy.query is not None:
            if input.stored is not None:
                raise InvalidInput("`copy` with `query` reads rows; `stored` needs a statement that stores some")
            return await copy_out(self, input.copy, input.params)
        if input.copy is not None:
            return await copy_in(self, input.copy)
        if input.query is not None:
            return _output(await self._query(parse_statement(input.query, input.params)))
        if input.command is not None:
            return _output(await self._command(parse_statements(input.command, input.params)))
        return failed("input", "`query`, `command` or `copy` is required")

    async def set_timeout(self) -> None:
        """Limits the statement on the server, in case the worker dies and cannot cancel it."""
        timeout = self.call.spec.get("timeout")
        seconds = timeout.get("total") if isinstance(timeout, dict) else timeout
        if isinstance(seconds, int | float) and seconds > 0:
            milliseconds = max(1, min(int(seconds * 1000), TIMEOUT_MAX_MS))
            await self.connection.execute(f"SET statement_timeout = {milliseconds}")

    async def _query(self, statement: Statement) -> StatementResult:
        _refuse(statement)
        prepared, values = await self.prepare(statement)
        if not prepared.get_attributes():
            return await self._run_alone(statement, prepared, values)
        return await self._collect(self.batches(statement, prepared, values))

    async def _collect(self, batches: AsyncGenerator[list[dict[str, JSON]], None]) -> StatementResult:
        """Raises TooLarge."""
        rows: list[dict[str, JSON]] = []
        size = 0
        async with aclosing(batches):
            async for batch in batches:
                size += self._batch_bytes
                if size > ROWS_BYTES_MAX:
                    raise rows_too_large(ROWS_BYTES_MAX)
                rows += batch
                self._limit.check(len(rows))
        return StatementResult(rows, len(rows))

    async def batches(
        self, statement: Statement, prepared: Any, values: list[Any]
    ) -> AsyncGenerator[list[dict[str, JSON]], None]:
        """Rows by a cursor, so that only one batch is in memory unless the caller keeps more. Raises TooLarge."""
        transaction = self.connection.transaction()
        await transaction.start()
        try:
            async with aclosing(self._cursor(prepared, values)) as batches:
                async for batch in batches:
                    yield batch
        except BaseException:
            await self._roll_back(transaction)
            raise
        self.unknown = statement.verb not in _READS
        await transaction.commit()

    async def _cursor(self, prepared: Any, values: list[Any]) -> AsyncGenerator[list[dict[str, JSON]], None]:
        """Batches of rows, inside a transaction. The number of rows in a batch depends on their size."""
        converter = RowConverter(prepared.get_attributes())
        row_bytes = ROW_BYTES + VALUE_BYTES * len(converter.names)
        cursor = await prepared.cursor(*values)
        wanted = FIRST_ROWS
        while True:
            with self._received.limited(ROWS_BYTES_MAX):
                records = await cursor.fetch(wanted)
            if not records:
                return
            received = self._received.count
            self._batch_bytes = received + row_bytes * len(records)
            if received > converter.JSON_BYTES_MIN:
                self._batch_bytes += converter.json_bytes(records)
                if self._batch_bytes > ROWS_BYTES_MAX:
                    raise rows_too_large(ROWS_BYTES_MAX)
            yield converter.convert(records)
            if len(records) < wanted:
                return
            wanted = max(1, min(BATCH_ROWS, BATCH_BYTES * len(records) // max(1, received)))

    async def _roll_back(self, transaction: Any) -> None:
        """Also after a cancellation. If the server does not answer, the connection is closed."""
        import asyncpg

        try:
            async with asyncio.timeout(ROLLBACK_S):
                await transaction.rollback()
        except Exception:  # noqa: BLE001  # any exception of the driver for a broken connection
            with suppress(asyncpg.InterfaceError):  # it was lost, so the pool has already dropped it
                self.connection.terminate()

    async def _command(self, statements: list[Statement]) -> StatementResult:
        for statement in statements:
            _refuse(statement)
        if len(statements) == 1:
            # Some statements, such as VACUUM, cannot run inside a transaction.
            prepared, values = await self.prepare(statements[0])
            if prepared.get_attributes() and statements[0].verb in _CURSOR:
                return await self._collect(self.batches(statements[0], prepared, values))
            return await self._run_alone(statements[0], prepared, values)
        rows: list[dict[str, JSON]] | None = None
        rowcount: int | None = None
        transaction = self.connection.transaction()
        await transaction.start()
        try:
            for statement in statements:
                prepared, values = await self.prepare(statement)
                if prepared.get_attributes() and statement.verb in _CURSOR:
                    result = await self._collect(self._cursor(prepared, values))
                else:
                    result = await self._fetch(prepared, values)
                rows = result.rows if result.rows is not None else rows
                rowcount = result.rowcount if result.rowcount is not None else rowcount
        except BaseException:
            await self._roll_back(transaction)
            raise
        self.unknown = True
        await transaction.commit()
        return StatementResult(rows, rowcount)

    async def _run_alone(self, statement: Statement, prepared: Any, values: list[Any]) -> StatementResult:
        self.unknown = statement.verb not in _READS
        return await self._fetch(prepared, values)

    async def _fetch(self, prepared: Any, values: list[Any]) -> StatementResult:
        with self._received.limited(ROWS_BYTES_MAX):
            records = await prepared.fetch(*values)
        self._limit.check(len(records))
        count = _count(prepared.get_statusmsg())
        attributes = prepared.get_attributes()
        if not attributes:
            return StatementResult(None, count)
        rows = RowConverter(attributes).convert(records)
        return StatementResult(rows, len(records) if count is None else count)

    async def prepare(self, statement: Statement) -> tuple[Any, list[Any]]:
        """The prepared statement, and its values in the form that its parameter types need."""
        text = statement.text(lambda index: f"${index + 1}")
        prepared = await self.connection.prepare(text)
        kinds = prepared.get_parameters()
        parameters = _encode_parameters(statement.values, kinds)
        if any(each.cast for each in parameters):
            text = statement.text(
                lambda index: cast_placeholder(index, kinds[index]) if parameters[index].cast else f"${index + 1}"
            )
            prepared = await self.connection.prepare(text)
        return prepared, [each.value for each in parameters]


def _encode_parameters(values: Sequence[JSON], kinds: Sequence[Any]) -> list[BoundValue]:
    if len(values) != len(kinds):
        raise InvalidInput("a value is inside quotes or a comment, where SQL allows none; remove the quotes")
    parameters = []
    for index, (value, kind) in enumerate(zip(values, kinds, strict=True)):
        try:
            parameters.append(encode_parameter(value, kind))
        except (ValueError, OverflowError):
            raise InvalidInput(f"the value of ${index + 1} does not fit the type {kind.name}") from None
    return parameters


def _refuse(statement: Statement) -> None:
    refuse_transactions(statement)
    words = [word.strip("();") for word in statement.pieces[0].upper().split()]
    if statement.verb == "COPY" and ("STDIN" in words or "STDOUT" in words):
        raise InvalidInput(
            "COPY with STDIN or STDOUT is not allowed; use `copy: {table, from_ref}` or `copy: {query, to}`"
        )


def _count(status: str) -> int | None:
    """The number in "INSERT 0 5"; None: the command reports none."""
    last = (status or "").rpartition(" ")[2]
    return int(last) if last.isascii() and last.isdigit() else None


def own_part(rowcount: int | None = None, sqlstate: JSON = None, message: str | None = None) -> dict[str, JSON]:
    """The tool's own part of the output."""
    return {"pg": {"code": sqlstate, "sqlstate": sqlstate, "message": message, "rowcount": rowcount}}


def _output(result: StatementResult) -> Output:
    return Output(data=result.rows, own=own_part(result.rowcount))


def failure_of(error: Exception, *, unknown: bool) -> Output:
    """An error of PostgreSQL or its driver, without values of the data.

    DETAIL, HINT and CONTEXT contain values of rows and are dropped; names of constraints, tables and columns
    are kept. `unknown`: a statement was sent that may have taken effect if the connection is lost.
    """
    import asyncpg

    match = _ARGUMENT.search(str(error))
    if match is not None:  # raised by the driver, with the value in its message
        message = f"the value of parameter ${match[1]} does not fit the type of the parameter"
        return _error_output(Failure(kind="postgres", message=message, details={"sqlstate": None}))
    if isinstance(error, asyncpg.PostgresError) and not isinstance(error, asyncpg.PostgresConnectionError):
        return _server_error(error)
    # Except for "connection is closed" and similar ones, an InterfaceError is an incorrect use of the driver.
    if isinstance(error, asyncpg.InterfaceError) and "clos" not in str(error):
        message = f"the PostgreSQL driver rejects the statement ({type(error).__name__})"
        return _error_output(Failure(kind="postgres", message=message, details={"sqlstate": None}))
    details: dict[str, JSON] = {"sqlstate": getattr(error, "sqlstate", None), "unknown": unknown}
    if isinstance(error, ValueError | TypeError | ArithmeticError):
        message = f"the PostgreSQL driver cannot decode the result ({type(error).__name__})"
        return _error_output(Failure(kind="postgres", message=message, details=details))
    note = "; the statement may or may not have taken effect" if unknown else ""
    message = f"the connection to PostgreSQL was lost ({type(error).__name__}){note}"
    return _error_output(Failure(kind="postgres", message=message, retryable=True, details=details))


def connection_failure(error: Exception) -> Output:
    """No connection was made, so no statement was sent."""
    import asyncpg

    if isinstance(error, asyncpg.PostgresError):
        return _server_error(error)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    return _error_output(
        Failure(
            kind="postgres",
            message=f"PostgreSQL is unreachable: {reason}",
            retryable=True,
            details={"sqlstate": None, "unknown": False},
        )
    )


def is_credential_error(error: Exception) -> bool:
    return CREDENTIAL.fullmatch(str(getattr(error, "sqlstate", None))) is not None


def _server_error(error: Any) -> Output:
    state = str(error.sqlstate or "")
    message = str(error.args[0]) if error.args else type(error).__name__
    if state.startswith("22"):
        message = _VALUES.sub('"…"', message)  # invalid input syntax for type integer: "…"
    details: dict[str, JSON] = {"sqlstate": state or None}
    for name in _NAMES:
        if (value := getattr(error, name, None)) is not None:
            details[name.removesuffix("_name")] = str(value)
    if UNKNOWN.fullmatch(state):
        details["unknown"] = True
    kind = "timeout" if state == CANCELED else "postgres"
    retryable = state == CANCELED or RETRYABLE.fullmatch(state) is not None
    return _error_output(Failure(kind=kind, message=message[:1000], retryable=retryable, details=details))


def _error_output(failure: Failure) -> Output:
    own = own_part(sqlstate=failure.details.get("sqlstate"), message=failure.message)
    return Output(status="error", error=failure, own=own)
