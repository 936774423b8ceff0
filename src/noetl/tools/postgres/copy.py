"""COPY: rows of a reference into a table, rows of a query into a reference; streamed both ways.

Into a table everything goes as CSV, which PostgreSQL's own input reads, whatever the columns' types are.
"""

from __future__ import annotations

import csv
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from noetl.output import JSON, Output
from noetl.template.filters.sql import sql_ident
from noetl.template.limits import Meter
from noetl.template.values import TemplateError
from noetl.tools.json_values import is_json
from noetl.tools.postgres.values import Rows, array_text
from noetl.tools.resolve import is_ref
from noetl.tools.sql_text import Params, one_statement

if TYPE_CHECKING:
    from noetl.tools.postgres.session import Session
    from noetl.tools.postgres.tool import Copy

JSON_BYTES_MAX = 256 * 1024 * 1024  # of one JSON list; NDJSON and CSV have no limit
LINE_BYTES_MAX = 16 * 1024 * 1024  # of one row of NDJSON, or of the header of CSV
CHUNK_BYTES = 256 * 1024
NDJSON = "application/x-ndjson"
CSV = "text/csv"
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines


class BadRows(Exception):
    """What is to be copied can not be read as rows; the message shows no value."""


async def copied_in(session: Session, copy: Copy) -> Output:
    if copy.table is None or copy.from_ref is None:
        raise BadRows("`copy` needs `table` and `from_ref`, or `query` and `to`")
    if not is_ref(copy.from_ref):
        raise BadRows("`from_ref` takes a Ref, a mapping with type, locator and meta, as output.ref is")
    schema, table = _table_name(copy.table)
    chunks = session.call.results.read(copy.from_ref)
    meta = copy.from_ref.get("meta")
    content_type = str(meta.get("content_type", "")) if isinstance(meta, dict) else ""
    media = content_type.partition(";")[0].strip().lower()
    if media == CSV:
        columns, source = await _csv(chunks, copy.columns)
    elif is_json(content_type):
        columns, source = await _objects(session, copy, _listed(chunks))
    else:
        columns, source = await _objects(session, copy, _lines(chunks))
    session.unknown = True
    status = await session.connection.copy_to_table(
        table, schema_name=schema, columns=columns, source=source, format="csv", header=media == CSV
    )
    count = int(str(status).rpartition(" ")[2])
    return Output(data={"rows": count}, own={"pg": {"code": None, "sqlstate": None, "rowcount": count}})


def _table_name(name: str) -> tuple[str | None, str]:
    """The parts of `schema.table`; the driver quotes them."""
    try:
        sql_ident(Meter(), name)
    except TemplateError as error:
        raise BadRows(f"`table` is no name: {error.message}") from None
    schema, _, table = name.rpartition(".")
    return schema or None, table


async def _csv(
    chunks: AsyncIterator[bytes], columns: list[str] | None
) -> tuple[list[str] | None, AsyncIterator[bytes]]:
    """The header says which columns there are, unless the author does."""
    head = b""
    async for chunk in chunks:
        head += chunk
        if b"\n" in head:
            break
        if len(head) > LINE_BYTES_MAX:
            raise BadRows(
                f"the header of the CSV is too long (limit LINE_BYTES_MAX: {LINE_BYTES_MAX:,} bytes)"
            )
    first = head.partition(b"\n")[0].removeprefix(b"\xef\xbb\xbf")
    names = columns or next(csv.reader([first.decode("utf-8", "replace").rstrip("\r")]), None)
    if not names:
        raise BadRows("the CSV has no header, and `columns` names none")

    async def source() -> AsyncIterator[bytes]:
        yield head.removeprefix(b"\xef\xbb\xbf")
        async for chunk in chunks:
            yield chunk

    return names, source()


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[JSON]]:
    """Rows of NDJSON, as many at once as came together."""
    rest, number = b"", 0
    async for chunk in chunks:
        if b"\n" not in chunk:
            rest += chunk
            if len(rest) > LINE_BYTES_MAX:
                raise BadRows(
                    f"line {number + 1} is too long (limit LINE_BYTES_MAX: {LINE_BYTES_MAX:,} bytes)"
                )
            continue
        *lines, rest = (rest + chunk).split(b"\n")
        yield _decoded(lines, number)
        number += len(lines)
    yield _decoded([rest], number)


def _decoded(lines: list[bytes], before: int) -> list[JSON]:
    try:
        return [_decode(line) for line in lines if line and not line.isspace()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadRows(f"a line after {before:,} is no JSON") from None


async def _listed(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[JSON]]:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > JSON_BYTES_MAX:
            raise BadRows(
                f"the list is too long (limit JSON_BYTES_MAX: {JSON_BYTES_MAX:,} bytes); use NDJSON"
            )
    try:
        rows = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadRows("the reference is no JSON") from None
    if type(rows) is not list:
        raise BadRows("the reference is no list of rows")
    for place in range(0, len(rows), 10_000):
        yield rows[place : place + 10_000]


async def _objects(
    session: Session, copy: Copy, batches: AsyncIterator[list[JSON]]
) -> tuple[list[str] | None, AsyncIterator[bytes]]:
    """Rows as CSV. The first says which columns there are, unless the author does."""
    first: list[JSON] = []
    async for batch in batches:
        if batch:
            first = batch
            break
    columns = copy.columns
    if columns is None:
        if first and type(first[0]) is not dict:
            raise BadRows("`columns` must be given where rows are lists")
        columns = list(first[0]) if first else None
    writer = _Writer(columns or [], await _arrays(session, copy, columns or []), strict=copy.columns is None)

    async def source() -> AsyncIterator[bytes]:
        yield writer.text(first)
        async for batch in batches:
            yield writer.text(batch)

    return columns, source()


async def _arrays(session: Session, copy: Copy, columns: list[str]) -> set[int]:
    """The places of columns that hold arrays: a list goes there as one, and elsewhere as JSON."""
    if not columns:
        return set()
    try:
        named = ", ".join(sql_ident(Meter(), [column]) for column in columns)
        table = sql_ident(Meter(), copy.table)
    except TemplateError as error:
        raise BadRows(f"a column has no name that SQL takes: {error.message}") from None
    prepared = await session.connection.prepare(f"SELECT {named} FROM {table}")
    kinds = [attribute.type.kind for attribute in prepared.get_attributes()]
    return {place for place, kind in enumerate(kinds) if kind == "array"}


class _Writer:
    """Rows → CSV as COPY reads it: nothing at all is NULL, and every text is in quotes."""

    def __init__(self, columns: list[str], arrays: set[int], *, strict: bool) -> None:
        self._columns = columns
        self._known = set(columns)
        self._strict = strict  # a key that the first row has not would be lost
        self._arrays = [place in arrays for place in range(len(columns))]
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
                raise BadRows(
                    f'row {self._rows:,} has a key "{key[:60]}" that the first has not; name `columns`'
                )
            get = row.get
            return [get(column) for column in self._columns]
        if type(row) is list and len(row) == len(self._columns):
            return row
        raise BadRows(f"row {self._rows:,} is neither an object nor a list of {len(self._columns)} values")


def _field(value: JSON, array: bool) -> str:
    kind = type(value)
    if kind is str:
        return _quoted(value)
    if kind is int or kind is float:
        return repr(value)
    if value is None:
        return ""
    if kind is bool:
        return "true" if value else "false"
    text = array_text(value) if array and kind is list else _encode(value).decode()
    return _quoted(text)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


async def copied_out(session: Session, copy: Copy, params: Params) -> Output:
    """COPY TO takes no bound values, so the rows come by a cursor."""
    assert copy.query is not None
    statement = one_statement(copy.query, params)
    prepared, values = await session.prepare(statement)
    names = Rows(prepared.get_attributes()).names
    if not names:
        raise BadRows("the query of `copy` gives no rows")
    counted = _Counted()

    async def chunks() -> AsyncGenerator[bytes, None]:
        gathered = [_csv_lines([names])] if copy.to == "csv" else []
        size = 0
        async with aclosing(session.batches(statement, prepared, values)) as batches:
            async for batch in batches:
                counted.rows += len(batch)
                lines = _csv_lines([*map(dict.values, batch)]) if copy.to == "csv" else _encode_lines(batch)
                gathered.append(lines)
                size += len(lines)
                if size >= CHUNK_BYTES:
                    yield b"".join(gathered)
                    gathered, size = [], 0
        yield b"".join(gathered)

    content_type = CSV if copy.to == "csv" else NDJSON
    async with aclosing(chunks()) as source:
        ref = await session.call.results.write(session.call.execution_id, source, content_type)
    own = {"pg": {"code": None, "sqlstate": None, "rowcount": counted.rows}}
    return Output(data={"rows": counted.rows}, ref=ref, own=own)


class _Counted:
    rows = 0


def _csv_lines(rows: Iterable[Iterable[JSON]]) -> bytes:
    """The form that `copied_in` reads: nothing at all is null, and text is in quotes."""
    return ("".join(",".join(_field(value, False) for value in row) + "\n" for row in rows)).encode()
