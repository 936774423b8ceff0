"""Rows as bytes and bytes as rows: NDJSON, CSV and JSON, in a stream.

In CSV an empty field is null, and text is always quoted.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Final, Literal, TypeAlias

import msgspec

from noetl.output import JSON
from noetl.tools.errors import InvalidInput

JSON_BYTES_MAX = 256 * 1024 * 1024  # of one JSON list; NDJSON and CSV have no limit
LINE_BYTES_MAX = 16 * 1024 * 1024  # of one row of NDJSON, or of the header line of CSV
CHUNK_BYTES = 256 * 1024
NDJSON = "application/x-ndjson"
CSV = "text/csv"
RowFormat: TypeAlias = Literal["ndjson", "csv"]
CONTENT_TYPES: Final[dict[str, str]] = {"ndjson": NDJSON, "csv": CSV}
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines


async def encoded(
    batches: AsyncIterator[list[dict[str, JSON]]], columns: list[str], to: RowFormat
) -> AsyncGenerator[bytes, None]:
    """Rows as bytes, in chunks of about CHUNK_BYTES."""
    gathered = [csv_lines([columns])] if to == "csv" else []
    size = 0
    async for batch in batches:
        lines = csv_lines([*map(dict.values, batch)]) if to == "csv" else _encode_lines(batch)
        gathered.append(lines)
        size += len(lines)
        if size >= CHUNK_BYTES:
            yield b"".join(gathered)
            gathered, size = [], 0
    yield b"".join(gathered)


async def read_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[JSON]]:
    """Rows of NDJSON, one list for each chunk that was read."""
    rest, number = b"", 0
    async for chunk in chunks:
        if b"\n" not in chunk:
            rest += chunk
            if len(rest) > LINE_BYTES_MAX:
                raise InvalidInput(f"line {number + 1} is too long (limit LINE_BYTES_MAX: {LINE_BYTES_MAX:,} bytes)")
            continue
        *lines, rest = (rest + chunk).split(b"\n")
        yield _decode_lines(lines, number)
        number += len(lines)
    yield _decode_lines([rest], number)


def _decode_lines(lines: list[bytes], before: int) -> list[JSON]:
    try:
        return [_decode(line) for line in lines if line and not line.isspace()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidInput(f"a line after line {before:,} is not valid JSON") from None


async def read_list(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[JSON]]:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > JSON_BYTES_MAX:
            raise InvalidInput(
                f"the JSON list is too long (limit JSON_BYTES_MAX: {JSON_BYTES_MAX:,} bytes); use NDJSON"
            )
    try:
        rows = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidInput("the payload is not valid JSON") from None
    if type(rows) is not list:
        raise InvalidInput("the payload is not a list of rows")
    for start in range(0, len(rows), 10_000):
        yield rows[start : start + 10_000]


def csv_lines(rows: Iterable[Iterable[JSON]]) -> bytes:
    return ("".join(",".join(csv_field(value) for value in row) + "\n" for row in rows)).encode()


def csv_field(value: JSON) -> str:
    kind = type(value)
    if kind is str:
        return csv_text(value)
    if kind is int or kind is float:
        return repr(value)
    if value is None:
        return ""
    if kind is bool:
        return "true" if value else "false"
    return csv_text(_encode(value).decode())


def csv_text(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
