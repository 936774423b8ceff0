"""Messages of other programs: what triggers of kind `nats` receive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, TypeAlias

from noetl.secret import Secret


class ReceivedMessage(NamedTuple):
    """A message, and its place in the stream that stores it."""

    subject: str
    headers: dict[str, str]
    data: bytes
    stream: str | None = None  # None: it is not stored, and is delivered once at most
    sequence: int = 0  # in the stream
    stored_at: datetime | None = None  # by the stream
    deliveries: int = 1  # of this message so far, with this one
    dropped: int = 0  # messages without a stream that were lost before this one, because too many waited


class MessageAnswer(NamedTuple):
    """What a stream does with a message. Without a stream, it has no effect."""

    word: Literal["done", "again", "never"]
    delay_s: float = 0.0  # until it is delivered again


class MessageSelection(NamedTuple):
    """The messages of one trigger."""

    group: str  # of all receivers; one of them takes each message
    subject: str | None  # None: all of the stream
    stream: str | None
    since: datetime | None  # of a stream: messages since then; None: all
    credential: Mapping[str, Secret] | None  # address and login; None: the connection of the server


MessageHandler: TypeAlias = Callable[[ReceivedMessage], Awaitable[MessageAnswer]]


class MessageSource(Protocol):
    """Receives messages for the whole group of servers."""

    async def receive(self, selection: MessageSelection, handle: MessageHandler) -> None:
        """Handle messages, several at once, until the task is cancelled; then finish those that have arrived.

        Raises Unavailable if the connection is lost, and Rejected if the messages cannot be received as declared.
        """
        ...

    async def forget(self, selection: MessageSelection) -> None:
        """No receiver comes back: a stream no longer keeps messages for the group. Raises as `receive`."""
        ...
