"""Bodies larger than a message of NATS may be: compressed first, then in parts that are put together again.

A part says its number and how many there are, so that a lost one is seen and nothing is read without it.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from struct import Struct
from typing import Final

from noetl.errors import Rejected, Unavailable

WHOLE_BYTES_MAX: Final = 67_108_864  # of one body, however it travels
OPEN_BYTES_MAX: Final = 2 * WHOLE_BYTES_MAX  # of parts whose rest has not come yet, all together
OPEN_MAX: Final = 256  # bodies of which some parts have come
MARGIN_BYTES: Final = 4_096  # of a message: for what goes with the body
LARGE_BYTES: Final = 262_144  # to press or open so many takes a thread: others go on meanwhile

_PRESSED: Final = b"z"  # what is as it was begins otherwise: with the brace of JSON
_PART: Final = b"p"
_HEAD: Final = Struct(">cHH")  # the mark, the number of the part, how many there are


async def packed(body: bytes, message_bytes: int) -> list[bytes]:
    """The messages that carry it, nearly always one. Raises Rejected when it is too large for any number."""
    most = max(message_bytes - MARGIN_BYTES, MARGIN_BYTES)
    if len(body) <= most:
        return [body]
    if len(body) > WHOLE_BYTES_MAX:
        words = f"{len(body):,} bytes are to go over the link, and {WHOLE_BYTES_MAX:,} is the most"
        raise Rejected("payload-too-large", f"{words}: keep large data in a result store")
    pressed = _PRESSED + await _aside(_press, body)
    if len(pressed) <= most:
        return [pressed]
    size = most - _HEAD.size
    count = -(-len(pressed) // size)
    return [
        _HEAD.pack(_PART, number, count) + pressed[number * size : (number + 1) * size]
        for number in range(count)
    ]


async def opened(whole: bytes) -> bytes:
    """The body as it was. Raises Unavailable for what nobody has packed."""
    if whole[:1] != _PRESSED:
        return whole
    return await _aside(_open, whole)


async def _aside(work: Callable[[bytes], bytes], body: bytes) -> bytes:
    return work(body) if len(body) < LARGE_BYTES else await asyncio.to_thread(work, body)


def _press(body: bytes) -> bytes:
    return zlib.compress(body, 1)


def _open(whole: bytes) -> bytes:
    opening = zlib.decompressobj()
    try:
        body = opening.decompress(whole[1:], WHOLE_BYTES_MAX)
    except zlib.error as error:
        raise Unavailable("what came over the link can not be opened") from error
    if not opening.eof:
        raise Unavailable(f"what came over the link is torn, or larger than {WHOLE_BYTES_MAX:,} bytes")
    return body


class Parcel:
    """One body on its way."""

    def __init__(self) -> None:
        self.bytes = 0
        self._parts: dict[int, bytes] = {}

    def add(self, message: bytes) -> bytes | None:
        """All of it, when this was the last that was missing. Raises Unavailable when it can not be whole."""
        if message[:1] != _PART:
            return message
        if len(message) <= _HEAD.size:
            raise Unavailable("an empty part came over the link")
        _, number, count = _HEAD.unpack_from(message)
        before = self._parts.get(number, b"")
        self._parts[number] = part = message[_HEAD.size :]
        self.bytes += len(part) - len(before)
        if number >= count or self.bytes > WHOLE_BYTES_MAX:
            raise Unavailable("parts that came over the link do not fit together")
        if len(self._parts) < count:
            return None
        return b"".join(self._parts[each] for each in sorted(self._parts))


class Parcels:
    """Bodies of many senders on their way; the oldest is given up for a new one when there are too many."""

    def __init__(self) -> None:
        self._open: dict[str, Parcel] = {}
        self._bytes = 0

    def add(self, sender: str, message: bytes) -> bytes | None:
        if message[:1] != _PART:
            return message
        parcel = self._open.setdefault(sender, Parcel())
        before = parcel.bytes
        try:
            whole = parcel.add(message)
        except Unavailable:
            self._bytes -= before
            del self._open[sender]
            raise
        self._bytes += parcel.bytes - before
        if whole is not None:
            self._drop(sender)
        while len(self._open) > OPEN_MAX or self._bytes > OPEN_BYTES_MAX:
            self._drop(next(iter(self._open)))
        return whole

    def _drop(self, sender: str) -> None:
        self._bytes -= self._open.pop(sender).bytes
