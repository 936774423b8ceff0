"""What lies behind a Ref, wherever it lies: in the result store, or, as the results of a loop, in the log."""

from __future__ import annotations

from msgspec.json import decode, encode

from noetl.errors import NotFound
from noetl.output import JSON, Output
from noetl.ports import Link, ResultStore


class Refs:
    """A result store that also knows loops (D30)."""

    def __init__(self, results: ResultStore, link: Link) -> None:
        self._results = results
        self._link = link

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        return await self._results.put(execution_id, body, content_type)

    async def get(self, ref: dict[str, JSON]) -> bytes:
        if ref.get("type") != "relational":
            return await self._results.get(ref)
        where = ref["locator"]
        if not isinstance(where, dict) or not {"execution_id", "run"} <= where.keys():
            raise NotFound(f"no result {where}")
        outputs = await self._link.iterations(str(where["execution_id"]), str(where["run"]))
        return encode([await self._data(output) for output in outputs])

    async def _data(self, output: Output | None) -> JSON:
        """A failed iteration stands as null; one with a Ref of its own is followed."""
        if output is None or output.data is not None or output.ref is None:
            return output.data if output is not None else None
        return decode(await self.get(output.ref))
