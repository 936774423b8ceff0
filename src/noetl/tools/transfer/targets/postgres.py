"""Write rows into a PostgreSQL table with COPY, in one transaction.

`upsert` copies them to a temporary table first, because COPY cannot update rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

import msgspec

from noetl.output import JSON, Output
from noetl.tool import Auth, Call
from noetl.tools.errors import InvalidInput
from noetl.tools.payload import bytes_of_base64
from noetl.tools.postgres.rows import PostgresRows
from noetl.tools.postgres.session import ROLLBACK_S, PostgresSession, failure_of
from noetl.tools.postgres.values import array_text
from noetl.tools.sql.formats import csv_field, csv_text
from noetl.tools.sql.stored import Stored, quoted_column, quoted_table, stored_ref
from noetl.tools.transfer.rows import Batches, Written
from noetl.tools.transfer.targets.table import TableWrite, json_value, on_conflict

STAGING: Final = "noetl_transfer"  # the temporary table
ORDER: Final = "noetl_transfer_row"  # its column with the order of the rows
_encode = msgspec.json.Encoder().encode


class PostgresTarget:
    """Implements TransferWriter."""

    def __init__(self, database: PostgresRows, write: TableWrite, auth: Auth, call: Call) -> None:
        self._database = database
        self._write = write
        self._auth = auth
        self._call = call
        self._committing = False

    async def write(self, columns: list[str], batches: Batches) -> Written:
        ref = stored_ref(Stored(table=self._write.table, columns=columns), {"system": "postgres"}, self._auth.name)
        async with self._database.connected() as connection:
            await PostgresSession(connection, self._call).set_timeout()
            transaction = connection.transaction()
            await transaction.start()
            try:
                await self._copy(connection, columns, batches)
            except BaseException:
                await _roll_back(connection, transaction)
                raise
            self._committing = True
            await transaction.commit()
        return Written(ref)

    async def _copy(self, connection: Any, columns: list[str], batches: Batches) -> None:
        table, names = quoted_table(self._write.table), ", ".join(map(quoted_column, columns))
        prepared = await connection.prepare(f"SELECT {names} FROM {table}")
        lines = _csv(batches, [_field_for(each.type) for each in prepared.get_attributes()])
        if self._write.mode == "replace":
            await connection.execute(f"DELETE FROM {table}")
        if self._write.mode != "upsert":
            schema, _, name = self._write.table.rpartition(".")
            await connection.copy_to_table(
                name, schema_name=schema or None, columns=columns, source=lines, format="csv"
            )
            return
        if ORDER in columns:
            raise InvalidInput(f'a column has the reserved name "{ORDER}"')
        await connection.execute(f"CREATE TEMP TABLE {STAGING} ON COMMIT DROP AS SELECT {names} FROM {table} LIMIT 0")
        await connection.execute(f"ALTER TABLE {STAGING} ADD COLUMN {ORDER} bigint GENERATED ALWAYS AS IDENTITY")
        await connection.copy_to_table(STAGING, columns=columns, source=lines, format="csv")
        key = ", ".join(map(quoted_column, self._write.key))
        last = f"SELECT DISTINCT ON ({key}) {names} FROM {STAGING} ORDER BY {key}, {ORDER} DESC"
        await connection.execute(f"INSERT INTO {table} ({names}) {last}{on_conflict(self._write, columns)}")

    def failure(self, error: Exception) -> Output:
        return failure_of(error, unknown=True) if self._committing else self._database.failure(error)


async def _roll_back(connection: Any, transaction: Any) -> None:
    """Roll back, even after a cancellation. If the server does not answer, the connection is closed."""
    try:
        async with asyncio.timeout(ROLLBACK_S):
            await transaction.rollback()
    except Exception:  # noqa: BLE001  # any exception of the driver for a broken connection
        connection.terminate()


async def _csv(batches: Batches, fields: Sequence[Callable[[JSON], str]]) -> AsyncIterator[bytes]:
    """Rows for COPY: an empty field is NULL, and text is always quoted."""
    async for batch in batches:
        lines = [",".join([field(value) for field, value in zip(fields, row.values(), strict=True)]) for row in batch]
        yield ("\n".join(lines) + "\n").encode()


def _field_for(kind: Any) -> Callable[[JSON], str]:
    """The function that writes a value of this column type as a CSV field."""
    if kind.kind == "array":
        return _array
    if kind.name == "bytea":
        return _binary
    if kind.name in ("json", "jsonb"):
        return lambda value: "" if value is None else csv_text(_encode(json_value(value)).decode())
    return csv_field


def _array(value: JSON) -> str:
    value = json_value(value)
    return csv_text(array_text(value)) if type(value) is list else csv_field(value)


def _binary(value: JSON) -> str:
    try:
        body = bytes_of_base64(json_value(value))
    except ValueError:
        raise InvalidInput("a value of a bytea column is not valid base64") from None
    return csv_field(value) if body is None else csv_text(f"\\x{body.hex()}")
