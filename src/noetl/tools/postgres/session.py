"""One call on one connection of PostgreSQL: statements prepared, values fitted to them, rows read in batches.

The extended protocol is used always: a text of several statements is cut by us and never sent whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

from noetl.errors import NoetlError, Unavailable
from noetl.output import JSON, Output, failed
from noetl.tool import Call
from noetl.tools.postgres.errors import failure_of
from noetl.tools.postgres.values import Fitted, Rows, cast_to, fitted
from noetl.tools.sql_text import BadSql, Statement, one_statement, refuse_transactions, statements

if TYPE_CHECKING:
    from noetl.tools.postgres.tool import PostgresInput

BATCH_ROWS = 1_000
ROLLBACK_S = 5.0
TIMEOUT_MAX_MS = 2_147_483_647
_READS = frozenset({"SELECT", "VALUES", "SHOW", "TABLE"})


class Done(NamedTuple):
    """What one statement gave."""

    rows: list[dict[str, JSON]] | None  # None: it gives none
    touched: int | None  # so many rows; None: it does not say


class TooManyRows(Exception):
    """More than spec.max_rows."""


class Session:
    """A connection in the hand of one call."""

    def __init__(self, connection: Any, call: Call) -> None:
        self.connection = connection
        self.call = call
        self.unknown = False  # what was sent may have been done, should the connection be lost now
        limit = call.spec.get("max_rows")
        self._max_rows = limit if isinstance(limit, int) else None

    async def run(self, input: PostgresInput) -> Output:
        from noetl.tools.postgres.copy import BadRows, copied_in, copied_out

        try:
            await self._limit_time()
            if input.copy is not None and input.copy.query is not None:
                return await copied_out(self, input.copy, input.params)
            if input.copy is not None:
                return await copied_in(self, input.copy)
            if input.query is not None:
                return _told(await self._query(one_statement(input.query, input.params)))
            if input.command is not None:
                return _told(await self._command(statements(input.command, input.params)))
            return failed("input", "`query`, `command` or `copy` must be given")
        except BadSql as error:
            return failed("input", str(error))
        except BadRows as error:
            return failed("input", str(error))
        except TooManyRows as error:
            return failed("payload-too-large", str(error))
        except NoetlError as error:  # of the result store
            return failed("reference", str(error), retryable=isinstance(error, Unavailable))
        except Exception as error:  # noqa: BLE001  # the driver raises OSError, its own, and others
            return failure_of(error, unknown=self.unknown)

    async def _limit_time(self) -> None:
        """For the case that nobody is left to cancel it."""
        timeout = self.call.spec.get("timeout")
        seconds = timeout.get("total") if isinstance(timeout, dict) else timeout
        if isinstance(seconds, int | float) and seconds > 0:
            milliseconds = max(1, min(int(seconds * 1000), TIMEOUT_MAX_MS))
            await self.connection.execute(f"SET statement_timeout = {milliseconds}")

    async def _query(self, statement: Statement) -> Done:
        _refuse(statement)
        prepared, values = await self.prepare(statement)
        if not prepared.get_attributes():
            return await self._alone(statement, prepared, values)
        rows: list[dict[str, JSON]] = []
        async with aclosing(self.batches(statement, prepared, values)) as batches:
            async for batch in batches:
                rows += batch
                self._check_rows(len(rows))
        return Done(rows, len(rows))

    async def batches(
        self, statement: Statement, prepared: Any, values: list[Any]
    ) -> AsyncGenerator[list[dict[str, JSON]], None]:
        """Rows by way of a cursor, so that nobody holds more than one batch that does not want to."""
        reader = Rows(prepared.get_attributes())
        transaction = self.connection.transaction()
        await transaction.start()
        try:
            cursor = await prepared.cursor(*values)
            while records := await cursor.fetch(BATCH_ROWS):
                yield reader.objects(records)
                if len(records) < BATCH_ROWS:
                    break
        except BaseException:
            await self._roll_back(transaction)
            raise
        self.unknown = statement.verb not in _READS
        await transaction.commit()

    async def _roll_back(self, transaction: Any) -> None:
        """Also when the call is cancelled; a server that does not answer loses the connection."""
        try:
            async with asyncio.timeout(ROLLBACK_S):
                await transaction.rollback()
        except Exception:  # noqa: BLE001  # what the driver raises of a connection that is not whole
            self.connection.terminate()

    async def _command(self, found: list[Statement]) -> Done:
        for statement in found:
            _refuse(statement)
        if len(found) == 1:
            # Some statements, VACUUM for one, run outside of a transaction only.
            prepared, values = await self.prepare(found[0])
            return await self._alone(found[0], prepared, values)
        rows: list[dict[str, JSON]] | None = None
        touched: int | None = None
        transaction = self.connection.transaction()
        await transaction.start()
        try:
            for statement in found:
                prepared, values = await self.prepare(statement)
                done = await self._fetched(prepared, values)
                rows = done.rows if done.rows is not None else rows
                touched = done.touched if done.touched is not None else touched
        except BaseException:
            await self._roll_back(transaction)
            raise
        self.unknown = True
        await transaction.commit()
        return Done(rows, touched)

    async def _alone(self, statement: Statement, prepared: Any, values: list[Any]) -> Done:
        self.unknown = statement.verb not in _READS
        return await self._fetched(prepared, values)

    async def _fetched(self, prepared: Any, values: list[Any]) -> Done:
        records = await prepared.fetch(*values)
        self._check_rows(len(records))
        count = _count(prepared.get_statusmsg())
        attributes = prepared.get_attributes()
        if not attributes:
            return Done(None, count)
        return Done(Rows(attributes).objects(records), len(records) if count is None else count)

    async def prepare(self, statement: Statement) -> tuple[Any, list[Any]]:
        """The statement, and its values as the types of its parameters want them."""
        text = statement.text(lambda place: f"${place + 1}")
        prepared = await self.connection.prepare(text)
        kinds = prepared.get_parameters()
        parts = _fitted(statement.values, kinds)
        if any(part.cast for part in parts):
            text = statement.text(
                lambda place: cast_to(place, kinds[place]) if parts[place].cast else f"${place + 1}"
            )
            prepared = await self.connection.prepare(text)
        return prepared, [part.value for part in parts]

    def _check_rows(self, count: int) -> None:
        if self._max_rows is not None and count > self._max_rows:
            raise TooManyRows(f"there are more rows than spec.max_rows: {self._max_rows:,}")


def _fitted(values: Sequence[JSON], kinds: Sequence[Any]) -> list[Fitted]:
    if len(values) != len(kinds):
        raise BadSql("a value stands where SQL takes none, inside quotes or a comment")
    parts = []
    for place, (value, kind) in enumerate(zip(values, kinds, strict=True)):
        try:
            parts.append(fitted(value, kind))
        except (ValueError, OverflowError):
            raise BadSql(f"the value of ${place + 1} does not fit {kind.name}") from None
    return parts


def _refuse(statement: Statement) -> None:
    refuse_transactions(statement)
    words = [word.strip("();") for word in statement.pieces[0].upper().split()]
    if statement.verb == "COPY" and ("STDIN" in words or "STDOUT" in words):
        raise BadSql(
            "COPY from and to the client is written `copy: {table, from_ref}` or `copy: {query, to}`"
        )


def _count(status: str) -> int | None:
    """Of "INSERT 0 5"; None: the command tells no number."""
    last = (status or "").rpartition(" ")[2]
    return int(last) if last.isascii() and last.isdigit() else None


def _told(done: Done) -> Output:
    return Output(data=done.rows, own={"pg": {"code": None, "sqlstate": None, "rowcount": done.touched}})
