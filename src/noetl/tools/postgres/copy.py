"""COPY: rows of a Ref into a table, and rows of a query into a Ref. Both are streamed.

Rows are sent to a table as CSV, because PostgreSQL parses it for columns of every type.
"""

from __future__ import annotations

import csv
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from noetl.output import JSON, Output
from noetl.template.filters.sql import sql_ident
from noetl.template.limits import Meter
from noetl.template.values import TemplateError
from noetl.tools.errors import InvalidInput
from noetl.tools.payload import is_json, is_ref, media_type
from noetl.tools.postgres.session import own_part
from noetl.tools.postgres.values import RowConverter, array_text
from noetl.tools.sql.formats import CSV, LINE_BYTES_MAX, NDJSON, csv_field, csv_text, encoded, read_lines, read_list
from noetl.tools.sql.statements import Params, parse_statement

if TYPE_CHECKING:
    from noetl.tools.postgres.session import PostgresSession
    from noetl.tools.postgres.tool import Copy


async def copy_in(session: PostgresSession, copy: Copy) -> Output:
    if copy.table is None or copy.from_ref is None:
        raise InvalidInput("`copy` needs `table` and `from_ref`, or `query` and `to`")
    if not is_ref(copy.from_ref):
        raise InvalidInput("`from_ref` must be a Ref, the value of `output.ref` of an earlier task")
    schema, table = _table_name(copy.table)
    chunks = session.call.results.read(copy.from_ref)
    meta = copy.from_ref.get("meta")
    content_type = str(meta.get("content_type", "")) if isinstance(meta, dict) else ""
    media = media_type(content_type)
    if media == CSV:
        columns, source = await _csv_source(chunks, copy.columns)
    elif is_json(content_type):
        columns, source = await _row_source(session, copy, read_list(chunks))
    else:
        columns, source = await _row_source(session, copy, read_lines(chunks))
    session.unknown = True
    status = await session.connection.copy_to_table(
        table, schema_name=schema, columns=columns, source=source, format="csv", header=media == CSV
    )
    count = int(str(status).rpartition(" ")[2])
    return Output(data={"rows": count}, own=own_part(count))


def _table_name(name: str) -> tuple[str | None, str]:
    """Schema and table of `schema.table`; the driver quotes them."""
    try:
        sql_ident(Meter(), name)
    except TemplateError as error:
        raise InvalidInput(f"`table` is not a table name: {error.message}") from None
    schema, _, table = name.rpartition(".")
    return schema or None, table


async def _csv_source(
    chunks: AsyncIterator[bytes], columns: list[str] | None
) -> tuple[list[str] | None, AsyncIterator[bytes]]:
    """The columns are those of the header line, unless the task names them."""
    head = b""
    async for chunk in chunks:
        head += chunk
        if b"\n" in head:
            break
        if len(head) > LINE_BYTES_MAX:
            raise InvalidInput(
                f"the header line of the CSV is too long (limit LINE_BYTES_MAX: {LINE_BYTES_MAX:,} bytes)"
            )
    first = head.partition(b"\n")[0].removeprefix(b"\xef\xbb\xbf")
    names = columns or next(csv.reader([first.decode("utf-8", "replace").rstrip("\r")]), None)
    if not names:
        raise InvalidInput("the CSV has no header line; name the columns in `columns`")

    async def source() -> AsyncIterator[bytes]:
        yield head.removeprefix(b"\xef\xbb\xbf")
        async for chunk in chunks:
            yield chunk

    return names, source()


async def _row_source(
    session: PostgresSession, copy: Copy, batches: AsyncIterator[list[JSON]]
) -> tuple[list[str] | None, AsyncIterator[bytes]]:
    """Rows as CSV. The columns are the keys of the first row, unless the task names them."""
    first: list[JSON] = []
    async for batch in batches:
        if batch:
            first = batch
            break
    columns = copy.columns
    if columns is None:
        if first and type(first[0]) is not dict:
            raise InvalidInput("`columns` is required if rows are lists")
        columns = list(first[0]) if first else None
    writer = _CsvWriter(columns or [], await _array_columns(session, copy, columns or []), strict=copy.columns is None)

    async def source() -> AsyncIterator[bytes]:
        yield writer.text(first)
        async for batch in batches:
            yield writer.text(batch)

    return columns, source()


async def _array_columns(session: PostgresSession, copy: Copy, columns: list[str]) -> set[int]:
    """Indexes of array columns: a list is written to them as an array, and to other columns as JSON."""
    if not columns:
        return set()
    try:
        named = ", ".join(sql_ident(Meter(), [column]) for column in columns)
        table = sql_ident(Meter(), copy.table)
    except TemplateError as error:
        raise InvalidInput(f"a column name is not valid in SQL: {error.message}") from None
    prepared = await session.connection.prepare(f"SELECT {named} FROM {table}")
    kinds = [attribute.type.kind for attribute in prepared.get_attributes()]
    return {index for index, kind in enumerate(kinds) if kind == "array"}


class _CsvWriter:
    """Rows → CSV for COPY: an empty field is NULL, and text is always quoted."""

    def __init__(self, columns: list[str], arrays: set[int], *, strict: bool) -> None:
        self._columns = columns
        self._known = set(columns)
        self._strict = strict  # reject a key that the first row does not have, because its value would be lost
        self._arrays = [index in arrays for index in range(len(columns))]
        self._rows = 0

    def text(self, rows: list[JSON]) -> bytes:
        lines = []
        for row in rows:
            self._rows += 1
            lines.append(",".join(map(_field, self._values(row), self._arrays)))
        return ("\n".join(lines) + "\n").encode() if lines else b""

    def _values(self, row: JSON) -> list[JSON]:
        if type(row) is dict:
            if self._strict and not row.keys() <= self._known:
                key = next(key for key in row if key not in self._known)
                raise InvalidInput(
                    f'row {self._rows:,} has the key "{key[:60]}", which the first row does not have; '
                    "name all columns in `columns`"
                )
            get = row.get
            return [get(column) for column in self._columns]
        if type(row) is list and len(row) == len(self._columns):
            return row
        raise InvalidInput(f"row {self._rows:,} is neither a mapping nor a list of {len(self._columns)} values")


def _field(value: JSON, array: bool) -> str:
    return csv_text(array_text(value)) if array and type(value) is list else csv_field(value)


async def copy_out(session: PostgresSession, copy: Copy, params: Params) -> Output:
    """COPY TO does not support bound values, so the rows are read with a cursor."""
    assert copy.query is not None
    statement = parse_statement(copy.query, params)
    prepared, values = await session.prepare(statement)
    names = RowConverter(prepared.get_attributes()).names
    if not names:
        raise InvalidInput("the query of `copy` returns no columns")
    count = 0

    async def batches() -> AsyncGenerator[list[dict[str, JSON]], None]:
        nonlocal count
        async with aclosing(session.batches(statement, prepared, values)) as read:
            async for batch in read:
                count += len(batch)
                yield batch

    content_type = CSV if copy.to == "csv" else NDJSON
    async with aclosing(batches()) as rows, aclosing(encoded(rows, names, copy.to)) as source:
        ref = await session.call.results.write(session.call.execution_id, source, content_type)
    return Output(data={"rows": count}, ref={**ref, "meta": {**ref["meta"], "count": count}}, own=own_part(count))
