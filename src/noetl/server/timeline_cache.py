"""Timelines of recently viewed executions, with checkpoints of the state to reach any fact quickly.

Everything here is derived from the log and can be dropped at any time.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from itertools import islice
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from noetl.api.executions import ExecutionOverview
from noetl.cache import BoundedCache
from noetl.control.live_execution import turn
from noetl.engine import Event
from noetl.engine.facts import Requested
from noetl.engine.snapshot import freeze, thaw
from noetl.engine.state import State
from noetl.errors import NotFound
from noetl.ports import EventStore, ExecutionListing
from noetl.server.errors import ApiError
from noetl.server.log_readers import AHEAD_FACTS, SLICE_FACTS
from noetl.views.log import events_of, readable
from noetl.views.moment import ExecutionMoment, Fold, moment
from noetl.views.runs import Runs
from noetl.views.timeline import Timeline

TIMELINES_MAX: Final = 16
CHECKPOINTS_MAX: Final = 64  # of one execution
CHECKPOINTS_BYTES_MAX: Final = 8 << 20  # of one execution
STRIDE_FACTS: Final = 1_000  # between two checkpoints at first; doubled when there are too many
OVERVIEW_FACTS_MAX: Final = 1_000  # a longer log is not folded for an overview
OVERVIEWS_MAX: Final = 2_000


class StateCheckpoint(NamedTuple):
    """The state after a fact."""

    seq: int
    ctx_seq: int
    body: bytes


class _CachedTimeline:
    """The timeline and the checkpoints of one execution."""

    def __init__(self, execution_id: str) -> None:
        self.timeline = Timeline(execution_id)
        self.checkpoints: list[StateCheckpoint] = []
        self._ctx_seq = 0
        self._stride = STRIDE_FACTS

    def feed(self, event: Event) -> None:
        state = self.timeline.state
        ctx = state.ctx
        self.timeline.feed(event)
        if state.ctx is not ctx:
            self._ctx_seq = event.seq
        if event.seq % self._stride == 0:
            self.checkpoints.append(StateCheckpoint(event.seq, self._ctx_seq, freeze(state)))
            size = sum(len(each.body) for each in self.checkpoints)
            if len(self.checkpoints) > CHECKPOINTS_MAX or size > CHECKPOINTS_BYTES_MAX:
                self._stride *= 2
                self.checkpoints = [each for each in self.checkpoints if each.seq % self._stride == 0]

    def fold_before(self, seq: int) -> Fold:
        """The nearest checkpoint before a fact."""
        index = bisect_left(self.checkpoints, seq, key=lambda each: each.seq) - 1
        if index < 0:
            return Fold(State(execution_id=self.timeline.state.execution_id))
        return Fold(thaw(self.checkpoints[index].body), self.checkpoints[index].ctx_seq)


class TimelineCache:
    """The timelines of one server. They are extended with new facts when they are requested."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._timelines: BoundedCache[str, _CachedTimeline] = BoundedCache(TIMELINES_MAX)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._overviews: BoundedCache[tuple[str, int], ExecutionOverview] = BoundedCache(OVERVIEWS_MAX)

    async def get(self, execution_id: str) -> Timeline:
        """The timeline up to the end of the log. Raises NotFound, or Damaged."""
        return (await self._updated(execution_id)).timeline

    async def moment(self, execution_id: str, seq: int, have: int | None) -> ExecutionMoment:
        """The execution right after a fact. Raises NotFound, ApiError or Damaged."""
        cached = self._timelines.peek(execution_id)
        if cached is None or cached.timeline.state.seq < seq:
            cached = await self._updated(execution_id)
        last = cached.timeline.state.seq
        if seq > last:
            detail = f"the log of {execution_id} has the facts 1 to {last}, and no fact {seq}"
            raise ApiError(404, "no-such-fact", detail)
        fold = cached.fold_before(seq)
        rows = await self._store.read(execution_id, fold.state.seq, seq)
        remaining = events_of(rows, after=fold.state.seq)
        while events := list(islice(remaining, SLICE_FACTS)):
            with readable(execution_id):
                for event in events:
                    if event.seq == seq:
                        return moment(fold, event, have)
                    fold.feed(event)
            await turn()
        raise NotFound(f"no fact {seq} of {execution_id}")

    async def overview(self, listing: ExecutionListing, execution_id: str) -> ExecutionOverview:
        """Raises NotFound, or Damaged."""
        seq = (await listing.head(execution_id)).seq
        known = self._overviews.peek((execution_id, seq))
        if known is not None:
            return known
        cached = self._timelines.peek(execution_id)
        runs = cached.timeline.runs if cached is not None else Runs(execution_id)
        rows = await self._store.read(execution_id, 0, 1 if seq > OVERVIEW_FACTS_MAX else seq)
        first = rows[0].facts[0] if rows else None
        steps: dict[str, int] | None = None
        if cached is None and seq <= OVERVIEW_FACTS_MAX:
            with readable(execution_id):
                for event in events_of(rows):
                    runs.feed(event)
            await turn()
        if cached is not None or seq <= OVERVIEW_FACTS_MAX:
            steps = dict(Counter(record.status for record in runs.steps.values()))
        by = first.by if isinstance(first, Requested) else None
        overview = ExecutionOverview(execution_id=execution_id, by=by, steps=steps)
        return self._overviews.put((execution_id, seq), overview)

    async def _updated(self, execution_id: str) -> _CachedTimeline:
        lock = self._locks.setdefault(execution_id, asyncio.Lock())
        async with lock:
            # The timeline leaves the cache while it is updated: a failed update must not stay in it.
            cached = self._timelines.pop(execution_id) or _CachedTimeline(execution_id)
            await self._read_on(execution_id, cached)
            if not cached.timeline.state.seq:
                raise NotFound(f"no execution {execution_id}")
            return self._timelines.put(execution_id, cached)

    async def _read_on(self, execution_id: str, cached: _CachedTimeline) -> None:
        state = cached.timeline.state
        while rows := await self._store.read(execution_id, state.seq, state.seq + AHEAD_FACTS):
            remaining = events_of(rows, after=state.seq)
            while events := list(islice(remaining, SLICE_FACTS)):
                with readable(execution_id):
                    for event in events:
                        cached.feed(event)
                await turn()
