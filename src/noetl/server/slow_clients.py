"""Closes connections that send their headers too slowly, never, or without end.

uvicorn alone waits forever, and parses any number of headers that arrive in one piece, which would block all
other requests.
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
    _timer: asyncio.TimerHandle | None = None
    _in_headers = True  # the data belongs to a request line or to headers

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        # h11 measures only incomplete headers, so it first gets no more data than headers may have.
        size = HEADERS_BYTES_MAX + 1 if self.conn.their_state is h11.IDLE else len(data)
        for piece in (data[:size], data[size:]):
            if piece and not self.transport.is_closing():
                self._in_headers = self.conn.their_state is h11.IDLE
                super().data_received(piece)
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._timer is None:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """The response to a request that h11 cannot parse."""
        if not self._in_headers or len(self.conn.trailing_data[0]) <= HEADERS_BYTES_MAX:
            super().send_400_response(msg)
            return
        details = headers_too_large().details
        headers = [("content-type", MEDIA_TYPE), ("connection", "close")]
        response = h11.Response(status_code=details.status, headers=headers, reason=details.title.encode())
        for event in (response, h11.Data(data=msgspec.json.encode(details)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.headers_s, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def protocol_with_timeout(headers_s: float) -> type[SlowClientProtocol]:
    """A protocol class that allows `headers_s` for the headers of a request."""
    return type("TimedProtocol", (SlowClientProtocol,), {"headers_s": headers_s})
