"""Connections that send their headers too slowly, or never, are closed: uvicorn alone would wait for ever."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from noetl.server.desk import HEADERS_S


class PatientProtocol(H11Protocol):
    """One connection."""

    headers_s = HEADERS_S
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._wait_no_more()
        elif self._late is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._late = self.loop.call_later(self.headers_s, self.transport.abort)

    def _wait_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def patient(headers_s: float) -> type[PatientProtocol]:
    """With another patience."""
    return type("Patient", (PatientProtocol,), {"headers_s": headers_s})
