"""Results in memory, by execution and digest, verified when they are read."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Final

from noetl.adapters.result_refs import CHUNK_BYTES, RefLocation, joined, name_of
from noetl.clock import Clock
from noetl.errors import NotFound
from noetl.output import JSON
from noetl.ports import StoredResult

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


class MemoryResults:
    """A `ResultStore` for the lifetime of the process."""

    def __init__(self, clock: Clock | None = None) -> None:
        """Without a clock all results are as old as possible."""
        self.place = RefLocation("blob", {})
        self._clock = clock
        self.bodies: dict[str, tuple[bytes, datetime]] = {}

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        name = name_of(execution_id, body)
        at = self._clock.now() if self._clock is not None else _LONG_AGO
        self.bodies.setdefault(name.key, (body, at))
        return self.place.ref(name, content_type)

    async def get(self, ref: dict[str, JSON]) -> bytes:
        key = ref["locator"].get("key")
        if key not in self.bodies:
            raise NotFound(f"no result {key}")
        name = self.place.name(ref)
        body, _ = self.bodies[key]
        name.check(len(body), hashlib.sha256(body).hexdigest())
        return body

    async def write(self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str) -> dict[str, JSON]:
        return await self.put(execution_id, await joined(chunks), content_type)

    async def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        body = await self.get(ref)
        for first in range(0, len(body), CHUNK_BYTES):
            yield body[first : first + CHUNK_BYTES]

    async def kept(self) -> AsyncIterator[StoredResult]:
        for key in sorted(self.bodies):
            body, at = self.bodies[key]
            yield StoredResult(key, len(body), at)

    async def drop(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.bodies.pop(key, None)
