"""Limits of what a server may send beside the response and its body: aiohttp reads and skips it without end.

Interim responses (1xx) come before the response. Chunk extensions and trailers come with the body.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpProcessingError

from noetl.tools.http.encoding import BodyEncodingError

if TYPE_CHECKING:
    from aiohttp.http import RawResponseMessage
    from aiohttp.streams import StreamReader

INTERIM_MAX: Final = 100  # before the response; servers send one or two
SLICE_BYTES: Final = 8_192  # of the received data before the response, that are parsed at once: about 1 ms
FRAMING_BYTES_MAX: Final = 1 << 20  # that bring no byte of the body
CHUNKS_MAX: Final = 256  # of the body, that are parsed at once: about 1 ms; aiohttp would parse 4,096


class Connector(aiohttp.TCPConnector):
    """Its connections end when a limit is reached."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        make: type[ResponseHandler] = _Responses
        self._factory = partial(make, loop=self._loop)  # aiohttp has no public way to replace the protocol


class _Responses(ResponseHandler):
    _interim = 0  # interim responses since the request
    _body: StreamReader | None = None  # None: the response has not begun
    _framing = 0  # bytes that were received since the body has grown
    _known = 0  # bytes of the body until then

    def set_response_params(self, **options: Any) -> None:
        self._interim, self._body, self._framing, self._known = 0, None, 0, 0
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        at = 0
        while self._body is None and self._interim <= INTERIM_MAX and len(data) - at > SLICE_BYTES:
            super().data_received(data[at : at + SLICE_BYTES])
            at += SLICE_BYTES
        if self._interim <= INTERIM_MAX and self._framing <= FRAMING_BYTES_MAX:
            super().data_received(data[at:] if at else data)
            if self._body is not None:
                self._count(self._body, len(data))

    def _count(self, body: StreamReader, size: int) -> None:
        grown, self._known = body.total_bytes > self._known, body.total_bytes
        self._framing = 0 if grown else self._framing + size
        if self._framing > FRAMING_BYTES_MAX:
            body.set_exception(BodyEncodingError(f"it has more than {FRAMING_BYTES_MAX:,} bytes without data"))
            self._refuse(f"more than {FRAMING_BYTES_MAX:,} bytes without data")

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        if self._interim > INTERIM_MAX:
            return
        if not 100 <= data[0].code < 200 or data[0].code == 101:
            self._body = data[1]
            # aiohttp pauses its parser at the upper number of chunks that were not read yet, until the lower one.
            self._body._high_water_chunks, self._body._low_water_chunks = CHUNKS_MAX, CHUNKS_MAX // 2
        else:
            self._interim += 1
        if self._interim <= INTERIM_MAX:
            super().feed_data(data, size)
        else:
            self._refuse(f"more than {INTERIM_MAX} interim responses")

    def _refuse(self, reason: str) -> None:
        self.set_exception(HttpProcessingError(message=reason))
        if self.transport is not None:
            self.transport.close()
