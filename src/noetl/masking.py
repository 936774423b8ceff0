"""Replaces known secrets in texts and outputs by `***` (D20).

One pattern finds all encodings of a set of values: plain, quoted for URLs, JSON, HTML or Python's repr (also
twice), in hex, and in base64 at any position of a longer text. It is also searched in views of a text: without
escapes, and without line breaks.
"""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

from msgspec.json import decode, encode
from msgspec.structs import replace

from noetl.masking_views import View, unbroken, unbroken_view, unescaped, unescaped_view, unseparated, unseparated_view
from noetl.output import JSON, Failure, Output
from noetl.secret import SECRET_CHARS_MIN, SHOWN

PIECE_CHARS: Final = 64  # long values are searched in pieces, to find parts of them, too
SPLIT_CHARS_MAX: Final = 4_096  # of a value that may be used as a part of a URL
SEEK_CHARS: Final = 16  # of a form that are searched first: most outputs contain none
WRAPPED_CHARS_MIN: Final = 8  # of a form in hex or base64 that is searched across white space
PART_CHARS_MIN: Final = 8  # of a line, a field or another part of a value
HELD_BYTES: Final = 8_192  # at the end of a stream's data: more than the longest form of a piece has
STREAM_BYTES: Final = 65_536  # that are searched at once
BINARY_BYTES_MIN: Final = 8  # a shorter match in binary data is probably no secret

_DELIMITERS = re.compile(r"[/?#&=@:;,]+")
_BASE64 = r"[0-9A-Za-z+/_-]"
_IN_BASE64 = {"+": r"(?:\+|-|%2[bB])", "/": r"(?:\\*/|_|%2[fF])"}
_HTML = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos"}
_CONTROL = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_TEXT_MEDIA = ("xml", "yaml", "csv", "javascript", "x-www-form-urlencoded", "sql", "html")
_NUMERIC = b"0123456789+-.eE"
_NINES = bytes.maketrans(b"012345678", b"999999999")


class Form(NamedTuple):
    """One encoding of a value, as RE2 patterns."""

    core: list[str]  # a pattern for each character
    head: str = ""  # matched together with it
    tail: str = ""
    kind: Literal["plain", "hex", "base64"] = "plain"


class _Finder:
    """Finds some forms in a text, or in a view of it."""

    def __init__(self, forms: list[Form], read: Callable[[bytes], bytes | None], view: Callable[[bytes], View]) -> None:
        self._forms = forms
        self._read = read
        self._view = view
        seeks = sorted({"".join(form.core[:SEEK_CHARS]) for form in forms})
        self._seek: Any = _compiled("|".join(seeks))

    def is_in(self, body: bytes) -> bool:
        """Whether a form may be in the text. It is quick, because most texts contain none."""
        seen = self._read(body)
        return seen is not None and bool(self._seek.search(seen))

    def spans(self, body: bytes) -> list[tuple[int, int]]:
        if self._view is _itself:
            return [match.span() for match in self._pattern.finditer(body)]
        view = self._view(body)
        return [view.span(*match.span()) for match in self._pattern.finditer(view.body)]

    @cached_property
    def _pattern(self) -> Any:
        """The full pattern. It is compiled only when there is something to hide."""
        return _compiled("|".join(f"{form.head}{''.join(form.core)}{form.tail}" for form in self._forms))


def _compiled(pattern: str) -> Any:
    import re2  # only where there is something to hide

    options = re2.Options()
    options.max_mem = 1 << 28
    options.log_errors = False
    options.never_capture = True
    return re2.compile(pattern, options)


def _unchanged(body: bytes) -> bytes:
    return body


def _itself(body: bytes) -> View:
    return View(body, [0], [(0, 0)])


def _finders(forms: list[Form]) -> list[_Finder]:
    if not forms:
        return []
    base64_forms = [form for form in forms if form.kind == "base64" and len(form.core) >= WRAPPED_CHARS_MIN]
    hex_forms = [form for form in forms if form.kind == "hex" and len(form.core) >= WRAPPED_CHARS_MIN]
    return [
        _Finder(forms, _unchanged, _itself),
        _Finder(forms, unescaped, unescaped_view),
        *([_Finder(base64_forms, unbroken, unbroken_view)] if base64_forms else []),
        *([_Finder(hex_forms, unseparated, unseparated_view)] if hex_forms else []),
    ]


class Mask:
    """Finds all forms of some values at once. Compiled once for a set of values, used for many texts."""

    def __init__(self, values: Iterable[str]) -> None:
        known = sorted(values, key=len, reverse=True)
        found = [piece for value in known for piece in _pieces(value)]  # before the parts: the longer match wins
        found += [piece for value in known for part in _parts(value) for piece in _pieces(part)]
        parts = [part for part in dict.fromkeys(found) if len(part) >= SECRET_CHARS_MIN]
        self._forms = [form for part in parts for form in _forms(part)]
        self._numbers = {number for part in parts if (number := _number(part)) is not None}
        self._finders = _finders(self._forms)

    def output(self, output: Output) -> Output:
        """The same output when there is nothing to hide. A Ref stays: the tool has stored its data itself."""
        if not self._finders:
            return output
        data, own, meta = self.value(output.data), self.value(output.own), self.value(output.meta)
        error = output.error and self.failure(output.error)
        if data is output.data and own is output.own and meta is output.meta and error is output.error:
            return output
        return replace(output, data=data, own=own, meta=meta, error=error)

    def failure(self, failure: Failure) -> Failure:
        message, details = self.text(failure.message), self.value(failure.details)
        cause = failure.cause and self.failure(failure.cause)
        if message == failure.message and details is failure.details and cause is failure.cause:
            return failure
        return replace(failure, message=message, details=details, cause=cause)

    def value(self, value: JSON) -> JSON:
        """The same value when it contains no secret: it is searched as one JSON text first."""
        if not value or not self._finders or not self._is_in(encode(value)):
            return value
        return self._masked(value)

    def text(self, text: str) -> str:
        body = text.encode(errors="replace")
        if not self._is_in(body):
            return text
        made: list[bytes] = []
        at = 0
        for start, end in self.spans(body):
            if start > at or not at:  # adjacent matches are one
                made += (body[at:start], SHOWN.encode())
            at = end
        return b"".join((*made, body[at:])).decode()

    def _is_in(self, body: bytes) -> bool:
        return any(finder.is_in(body) for finder in self._finders)

    def spans(self, body: bytes) -> list[tuple[int, int]]:
        """Where the values are: in ascending order, and without overlaps."""
        found = sorted(span for finder in self._finders if finder.is_in(body) for span in finder.spans(body))
        merged: list[tuple[int, int]] = []
        for start, end in found:
            if merged and start < merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        return merged

    def body(self, body: bytes, content_type: str) -> bytes:
        """The same for a whole result."""
        return MaskedBytes(self, content_type).feed(body, last=True)

    async def stream(self, chunks: AsyncIterator[bytes], content_type: str) -> AsyncGenerator[bytes, None]:
        """The same for a result in chunks, also for a secret that is divided between two of them."""
        masked = MaskedBytes(self, content_type)
        async for chunk in chunks:
            if piece := masked.feed(chunk):
                yield piece
        if piece := masked.feed(b"", last=True):
            yield piece

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


class MaskedBytes:
    """Masks data that arrives in chunks. The end of the data is held until the next chunk shows what follows it.

    The data keeps its format: in JSON a number stays a number, and in binary data no byte moves.
    """

    def __init__(self, mask: Mask, content_type: str) -> None:
        self._mask = mask
        self._media = content_type.partition(";")[0].strip().lower()
        self._is_json = self._media.endswith(("json", "json-seq", "jsonl"))
        self._is_text = self._is_json or self._media.startswith("text/") or self._media.endswith(_TEXT_MEDIA)
        self._held = b""
        self._is_after_match = False  # the last byte was masked

    def feed(self, chunk: bytes, *, last: bool = False) -> bytes:
        """The masked bytes that are certain by now."""
        body = self._held + chunk if self._held else chunk
        if not last and len(body) < STREAM_BYTES:
            self._held = body
            return b""
        end = len(body) if last else len(body) - HELD_BYTES
        made: list[bytes] = []
        at = 0
        for start, stop in self._mask.spans(body):
            if start >= end:
                break
            made.append(body[at:start])
            made.append(self._shown(body, start, stop, is_repeated=self._is_after_match and at == start))
            at, self._is_after_match = stop, True
        end = max(at, end)
        made.append(body[at:end])
        self._is_after_match = self._is_after_match and at == end
        self._held = body[end:]
        return b"".join(made)

    def _shown(self, body: bytes, start: int, end: int, *, is_repeated: bool) -> bytes:
        found = body[start:end]
        if not self._is_text:
            return found if len(found) < BINARY_BYTES_MIN else b"*" * len(found)
        if self._is_json and not found.strip(_NUMERIC):
            return found.translate(_NINES)
        if is_repeated:
            return b""
        before = body[:start] if self._is_json else b""
        is_escape = (len(before) - len(before.rstrip(b"\\"))) % 2 == 1
        return b"\\" + SHOWN.encode() if is_escape else SHOWN.encode()


def _parts(value: str) -> Iterator[str]:
    """The secret parts of a value: its lines, its JSON leaves, the password of an address.

    Also its components when it is split as a part of a URL.
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
    from urllib.parse import unquote, urlsplit

    try:
        password = urlsplit(value).password
    except ValueError:
        return
    if password:
        yield from {password, unquote(password)}


def _number(part: str) -> int | float | None:
    """A secret of digits may appear as a number."""
    try:
        return int(part) if part.isdecimal() else float(part)
    except ValueError:
        return None


def _forms(part: str) -> Iterator[Form]:
    """Each character separately, so that every mixture of quoting matches."""
    characters = [_character(each) for each in part]
    yield Form(characters)
    if len(part) > PART_CHARS_MIN:
        yield _cut_off(characters, part.find("://") + PART_CHARS_MIN)
    body = part.encode(errors="replace")
    yield Form([f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in body.hex()], kind="hex")
    for before in range(3):
        yield _in_base64(body, before)


def _cut_off(characters: list[str], least: int) -> Form:
    """At least the first half of it, at the end of a text or before an ellipsis.

    `least`: the beginning of an address, such as `postgresql://`, is not secret.
    """
    sure = max(PART_CHARS_MIN, least, len(characters) // 2)
    rest = ""
    for each in reversed(characters[sure:]):
        rest = f"(?:{each}{rest})?"
    return Form(characters[:sure], tail=rf"{rest}(?:\n?…|\z)")


def _character(character: str) -> str:
    """All encodings of one character, the longest first."""
    import re2

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
    """The value in base64, when `before` bytes (modulo 3) precede it.

    The characters that also contain bits of a neighbour are matched with it.
    """
    text = base64.b64encode(b"\0" * before + body).decode().rstrip("=")
    first = (0, 2, 3)[before]
    last = len(text) if (before + len(body)) % 3 == 0 else len(text) - 1
    core = [_IN_BASE64.get(each, each) for each in text[first:last]]
    tail = f"{_BASE64}?(?i:=|%3d){{0,2}}" if last < len(text) else ""
    return Form(core, f"{_BASE64}?" if before else "", tail, "base64")
