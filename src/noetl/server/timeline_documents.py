"""Timelines as they are sent: several viewers of one execution share one document."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from noetl.cache import BoundedCache
from noetl.engine.state import LIVE
from noetl.errors import NoetlError
from noetl.server.log_readers import TIMELINES_MAX, TimelineCache, pool_load
from noetl.server.services import Services
from noetl.views.stall_reasons import with_stalls
from noetl.views.timeline import TimelineDocument

SHARED_S: Final = 1.0  # a document is sent again for this time: it also contains what the log does not say

_encode = msgspec.json.Encoder().encode


class _EncodedTimeline(NamedTuple):
    seq: int
    made_at: float
    body: bytes


class TimelineDocuments:
    def __init__(self, services: Services, timelines: TimelineCache) -> None:
        self._services = services
        self._timelines = timelines
        self._encoded: BoundedCache[str, _EncodedTimeline] = BoundedCache(TIMELINES_MAX)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def load(self, execution_id: str) -> TimelineDocument:
        """With the reasons why it does not advance, which are not in the log. Raises NotFound, or Damaged."""
        services, document = self._services, (await self._timelines.get(execution_id)).document()
        if document.status not in LIVE:
            return document
        head, program = await services.listing.head(execution_id), None
        with suppress(NoetlError):  # without a readable playbook the pools are unknown
            program = await services.playbooks.by_digest(document.digest)
        waits = await services.share_waits(execution_id) if head.owner_alive and document.status == "running" else ()
        load = partial(pool_load, services.workers)
        return with_stalls(document, program, load, owner_alive=head.owner_alive, share_waits=waits)

    async def encoded(self, execution_id: str, at_least: int | None) -> bytes:
        """`at_least`: a recent document with this many facts is enough; None: up to the end of the log."""
        lock = self._locks.setdefault(execution_id, asyncio.Lock())
        async with lock:
            known, now = self._encoded.peek(execution_id), self._services.clock.monotonic()
            if known is None or at_least is None or known.seq < at_least or now - known.made_at >= SHARED_S:
                document = await self.load(execution_id)
                known = _EncodedTimeline(document.seq, self._services.clock.monotonic(), _encode(document))
                self._encoded.put(execution_id, known)
            return known.body
