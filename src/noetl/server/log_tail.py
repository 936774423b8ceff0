"""The growing end of a log, for all who follow it: read, shown and encoded once, whoever many they are.

What lies before it is kept in encoded pages while there is room, so that many who come late cost little more.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from noetl.control.live_execution import turn
from noetl.engine import Event
from noetl.errors import Damaged, Unavailable
from noetl.output import JSON
from noetl.ports import EventStore
from noetl.server.errors import details_of
from noetl.server.log_readers import SLICE_FACTS, Reader
from noetl.server.services import Services
from noetl.server.subscriber import RETRY, Subscriber
from noetl.server.subscriptions import POLL_S, Ear

PAGE_FACTS: Final = 200
PAGES_BYTES_MAX: Final = 16 << 20  # of all executions
READERS_MAX: Final = 4

_encode = msgspec.json.Encoder().encode


class Page(NamedTuple):
    """Facts that follow each other, as they are sent."""

    first: int  # the seq of the first
    frames: tuple[bytes, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.frames) - 1

    def after(self, seq: int) -> bytes:
        return b"".join(self.frames[max(0, seq + 1 - self.first) :])


def message(event: str, value: object, seq: int | None = None) -> bytes:
    """One message of a stream. JSON is one line, whatever is in it."""
    id = b"" if seq is None else b"id: %d\n" % seq
    return b"%sevent: %s\ndata: %s\n\n" % (id, event.encode(), _encode(value))


def framed(reader: Reader, event: Event) -> bytes:
    """All envelopes of a fact. The last of them has the id: who got only some of them gets all again."""
    *others, last = reader.show(event)
    return b"".join(message("event", each) for each in others) + message("event", last, event.seq)


class Pages:
    """The past of logs, encoded."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._pages: OrderedDict[tuple[str, int], Page] = OrderedDict()
        self._bytes = 0
        self._readers: OrderedDict[str, Reader] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def get(self, execution_id: str, seq: int) -> Page:
        """The page that holds this fact. The last page of a log may be cut short."""
        number = (seq - 1) // PAGE_FACTS
        lock = self._locks.setdefault(execution_id, asyncio.Lock())
        async with lock:
            page = self._pages.get((execution_id, number))
            if page is None:
                page = await self._read(execution_id, number)
                self.put(execution_id, page)
            else:
                self._pages.move_to_end((execution_id, number))
        return page

    async def _read(self, execution_id: str, number: int) -> Page:
        reader = self._readers.pop(execution_id, None)
        if reader is None or reader.seq > number * PAGE_FACTS:
            reader = Reader(self._store, execution_id)
        await reader.skip(number * PAGE_FACTS)
        frames: list[bytes] = []
        while len(frames) < PAGE_FACTS and (events := await reader.events(PAGE_FACTS - len(frames))):
            frames += [framed(reader, event) for event in events]
            await turn()
        self._readers[execution_id] = reader
        if len(self._readers) > READERS_MAX:
            self._readers.popitem(last=False)
        return Page(number * PAGE_FACTS + 1, tuple(frames))

    def put(self, execution_id: str, page: Page) -> None:
        """Only whole ones are kept: they do not change any more."""
        key = (execution_id, (page.first - 1) // PAGE_FACTS)
        if len(page.frames) < PAGE_FACTS or (page.first - 1) % PAGE_FACTS or key in self._pages:
            return
        self._pages[key] = page
        self._bytes += sum(map(len, page.frames))
        while self._bytes > PAGES_BYTES_MAX:
            _, old = self._pages.popitem(last=False)
            self._bytes -= sum(map(len, old.frames))

    def tidy(self) -> None:
        """Nobody reads the past just now: what was read ahead is let go."""
        self._readers.clear()


class LogTail:
    """Of one execution, for all who follow it. It lives as long as there is one of them."""

    def __init__(self, desk: Services, pages: Pages, execution_id: str) -> None:
        self._desk = desk
        self._pages = pages
        self._reader = Reader(desk.store, execution_id)
        self.id = execution_id
        self.followers: set[Subscriber] = set()
        self.users = 0  # followers, and those who still read the past
        self.ready = asyncio.Event()  # it has reached the end of the log once
        self.first = 0  # frames from here on are held
        self._frames: list[bytes] = []
        self.last: bytes | None = None  # what is said last; None: there is more to come
        self._looked_at = desk.clock.monotonic()
        self._task: asyncio.Task[None] | None = None

    @property
    def seq(self) -> int:
        return self.first + len(self._frames)

    def start(self, after: int) -> None:
        self._task = asyncio.ensure_future(self._run(after))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def join(self, follower: Subscriber, cursor: int) -> None:
        """From here on he gets what comes. He has everything up to the cursor."""
        follower.offer(b"".join(self._frames[max(0, cursor - self.first) :]))
        if self.last is not None:
            follower.finish(self.last)
        else:
            self.followers.add(follower)

    async def _run(self, after: int) -> None:
        try:
            async with Ear(self._desk.feed, self.id) as ear:
                await self._reader.skip(after // PAGE_FACTS * PAGE_FACTS)
                self.first = self._reader.seq
                await self._catch_up()
                while self._reader.state.live:
                    self.ready.set()
                    await self._go_on(ear)
            said: dict[str, JSON] = {"execution_id": self.id, "status": self._reader.state.status}
            self._end(message("end", said))
        except (Damaged, Unavailable) as error:
            self._end(message("problem", details_of(error)[0]))
        finally:
            if self.last is None:
                self._end(RETRY)  # a bug of ours, or our end: nobody waits for ever
            self.ready.set()

    async def _go_on(self, ear: Ear) -> None:
        seqs, _, lines = await ear.hear(POLL_S)
        for line in lines:
            self._tell(message("line", line))
        now = self._desk.clock.monotonic()
        if seqs.get(self.id, 0) > self.seq or now - self._looked_at >= POLL_S:
            self._looked_at = now
            with suppress(Unavailable):  # it is looked for again in a moment
                await self._catch_up()

    async def _catch_up(self) -> None:
        while events := await self._reader.events(SLICE_FACTS):
            frames = [framed(self._reader, event) for event in events]
            self._frames += frames
            self._tell(b"".join(frames))
            self._turn_pages()
            await turn()

    def _turn_pages(self) -> None:
        """What fills a page is the past: others may have it from there."""
        while (room := PAGE_FACTS - self.first % PAGE_FACTS) <= len(self._frames):
            self._pages.put(self.id, Page(self.first + 1, tuple(self._frames[:room])))
            del self._frames[:room]
            self.first += room

    def _tell(self, chunk: bytes) -> None:
        for follower in self.followers:
            follower.offer(chunk)

    def _end(self, last: bytes) -> None:
        self.last = last
        for follower in self.followers:
            follower.finish(last)
        self.followers.clear()
