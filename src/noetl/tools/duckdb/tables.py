"""Tables of a DuckDB call, from Refs and rows to files in its folder; and its result, on the way back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from noetl.output import JSON
from noetl.tool import Call
from noetl.tools.duckdb.session import Table, Unfit
from noetl.tools.json_values import is_json
from noetl.tools.resolve import is_ref

if TYPE_CHECKING:
    from noetl.tools.duckdb.session import Session

CHUNK_BYTES = 1 << 18
TABLES_MAX = 100
OBJECT_BYTES_MAX = 16 * 1024 * 1024  # of one row of JSON; DuckDB keeps room for it for each thread

CONTENT_TYPES: Final = {
    "parquet": "application/vnd.apache.parquet",
    "csv": "text/csv",
    "json": "application/json",
}
_LINES: Final = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}
)
_PARQUET: Final = b"PAR1"  # what such a file begins with, whatever its Ref says of it


async def stage(tables: Mapping[str, JSON], session: Session, call: Call) -> None:
    """Put the tables on disk, no more than may be. Raises Unfit, and what the result store raises."""
    if len(tables) > TABLES_MAX:
        raise Unfit(f"there are {len(tables)} tables (limit TABLES_MAX: {TABLES_MAX})")
    left = session.disk_bytes
    for place, (name, source) in enumerate(tables.items()):
        file = session.folder / f"table_{place}"
        if is_ref(source):
            left = await _fetch(source, file, left, call)
            session.tables.append(await asyncio.to_thread(_described, name, file, source))
        elif isinstance(source, list) and all(isinstance(row, dict) for row in source):
            body = msgspec.json.encode(source)
            left = _charged(left, len(body))
            await asyncio.to_thread(file.write_bytes, body)
            session.tables.append(Table(name, file, _json("array"), lasting=True))
        else:
            raise Unfit(f'table "{name}" takes a Ref, as output.ref is, or a list of mappings')


async def _fetch(ref: dict[str, JSON], file: Path, left: int, call: Call) -> int:
    with file.open("wb") as opened:
        async for chunk in call.results.read(ref):
            left = _charged(left, len(chunk))
            opened.write(chunk)
    return left


def _charged(left: int, size: int) -> int:
    if size > left:
        raise Unfit("the tables are too large (the limit is spec.disk_mb)", "payload-too-large")
    return left - size


def _described(name: str, file: Path, ref: dict[str, JSON]) -> Table:
    """How it is read: by what its Ref says that it is."""
    with file.open("rb") as opened:
        if opened.read(len(_PARQUET)) == _PARQUET:
            return Table(name, file, "read_parquet({file})", lasting=False)
    content_type = str(ref.get("meta", {}).get("content_type", "application/json"))
    media = content_type.partition(";")[0].strip().lower()
    if media in _LINES:
        return Table(name, file, _json("newline_delimited"), lasting=True)
    if is_json(media):
        return Table(name, file, _json("auto"), lasting=True)
    if media in ("text/csv", "application/csv"):
        return Table(name, file, "read_csv({file})", lasting=True)
    raise Unfit(f'table "{name}" is {content_type}, and only JSON, lines of JSON, CSV and Parquet are tables')


def _json(form: str) -> str:
    return f"read_json({{file}}, format='{form}', maximum_object_size={OBJECT_BYTES_MAX})"


async def chunks(file: Path) -> AsyncIterator[bytes]:
    with file.open("rb") as opened:
        while chunk := await asyncio.to_thread(opened.read, CHUNK_BYTES):
            yield chunk
