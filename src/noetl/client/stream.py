"""The events of an execution as they happen, over SSE. A lost connection is resumed after the last event.

Every event is delivered exactly once, however often the connection is lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias

import msgspec

from noetl.api.executions import StreamEnd, StreamLine
from noetl.client.http import RETRY_MAX_S, RETRY_S, HttpTransport, decode
from noetl.client.remote_ports import execution_path
from noetl.engine import Event
from noetl.engine.facts import Fact
from noetl.errors import Unavailable
from noetl.views.envelopes import Envelope

SILENCE_S: Final = 45.0  # a server sends something every 15 s; after this time the connection is dead
GIVE_UP_S: Final = 120.0  # without a message from the server, until iteration fails
EVENT_BYTES_MAX: Final = 64 << 20


Streamed: TypeAlias = Envelope | StreamLine | StreamEnd


class SseMessage(NamedTuple):
    """One message of a stream, as it was sent."""

    event: str
    data: bytes


class EventStream:
    """Iterates over envelopes, lines of tools and, when the execution has ended, one `StreamEnd`."""

    def __init__(self, http: HttpTransport, execution_id: str, after: int = 0) -> None:
        self._http = http
        self._path = f"{execution_path(execution_id)}/stream"
        self._seq = after  # everything up to here was delivered
        self._parts: set[int] = set()  # of the fact after it, those that were delivered
        self._connected = False  # at any time: a wrong address fails at once
        self._received_at = http.clock.monotonic()

    async def __aiter__(self) -> AsyncIterator[Streamed]:
        tries = 0
        while True:
            try:
                async for message in self._messages():
                    tries, self._received_at = 0, self._http.clock.monotonic()
                    for item in self._items(message):
                        yield item
                        if isinstance(item, StreamEnd):
                            return
            except Unavailable as error:
                if not self._connected:
                    raise
                if self._http.clock.monotonic() - self._received_at > GIVE_UP_S:
                    raise Unavailable(f"{error}; gave up after {GIVE_UP_S:g} s") from error
            tries += 1
            # A server that closes every connection at once must not be asked in a tight loop.
            await self._http.clock.sleep(min(RETRY_S * 2 ** min(tries - 1, 8), RETRY_MAX_S))

    def _items(self, message: SseMessage) -> list[Streamed]:
        match message.event:
            case "event":
                envelope = decode(message.data, Envelope, self._http.url)
                return [envelope] if self._is_new(envelope) else []
            case "line":
                return [decode(message.data, StreamLine, self._http.url)]
            case "end":
                return [decode(message.data or b"{}", StreamEnd, self._http.url)]
        return []  # a newer server may send more kinds of messages

    def _is_new(self, envelope: Envelope) -> bool:
        if envelope.seq <= self._seq:
            return False
        if envelope.seq > self._seq + 1:  # the fact before this one is complete
            self._seq, self._parts = envelope.seq - 1, set()
        if envelope.part in self._parts:
            return False
        self._parts.add(envelope.part)
        return True

    async def _messages(self) -> AsyncIterator[SseMessage]:
        """The messages of one connection.

        A fact that was delivered in part is requested again; `_is_new` drops the parts that were delivered.
        """
        headers = {"Accept": "text/event-stream"}
        if self._seq:
            headers["Last-Event-ID"] = str(self._seq)
        params = {"after": self._seq or None}
        async with self._http.open_get(self._path, params, headers, silence_s=SILENCE_S) as response:
            self._connected = True
            async for message in messages(response.content.iter_any()):
                yield message


async def messages(chunks: AsyncIterator[bytes]) -> AsyncIterator[SseMessage]:
    """Parse SSE. A comment, which is the heartbeat, becomes a message without event and data."""
    rest = b""
    event, data = "", list[bytes]()
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > EVENT_BYTES_MAX:
            raise Unavailable(f"the server sent a message of over {EVENT_BYTES_MAX >> 20} MiB")
        for line in lines:
            line = line.removesuffix(b"\r")
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if not line:
                if data or event:
                    yield SseMessage(event or "message", b"\n".join(data))
                event, data = "", []
            elif name == b"event":
                event = value.decode("utf-8", "replace")
            elif name == b"data":
                data.append(value)
            elif name == b"":
                yield SseMessage("", b"")


def fact_of(envelope: Envelope) -> Event | None:
    """The fact of an envelope; None: the envelope is only derived from a fact.

    Raises Unavailable when this version of NoETL does not know the fact.
    """
    if envelope.part:
        return None
    try:
        fact: Fact = msgspec.convert({"fact": envelope.name, **envelope.data}, Fact)
    except msgspec.ValidationError as error:
        message = f"{envelope.event_id} is a fact that this version of noetl does not know"
        raise Unavailable(f"{message}: is the server newer?") from error
    return Event(envelope.seq, datetime.fromisoformat(envelope.timestamp), fact)
