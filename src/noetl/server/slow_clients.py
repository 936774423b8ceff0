"""Connections that send their headers too slowly, never, or without end are closed.

uvicorn alone would wait for ever, and read whatever comes in one piece: ten thousand headers that no one
wants would hold up everyone else.
"""

from __future__ import annotations

import asyncio

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from noetl.server.errors import MEDIA_TYPE
from noetl.server.middleware import HEADERS_BYTES_MAX, headers_too_large
from noetl.server.services import HEADERS_S


class SlowClientProtocol(H11Protocol):
    """One connection."""

    headers_s = HEADERS_S
    _late: asyncio.TimerHandle | None = None
    _in_head = True  # what comes belongs to a request line or headers

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        # h11 measures only what is not whole yet: it is shown no more than a head may have, then the rest.
        much = HEADERS_BYTES_MAX + 1 if self.conn.their_state is h11.IDLE else len(data)
        for piece in (data[:much], data[much:]):
            if piece and not self.transport.is_closing():
                self._in_head = self.conn.their_state is h11.IDLE
                super().data_received(piece)
        if self.conn.their_state is not h11.IDLE:
            self._wait_no_more()
        elif self._late is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """For whatever h11 can not read."""
        if not self._in_head or len(self.conn.trailing_data[0]) <= HEADERS_BYTES_MAX:
            super().send_400_response(msg)
            return
        told = headers_too_large().details
        headers = [("content-type", MEDIA_TYPE), ("connection", "close")]
        answer = h11.Response(status_code=told.status, headers=headers, reason=told.title.encode())
        for event in (answer, h11.Data(data=msgspec.json.encode(told)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _wait(self) -> None:
        self._late = self.loop.call_later(self.headers_s, self.transport.abort)

    def _wait_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def patient(headers_s: float) -> type[SlowClientProtocol]:
    """With another patience."""
    return type("Patient", (SlowClientProtocol,), {"headers_s": headers_s})
