"""Secrets in what a tool gives back become `***`, before a rule sees it and before anything is stored (D20).

One pattern for all values that a frame has used: as they are, quoted for URLs, JSON, HTML or Python's repr
(also twice over), in hex, and in base64 at whatever place of a longer text they stand.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

import re2
from msgspec.json import decode, encode
from msgspec.structs import replace

from noetl.output import JSON, Failure, Output
from noetl.secret import SHOWN

SECRET_CHARS_MIN: Final = 4  # shorter ones are not masked: they would take half of the data with them
PIECE_CHARS: Final = 64  # long values are looked for in pieces, so that a part of one is seen too
SPLIT_CHARS_MAX: Final = 4_096  # of a value that somebody may take for a part of a URL
SEEK_CHARS: Final = 16  # of a form that are looked for first: most outputs hold none of it
PART_CHARS_MIN: Final = 8  # of a line, a field or another part of a value

_DELIMITERS = re.compile(r"[/?#&=@:;,]+")
_BASE64 = r"[0-9A-Za-z+/_-]"
_IN_BASE64 = {"+": r"(?:\+|-|%2[bB])", "/": r"(?:\\*/|_|%2[fF])"}
_HTML = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos"}
_CONTROL = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_OPTIONS = re2.Options()
_OPTIONS.max_mem = 1 << 28
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True


class Form(NamedTuple):
    """One way to write a value, in patterns of RE2."""

    core: list[str]  # a pattern for each character
    head: str = ""  # what is taken with it
    tail: str = ""


class Mask:
    """Finds all forms of some values at once. It is made once for a set of values, for many outputs."""

    def __init__(self, values: Iterable[str]) -> None:
        known = sorted(values, key=len, reverse=True)
        found = [
            piece for value in known for piece in _pieces(value)
        ]  # before the parts: the longer one counts
        found += [piece for value in known for part in _parts(value) for piece in _pieces(part)]
        parts = [part for part in dict.fromkeys(found) if len(part) >= SECRET_CHARS_MIN]
        self._forms = [form for part in parts for form in _forms(part)]
        self._numbers = {number for part in parts if (number := _number(part)) is not None}
        seeks = sorted({"".join(form.core[:SEEK_CHARS]) for form in self._forms})
        self._seek: Any = re2.compile("|".join(seeks), _OPTIONS) if seeks else None

    @cached_property
    def _pattern(self) -> Any:
        """The whole of it, which is needed only when something is to be hidden."""
        whole = "|".join(f"{form.head}{''.join(form.core)}{form.tail}" for form in self._forms)
        return re2.compile(f"(?:{whole})+", _OPTIONS)

    def output(self, output: Output) -> Output:
        """The same one when there is nothing to hide. A Ref stays: what lies there is the tool's affair."""
        if self._seek is None:
            return output
        data, own, meta = self.value(output.data), self.value(output.own), self.value(output.meta)
        error = output.error and self.failure(output.error)
        if data is output.data and own is output.own and meta is output.meta and error is output.error:
            return output
        return replace(output, data=data, own=own, meta=meta, error=error)

    def failure(self, failure: Failure) -> Failure:
        message, details = self.text(failure.message), self.value(failure.details)
        if message == failure.message and details is failure.details:
            return failure
        return replace(failure, message=message, details=details)

    def value(self, value: JSON) -> JSON:
        """Clean JSON in, the same out when it holds no secret: it is looked through as one text first."""
        if not value or self._seek is None or not self._seek.search(encode(value)):
            return value
        return self._masked(value)

    def text(self, text: str) -> str:
        body = text.encode(errors="replace")
        if self._seek is None or not self._seek.search(body):
            return text
        masked: bytes = self._pattern.sub(SHOWN.encode(), body)
        return masked.decode()

    def _masked(self, value: JSON) -> JSON:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self._masked(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._masked(each) for each in value]
        if self._numbers and not isinstance(value, bool) and value in self._numbers:
            return SHOWN
        return value


def _parts(value: str) -> Iterator[str]:
    """What else is secret in a value: its lines, what it holds as JSON, the password of an address.

    And what is left of it when it is taken for a part of a URL, and cut there.
    """
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (line.strip() for line in lines if len(line.strip()) >= PART_CHARS_MIN)
    if value.lstrip().startswith(("{", "[")):
        try:
            yield from _leaves(decode(value))
        except (ValueError, RecursionError):
            return
    elif "://" in value:
        yield from _password(value)
    elif len(value) <= SPLIT_CHARS_MAX:
        yield from (part for part in _DELIMITERS.split(value) if len(part) >= PART_CHARS_MIN)


def _pieces(value: str) -> Iterator[str]:
    if len(value) < 2 * PIECE_CHARS:
        yield value
        return
    for start in range(0, len(value) - PIECE_CHARS + 1, PIECE_CHARS):
        end = start + PIECE_CHARS
        yield value[start:end] if len(value) - end >= PIECE_CHARS else value[start:]


def _leaves(value: JSON) -> Iterator[str]:
    if isinstance(value, str) and len(value) >= PART_CHARS_MIN:
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)


def _password(value: str) -> Iterator[str]:
    try:
        password = urlsplit(value).password
    except ValueError:
        return
    if password:
        yield from {password, unquote(password)}


def _number(part: str) -> int | float | None:
    """A secret of digits may come back as a number."""
    try:
        return int(part) if part.isdecimal() else float(part)
    except ValueError:
        return None


def _forms(part: str) -> Iterator[Form]:
    """Character after character, so that every mixture of quoting is seen."""
    characters = [_character(each) for each in part]
    yield Form(characters)
    if len(part) > PART_CHARS_MIN:
        yield _cut_off(characters, part.find("://") + PART_CHARS_MIN)
    body = part.encode(errors="replace")
    yield Form([f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in body.hex()])
    for before in range(3):
        yield _in_base64(body, before)


def _cut_off(characters: list[str], least: int) -> Form:
    """The first half of it or more, at the end of a text or where one says that it was cut.

    `least`: that an address begins with `postgresql://` is no secret.
    """
    sure = max(PART_CHARS_MIN, least, len(characters) // 2)
    rest = ""
    for each in reversed(characters[sure:]):
        rest = f"(?:{each}{rest})?"
    return Form(characters[:sure], tail=rf"{rest}(?:\n?…|\z)")


def _character(character: str) -> str:
    """One character in all the ways that it is written in, the longest first."""
    quoted = re2.escape(character)
    if character.isascii() and character.isalnum():
        return f"{quoted}"
    code, body = ord(character), character.encode(errors="replace")
    ways = [
        *([f"&(?:{_HTML[character]}|#0*{code}|#x0*{code:x});"] if character in _HTML else []),
        "".join(f"%(?:25)*{byte:02x}" for byte in body),
        "".join(rf"\\+x{byte:02x}" for byte in body),
        *([rf"\\+{_CONTROL[character]}"] if character in _CONTROL else []),
        *([r"\+"] if character == " " else []),
        rf"\\*{quoted}",
    ]
    if code > 0xFFFF:
        high, low = divmod(code - 0x10000, 0x400)
        ways += [rf"\\+u{0xD800 + high:04x}\\+u{0xDC00 + low:04x}", rf"\\+u{code:08x}"]
    else:
        ways.append(rf"\\+u{code:04x}")
    if 127 < code < 256:
        ways.append(rf"\\+x{code:02x}")
    return f"(?i:{'|'.join(ways)})"


def _in_base64(body: bytes, before: int) -> Form:
    """In a text whose bytes stand `before` bytes, modulo 3, in front of it.

    Characters that hold bits of a neighbour too are taken with it, whatever they are.
    """
    text = base64.b64encode(b"\0" * before + body).decode().rstrip("=")
    first = (0, 2, 3)[before]
    last = len(text) if (before + len(body)) % 3 == 0 else len(text) - 1
    core = [_IN_BASE64.get(each, each) for each in text[first:last]]
    tail = f"{_BASE64}?(?i:=|%3d){{0,2}}" if last < len(text) else ""
    return Form(core, f"{_BASE64}?" if before else "", tail)
