"""A message bus within one process: for tests, and to run servers and workers without NATS."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Final, NamedTuple

from noetl.errors import Unavailable
from noetl.ports import REPLY_TIMEOUT_S, Collect, Handler, Message, NoResponder, ReplyTimeout, first_reply

PAYLOAD_LIMIT: Final = 1_048_576


class MemoryMessage(NamedTuple):
    subject: str
    reply: str
    data: bytes


class MemoryBus:
    """Connects the transports of one event loop."""

    def __init__(self, payload_limit: int = PAYLOAD_LIMIT) -> None:
        self.payload_limit = payload_limit
        self._subscriptions: dict[str, list[MemorySubscription]] = {}  # by subject, also with a wildcard
        self._turns = count()  # which subscription of a group comes next

    def add(self, subscription: MemorySubscription) -> None:
        self._subscriptions.setdefault(subscription.subject, []).append(subscription)

    def remove(self, subscription: MemorySubscription) -> None:
        subscriptions = self._subscriptions.get(subscription.subject, [])
        if subscription in subscriptions:
            subscriptions.remove(subscription)
        if not subscriptions:
            self._subscriptions.pop(subscription.subject, None)

    def deliver(self, message: MemoryMessage) -> bool:
        """Schedule the handlers of all matching subscriptions. False: there are none."""
        wildcard = f"{message.subject.rpartition('.')[0]}.*"
        groups: dict[str, list[MemorySubscription]] = {}
        for subject in (message.subject, wildcard):
            for each in self._subscriptions.get(subject, ()):
                groups.setdefault(each.group, []).append(each)
        loop = asyncio.get_running_loop()
        for group, members in groups.items():
            for each in members if not group else [members[next(self._turns) % len(members)]]:
                loop.call_soon(each.receive, message)
        return bool(groups)


class MemorySubscription:
    """One subscription of one transport."""

    def __init__(self, bus: MemoryBus, subject: str, handler: Handler, group: str) -> None:
        self._broker = bus
        self.subject, self.group = subject, group
        self._handler = handler
        self._dropped = False

    def receive(self, message: MemoryMessage) -> None:
        if not self._dropped:
            self._handler(message)  # an exception goes to the loop's exception handler

    async def close(self) -> None:
        self._broker.remove(self)
        await _next_iteration()

    async def drop(self) -> None:
        self._dropped = True
        self._broker.remove(self)


class MemoryTransport:
    """A `Transport` of a `MemoryBroker`."""

    def __init__(self, bus: MemoryBus) -> None:
        self._broker = bus
        self._inboxes = count(1)
        self._subscriptions: list[MemorySubscription] = []
        self._pending: set[asyncio.Future[bytes]] = set()
        self._opened = self._closed = False

    @property
    def payload_limit(self) -> int:
        return self._broker.payload_limit if self._opened else 0

    async def open(self) -> None:
        self._check_open()

    async def close(self) -> None:
        self._closed = True
        for subscription in self._subscriptions:
            await subscription.drop()
        for answer in self._pending:
            if not answer.done():
                answer.set_exception(Unavailable("the transport is closed"))

    async def publish(self, subject: str, data: bytes, *, reply: str = "") -> None:
        self._send(subject, data, reply)

    async def request(
        self,
        subject: str,
        messages: Sequence[bytes],
        collect: Collect = first_reply,
        *,
        timeout_s: float = REPLY_TIMEOUT_S,
    ) -> bytes:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def receive(message: Message) -> None:
            try:
                whole = collect(message.data)
            except Unavailable as error:
                if not answer.done():
                    answer.set_exception(error)
                return
            if whole is not None and not answer.done():
                answer.set_result(whole)

        inbox = MemorySubscription(self._broker, f"_INBOX.{id(self)}.{next(self._inboxes)}", receive, "")
        self._broker.add(inbox)
        self._pending.add(answer)
        try:
            for data in messages:
                if not self._send(subject, data, inbox.subject):
                    raise NoResponder("no process answers on this subject")
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise ReplyTimeout(f"no answer within {timeout_s:g} s") from None
        finally:
            self._pending.discard(answer)
            await inbox.drop()

    def _send(self, subject: str, data: bytes, reply: str) -> bool:
        self._check_open()
        if len(data) > self._broker.payload_limit:
            raise Unavailable(f"a message of {len(data):,} bytes exceeds {self._broker.payload_limit:,}")
        return self._broker.deliver(MemoryMessage(subject, reply, data))

    async def subscribe(self, subject: str, handler: Handler, *, group: str = "") -> MemorySubscription:
        self._check_open()
        subscription = MemorySubscription(self._broker, subject, handler, group)
        self._broker.add(subscription)
        self._subscriptions.append(subscription)
        return subscription

    async def flush(self) -> None:
        self._check_open()
        await _next_iteration()

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the transport is closed")
        self._opened = True


async def _next_iteration() -> None:
    """Return after the handlers that the loop has scheduled so far."""
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(done.set_result, None)
    await done
