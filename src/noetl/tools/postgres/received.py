"""The bytes that a connection receives, counted between the transport and the driver, with a limit.

The driver keeps all rows of an answer in memory, and one row can have 1 GB. A connection that receives more than the
limit is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from noetl.tools.errors import TooLarge


def rows_too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"the rows are too large for memory (limit ROWS_BYTES_MAX: {limit:,} bytes); select fewer rows or columns, "
        "write them to the result store with `copy: {query, to}`, or pass them on with `kind: transfer`"
    )


class ReceivedBytes(asyncio.Protocol):
    """Passes everything on to the protocol of the driver."""

    def __init__(self, driver: Any, transport: asyncio.Transport) -> None:
        self._driver = driver
        self._transport = transport
        self._limit: int | None = None  # None: no limit
        self._exceeded = False
        self.count = 0  # since the beginning of `limited`

    @classmethod
    def attach(cls, connection: Any) -> None:
        """To a new connection of asyncpg."""
        transport = connection._transport
        transport.set_protocol(cls(transport.get_protocol(), transport))

    @classmethod
    def of(cls, connection: Any) -> ReceivedBytes:
        found = connection._transport.get_protocol()
        assert isinstance(found, cls), "the pool attaches it"
        return found

    @contextmanager
    def limited(self, limit: int) -> Iterator[None]:
        """Raises TooLarge, and closes the connection, if more bytes are received inside."""
        self.count, self._limit = 0, limit
        try:
            yield
        except Exception as error:
            if self._exceeded:
                raise rows_too_large(limit) from error
            raise
        finally:
            self._limit = None

    def data_received(self, data: bytes) -> None:
        self.count += len(data)
        if self._limit is not None and self.count > self._limit:
            self._exceeded = True
            self._transport.abort()
            return
        self._driver.data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._driver.connection_lost(error)

    def pause_writing(self) -> None:
        self._driver.pause_writing()

    def resume_writing(self) -> None:
        self._driver.resume_writing()

    def eof_received(self) -> bool | None:
        made: bool | None = self._driver.eof_received()
        return made
