"""Live streams: the growing end of a log is read, converted and encoded once for all its subscribers.

Earlier facts are cached in encoded pages, so that many late subscribers cost little more than one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from noetl.api.executions import ExecutionSummary, StreamEnd
from noetl.cache import BoundedCache
from noetl.control.log_pages import SLICE_FACTS
from noetl.control.roles import matches_any
from noetl.engine import Event
from noetl.engine.state import LIVE
from noetl.errors import Damaged, NotFound, Unavailable
from noetl.ports import EventStore, PrintedBatch
from noetl.server.errors import ApiError, details_of
from noetl.server.log_growth import LogGrowthWatch
from noetl.server.log_readers import EnvelopeReader
from noetl.server.services import Services
from noetl.server.subscriptions import HEARTBEAT, POLL_S, RECONNECT, FeedSubscription, Subscriber, sse_message
from noetl.slices import turn
from noetl.views.log_filter import LineFilter

PAGE_FACTS: Final = 200
PAGES_BYTES_MAX: Final = 16 << 20  # of all executions
READERS_MAX: Final = 4


class EncodedPage(NamedTuple):
    """Consecutive facts in the form in which they are sent."""

    first: int  # the seq of the first
    chunks: tuple[bytes, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.chunks) - 1

    def after(self, seq: int) -> bytes:
        return b"".join(self.chunks[max(0, seq + 1 - self.first) :])


def encoded(reader: EnvelopeReader, event: Event) -> bytes:
    """All envelopes of a fact. Only the last one has the id: a client that missed one gets all again."""
    *others, last = reader.envelopes(event)
    return b"".join(sse_message("event", each) for each in others) + sse_message("event", last, event.seq)


class PageCache:
    """Encoded pages of the past of logs."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._pages: BoundedCache[tuple[str, int], EncodedPage] = BoundedCache(
            PAGES_BYTES_MAX, lambda page: sum(map(len, page.chunks))
        )
        self._readers: BoundedCache[str, EnvelopeReader] = BoundedCache(READERS_MAX)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def get(self, execution_id: str, seq: int) -> EncodedPage:
        """The page with this fact. The last page of a log may be incomplete."""
        number = (seq - 1) // PAGE_FACTS
        lock = self._locks.setdefault(execution_id, asyncio.Lock())
        async with lock:
            page = self._pages.get((execution_id, number))
            if page is None:
                page = await self._read(execution_id, number)
                self.put(execution_id, page)
        return page

    async def _read(self, execution_id: str, number: int) -> EncodedPage:
        reader = self._readers.pop(execution_id)
        if reader is None or reader.seq > number * PAGE_FACTS:
            reader = EnvelopeReader(self._store, execution_id)
        await reader.skip(number * PAGE_FACTS)
        chunks: list[bytes] = []
        while len(chunks) < PAGE_FACTS and (events := await reader.events(PAGE_FACTS - len(chunks))):
            chunks += [encoded(reader, event) for event in events]
            await turn()
        self._readers.put(execution_id, reader)
        return EncodedPage(number * PAGE_FACTS + 1, tuple(chunks))

    def put(self, execution_id: str, page: EncodedPage) -> None:
        """Cache a page when it is complete: a complete page never changes."""
        key = (execution_id, (page.first - 1) // PAGE_FACTS)
        if len(page.chunks) < PAGE_FACTS or (page.first - 1) % PAGE_FACTS or key in self._pages:
            return
        self._pages.put(key, page)

    def drop_readers(self) -> None:
        """Free the readers when there are no subscribers."""
        self._readers.clear()


class LogTail:
    """The end of the log of one execution. It exists as long as it has subscribers."""

    def __init__(self, services: Services, pages: PageCache, execution_id: str) -> None:
        self._services = services
        self._pages = pages
        self._reader = EnvelopeReader(services.store, execution_id)
        self.id = execution_id
        self.subscribers: set[Subscriber] = set()
        self.users = 0  # subscribers, and those that still read the past
        self.ready = asyncio.Event()  # set once it has reached the end of the log
        self.first = 0  # `_chunks` begin after this seq
        self._chunks: list[bytes] = []
        self.last: bytes | None = None  # the last message; None: the stream has not ended
        self._read_at = services.clock.monotonic()
        self._task: asyncio.Task[None] | None = None

    @property
    def seq(self) -> int:
        return self.first + len(self._chunks)

    def start(self, after: int) -> None:
        self._task = asyncio.ensure_future(self._run(after))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def join(self, subscriber: Subscriber, cursor: int) -> None:
        """Send a subscriber everything after the cursor, now and in the future."""
        subscriber.push(b"".join(self._chunks[max(0, cursor - self.first) :]))
        if self.last is not None:
            subscriber.finish(self.last)
        else:
            self.subscribers.add(subscriber)

    async def _run(self, after: int) -> None:
        try:
            async with FeedSubscription(self._services.feed, self.id) as subscription:
                await self._reader.skip(after // PAGE_FACTS * PAGE_FACTS)
                self.first = self._reader.seq
                await self._catch_up()
                while self._reader.state.live:
                    self.ready.set()
                    await self._follow(subscription)
            status = self._reader.state.status
            self._end(sse_message("end", StreamEnd(execution_id=self.id, status=status)))
        except (Damaged, Unavailable) as error:
            self._end(sse_message("problem", details_of(error)[0]))
        finally:
            if self.last is None:
                self._end(RECONNECT)  # cancelled, or a bug: no subscriber may wait forever
            self.ready.set()

    async def _follow(self, subscription: FeedSubscription) -> None:
        seqs, _, lines = await subscription.updates(POLL_S)
        for line in lines:
            self._publish(sse_message("line", line))
        now = self._services.clock.monotonic()
        if seqs.get(self.id, 0) > self.seq or now - self._read_at >= POLL_S:
            self._read_at = now
            with suppress(Unavailable):  # the next poll tries again
                await self._catch_up()

    async def _catch_up(self) -> None:
        while events := await self._reader.events(SLICE_FACTS):
            chunks = [encoded(self._reader, event) for event in events]
            self._chunks += chunks
            self._publish(b"".join(chunks))
            self._move_full_pages()
            await turn()

    def _move_full_pages(self) -> None:
        """Move chunks that fill a page to the page cache, where late subscribers read them."""
        while (missing := PAGE_FACTS - self.first % PAGE_FACTS) <= len(self._chunks):
            self._pages.put(self.id, EncodedPage(self.first + 1, tuple(self._chunks[:missing])))
            del self._chunks[:missing]
            self.first += missing

    def _publish(self, chunk: bytes) -> None:
        for subscriber in self.subscribers:
            subscriber.push(chunk)

    def _end(self, last: bytes) -> None:
        self.last = last
        for subscriber in self.subscribers:
            subscriber.finish(last)
        self.subscribers.clear()


def _printed_messages(batches: Sequence[PrintedBatch], wanted: LineFilter) -> Iterator[bytes]:
    """Only the last line of a batch has the id: a client that missed one gets the batch again."""
    for batch in batches:
        lines = [line for line in batch.lines if wanted.accepts(line.call)]
        for line in lines[:-1]:
            yield sse_message("printed", line)
        if lines:
            yield sse_message("printed", lines[-1], batch.number)


# All open streams. When the server stops, all subscribers are asked to reconnect


HEARTBEAT_S: Final = 15.0
PRINTED_S: Final = 1.0  # between two looks for printed lines; longer than a worker keeps them
GATHER_S: Final = 0.5  # several changes of one execution within this time are sent as one
HEADS_MAX: Final = 200  # looked up at once; the others follow in the next round


class StreamHub:
    def __init__(
        self, services: Services, subscribers_max: int, spent_s: Callable[[str], float] = lambda _: 0.0
    ) -> None:
        """`spent_s`: the time that was spent on reading the log of an execution for viewers."""
        self._services = services
        self._spent_s = spent_s
        self._subscribers_max = subscribers_max
        self._pages = PageCache(services.store)
        self._tails: dict[str, LogTail] = {}
        self._growths: dict[str, LogGrowthWatch] = {}
        self._subscribers: set[Subscriber] = set()  # of all streams
        self._head_subscribers: dict[Subscriber, Sequence[str] | None] = {}  # with the paths that they see
        self._heads_task: asyncio.Task[None] | None = None
        self._heartbeat_task: asyncio.Task[None] | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._subscribers)

    async def close(self) -> None:
        self._closed = True
        for subscriber in list(self._subscribers):
            subscriber.finish(RECONNECT)
        for task in (self._heads_task, self._heartbeat_task):
            if task is not None:
                task.cancel()
        for tail in list(self._tails.values()):
            await tail.stop()
        for growth in list(self._growths.values()):
            await growth.stop()

    async def execution(self, subscriber: Subscriber, execution_id: str, after: int) -> AsyncIterator[bytes]:
        """The events in the log after `after`, then new ones as they happen."""
        self._add(subscriber)
        try:
            yield RECONNECT
            tail = self._open_tail(execution_id, after)
            try:
                await tail.ready.wait()
                cursor = min(after, tail.seq)
                while cursor < tail.first and not subscriber.closed:
                    page = await self._pages.get(execution_id, cursor + 1)
                    yield page.after(cursor)
                    cursor = page.last
                tail.join(subscriber, cursor)
                while chunk := await subscriber.next():
                    yield chunk
            finally:
                tail.subscribers.discard(subscriber)
                await self._release_tail(tail)
        finally:
            await self._remove(subscriber)

    async def growth(self, subscriber: Subscriber, execution_id: str, after: int) -> AsyncIterator[bytes]:
        """The length of the log whenever it is longer than before, first than `after`."""
        self._add(subscriber)
        watch = self._growths.get(execution_id)
        if watch is None or watch.last is not None:  # a retry may have reopened a finished execution
            watch = self._growths[execution_id] = LogGrowthWatch(
                self._services, execution_id, lambda: self._spent_s(execution_id)
            )
            watch.start()
        watch.users += 1
        try:
            yield RECONNECT
            watch.join(subscriber, after)
            while chunk := await subscriber.next():
                yield chunk
        finally:
            watch.subscribers.discard(subscriber)
            watch.users -= 1
            if not watch.users:
                if self._growths.get(execution_id) is watch:
                    del self._growths[execution_id]
                await watch.stop()
            await self._remove(subscriber)

    async def heads(self, subscriber: Subscriber, within: Sequence[str] | None = None) -> AsyncIterator[bytes]:
        """The summaries of executions that change. `within`: only of these paths; None: of all."""
        self._add(subscriber)
        try:
            yield RECONNECT
            self._head_subscribers[subscriber] = within
            if self._heads_task is None or self._heads_task.done():
                self._heads_task = asyncio.ensure_future(self._watch_heads())
            while chunk := await subscriber.next():
                yield chunk
        finally:
            self._head_subscribers.pop(subscriber, None)
            if not self._head_subscribers and self._heads_task is not None:
                self._heads_task.cancel()
                self._heads_task = None
            await self._remove(subscriber)

    async def printed(
        self, subscriber: Subscriber, execution_id: str, after: int, wanted: LineFilter
    ) -> AsyncIterator[bytes]:
        """The lines that tasks have printed after `after`, then new ones until the execution has ended."""
        self._add(subscriber)
        services, beat_at = self._services, self._services.clock.monotonic()
        try:
            yield RECONNECT
            has_ended = False
            while not subscriber.closed:
                # The status is read first: the last lines may be stored a moment after the end.
                was_ended, status = has_ended, await services.store.status(execution_id)
                has_ended = status not in LIVE
                while not subscriber.closed and (batches := await services.logs.read(execution_id, after)):
                    after, beat_at = batches[-1].number, services.clock.monotonic()
                    yield b"".join(_printed_messages(batches, wanted))
                if was_ended:
                    yield sse_message("end", StreamEnd(execution_id=execution_id, status=status or "ok"))
                    return
                if services.clock.monotonic() - beat_at >= HEARTBEAT_S:
                    beat_at = services.clock.monotonic()
                    yield HEARTBEAT
                await services.clock.sleep(PRINTED_S)
        finally:
            await self._remove(subscriber)

    def _add(self, subscriber: Subscriber) -> None:
        if self._closed or len(self._subscribers) >= self._subscribers_max:
            reason = "the server stops" if self._closed else f"{len(self._subscribers):,} streams are open"
            raise ApiError(503, "too-many-followers", f"{reason}: try again later", {"Retry-After": "5"})
        self._subscribers.add(subscriber)
        if self._heartbeat_task is None or self._heartbeat_task.done():
            self._heartbeat_task = asyncio.ensure_future(self._send_heartbeats())

    async def _remove(self, subscriber: Subscriber) -> None:
        self._subscribers.discard(subscriber)
        if not self._subscribers and self._heartbeat_task is not None:
            self._heartbeat_task.cancel()
            self._heartbeat_task = None
            self._pages.drop_readers()

    def _open_tail(self, execution_id: str, after: int) -> LogTail:
        tail = self._tails.get(execution_id)
        if tail is None or tail.last is not None:  # a retry may have reopened a finished execution
            tail = self._tails[execution_id] = LogTail(self._services, self._pages, execution_id)
            tail.start(after)
        tail.users += 1
        return tail

    async def _release_tail(self, tail: LogTail) -> None:
        tail.users -= 1
        if not tail.users:
            if self._tails.get(tail.id) is tail:
                del self._tails[tail.id]
            await tail.stop()

    async def _send_heartbeats(self) -> None:
        while True:
            await self._services.clock.sleep(HEARTBEAT_S)
            for subscriber in list(self._subscribers):
                subscriber.heartbeat()

    async def _watch_heads(self) -> None:
        try:
            async with FeedSubscription(self._services.feed) as subscription:
                await self._publish_heads(subscription)
        finally:
            for subscriber in self._head_subscribers:
                subscriber.finish(RECONNECT)  # cancelled, or a bug: no subscriber may wait forever

    async def _publish_heads(self, subscription: FeedSubscription) -> None:
        changed: dict[str, int] = {}
        while True:
            changed.update((await subscription.updates(POLL_S if not changed else 0)).seqs)
            batch = [*changed][:HEADS_MAX]
            heads = [await self._head(id) for id in batch]
            for id in batch:
                del changed[id]
            everything = b"".join([message for _, message in heads])
            for subscriber, within in self._head_subscribers.items():
                if within is None:
                    subscriber.push(everything)
                else:
                    subscriber.push(b"".join([message for path, message in heads if matches_any(within, path)]))
            await self._services.clock.sleep(GATHER_S)

    async def _head(self, execution_id: str) -> tuple[str, bytes]:
        """The path and the message."""
        with suppress(NotFound, Unavailable):  # clients reload the list from time to time
            head = await self._services.listing.head(execution_id)
            return head.path, sse_message("head", ExecutionSummary.from_head(head))
        return "", b""
