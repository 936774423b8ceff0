"""All open streams: log tails by execution, the list of changed executions, heartbeats, and a limit.

When the server stops, all subscribers are asked to reconnect.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from noetl.api.executions import ExecutionSummary
from noetl.errors import NotFound, Unavailable
from noetl.server.errors import ApiError
from noetl.server.log_tail import LogTail, PageCache, sse_message
from noetl.server.services import Services
from noetl.server.subscriptions import POLL_S, RECONNECT, FeedSubscription, Subscriber

HEARTBEAT_S: Final = 15.0
GATHER_S: Final = 0.5  # several changes of one execution within this time are sent as one
HEADS_MAX: Final = 200  # looked up at once; the others follow in the next round


class StreamHub:
    """The streams of one server."""

    def __init__(self, services: Services, subscribers_max: int) -> None:
        self._services = services
        self._subscribers_max = subscribers_max
        self._pages = PageCache(services.store)
        self._tails: dict[str, LogTail] = {}
        self._subscribers: set[Subscriber] = set()  # of all streams
        self._head_subscribers: set[Subscriber] = set()
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

    async def heads(self, subscriber: Subscriber) -> AsyncIterator[bytes]:
        """The summaries of executions that change."""
        self._add(subscriber)
        try:
            yield RECONNECT
            self._head_subscribers.add(subscriber)
            if self._heads_task is None or self._heads_task.done():
                self._heads_task = asyncio.ensure_future(self._watch_heads())
            while chunk := await subscriber.next():
                yield chunk
        finally:
            self._head_subscribers.discard(subscriber)
            if not self._head_subscribers and self._heads_task is not None:
                self._heads_task.cancel()
                self._heads_task = None
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
        if tail is None or tail.last is not None:  # a retry may have reopened an ended execution
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
            chunk = b"".join([await self._head(id) for id in batch])
            for id in batch:
                del changed[id]
            for subscriber in self._head_subscribers:
                subscriber.push(chunk)
            await self._services.clock.sleep(GATHER_S)

    async def _head(self, execution_id: str) -> bytes:
        with suppress(NotFound, Unavailable):  # clients reload the list from time to time
            head = await self._services.listing.head(execution_id)
            return sse_message("head", ExecutionSummary.from_head(head))
        return b""
