"""How long the log of an execution is: a stream for clients that fetch only what they show."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from noetl.api.executions import LogGrowth, StreamEnd
from noetl.engine.state import LIVE
from noetl.errors import NotFound, Unavailable
from noetl.server.errors import details_of
from noetl.server.services import Services
from noetl.server.subscriptions import POLL_S, RECONNECT, FeedSubscription, Subscriber, sse_message

GATHER_S: Final = 0.2  # between two messages, at least
GATHER_MAX_S: Final = 10.0  # between two messages about a log that grows, at most
REQUESTS_S: Final = 0.003  # what the requests of one subscriber after a message take, besides reading the log
SHARE: Final = 1 / 30  # of the time that may pass with work for viewers: the next message waits until this is kept


class LogGrowthWatch:
    """Tells subscribers how long one log is. It reads no facts, and exists as long as it has subscribers.

    After a message they fetch what they show, which takes time of the process that may also run the execution.
    When the log grows fast, messages become rare, so that this takes a small share of the time.
    """

    def __init__(self, services: Services, execution_id: str, spent_s: Callable[[], float]) -> None:
        """`spent_s`: the time that was spent on reading this log for viewers until now."""
        self._services = services
        self._spent_s = spent_s
        self.id = execution_id
        self.seq = 0
        self.subscribers: set[Subscriber] = set()
        self.users = 0
        self.last: bytes | None = None  # the last message; None: the stream has not ended
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def join(self, subscriber: Subscriber, after: int) -> None:
        """Send a subscriber the length if the log is longer than `after`, then each new length."""
        if self.seq > after:
            subscriber.push(self._message())
        if self.last is not None:
            subscriber.finish(self.last)
        else:
            self.subscribers.add(subscriber)

    async def _run(self) -> None:
        try:
            async with FeedSubscription(self._services.feed, self.id) as subscription:
                while True:
                    sent_at, spent = self._services.clock.monotonic(), self._spent_s()
                    status = await self._look()
                    if status is not None and status not in LIVE:
                        self._end(sse_message("end", StreamEnd(execution_id=self.id, status=status)))
                        return
                    await self._pause(subscription, sent_at, spent)
        except NotFound as error:
            self._end(sse_message("problem", details_of(error)[0]))
        finally:
            if self.last is None:
                self._end(RECONNECT)  # cancelled, or a bug: no subscriber may wait forever

    async def _look(self) -> str | None:
        """Tell subscribers when the log is longer; not at its end, because they fetch it after the last message.

        Returns the status; None: it is unknown now.
        """
        try:
            head = await self._services.listing.head(self.id)
        except Unavailable:
            return None  # the next look tries again
        before, self.seq = self.seq, head.seq
        if head.seq > before and head.status in LIVE:
            for subscriber in self.subscribers:
                subscriber.push(self._message())
        return head.status

    async def _pause(self, subscription: FeedSubscription, sent_at: float, spent: float) -> None:
        """Return when the execution has ended, or when there is something new and it is time for the next message."""
        clock, changed = self._services.clock, False
        while (left_s := sent_at + self._interval_s(spent) - clock.monotonic()) > 0:
            await clock.sleep(min(left_s, GATHER_S))
            updates = await subscription.updates(0)
            if updates.ended:
                return
            changed = changed or bool(updates.seqs)
        if not changed:
            await subscription.updates(POLL_S)

    def _interval_s(self, spent: float) -> float:
        spent_s = self._spent_s() - spent + len(self.subscribers) * REQUESTS_S
        return min(max(GATHER_S, spent_s / SHARE), GATHER_MAX_S)

    def _message(self) -> bytes:
        return sse_message("grown", LogGrowth(execution_id=self.id, seq=self.seq), self.seq)

    def _end(self, last: bytes) -> None:
        self.last = last
        for subscriber in self.subscribers:
            subscriber.finish(last)
        self.subscribers.clear()
