"""Timelines of executions that were looked at lately, and states on the way: any moment of a log is near one.

All of it is a copy of what the log says, kept while there is room for it.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter, OrderedDict
from itertools import islice
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from msgspec import Struct

from noetl.control.live_execution import turn
from noetl.engine import Event
from noetl.engine.facts import Requested
from noetl.engine.snapshot import freeze, thaw
from noetl.engine.state import State
from noetl.errors import NotFound
from noetl.ports import EventStore, ExecutionListing
from noetl.server.errors import Refused
from noetl.server.log_readers import SLICE_FACTS
from noetl.views.log import events_of, readable
from noetl.views.moment import ExecutionMoment, Fold, moment
from noetl.views.runs import Runs
from noetl.views.timeline import Timeline

TIMELINES_MAX: Final = 16
STOPS_MAX: Final = 64  # states that are kept of one execution
STOPS_BYTES_MAX: Final = 8 << 20  # of one execution
STRIDE_FACTS: Final = 1_000  # between two of them, to begin with
AHEAD_FACTS: Final = 5_000
GLANCE_FACTS_MAX: Final = 1_000  # a longer log is not folded for a glance
GLANCES_MAX: Final = 2_000


class Glance(Struct, frozen=True, kw_only=True):
    """What a row of a list shows beside the head."""

    execution_id: str
    by: str | None  # who asked for it
    steps: dict[str, int] | None  # runs by status; None: the log is too long for a glance


class StateCheckpoint(NamedTuple):
    """A state on the way."""

    seq: int
    ctx_seq: int
    body: bytes


class _Kept:
    """What is known of one execution."""

    def __init__(self, execution_id: str) -> None:
        self.timeline = Timeline(execution_id)
        self.stops: list[StateCheckpoint] = []
        self._ctx_seq = 0
        self._stride = STRIDE_FACTS

    def feed(self, event: Event) -> None:
        state = self.timeline.state
        ctx = state.ctx
        self.timeline.feed(event)
        if state.ctx is not ctx:
            self._ctx_seq = event.seq
        if event.seq % self._stride == 0:
            self.stops.append(StateCheckpoint(event.seq, self._ctx_seq, freeze(state)))
            if len(self.stops) > STOPS_MAX or sum(len(each.body) for each in self.stops) > STOPS_BYTES_MAX:
                self._stride *= 2
                self.stops = [each for each in self.stops if each.seq % self._stride == 0]

    def fold_before(self, seq: int) -> Fold:
        """The nearest state before a fact."""
        place = bisect_left(self.stops, seq, key=lambda each: each.seq) - 1
        if place < 0:
            return Fold(State(execution_id=self.timeline.state.execution_id))
        return Fold(thaw(self.stops[place].body), self.stops[place].ctx_seq)


class Timelines:
    """Of one server; carried on when they are asked for."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._glances: OrderedDict[tuple[str, int], Glance] = OrderedDict()

    async def of(self, execution_id: str) -> Timeline:
        """As it is now. Raises NotFound, or Damaged."""
        return (await self._carried_on(execution_id)).timeline

    async def at(self, execution_id: str, seq: int, have: int | None) -> ExecutionMoment:
        """Right after a fact. Raises NotFound, Refused or Damaged."""
        kept = self._kept.get(execution_id)
        if kept is None or kept.timeline.state.seq < seq:
            kept = await self._carried_on(execution_id)
        last = kept.timeline.state.seq
        if seq > last:
            words = f"the log of {execution_id} has 1 to {last}, and no fact {seq}"
            raise Refused(404, "no-such-fact", words)
        fold = kept.fold_before(seq)
        rows = await self._store.read(execution_id, fold.state.seq, seq)
        left = events_of(rows, after=fold.state.seq)
        while events := list(islice(left, SLICE_FACTS)):
            with readable(execution_id):
                for event in events:
                    if event.seq == seq:
                        return moment(fold, event, have)
                    fold.feed(event)
            await turn()
        raise NotFound(f"no fact {seq} of {execution_id}")

    async def glance(self, listing: ExecutionListing, execution_id: str) -> Glance:
        """Raises NotFound, or Damaged."""
        seq = (await listing.head(execution_id)).seq
        known = self._glances.get((execution_id, seq))
        if known is not None:
            return known
        kept = self._kept.get(execution_id)
        runs = kept.timeline.runs if kept is not None else Runs(execution_id)
        rows = await self._store.read(execution_id, 0, 1 if seq > GLANCE_FACTS_MAX else seq)
        first = rows[0].facts[0] if rows else None
        steps: dict[str, int] | None = None
        if kept is None and seq <= GLANCE_FACTS_MAX:
            with readable(execution_id):
                for event in events_of(rows):
                    runs.feed(event)
            await turn()
        if kept is not None or seq <= GLANCE_FACTS_MAX:
            steps = dict(Counter(record.status for record in runs.steps.values()))
        by = first.by if isinstance(first, Requested) else None
        glance = self._glances[execution_id, seq] = Glance(execution_id=execution_id, by=by, steps=steps)
        if len(self._glances) > GLANCES_MAX:
            self._glances.popitem(last=False)
        return glance

    async def _carried_on(self, execution_id: str) -> _Kept:
        lock = self._locks.setdefault(execution_id, asyncio.Lock())
        async with lock:
            # It is taken out while it is carried on: what breaks halfway is not asked again.
            kept = self._kept.pop(execution_id, None) or _Kept(execution_id)
            await self._read_on(execution_id, kept)
            if not kept.timeline.state.seq:
                raise NotFound(f"no execution {execution_id}")
            self._kept[execution_id] = kept
            if len(self._kept) > TIMELINES_MAX:
                self._kept.popitem(last=False)
        return kept

    async def _read_on(self, execution_id: str, kept: _Kept) -> None:
        state = kept.timeline.state
        while rows := await self._store.read(execution_id, state.seq, state.seq + AHEAD_FACTS):
            left = events_of(rows, after=state.seq)
            while events := list(islice(left, SLICE_FACTS)):
                with readable(execution_id):
                    for event in events:
                        kept.feed(event)
                await turn()
