"""Where a transfer reads from: a query or table of a database, or an object in one of several formats."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from noetl.output import JSON, Output
from noetl.tool import Auth, Call
from noetl.tools.errors import InvalidInput
from noetl.tools.sql.formats import read_lines, read_list
from noetl.tools.sql.statements import Statement, parse_statement
from noetl.tools.sql.stored import Rows, rows_statement
from noetl.tools.systems import Systems
from noetl.tools.transfer.csv_reader import CsvReader
from noetl.tools.transfer.rows import SourceRows
from noetl.tools.transfer.tool import TransferSource

if TYPE_CHECKING:
    from noetl.tools.object.stores import ObjectUrl

FORMATS: Final = {".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "json", ".parquet": "parquet"}
PIECE_BYTES: Final = 64 * 1024
_READS: Final = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "FROM"})


class DatabaseSource:
    """Implements TransferReader."""

    def __init__(self, source: TransferSource, systems: Systems, auth: Auth | None, call: Call) -> None:
        """Raises ToolError."""
        if (source.query is None) == (source.table is None):
            raise InvalidInput("a database needs exactly one of `query` and `table`")
        if source.kind != "postgres" and source.path is None:
            raise InvalidInput("`path`, the database file, is required")
        self._statement = _statement(source)
        self._source = systems.rows({"system": source.kind, "path": source.path}, auth, call)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SourceRows]:
        async with self._source.open(self._statement) as rows:
            yield SourceRows(rows.columns, _as_json(rows.batches), complete=True)

    def failure(self, error: Exception) -> Output:
        return self._source.failure(error)


async def _as_json(batches: AsyncIterator[list[dict[str, JSON]]]) -> AsyncIterator[list[JSON]]:
    async for batch in batches:
        yield [*batch]


def _statement(source: TransferSource) -> Statement:
    """Raises InvalidInput."""
    if source.table is not None:
        return rows_statement(Rows(table=source.table))
    assert source.query is not None
    statement = parse_statement(source.query, style="$" if source.kind == "postgres" else "?")
    if statement.verb not in _READS:
        raise InvalidInput("`query` must be a SELECT")
    return statement


class ObjectSource:
    """Implements TransferReader."""

    def __init__(self, url: ObjectUrl, form: str, systems: Systems, auth: Auth | None, endpoint: str | None) -> None:
        self._url = url
        self._format = form
        self._systems = systems
        self._auth = auth
        self._endpoint = endpoint

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SourceRows]:
        from noetl.tools.object.payload import open_object
        from noetl.tools.object.stores import Access

        store = await self._systems.stores().store(self._url, Access(self._auth, self._endpoint))
        chunks = _pieces((await open_object(store, self._url)).chunks)
        match self._format:
            case "csv":
                reader = CsvReader()
                first, rest = await _first(reader.rows(chunks))
                yield SourceRows(reader.columns, _joined(first, rest), complete=True)
            case "parquet":
                async with self._parquet(chunks) as rows:
                    yield rows
            case form:
                first, rest = await _first(read_lines(chunks) if form == "ndjson" else read_list(chunks))
                head = first[0] if first else {}
                yield SourceRows(list(head) if isinstance(head, dict) else [], _joined(first, rest), complete=False)

    @asynccontextmanager
    async def _parquet(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[SourceRows]:
        """DuckDB reads it from a file, because the description of the columns is at its end."""
        from noetl.tools.transfer.parquet import open_parquet

        with tempfile.TemporaryDirectory(prefix="noetl-transfer-") as folder:
            file = Path(folder) / "source.parquet"
            with file.open("wb") as opened:
                async for chunk in chunks:
                    opened.write(chunk)
            async with open_parquet(file, self._systems.threads()) as rows:
                yield SourceRows(rows.columns, _as_json(rows.batches), complete=True)

    def failure(self, error: Exception) -> Output:
        return object_failure(error, self._url)


def object_failure(error: Exception, url: ObjectUrl) -> Output:
    """An error of an object store, or of DuckDB, which reads and writes Parquet."""
    from noetl.tools.object.stores import failure_of

    if type(error).__module__.endswith("duckdb"):
        from noetl.tools.duckdb.session import failure_of as duckdb_failure

        return Output(status="error", error=duckdb_failure(error))  # type: ignore[arg-type]  # an error of DuckDB
    return failure_of(error, url)


async def _pieces(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Small pieces: the rows of one piece are converted at once, while other calls of the worker wait."""
    async for chunk in chunks:
        for start in range(0, len(chunk), PIECE_BYTES):
            yield chunk[start : start + PIECE_BYTES]


async def _first(batches: AsyncIterator[list[JSON]]) -> tuple[list[JSON], AsyncIterator[list[JSON]]]:
    """The first batch that has rows, and the rest."""
    async for batch in batches:
        if batch:
            return batch, batches
    return [], batches


async def _joined(first: list[JSON], rest: AsyncIterator[list[JSON]]) -> AsyncIterator[list[JSON]]:
    yield first
    async for batch in rest:
        yield batch


def format_of(url: str, form: str | None) -> str:
    """Raises InvalidInput."""
    found = form or FORMATS.get(Path(url).suffix.lower())
    if found is None:
        raise InvalidInput("the ending of `url` is not that of a known format; set `format`")
    return found
