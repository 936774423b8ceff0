"""All who follow something: tails by execution, the list of changed heads, heartbeats, and a limit.

When the server stops, everyone is told to come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from msgspec import Struct

from noetl.engine.state import Status
from noetl.errors import NotFound, Unavailable
from noetl.ports import ExecutionHead
from noetl.server.errors import Refused
from noetl.server.log_tail import LogTail, Pages, message
from noetl.server.services import Services
from noetl.server.subscriber import RETRY, Subscriber
from noetl.server.subscriptions import POLL_S, Ear
from noetl.views.log import instant

BEAT_S: Final = 15.0
GATHER_S: Final = 0.5  # news of one execution within this are told once
HEADS_MAX: Final = 200  # that are looked up at once; the others are told next


class HeadShown(Struct, frozen=True, kw_only=True):
    """An execution as a list shows it."""

    execution_id: str
    path: str
    digest: str
    status: Status
    seq: int
    started_at: str
    updated_at: str
    parent: str | None
    owner_alive: bool


def head_shown(head: ExecutionHead) -> HeadShown:
    return HeadShown(
        execution_id=head.execution_id,
        path=head.path,
        digest=head.digest,
        status=head.status,
        seq=head.seq,
        started_at=instant(head.started_at),
        updated_at=instant(head.updated_at),
        parent=head.parent,
        owner_alive=head.owner_alive,
    )


class Streams:
    """Of one server."""

    def __init__(self, desk: Services, followers_max: int) -> None:
        self._desk = desk
        self._followers_max = followers_max
        self._pages = Pages(desk.store)
        self._tails: dict[str, LogTail] = {}
        self._all: set[Subscriber] = set()  # whatever they follow
        self._of_heads: set[Subscriber] = set()
        self._heads: asyncio.Task[None] | None = None
        self._beats: asyncio.Task[None] | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._all)

    async def close(self) -> None:
        self._closed = True
        for follower in list(self._all):
            follower.finish(RETRY)
        for task in (self._heads, self._beats):
            if task is not None:
                task.cancel()
        for tail in list(self._tails.values()):
            await tail.stop()

    async def execution(self, follower: Subscriber, execution_id: str, after: int) -> AsyncIterator[bytes]:
        """What is on record behind `after`, then what comes."""
        self._seat(follower)
        try:
            yield RETRY
            tail = self._tail(execution_id, after)
            try:
                await tail.ready.wait()
                cursor = min(after, tail.seq)
                while cursor < tail.first and not follower.over:
                    page = await self._pages.get(execution_id, cursor + 1)
                    yield page.after(cursor)
                    cursor = page.last
                tail.join(follower, cursor)
                while chunk := await follower.next():
                    yield chunk
            finally:
                tail.followers.discard(follower)
                await self._left(tail)
        finally:
            await self._leave(follower)

    async def heads(self, follower: Subscriber) -> AsyncIterator[bytes]:
        """Executions that have changed, each as the list shows it."""
        self._seat(follower)
        try:
            yield RETRY
            self._of_heads.add(follower)
            if self._heads is None or self._heads.done():
                self._heads = asyncio.ensure_future(self._watch_heads())
            while chunk := await follower.next():
                yield chunk
        finally:
            self._of_heads.discard(follower)
            if not self._of_heads and self._heads is not None:
                self._heads.cancel()
                self._heads = None
            await self._leave(follower)

    def _seat(self, follower: Subscriber) -> None:
        if self._closed or len(self._all) >= self._followers_max:
            words = "the server stops" if self._closed else f"{len(self._all):,} others follow something"
            raise Refused(503, "too-many-followers", f"{words}: try again later", {"Retry-After": "5"})
        self._all.add(follower)
        if self._beats is None or self._beats.done():
            self._beats = asyncio.ensure_future(self._beat())

    async def _leave(self, follower: Subscriber) -> None:
        self._all.discard(follower)
        if not self._all and self._beats is not None:
            self._beats.cancel()
            self._beats = None
            self._pages.tidy()

    def _tail(self, execution_id: str, after: int) -> LogTail:
        tail = self._tails.get(execution_id)
        if tail is None or tail.last is not None:  # a retry may have opened it again
            tail = self._tails[execution_id] = LogTail(self._desk, self._pages, execution_id)
            tail.start(after)
        tail.users += 1
        return tail

    async def _left(self, tail: LogTail) -> None:
        tail.users -= 1
        if not tail.users:
            if self._tails.get(tail.id) is tail:
                del self._tails[tail.id]
            await tail.stop()

    async def _beat(self) -> None:
        while True:
            await self._desk.clock.sleep(BEAT_S)
            for follower in list(self._all):
                follower.beat()

    async def _watch_heads(self) -> None:
        try:
            async with Ear(self._desk.feed) as ear:
                await self._tell_heads(ear)
        finally:
            for follower in self._of_heads:
                follower.finish(RETRY)  # a bug of ours, or our end: nobody waits for ever

    async def _tell_heads(self, ear: Ear) -> None:
        changed: dict[str, int] = {}
        while True:
            changed.update((await ear.hear(POLL_S if not changed else 0)).seqs)
            now = [*changed][:HEADS_MAX]
            chunk = b"".join([await self._head(id) for id in now])
            for id in now:
                del changed[id]
            for follower in self._of_heads:
                follower.offer(chunk)
            await self._desk.clock.sleep(GATHER_S)

    async def _head(self, execution_id: str) -> bytes:
        with suppress(NotFound, Unavailable):  # whoever shows lists reads them anew from time to time
            return message("head", head_shown(await self._desk.listing.head(execution_id)))
        return b""
