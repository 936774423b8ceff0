"""Bodies larger than one message: they are compressed first, and then split into numbered parts.

Each part carries its number and the total, so the receiver notices a missing part and never uses an
incomplete body.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from struct import Struct
from typing import Final

from noetl.errors import Rejected, Unavailable

BODY_BYTES_MAX: Final = 67_108_864  # of one body before compression
PENDING_BYTES_MAX: Final = 2 * BODY_BYTES_MAX  # of all incomplete bodies together
PENDING_MAX: Final = 256  # incomplete bodies
MARGIN_BYTES: Final = 4_096  # of a message, reserved for what the transport adds
LARGE_BYTES: Final = 262_144  # bodies of this size are compressed in a thread, so that the loop stays free

_COMPRESSED: Final = b"z"  # an unchanged body is JSON and begins with a brace
_PART: Final = b"p"
_HEAD: Final = Struct(">cHH")  # the mark, the number of the part, the number of parts


async def pack(body: bytes, payload_limit: int) -> list[bytes]:
    """The messages that carry a body, nearly always one. Raises Rejected if the body is too large."""
    limit = max(payload_limit - MARGIN_BYTES, MARGIN_BYTES)
    if len(body) <= limit:
        return [body]
    if len(body) > BODY_BYTES_MAX:
        message = f"a message of {len(body):,} bytes exceeds the limit of {BODY_BYTES_MAX:,}"
        raise Rejected("payload-too-large", f"{message}: keep large data in a result store")
    compressed = _COMPRESSED + await _in_thread_if_large(_compress, body)
    if len(compressed) <= limit:
        return [compressed]
    size = limit - _HEAD.size
    count = -(-len(compressed) // size)
    return [
        _HEAD.pack(_PART, number, count) + compressed[number * size : (number + 1) * size] for number in range(count)
    ]


async def unpack(packed: bytes) -> bytes:
    """The original body. Raises Unavailable if `pack` has not made this."""
    if packed[:1] != _COMPRESSED:
        return packed
    return await _in_thread_if_large(_decompress, packed)


async def _in_thread_if_large(work: Callable[[bytes], bytes], body: bytes) -> bytes:
    return work(body) if len(body) < LARGE_BYTES else await asyncio.to_thread(work, body)


def _compress(body: bytes) -> bytes:
    return zlib.compress(body, 1)


def _decompress(packed: bytes) -> bytes:
    decompressor = zlib.decompressobj()
    try:
        body = decompressor.decompress(packed[1:], BODY_BYTES_MAX)
    except zlib.error as error:
        raise Unavailable("a message on the link cannot be decompressed") from error
    if not decompressor.eof:
        raise Unavailable(f"a message on the link is incomplete, or larger than {BODY_BYTES_MAX:,} bytes")
    return body


class PartialBody:
    """The parts of one body that have arrived so far."""

    def __init__(self) -> None:
        self.bytes = 0
        self._parts: dict[int, bytes] = {}

    def add(self, message: bytes) -> bytes | None:
        """The packed body if this message completes it. Raises Unavailable if the parts do not match."""
        if message[:1] != _PART:
            return message
        if len(message) <= _HEAD.size:
            raise Unavailable("an empty part arrived on the link")
        _, number, count = _HEAD.unpack_from(message)
        before = self._parts.get(number, b"")
        self._parts[number] = part = message[_HEAD.size :]
        self.bytes += len(part) - len(before)
        if number >= count or self.bytes > BODY_BYTES_MAX:
            raise Unavailable("parts that arrived on the link do not match")
        if len(self._parts) < count:
            return None
        return b"".join(self._parts[each] for each in sorted(self._parts))


class PartialBodies:
    """Incomplete bodies of many senders. Above the limits the oldest is discarded."""

    def __init__(self) -> None:
        self._pending: dict[str, PartialBody] = {}
        self._bytes = 0

    def add(self, sender: str, message: bytes) -> bytes | None:
        """As `PartialBody.add`, for the body of this sender."""
        if message[:1] != _PART:
            return message
        body = self._pending.setdefault(sender, PartialBody())
        before = body.bytes
        try:
            packed = body.add(message)
        except Unavailable:
            self._bytes -= before
            del self._pending[sender]
            raise
        self._bytes += body.bytes - before
        if packed is not None:
            self._drop(sender)
        while len(self._pending) > PENDING_MAX or self._bytes > PENDING_BYTES_MAX:
            self._drop(next(iter(self._pending)))
        return packed

    def _drop(self, sender: str) -> None:
        self._bytes -= self._pending.pop(sender).bytes
