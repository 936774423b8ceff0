"""The transport below `noetl.link`: messages between servers and workers, by subject.

A transport is a plain message broker client. It stores nothing and it knows nothing about executions. The
protocol in `noetl.link` (requests to owners, feed, worker registry, secrets) runs over any implementation
that passes `TransportContract`.

Subjects are words of printable ASCII, separated by dots. In a subscription the last word may be `*`, which
matches any one word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from noetl.errors import Unavailable

REPLY_TIMEOUT_S: Final = 10.0


class NoResponder(Unavailable):
    """No process subscribes to the subject of a request. The transport reports it without waiting."""


class ReplyTimeout(Unavailable):
    """A process subscribes to the subject, but no complete reply arrived in time.

    The receiver may have acted on the request.
    """


class Message(Protocol):
    """A message as a handler receives it."""

    @property
    def subject(self) -> str:
        """The subject it was published on, without wildcards."""
        ...

    @property
    def reply(self) -> str:
        """The subject for replies; empty if the sender expects none."""
        ...

    @property
    def data(self) -> bytes: ...


Handler: TypeAlias = Callable[[Message], None]
Collect: TypeAlias = Callable[[bytes], bytes | None]


def first_reply(data: bytes) -> bytes | None:
    """The default `collect` of `Transport.request`: the first reply is the whole answer."""
    return data


class Subscription(Protocol):
    """One subscription of one process."""

    @property
    def subject(self) -> str: ...

    async def close(self) -> None:
        """End the subscription after the handler has received every message that is already in flight.

        It never raises Unavailable: without a connection there is nothing to wait for.
        """
        ...

    async def drop(self) -> None:
        """End the subscription at once. Messages in flight may be lost."""
        ...


class Transport(Protocol):
    """A connection of one process to a message broker. It belongs to one event loop.

    Guarantees:

    - Messages of one publisher on one subject reach a subscriber in the order of publication.
    - A message is delivered at most once. It is lost if no process subscribes, or while a connection is down.
    - Subscriptions survive a lost connection. The transport renews them when it reconnects automatically.
    - Errors never contain credentials or addresses.

    Every method opens the transport if it is not open yet, and raises Unavailable if the broker cannot be
    reached, refuses the connection, or the transport is closed.
    """

    @property
    def payload_limit(self) -> int:
        """The largest `data` of one message in bytes; 0 before the transport is open."""
        ...

    async def open(self) -> None:
        """Connect. Calling it again has no effect."""
        ...

    async def close(self) -> None:
        """Disconnect. Requests without a reply fail with Unavailable."""
        ...

    async def publish(self, subject: str, data: bytes, *, reply: str = "") -> None:
        """Send one message without waiting for delivery.

        Raises Unavailable instead of buffering while the connection is down, and for data that is larger
        than `payload_limit`.
        """
        ...

    async def request(
        self,
        subject: str,
        messages: Sequence[bytes],
        collect: Collect = first_reply,
        *,
        timeout_s: float = REPLY_TIMEOUT_S,
    ) -> bytes:
        """Send messages with a common reply subject and return the answer.

        `collect` receives each reply. It returns the complete answer, or None if more replies must follow;
        an Unavailable that it raises ends the request.

        Raises NoResponder at once if no process subscribes to the subject, ReplyTimeout if the answer is
        incomplete after `timeout_s`, and Unavailable if the connection is lost meanwhile.
        """
        ...

    async def subscribe(self, subject: str, handler: Handler, *, group: str = "") -> Subscription:
        """Call `handler` for each message on the subject.

        Of all subscriptions with the same `group`, one receives each message. The handler runs on the event
        loop and must not block; an exception in it goes to the loop's exception handler and does not
        affect other subscribers.
        """
        ...

    async def flush(self) -> None:
        """Return when the broker has processed everything that this transport sent before.

        Subscriptions made before are then active for publishers in other processes.
        """
        ...
