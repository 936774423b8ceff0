"""Decompression of response bodies, in small pieces, and with an error for a compressed body that ends early.

aiohttp's own decompression accepts a gzip body that was cut off, so a part of the data would count as all of it.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import aiohttp

from noetl.slices import long_turn

if TYPE_CHECKING:
    from aiohttp import ClientResponse

ACCEPTED = "gzip, deflate"
PIECE_BYTES = 64 * 1024  # decompressing it takes about 0.2 ms
_GZIP = frozenset({"gzip", "x-gzip"})
_UNSUPPORTED = frozenset({"br", "zstd", "compress"})


class BodyEncodingError(aiohttp.ClientError):
    """The body is not what its Content-Encoding says."""


async def body_parts(reply: ClientResponse) -> AsyncIterator[bytes]:
    """Pieces of the body. Raises BodyEncodingError and errors of aiohttp.

    Others have a turn after each piece: a body of chunks with one byte each, or one that decompresses to much more,
    would otherwise keep the event loop for as long as its data is there.
    """
    encoding = reply.headers.get("Content-Encoding", "").strip().lower()
    if encoding in _UNSUPPORTED:
        raise BodyEncodingError(f"its Content-Encoding {encoding} is not supported; it must be one of {ACCEPTED}")
    decoder = _Decoder(encoding) if encoding in _GZIP or encoding == "deflate" else None
    while part := await reply.content.readany():
        if decoder is None:
            yield part
        else:
            for piece in decoder.feed(part):
                yield piece
                await long_turn()
        if not reply.content.at_eof():
            await long_turn()
    if decoder is not None:
        decoder.end()


class _Decoder:
    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._inflate = zlib.decompressobj(31 if encoding in _GZIP else 15)
        self._started = False
        self._ended = False  # at the end of a gzip member; another one may follow

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The decompressed data in pieces, so that a small input cannot become large at once."""
        if not self._started and self._encoding == "deflate" and data[0] & 0xF != 8:
            self._inflate = zlib.decompressobj(-15)  # many servers leave out the header
        self._started = True
        while data:
            if self._ended:
                if self._encoding == "deflate" or not data.startswith(b"\x1f"):
                    return  # padding behind the end
                self._inflate, self._ended = zlib.decompressobj(31), False
            try:
                piece = self._inflate.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                raise BodyEncodingError(f"it is not valid {self._encoding}, as its Content-Encoding says") from error
            if piece:
                yield piece
            self._ended = self._inflate.eof
            data = self._inflate.unused_data if self._ended else self._inflate.unconsumed_tail

    def end(self) -> None:
        """Raises ClientPayloadError if the compressed data ended early. The body of a HEAD request is empty."""
        if self._started and not self._ended:
            raise aiohttp.ClientPayloadError("the compressed data ended early")
