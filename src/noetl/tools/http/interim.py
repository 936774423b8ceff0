"""A limit of interim responses (1xx): aiohttp reads and skips them without end, all that have arrived in one turn."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpProcessingError

if TYPE_CHECKING:
    from aiohttp.http import RawResponseMessage
    from aiohttp.streams import StreamReader

INTERIM_MAX: Final = 100  # before the response; servers send one or two
SLICE_BYTES: Final = 8_192  # of the received data before the response, that are parsed at once: about 1 ms


class Connector(aiohttp.TCPConnector):
    """Its connections end after more than INTERIM_MAX interim responses."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        make: type[ResponseHandler] = _Responses
        self._factory = partial(make, loop=self._loop)  # aiohttp has no public way to replace the protocol


class _Responses(ResponseHandler):
    _interim = 0  # since the request

    def set_response_params(self, **options: Any) -> None:
        self._interim = 0
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        at = 0
        while 0 <= self._interim <= INTERIM_MAX and len(data) - at > SLICE_BYTES:
            super().data_received(data[at : at + SLICE_BYTES])
            at += SLICE_BYTES
        if self._interim <= INTERIM_MAX:
            super().data_received(data[at:] if at else data)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        if self._interim > INTERIM_MAX:
            return
        if not 100 <= data[0].code < 200 or data[0].code == 101:
            self._interim = -1  # the response has begun: aiohttp limits what it parses of the body at once
        else:
            self._interim += 1
        if self._interim <= INTERIM_MAX:
            super().feed_data(data, size)
        else:
            self.set_exception(HttpProcessingError(message=f"more than {INTERIM_MAX} interim responses"))
            if self.transport is not None:
                self.transport.close()
