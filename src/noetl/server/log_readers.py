"""Reads logs for the routes: folds them in slices, so that other tasks run in between, and caches the folds.

A log that the engine cannot fold raises Damaged; it is not a bug of the server.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from noetl.cache import BoundedCache
from noetl.control.live_execution import turn
from noetl.engine import Event, apply
from noetl.engine.state import State
from noetl.errors import NotFound
from noetl.ports import EventStore
from noetl.views.envelopes import Envelope, Envelopes
from noetl.views.log import events_of, readable
from noetl.views.runs import Runs

T = TypeVar("T")
SLICE_FACTS: Final = 200  # folded before other tasks get their turn
AHEAD_FACTS: Final = 5_000  # read from the store at once
ID_PATTERN: Final = r"^[0-9a-zA-Z-]{1,64}\Z"
CACHED_MAX: Final = 16  # executions whose fold is cached

_ID: Final = re.compile(ID_PATTERN)


def checked_id(execution_id: str) -> str:
    """Reject a text that cannot be an id before any store is read. Raises NotFound."""
    if not _ID.fullmatch(execution_id):
        raise NotFound(f"no execution {execution_id[:64]!a}")
    return execution_id


async def read_runs(store: EventStore, runs: Runs, up_to: int | None = None) -> None:
    """Fold further facts into the records, to the end of the log or up to a fact. Raises Damaged."""
    id = runs.state.execution_id
    rows = await store.read(id, runs.state.seq)
    remaining = events_of(rows, after=runs.state.seq)
    while events := list(islice(remaining, SLICE_FACTS)):
        with readable(id):
            for event in events:
                if up_to is not None and event.seq > up_to:
                    return
                runs.feed(event)
        await turn()


class RunsCache:
    """The run records of recently requested executions. A second query reads only the facts since then."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._cache: BoundedCache[str, Runs] = BoundedCache(CACHED_MAX)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def query(self, execution_id: str, compute: Callable[[Runs], T]) -> T:
        """Compute something from the records at the end of the log. Raises NotFound, or Damaged."""
        lock = self._locks.setdefault(execution_id, asyncio.Lock())
        async with lock:
            # The records leave the cache while they are updated: a failed update must not stay in it.
            runs = self._cache.pop(execution_id) or Runs(execution_id)
            await read_runs(self._store, runs)
            if not runs.state.seq:
                raise NotFound(f"no execution {execution_id}")
            self._cache.put(execution_id, runs)
            with readable(execution_id):
                return compute(runs)


class EnvelopeReader:
    """Reads one log from its beginning, with the state that envelopes need."""

    def __init__(self, store: EventStore, execution_id: str) -> None:
        self._store = store
        self._envelopes = Envelopes(State(execution_id=execution_id))
        self._ahead: Iterator[Event] = iter(())

    @property
    def state(self) -> State:
        return self._envelopes.state

    @property
    def seq(self) -> int:
        return self._envelopes.state.seq

    async def events(self, limit: int) -> list[Event]:
        """The next events; none at the end of the log. The caller passes each of them to `envelopes`."""
        if not (found := list(islice(self._ahead, limit))):
            up_to = self.seq + max(limit, AHEAD_FACTS)
            rows = await self._store.read(self.state.execution_id, self.seq, up_to)
            self._ahead = events_of(rows, after=self.seq)
            found = list(islice(self._ahead, limit))
        return found

    def drop_read_ahead(self) -> None:
        """Free the facts that were read but not returned; they are read again when needed."""
        self._ahead = iter(())

    async def skip(self, up_to: int) -> None:
        """Fold on to a fact, or to the end of the log."""
        while (left := up_to - self.seq) > 0:
            events = await self.events(min(left, SLICE_FACTS))
            if not events:
                return
            with readable(self.state.execution_id):
                for event in events:
                    apply(self.state, event.fact, event.at)
            await turn()

    def envelopes(self, event: Event) -> list[Envelope]:
        """Fold an event and return its envelopes."""
        with readable(self.state.execution_id):
            return self._envelopes.feed(event)


class EnvelopeReaderCache:
    """Readers positioned at the end of a page, for the request of the next page."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._cache: BoundedCache[tuple[str, int], EnvelopeReader] = BoundedCache(CACHED_MAX)

    async def take(self, execution_id: str, after: int) -> EnvelopeReader:
        """A reader positioned after the fact `after`, or at the end of the log."""
        reader = self._cache.pop((execution_id, after))
        if reader is None:
            reader = EnvelopeReader(self._store, execution_id)
            await reader.skip(after)
        return reader

    def put(self, reader: EnvelopeReader) -> None:
        reader.drop_read_ahead()
        self._cache.put((reader.state.execution_id, reader.seq), reader)
