"""Rows into an object or a file, which appears when it is complete."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import msgspec

from noetl.output import JSON, Output
from noetl.tools.object.payload import WrittenObject, write_object
from noetl.tools.object.stores import Access, ObjectUrl, object_ref
from noetl.tools.sql.formats import encoded
from noetl.tools.systems import Systems
from noetl.tools.transfer.rows import Batches, Written
from noetl.tools.transfer.sources import object_failure

CHUNK_BYTES = 1 << 20
CONTENT_TYPES = {"csv": "text/csv", "ndjson": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}
_encode_lines = msgspec.json.Encoder().encode_lines


class ObjectTarget:
    """Implements TransferWriter."""

    def __init__(self, url: ObjectUrl, form: str, systems: Systems, access: Access) -> None:
        self._url = url
        self._format = form
        self._systems = systems
        self._access = access

    async def write(self, columns: list[str], batches: Batches) -> Written:
        if self._format == "parquet":
            done = await self._write_parquet(columns, batches)
        else:
            async with aclosing(encoded(batches, columns, "csv" if self._format == "csv" else "ndjson")) as chunks:
                done = await self._store(chunks)
        meta: dict[str, JSON] = {
            "content_type": CONTENT_TYPES[self._format], "bytes": done.size, "sha256": done.sha256, "etag": done.etag,
        }  # fmt: skip
        return Written(object_ref(self._url, self._access, meta), done.size)

    async def _store(self, chunks: AsyncIterator[bytes]) -> WrittenObject:
        store = await self._systems.stores().store(self._url, self._access)
        return await write_object(store, self._url, chunks, CONTENT_TYPES[self._format])

    async def _write_parquet(self, columns: list[str], batches: Batches) -> WrittenObject:
        """The rows are collected in a file first, because the types of the columns follow from all of them."""
        from noetl.tools.transfer.parquet import write_parquet

        with tempfile.TemporaryDirectory(prefix="noetl-transfer-") as folder:
            rows, file = Path(folder) / "rows.ndjson", Path(folder) / "rows.parquet"
            with rows.open("wb") as opened:
                async for batch in batches:
                    numbered = ({f"c{index}": each for index, each in enumerate(row.values())} for row in batch)
                    opened.write(_encode_lines(numbered))
            await write_parquet(rows, columns, file, self._systems.threads())
            return await self._store(_chunks(file))

    def failure(self, error: Exception) -> Output:
        return object_failure(error, self._url)


async def _chunks(file: Path) -> AsyncIterator[bytes]:
    with file.open("rb") as opened:
        while chunk := await asyncio.to_thread(opened.read, CHUNK_BYTES):
            yield chunk
