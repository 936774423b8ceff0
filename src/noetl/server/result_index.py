"""Which results a log names: only these are given out under its execution. Read once, and carried on."""

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
from noetl.views.log import events_of
from noetl.views.outputs import refs_in

EXECUTIONS_MAX: Final = 64  # that are remembered
REFS_MAX: Final = 100_000  # of one execution that are remembered; beyond, its log is read each time
_SLICE: Final = 200
_encode = msgspec.json.Encoder().encode


class _Refs:
    def __init__(self) -> None:
        self.seq = 0
        self.by_digest: dict[str, dict[str, JSON]] = {}


class ResultIndex:
    """By execution and digest."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._kept: OrderedDict[str, _Refs] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def find(self, execution_id: str, digest: str) -> dict[str, JSON]:
        """The Ref. Raises NotFound: there is no such execution, or its log does not name the result."""
        lock = self._locks.setdefault(execution_id, asyncio.Lock())
        async with lock:
            refs = self._kept.pop(execution_id, None) or _Refs()
            if digest not in refs.by_digest:
                await self._read(execution_id, refs)
            if len(refs.by_digest) <= REFS_MAX and refs.seq:
                self._kept[execution_id] = refs
                if len(self._kept) > EXECUTIONS_MAX:
                    self._kept.popitem(last=False)
        if digest not in refs.by_digest:
            raise NotFound(f"the log of {execution_id} names no result {digest}")
        return refs.by_digest[digest]

    async def _read(self, execution_id: str, refs: _Refs) -> None:
        events = events_of(await self._store.read(execution_id, refs.seq), after=refs.seq)
        while some := list(islice(events, _SLICE)):
            for event in some:
                body = _encode(event.fact)
                if b'"locator"' in body:  # most facts name none, and are not taken apart
                    for ref in refs_in(msgspec.json.decode(body)):
                        if isinstance(digest := ref["meta"].get("sha256"), str):
                            refs.by_digest[digest] = ref
                refs.seq = event.seq
            await turn()
