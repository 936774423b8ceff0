"""The results that a log names: only these are served under its execution. The log is read once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from itertools import islice
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from noetl.control.live_execution import turn
from noetl.errors import NotFound
from noetl.output import JSON
from noetl.ports import EventStore
from noetl.server.log_readers import SLICE_FACTS
from noetl.views.log import events_of
from noetl.views.outputs import refs_in

EXECUTIONS_MAX: Final = 64  # that are cached
REFS_MAX: Final = 100_000  # of one execution; a log with more refs is not cached, but read each time
_encode = msgspec.json.Encoder().encode


class _Refs:
    def __init__(self) -> None:
        self.seq = 0
        self.by_digest: dict[str, dict[str, JSON]] = {}


class ResultIndex:
    """Refs by execution and digest."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._cache: OrderedDict[str, _Refs] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def find(self, execution_id: str, digest: str) -> dict[str, JSON]:
        """The Ref. Raises NotFound when the execution does not exist or its log does not name the result."""
        lock = self._locks.setdefault(execution_id, asyncio.Lock())
        async with lock:
            refs = self._cache.pop(execution_id, None) or _Refs()
            if digest not in refs.by_digest:
                await self._read(execution_id, refs)
            if len(refs.by_digest) <= REFS_MAX and refs.seq:
                self._cache[execution_id] = refs
                if len(self._cache) > EXECUTIONS_MAX:
                    self._cache.popitem(last=False)
        if digest not in refs.by_digest:
            raise NotFound(f"the log of {execution_id} names no result {digest}")
        return refs.by_digest[digest]

    async def _read(self, execution_id: str, refs: _Refs) -> None:
        remaining = events_of(await self._store.read(execution_id, refs.seq), after=refs.seq)
        while events := list(islice(remaining, SLICE_FACTS)):
            for event in events:
                body = _encode(event.fact)
                if b'"locator"' in body:  # most facts contain no ref and need not be decoded
                    for ref in refs_in(msgspec.json.decode(body)):
                        if isinstance(digest := ref["meta"].get("sha256"), str):
                            refs.by_digest[digest] = ref
                refs.seq = event.seq
            await turn()
