"""Payloads: bytes from a response, a file or the result store become JSON values of an output."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Generator
from functools import cache
from typing import Any

import msgspec

from noetl.json_slices import decode_in_slices
from noetl.output import DATA_LEVELS_MAX, JSON, REF_FIELDS, NotJSON, clean_decoded
from noetl.slices import in_slices

# Text encodings. Python's codecs include some that are not text encodings, or that yield lone surrogates.
_CHARSET = re.compile(
    r"utf[-_]?(8|16|32)([-_]?(le|be))?|(us[-_]?)?ascii|latin[-_]?1|iso[-_]8859[-_]\d+|windows[-_]\d+|cp\d+|koi8[-_][ru]"
    r"|shift[-_]jis|euc[-_](jp|kr)|gb(k|2312|18030)|big5",
    re.IGNORECASE,
)
_decode = msgspec.json.Decoder().decode
MEMORY_BYTES_MAX = 1024 * 1024 * 1024  # of the values of one JSON text
CHECKED_BYTES_MIN = 1024 * 1024  # a smaller text cannot need much memory
_COUNTED_BYTES = 64 * 1024  # of a slice; a multiple of four, so that the sum is that of the whole text
_LIST_BYTES, _DICT_BYTES, _VALUE_BYTES, _QUOTE_BYTES = 80, 200, 40, 16  # of Python's objects, measured
_FAST_LEVELS = 6  # enough for nearly all JSON; each further level doubles the size of the decoder


class InvalidJson(Exception):
    """The bytes are not JSON that an output can hold. The message continues a sentence: "the body …"."""


class JsonTooLarge(InvalidJson):
    """The values would need more memory than the call may use."""


class JsonTooDeep(InvalidJson):
    """The bytes are JSON, but nested too deeply."""


def memory_of_json(body: bytes) -> int:
    """About how many bytes the decoded values need: `[[],[],…]` needs 40 times its size.

    Characters inside strings count, too, so it is rather too high.
    """
    return _memory_of_part(body, 0, len(body))


def _memory_of_part(body: bytes, at: int, end: int) -> int:
    values = _LIST_BYTES * body.count(b"[", at, end) + _DICT_BYTES * body.count(b"{", at, end)
    return (
        values + _VALUE_BYTES * body.count(b",", at, end) + _QUOTE_BYTES * body.count(b'"', at, end) + (end - at) // 4
    )


def _memory_in_slices(body: bytes) -> Generator[None, None, int]:
    needed = 0
    for at in range(0, len(body), _COUNTED_BYTES):
        needed += _memory_of_part(body, at, min(at + _COUNTED_BYTES, len(body)))
        yield
    return needed


def decode_json(body: bytes, memory_bytes: int = MEMORY_BYTES_MAX) -> JSON:
    """Raises InvalidJson; JsonTooLarge before it makes values that need more than `memory_bytes`."""
    if len(body) > CHECKED_BYTES_MIN:
        _check_memory(memory_of_json(body), memory_bytes)
    return _decoded(body)


async def decode_large_json(body: bytes, memory_bytes: int = MEMORY_BYTES_MAX) -> JSON:
    """The same, but a large text is decoded in slices."""
    if len(body) > CHECKED_BYTES_MIN:
        _check_memory(await in_slices(_memory_in_slices(body)), memory_bytes)
    value = await decode_in_slices(body)
    return _decoded(body) if value is None else value


def _check_memory(needed: int, memory_bytes: int) -> None:
    if needed > memory_bytes:
        mb = 1024 * 1024
        raise JsonTooLarge(f"needs about {needed // mb:,} MB of memory (the limit is {memory_bytes // mb:,} MB)")


def _decoded(body: bytes) -> JSON:
    """The first decoder has a fixed depth, so the result needs no check of its depth, which takes 20 µs a page."""
    try:
        try:
            return _shallow_decoder()(body)
        except msgspec.ValidationError:  # nested deeper, or invalid
            return clean_decoded(_decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidJson(f"is not valid JSON: {error}") from error
    except (RecursionError, NotJSON) as error:
        raise JsonTooDeep(f"is nested deeper than {DATA_LEVELS_MAX} levels") from error


@cache
def _shallow_decoder() -> Callable[[bytes], JSON]:
    scalar = str | int | float | bool | None
    shape: Any = scalar
    for _ in range(_FAST_LEVELS):
        shape = scalar | list[shape] | dict[str, shape]
    return msgspec.json.Decoder(shape).decode


def is_ref(value: JSON) -> bool:
    """Is this a Ref, the value of `output.ref`?"""
    return (
        isinstance(value, dict)
        and isinstance(value.get("type"), str)
        and isinstance(value.get("locator"), dict)
        and isinstance(value.get("meta", {}), dict)
        and value.keys() <= set(REF_FIELDS)
    )


def media_type(content_type: str) -> str:
    """A content type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def is_json(content_type: str) -> bool:
    media = media_type(content_type)
    return media == "application/json" or media.endswith("+json") or media == "text/json"


def text_or_base64(body: bytes, charset: str | None = None) -> JSON:
    """A string if the bytes are text, otherwise {"base64": …}."""
    try:
        return body.decode(known_charset(charset))
    except (UnicodeError, LookupError):
        return base64_of(body)


def known_charset(charset: str | None) -> str:
    return charset if charset is not None and _CHARSET.fullmatch(charset) else "utf-8"


def base64_of(body: bytes) -> JSON:
    return {"base64": base64.b64encode(body).decode("ascii")}


def bytes_of_base64(value: JSON) -> bytes | None:
    """The bytes of {"base64": …}; None: the value has another form. Raises ValueError for invalid base64."""
    if type(value) is dict and list(value) == ["base64"]:
        return base64.b64decode(str(value["base64"]), validate=True)
    return None
