"""JSON as an output may hold it: bytes from outside become plain values, or an error that says why not."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from noetl.output import DATA_LEVELS_MAX, JSON, NotJSON, clean_decoded

# Encodings of text. Python knows others that are none, or that make halves of surrogate pairs.
_CHARSET = re.compile(
    r"utf[-_]?(8|16|32)([-_]?(le|be))?|(us[-_]?)?ascii|latin[-_]?1|iso[-_]8859[-_]\d+|windows[-_]\d+|cp\d+|koi8[-_][ru]"
    r"|shift[-_]jis|euc[-_](jp|kr)|gb(k|2312|18030)|big5",
    re.IGNORECASE,
)
_decode = msgspec.json.Decoder().decode
_LEVELS = 6  # that nearly all of the world's JSON keeps to; each doubles the size of the decoder


class NotPlain(Exception):
    """The bytes are no JSON that an output may hold; the message goes on from "the body …"."""


class TooDeep(NotPlain):
    """It is JSON, but nobody should walk through it."""


def parsed(body: bytes) -> JSON:
    """Raises NotPlain. A decoder that knows how deep it may go costs nothing; a walk costs 20 µs a page."""
    try:
        try:
            return _decoder_of_few_levels()(body)
        except msgspec.ValidationError:  # deeper, or a number that is none
            return clean_decoded(_decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotPlain(f"is no JSON: {error}") from error
    except (RecursionError, NotJSON) as error:
        raise TooDeep(f"is nested deeper than {DATA_LEVELS_MAX} levels") from error


@cache
def _decoder_of_few_levels() -> Callable[[bytes], JSON]:
    scalar = str | int | float | bool | None
    shape: Any = scalar
    for _ in range(_LEVELS):
        shape = scalar | list[shape] | dict[str, shape]
    return msgspec.json.Decoder(shape).decode


def is_json(content_type: str) -> bool:
    """Does a media type, with or without parameters, announce JSON?"""
    media = content_type.partition(";")[0].strip().lower()
    return media == "application/json" or media.endswith("+json") or media == "text/json"


def text_or_base64(body: bytes, charset: str | None = None) -> JSON:
    """Text where it is text; else {"base64": …}, which loses nothing."""
    try:
        return body.decode(known_charset(charset))
    except (UnicodeError, LookupError):
        return in_base64(body)


def known_charset(charset: str | None) -> str:
    return charset if charset is not None and _CHARSET.fullmatch(charset) else "utf-8"


def in_base64(body: bytes) -> JSON:
    return {"base64": base64.b64encode(body).decode("ascii")}
