"""JSON as an output may hold it: bytes from outside become plain values, or an error that says why not."""

from __future__ import annotations

import base64
import re

import msgspec

from noetl.output import JSON

# Encodings of text. Python knows others that are none, or that make halves of surrogate pairs.
_CHARSET = re.compile(
    r"utf[-_]?(8|16|32)([-_]?(le|be))?|(us[-_]?)?ascii|latin[-_]?1|iso[-_]8859[-_]\d+|windows[-_]\d+|cp\d+|koi8[-_][ru]"
    r"|shift[-_]jis|euc[-_](jp|kr)|gb(k|2312|18030)|big5",
    re.IGNORECASE,
)
_decode = msgspec.json.Decoder().decode


class NotPlain(Exception):
    """The bytes are no JSON that an output may hold; the message goes on from "the body …"."""


def parsed(body: bytes) -> JSON:
    """Raises NotPlain. How deep it may be is for the worker to judge, which looks at every output."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotPlain(f"is no JSON: {error}") from error
    except RecursionError as error:
        raise NotPlain("is nested too deep") from error


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
