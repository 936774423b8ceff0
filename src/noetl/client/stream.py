"""The events of an execution as they come, by SSE. A lost connection is taken up behind the last event.

Nothing is told twice and nothing is left out, whatever happens to the connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

import msgspec
from msgspec import Struct

from noetl.client.answers import Ended, read
from noetl.client.http import AGAIN_MAX_S, AGAIN_S, Wire, getting
from noetl.engine import Event
from noetl.engine.facts import Fact
from noetl.errors import Unavailable
from noetl.views.envelopes import Envelope

QUIET_S: Final = 45.0  # a server says something every 15 s; after so long nobody is there
PATIENCE_S: Final = 120.0  # without a word from the server, until whoever listens is told
EVENT_BYTES_MAX: Final = 64 << 20


class Line(Struct, frozen=True, kw_only=True):
    """What a tool says while it works. Nobody keeps it."""

    frame: str = ""
    kind: Literal["line", "progress"] = "line"
    words: str = ""


Streamed: TypeAlias = Envelope | Line | Ended


class Message(NamedTuple):
    """One message of a stream, as it was sent."""

    event: str
    data: bytes


class Stream:
    """Iterate over it: envelopes, lines of tools, and at the end of the execution `Ended`, once."""

    def __init__(self, wire: Wire, execution_id: str, after: int = 0) -> None:
        self._wire = wire
        self._path = f"/executions/{quote(execution_id, safe='')}/stream"
        self._seq = after  # everything up to here was told
        self._parts: set[int] = set()  # of the fact behind it
        self._connected = False  # ever: whoever names a wrong address need not wait
        self._heard_at = wire.clock.monotonic()

    async def __aiter__(self) -> AsyncIterator[Streamed]:
        tries = 0
        while True:
            try:
                async for message in self._messages():
                    tries, self._heard_at = 0, self._wire.clock.monotonic()
                    for each in self._told(message):
                        yield each
                        if isinstance(each, Ended):
                            return
            except Unavailable as error:
                if not self._connected:
                    raise
                if self._wire.clock.monotonic() - self._heard_at > PATIENCE_S:
                    raise Unavailable(f"{error}; it was tried for {PATIENCE_S:g} s") from error
            tries += 1
            # A server that drops us at once must not be asked in a circle.
            await self._wire.clock.sleep(min(AGAIN_S * 2 ** min(tries - 1, 8), AGAIN_MAX_S))

    def _told(self, message: Message) -> list[Streamed]:
        match message.event:
            case "event":
                envelope = read(message.data, Envelope, self._wire.url)
                return [envelope] if self._is_new(envelope) else []
            case "line":
                return [read(message.data, Line, self._wire.url)]
            case "end":
                return [read(message.data or b"{}", Ended, self._wire.url)]
        return []  # a newer server may say more

    def _is_new(self, envelope: Envelope) -> bool:
        if envelope.seq <= self._seq:
            return False
        if envelope.seq > self._seq + 1:  # the one before is complete: the next has begun
            self._seq, self._parts = envelope.seq - 1, set()
        if envelope.part in self._parts:
            return False
        self._parts.add(envelope.part)
        return True

    async def _messages(self) -> AsyncIterator[Message]:
        """One connection. A fact that was told in part is asked for again: parts are known apart."""
        headers = {"Accept": "text/event-stream"}
        if self._seq:
            headers["Last-Event-ID"] = str(self._seq)
        request = getting(self._path, {"after": self._seq or None}, headers)
        async with self._wire.opened(request, None, quiet_s=QUIET_S) as response:
            self._connected = True
            async for message in messages(response.content.iter_any()):
                yield message


async def messages(chunks: AsyncIterator[bytes]) -> AsyncIterator[Message]:
    """What a stream of SSE says, without its comments; the heartbeat is a message without data."""
    waiting = b""
    event, data = "", list[bytes]()
    async for chunk in chunks:
        *whole, waiting = (waiting + chunk).split(b"\n")
        if len(waiting) > EVENT_BYTES_MAX:
            raise Unavailable("the server says more at once than anyone should hold")
        for line in whole:
            line = line.removesuffix(b"\r")
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if not line:
                if data or event:
                    yield Message(event or "message", b"\n".join(data))
                event, data = "", []
            elif name == b"event":
                event = value.decode("utf-8", "replace")
            elif name == b"data":
                data.append(value)
            elif name == b"":
                yield Message("", b"")


def fact_of(envelope: Envelope) -> Event | None:
    """The fact that it shows; None: it is only derived from one. Raises Unavailable: we do not know it."""
    if envelope.part:
        return None
    try:
        fact: Fact = msgspec.convert({"fact": envelope.name, **envelope.data}, Fact)
    except msgspec.ValidationError as error:
        words = f"{envelope.event_id} is a fact that this noetl does not know: is the server newer?"
        raise Unavailable(words) from error
    return Event(envelope.seq, datetime.fromisoformat(envelope.timestamp), fact)
