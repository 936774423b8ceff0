"""Large JSON texts and values, decoded and encoded in slices: each of them takes a fraction of a millisecond.

A regular expression finds the ends of members of the outermost lists and mappings at the speed of C; msgspec decodes
some members at a time. A member that is larger than a slice is decoded in the same way, member by member.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Generator, Iterable
from functools import cache
from sys import getrefcount
from typing import Any, Final

import msgspec

from noetl.output import DATA_LEVELS_MAX, JSON
from noetl.slices import in_slices

SLICED_BYTES_MIN: Final = 256 * 1024  # a smaller text is decoded at once, which takes about a millisecond
SLICE_BYTES: Final = 16 * 1024
_LEVELS: Final = 6  # of nesting that the expression follows inside of a member
_BLANK: Final = b" \t\r\n"
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_FREED: Final = 256  # members that are freed at once
_VALUE_BYTES: Final = 8  # the weight of a number, a key or a container, in characters of text


@cache
def _members() -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """A part of a member without a comma of its own, and whole members with their commas.

    Without backtracking, so that the time is linear. The kinds of brackets are for the decoder to compare.
    """
    text = rb'"(?:[^"\\]++|\\.)*+"'
    inside = rb'(?:[^"\[\]{}]++|%b)*+' % text
    for _ in range(_LEVELS - 1):
        inside = rb'(?:[^"\[\]{}]++|%b|[\[{]%b[\]}])*+' % (text, inside)
    part = rb'(?:[^"\[\]{},]++|%b|[\[{]%b[\]}])*+' % (text, inside)
    return re.compile(part, re.DOTALL), re.compile(rb"(?:%b,)*+" % part, re.DOTALL)


@cache
def _untracking() -> Callable[[JSON], object]:
    """A function that excludes a container from garbage collection.

    A pass of the collector reads all members of each container that it examines, which takes 10-40 ms for some lists of
    100,000 members. JSON has no cycles, so its containers need no collector.
    """
    import ctypes  # most processes decode nothing large

    untrack = ctypes.pythonapi.PyObject_GC_UnTrack
    untrack.argtypes, untrack.restype = [ctypes.py_object], None
    return untrack


_BLANKS: Final = re.compile(rb"[ \t\r\n]*+")


class Irregular(Exception):
    """The text is not JSON, or unusual JSON: decode it at once, which also gives the exact error."""


class _Open:
    """A list or a mapping whose end was not reached yet."""

    def __init__(self, body: bytes, at: int) -> None:
        self._body = body
        self._is_list = body[at] == ord("[")
        self.value: JSON = [] if self._is_list else {}
        self._untrack = _untracking()
        self.at = at + 1  # all members before this were added
        self._after = "start"  # what is before this: "start", "comma" or "child"

    def add(self, end: int, *, is_last: bool = False) -> None:
        """Add the members until `end`, where a comma or the bracket at the end is. Raises Irregular."""
        at = self._skip_blanks(self.at, end)
        if self._after == "child" and at < end:
            if self._body[at] != ord(","):
                raise Irregular
            at = self._skip_blanks(at + 1, end)
            if at == end:
                raise Irregular
        elif at == end and not (self._after == "child" or (self._after == "start" and is_last)):
            raise Irregular
        if at < end:
            members = memoryview(self._body)[at:end]  # the text of a member may be long
            if self._is_list:
                self.value += _decode(b"".join((b"[", members, b"]")))
            else:
                self.value |= _decode(b"".join((b"{", members, b"}")))
        if is_last or self._is_list:
            self._untrack(self.value)
        self.at, self._after = end + 1, "comma"

    def open_child(self, at: int) -> _Open:
        """The container that begins at `at`, as the next member. Raises Irregular."""
        name = self._body[self.at : at].strip(_BLANK)
        if self._after == "child":
            raise Irregular
        made = _Open(self._body, at)
        if self._is_list:
            if name:
                raise Irregular
            self.value.append(made.value)
        else:
            if not name.endswith(b":"):
                raise Irregular
            key = _decode(name[:-1])
            if type(key) is not str:
                raise Irregular
            self.value[key] = made.value
        return made

    def end_child(self, at: int) -> None:
        self.at, self._after = at + 1, "child"

    def _skip_blanks(self, at: int, end: int) -> int:
        found = _BLANKS.match(self._body, at, end)
        assert found is not None
        return found.end()

    def ends_with(self, bracket: int) -> bool:
        return bracket == ord("]" if self._is_list else "}")


def decode_slices(body: bytes) -> Generator[None, None, JSON]:
    """The value of a JSON text, as msgspec decodes it. Raises Irregular and errors of msgspec."""
    at = len(body) - len(body.lstrip(_BLANK))
    if body[at : at + 1] not in (b"[", b"{"):
        raise Irregular
    opened, (part_of, members_of) = [_Open(body, at)], _members()
    at += 1
    while True:
        yield
        top, end = opened[-1], min(at + SLICE_BYTES, len(body))
        found = members_of.match(body, at, end)
        assert found is not None
        if found.end() > at:
            at = found.end()
            top.add(at - 1)
            continue
        part = part_of.match(body, at, end)
        assert part is not None
        at = part.end()
        if at == len(body):
            raise Irregular
        match body[at : at + 1] if at < end else b"":
            case b"":
                pass  # a long number, or blanks
            case b'"':
                at = yield from _end_of_text(body, at)
            case b"[" | b"{":
                if len(opened) > DATA_LEVELS_MAX - _LEVELS - 2:
                    raise Irregular
                opened.append(top.open_child(at))
                at += 1
            case b"]" | b"}":
                if not top.ends_with(body[at]):
                    raise Irregular
                top.add(at, is_last=True)
                opened.pop()
                if not opened:
                    if body[at + 1 :].strip(_BLANK):
                        raise Irregular
                    return top.value
                opened[-1].end_child(at)
                at += 1
            case _:
                raise Irregular


def _end_of_text(body: bytes, at: int) -> Generator[None, None, int]:
    """The position after a long text that begins at `at`."""
    for number in range(len(body)):
        at = body.find(b'"', at + 1)
        if at < 0:
            raise Irregular
        before = at
        while body[before - 1] == ord("\\"):
            before -= 1
        if (at - before) % 2 == 0:
            return at + 1
        if number % 1_000 == 999:
            yield
    raise Irregular


async def decode_in_slices(body: bytes) -> JSON:
    """The value of a large JSON text, within the levels of data; None: decode it at once."""
    if len(body) < SLICED_BYTES_MIN:
        return None
    try:
        return await in_slices(decode_slices(body))
    except (Irregular, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


async def decode_stored(body: bytes) -> JSON:
    """The value of a JSON text of ours, of any size."""
    value = await decode_in_slices(body)
    return _decode(body) if value is None else value


def encode_slices(value: JSON) -> Generator[None, None, list[bytes]]:
    """The parts of the JSON text of a value, as msgspec encodes it."""
    parts: list[bytes] = []
    yield from _encoded(value, parts)
    return parts


def _encoded(value: JSON, parts: list[bytes]) -> Generator[None, None, None]:
    is_list = type(value) is list
    if not is_list and type(value) is not dict:
        parts.append(_encode(value))
        return
    parts.append(b"[" if is_list else b"{")
    batch: list[Any] = []
    weight, first = 0, len(parts)

    def flush() -> None:
        if batch:
            text = _encode(batch if is_list else dict(batch))[1:-1]
            parts.extend((b",", text) if len(parts) > first else (text,))
            batch.clear()

    for each in value if is_list else value.items():
        member = each if is_list else each[1]
        size = _weight(member) if is_list else _weight(member) + len(each[0])
        if size > SLICE_BYTES and type(member) in (list, dict):
            flush()
            if len(parts) > first:
                parts.append(b",")
            if not is_list:
                parts.append(_encode(each[0]) + b":")
            yield from _encoded(member, parts)
            weight = 0
            continue
        batch.append(each)
        weight += size
        if weight > SLICE_BYTES:
            flush()
            weight = 0
            yield
    flush()
    parts.append(b"]" if is_list else b"}")


def _weight(value: JSON, left: int = SLICE_BYTES) -> int:
    """About how many characters the text of a value has; for a large value only that they are more than a slice."""
    kind = type(value)
    if kind is str:
        return _VALUE_BYTES + len(value)
    if kind is not list and kind is not dict:
        return _VALUE_BYTES
    members: Iterable[Any] = value if kind is list else value.values()
    weight = _VALUE_BYTES * (len(value) + 1)
    if weight > left:
        return weight
    for each in members:
        inner = type(each)
        if inner is str:
            weight += len(each)
        elif inner is list or inner is dict:
            weight += _weight(each, left - weight)
        if weight > left:
            return SLICE_BYTES + 1
    return weight


async def encode_large(value: JSON) -> bytes:
    """The JSON text of a value that is probably large."""
    return await join_large(await in_slices(encode_slices(value)))


async def join_large(parts: list[bytes]) -> bytes:
    """A large result in a thread: `join` releases Python's lock for it."""
    if len(parts) <= 1 or sum(map(len, parts)) < SLICED_BYTES_MIN:
        return b"".join(parts)
    return await asyncio.to_thread(b"".join, parts)


def _unshared_references() -> int:
    """What `getrefcount` returns for a value in a variable that is used nowhere else: versions of Python differ."""
    owned: list[JSON] = [[]]
    value = owned.pop()
    return getrefcount(value)


_UNSHARED: Final = _unshared_references()


def release_slices(owned: list[JSON]) -> Generator[None, None, None]:
    """Free the values, which the caller no longer uses. A container that is used elsewhere stays as it is."""
    while owned:
        value = owned.pop()
        if getrefcount(value) > _UNSHARED:
            continue
        while value:
            if type(value) is list:
                owned += [each for each in value[-_FREED:] if _is_nested(each)]
                del value[-_FREED:]
            else:
                owned += [each for _ in range(min(_FREED, len(value))) if _is_nested(each := value.popitem()[1])]
                each = None
            yield


def _is_nested(value: JSON) -> bool:
    """Whether it takes long to free: a container that is large or has others in it."""
    kind = type(value)
    if kind is not list and kind is not dict:
        return False
    members = value if kind is list else value.values()
    return len(value) > _FREED or any(type(each) is list or type(each) is dict for each in members)
