"""Resolves Refs: data in a result store, or the results of a loop, which are in the log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from msgspec.json import decode, encode

from noetl.errors import NotFound, Rejected
from noetl.output import JSON, Output
from noetl.paging import is_json
from noetl.ports import Link, ResultStore
from noetl.worker.result_stores import StoreSelector

SLICE_MAX = 1_000_000


class Refs:
    """A result store that also resolves Refs to the results of loops (D30)."""

    def __init__(self, results: ResultStore, link: Link) -> None:
        self._results = results
        self._link = link

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        return await self._results.put(execution_id, body, content_type)

    async def write(self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str) -> dict[str, JSON]:
        return await self._results.write(execution_id, chunks, content_type)

    async def get(self, ref: dict[str, JSON]) -> bytes:
        if not _is_loop(ref):
            return await self._results.get(ref)
        return b"".join([chunk async for chunk in self.read(ref)])

    async def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        """For a loop, one iteration after the other: the whole list is never in memory."""
        if not _is_loop(ref):
            async for chunk in self._results.read(ref):
                yield chunk
            return
        yield b"["
        for index, output in enumerate(await self._outputs(ref)):
            yield (b"," if index else b"") + await self._body(output)
        yield b"]"

    async def part(self, ref: dict[str, JSON], first: int | None, last: int | None) -> list[JSON] | None:
        """A slice of the results of a loop, as in Python; None: the Ref does not refer to a loop."""
        if not _is_loop(ref):
            return None
        count = (ref.get("meta") or {}).get("count")
        if not isinstance(count, int) or not 0 <= count <= SLICE_MAX:
            return None
        wanted = range(count)[first:last]
        return [decode(await self._body(output)) for output in await self._outputs(ref, wanted)]

    def select(self, wanted: Mapping[str, JSON]) -> ResultStore:
        if not isinstance(self._results, StoreSelector):
            raise Rejected("unknown-store", "this worker has only one result store")
        return Refs(self._results.select(wanted), self._link)

    async def _outputs(self, ref: dict[str, JSON], only: range | None = None) -> list[Output | None]:
        where = ref["locator"]
        return await self._link.iterations(str(where["execution_id"]), str(where["run"]), only)

    async def _body(self, output: Output | None) -> bytes:
        """JSON of one result: null for a failed iteration; a Ref of its own is resolved."""
        if output is None or output.data is not None or output.ref is None:
            return encode(output.data if output is not None else None)
        if not is_json(output.ref):
            return encode(output.ref)  # a file: the reader resolves it if needed
        return await self.get(output.ref)


def _is_loop(ref: dict[str, JSON]) -> bool:
    """Whether it refers to a loop in a log; tables of results are relational, too. Raises NotFound."""
    where = ref.get("locator")
    if ref.get("type") != "relational" or (isinstance(where, dict) and "store" in where):
        return False
    if not isinstance(where, dict) or not {"execution_id", "run"} <= where.keys():
        raise NotFound(f"no result {str(where)[:140]}")
    return True
