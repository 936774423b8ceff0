"""Reads logs for the routes: folds them in slices, so that other tasks run in between, and caches the folds.

A log that the engine cannot fold raises Damaged; it is not a bug of the server.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import msgspec

from noetl.api.executions import ExecutionOverview
from noetl.cache import BoundedCache
from noetl.clock import Clock
from noetl.control.limits import with_holders
from noetl.control.log_pages import SLICE_FACTS, ReadableLog, read_iterations, read_slices
from noetl.control.run_records import RunRecords
from noetl.engine import Event, apply
from noetl.engine.facts import Requested
from noetl.engine.snapshot import freeze, thaw
from noetl.engine.state import State
from noetl.errors import Damaged, NoetlError, NotFound, Rejected, Unavailable
from noetl.output import JSON, Output
from noetl.ports import EventStore, ExecutionListing, LogRow, WorkerRegistry
from noetl.server.errors import ApiError
from noetl.server.services import Services
from noetl.slices import in_slices, turn
from noetl.views.documents import (
    OutputLocation,
    ShowDocument,
    given_by_playbook,
    load_output,
    refs_in,
    show_document,
    show_slices,
    with_pool_reasons,
)
from noetl.views.envelopes import Envelope, Envelopes
from noetl.views.iterations import LoopTable, LoopTables
from noetl.views.log import events_of, readable
from noetl.views.pools import PoolLoad
from noetl.views.runs import Runs
from noetl.views.state_at import ExecutionMoment, Fold, describe_moment, moment
from noetl.views.timeline import Timeline

T = TypeVar("T")
AHEAD_FACTS: Final = 5_000  # read from the store at once
ID_PATTERN: Final = r"^[0-9a-zA-Z-]{1,64}\Z"
CACHED_MAX: Final = 16  # executions whose fold is cached
SHOWN_AT_ONCE: Final = 64  # runs: the document takes about 1 ms

_ID: Final = re.compile(ID_PATTERN)


def checked_id(execution_id: str) -> str:
    """Reject a text that cannot be an id before any store is read. Raises NotFound."""
    if not _ID.fullmatch(execution_id):
        raise NotFound(f"no execution {execution_id[:64]!a}")
    return execution_id


async def _check_kept(store: EventStore, cached: State) -> None:
    """Raises NotFound for a finished execution that was deleted since it was cached."""
    if cached.seq and not cached.live and await store.status(cached.execution_id) is None:
        raise NotFound(f"no execution {cached.execution_id}")


class RunsCache:
    """The run records of recently requested executions. A second query reads only the facts since then.

    An execution that somebody views has a timeline, which contains the records: its log is not folded twice.
    """

    def __init__(self, store: EventStore, log: ReadableLog, timelines: TimelineCache) -> None:
        """`log`: of the executions in the store."""
        self._store = store
        self._run_records = RunRecords(store, log)
        self._timelines = timelines
        self._cache: BoundedCache[str, Runs] = BoundedCache(CACHED_MAX)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def query(self, execution_id: str, compute: Callable[[Runs], T]) -> T:
        """Compute something from the records at the end of the log. Raises NotFound, or Damaged."""
        async with self._records(execution_id) as runs:
            return compute(runs)

    async def show(self, execution_id: str, until: datetime | None = None) -> ShowDocument:
        """The document at the end of the log, as `show_document`. Raises NotFound, or Damaged."""
        async with self._records(execution_id) as runs:
            if len(runs.steps) <= SHOWN_AT_ONCE:
                return show_document(runs, until)
            return await in_slices(show_slices(runs, until))

    @asynccontextmanager
    async def _records(self, execution_id: str) -> AsyncIterator[Runs]:
        if self._timelines.has(execution_id):
            self._cache.pop(execution_id)
            viewed = await self._timelines.get(execution_id)
            with readable(execution_id):
                yield viewed.runs
            return
        lock = self._locks.setdefault(execution_id, asyncio.Lock())
        async with lock:
            # The records leave the cache while they are updated: a failed update must not stay in it.
            runs = self._cache.pop(execution_id)
            if runs is None:
                runs = await self._run_records.read(execution_id)
            else:
                await _check_kept(self._store, runs.state)
                await self._run_records.update(runs)
            if not runs.state.seq:
                raise NotFound(f"no execution {execution_id}")
            self._cache.put(execution_id, runs)
            with readable(execution_id):
                yield runs


def show_at_once(execution_id: str, rows: Sequence[LogRow]) -> ShowDocument | None:
    """As `RunsCache.show`, of all rows of a log; None: that takes more than one turn. Raises Damaged."""
    if rows[-1].first_seq + len(rows[-1].facts) > SLICE_FACTS:
        return None
    runs = Runs(execution_id)
    with readable(execution_id):
        for event in events_of(rows):
            runs.feed(event)
        return show_document(runs)


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


# Timelines of recently viewed executions, with checkpoints of the state to reach any fact quickly


TIMELINES_MAX: Final = 16
CHECKPOINTS_MAX: Final = 64  # of one execution
CHECKPOINTS_BYTES_MAX: Final = 8 << 20  # of one execution
STRIDE_FACTS: Final = 1_000  # between two checkpoints at first; doubled when there are too many
FACT_BYTES: Final = (
    50  # of a checkpoint for each fact until the next one: to write it costs about as much as to fold a fact
)
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
        self.loops = LoopTables()
        self.checkpoints: list[StateCheckpoint] = []
        self._ctx_seq = 0
        self._stride = STRIDE_FACTS
        self._next = STRIDE_FACTS  # the seq of the next checkpoint
        self._last: tuple[Event, dict[str, JSON]] | None = None  # with the ctx before it

    def feed(self, event: Event) -> None:
        state = self.timeline.state
        ctx = state.ctx
        self.timeline.feed(event)
        self.loops.feed(event)
        self._last = event, ctx
        if state.ctx is not ctx:
            self._ctx_seq = event.seq
        if event.seq >= self._next:
            self._keep_checkpoint()

    def _keep_checkpoint(self) -> None:
        state = self.timeline.state
        body = freeze(state)
        self.checkpoints.append(StateCheckpoint(state.seq, self._ctx_seq, body))
        size = sum(len(each.body) for each in self.checkpoints)
        if len(self.checkpoints) > CHECKPOINTS_MAX or size > CHECKPOINTS_BYTES_MAX:
            self._stride *= 2
            self.checkpoints = self.checkpoints[1::2]
        self._next = state.seq + max(self._stride, len(body) // FACT_BYTES)  # it must not cost more than the fold

    def last_moment(self, have: int | None) -> ExecutionMoment:
        """The execution right after its last fact, without folding again."""
        assert self._last is not None, "a log begins with its request"
        return describe_moment(Fold(self.timeline.state, self._ctx_seq), *self._last, have)

    def fold_before(self, seq: int) -> Fold:
        """The nearest checkpoint before a fact."""
        index = bisect_left(self.checkpoints, seq, key=lambda each: each.seq) - 1
        if index < 0:
            return Fold(State(execution_id=self.timeline.state.execution_id))
        return Fold(thaw(self.checkpoints[index].body), self.checkpoints[index].ctx_seq)


class TimelineCache:
    """The timelines of one server. They are extended with new facts when they are requested."""

    def __init__(self, store: EventStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._timelines: BoundedCache[str, _CachedTimeline] = BoundedCache(TIMELINES_MAX)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._overviews: BoundedCache[tuple[str, int], ExecutionOverview] = BoundedCache(OVERVIEWS_MAX)
        self._spent_s: BoundedCache[str, float] = BoundedCache(OVERVIEWS_MAX)

    async def get(self, execution_id: str) -> Timeline:
        """The timeline up to the end of the log. Raises NotFound, or Damaged."""
        return (await self._updated(execution_id)).timeline

    def has(self, execution_id: str) -> bool:
        """Whether the timeline is cached, or read at the moment."""
        lock = self._locks.get(execution_id)
        return self._timelines.peek(execution_id) is not None or (lock is not None and lock.locked())

    def spent_s(self, execution_id: str) -> float:
        """The time that reading and folding the log has taken until now."""
        return self._spent_s.peek(execution_id) or 0.0

    async def loops(self, execution_id: str) -> tuple[Timeline, Mapping[str, LoopTable]]:
        """The timeline and the loops of steps by run, up to the end of the log. Raises NotFound, or Damaged."""
        cached = await self._updated(execution_id)
        return cached.timeline, cached.loops.tables

    async def moment(self, execution_id: str, seq: int, have: int | None) -> ExecutionMoment:
        """The execution right after a fact. Raises NotFound, ApiError or Damaged."""
        cached = self._timelines.peek(execution_id)
        if cached is None or cached.timeline.state.seq < seq:
            cached = await self._updated(execution_id)
        last = cached.timeline.state.seq
        if seq > last:
            detail = f"the log of {execution_id} has the facts 1 to {last}, and no fact {seq}"
            raise ApiError(404, "no-such-fact", detail)
        if seq == last:
            with readable(execution_id):
                return cached.last_moment(have)
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
            await _check_kept(self._store, cached.timeline.state)
            await self._read_on(execution_id, cached)
            if not cached.timeline.state.seq:
                raise NotFound(f"no execution {execution_id}")
            return self._timelines.put(execution_id, cached)

    async def _read_on(self, execution_id: str, cached: _CachedTimeline) -> None:
        state, clock = cached.timeline.state, self._clock
        began = clock.monotonic()
        while rows := await self._store.read(execution_id, state.seq, state.seq + AHEAD_FACTS):
            remaining = events_of(rows, after=state.seq)
            while events := list(islice(remaining, SLICE_FACTS)):
                with readable(execution_id):
                    for event in events:
                        cached.feed(event)
                self._spent_s.put(execution_id, self.spent_s(execution_id) + clock.monotonic() - began)
                await turn()
                began = clock.monotonic()


# Documents of one execution, and the index of results that a log names


OUTPUT_BYTES_MAX: Final = 64 << 20  # fetched for one response; GET /results serves larger results


async def load_show_document(runs: RunsCache, services: Services, execution_id: str) -> ShowDocument:
    """Raises NotFound, or Damaged."""
    head = await services.listing.head(execution_id)
    # An execution without a live owner makes no progress, so its durations do not grow.
    until = services.clock.now() if head.owner_alive else None
    document = await runs.show(execution_id, until)
    with suppress(Unavailable):  # what it waits for is known from the log
        document = await with_holders(document, services.limits)
    if document.status == "running" and head.owner_alive:
        with suppress(NoetlError):  # without a readable playbook the pools are unknown
            program = await services.playbooks.by_digest(head.digest)
            waits = await services.share_waits(execution_id)
            return with_pool_reasons(document, program, partial(pool_load, services.workers), waits)
    return document


def pool_load(workers: WorkerRegistry, pool: str) -> PoolLoad:
    """As its workers announced it last."""
    known = [each for each in workers.workers() if each.pool == pool]
    slots = workers.slots(pool)
    return PoolLoad(max(len(known), bool(slots)), slots, sum(each.busy for each in known if not each.leaving))


async def locate_output(services: Services, execution_id: str) -> OutputLocation:
    """The output of the playbook. Raises NotFound, or Rejected while it runs."""
    head = await services.listing.head(execution_id)
    if head.status in ("new", "running", "paused", "cancelling"):
        raise Rejected("not-over", f"{execution_id} has not ended: it is {head.status}")
    rows = await services.store.read(execution_id, max(0, head.seq - 2))
    return given_by_playbook(execution_id, [fact for row in rows for fact in row.facts])


class OutputLoader:
    """Loads everything that belongs to one output, up to a size limit."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._left = OUTPUT_BYTES_MAX

    async def load(self, output: Output) -> JSON:
        """The data. Raises ApiError when it is too large for one response, or Damaged."""
        return await load_output(output, partial(read_iterations, self._services.store), self._result)

    async def _result(self, ref: dict[str, JSON]) -> bytes:
        meta = ref.get("meta")
        size = meta.get("unpacked_bytes", meta.get("bytes", 0)) if isinstance(meta, dict) else 0
        self._left -= size if isinstance(size, int) and size > 0 else 0
        if self._left < 0:
            detail = f"the output has more than {OUTPUT_BYTES_MAX >> 20} MiB: fetch its parts by GET /results"
            raise ApiError(422, "output-too-large", detail)
        try:
            return await self._services.results.get(ref)
        except NotFound as error:
            raise Damaged(f"{error}: it was stored, but it no longer exists") from error


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
        self._cache: BoundedCache[str, _Refs] = BoundedCache(EXECUTIONS_MAX)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def find(self, execution_id: str, digest: str) -> dict[str, JSON]:
        """The Ref. Raises NotFound when the execution does not exist or its log does not name the result."""
        lock = self._locks.setdefault(execution_id, asyncio.Lock())
        async with lock:
            refs = self._cache.pop(execution_id) or _Refs()
            if digest not in refs.by_digest:
                await self._read(execution_id, refs)
            if len(refs.by_digest) <= REFS_MAX and refs.seq:
                self._cache.put(execution_id, refs)
        if digest not in refs.by_digest:
            raise NotFound(f"the log of {execution_id} names no result {digest}")
        return refs.by_digest[digest]

    async def _read(self, execution_id: str, refs: _Refs) -> None:
        async for events in read_slices(self._store, execution_id, refs.seq):
            for event in events:
                body = _encode(event.fact)
                if b'"locator"' in body:  # most facts contain no ref and need not be decoded
                    for ref in refs_in(msgspec.json.decode(body)):
                        if isinstance(digest := ref["meta"].get("sha256"), str):
                            refs.by_digest[digest] = ref
                refs.seq = event.seq
