"""Other readings of a text in which a secret may be hidden: without its escapes, or without its line breaks.

A view is searched like the text itself, and says which bytes of the text a match stands for.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

# Escapes of characters that are usually not escaped: only then is a text read a second time.
_UNUSUAL: Final = (
    rb"%(?:25)*(?:3[0-9]|[46][1-9a-fA-F]|[57][0-9aA])|\\+(?:x|u00)(?:3[0-9]|[46][1-9a-fA-F]|[57][0-9aA])"
    rb"|&(?:amp;)*#(?:0*(?:4[89]|5[0-7]|6[5-9]|[78][0-9]|90|9[7-9]|1[01][0-9]|12[0-2])|[xX]0*[3-7][0-9a-fA-F]);"
    rb"|&(?:amp;)*(?!(?:amp|lt|gt|quot|apos|nbsp);)[A-Za-z]{2,8};"
)
_ESCAPE: Final = (
    rb"%(?:25)*([0-9a-fA-F]{2})|\\+x([0-9a-fA-F]{2})"
    rb"|\\+u([dD][89abAB][0-9a-fA-F]{2})\\+u([dD][c-fC-F][0-9a-fA-F]{2})|\\+u([0-9a-fA-F]{4})|\\+U([0-9a-fA-F]{8})"
    rb"|&(?:amp;)*#([0-9]{1,7});|&(?:amp;)*#[xX]([0-9a-fA-F]{1,6});|&(?:amp;)*([A-Za-z]{2,8});"
)
_BREAKS: Final = rb"(?:\s|\\+[rnt])+"
_SEPARATORS: Final = rb"(?:[\s:.,-]|\\+[rntx]|0[xX])+"


_Replaced: TypeAlias = Callable[[re.Match[bytes]], bytes]


class View(NamedTuple):
    """A text that was read in another way. `pieces` are parallel to `starts`, and in the same order."""

    body: bytes
    starts: list[int]  # of the pieces of `body`
    pieces: list[tuple[int, int]]  # of the original: where the piece starts; its length, or 0 if it is unchanged

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where a match is in the original."""
        return self._at(start)[0], self._at(end - 1)[1]

    def _at(self, place: int) -> tuple[int, int]:
        index = bisect_right(self.starts, place) - 1
        start, size = self.pieces[index]
        if size:
            return start, start + size
        start += place - self.starts[index]
        return start, start + 1


def unescaped(body: bytes) -> bytes | None:
    """The text without escapes; None: it has none that matter."""
    if b"%" not in body and b"\\" not in body and b"&" not in body:
        return None
    return re.sub(_ESCAPE, _decoded, body) if re.search(_UNUSUAL, body) else None


def unbroken(body: bytes) -> bytes | None:
    """The text without white space; None: it has none."""
    made = re.sub(_BREAKS, b"", body) if b"\\" in body else body.translate(None, b" \t\r\n\v\f")
    return made if len(made) < len(body) else None


def unseparated(body: bytes) -> bytes | None:
    """The text without the separators of hex digits; None: it has none."""
    if b"\\" in body or b"0x" in body or b"0X" in body:
        made = re.sub(_SEPARATORS, b"", body)
    else:
        made = body.translate(None, b" \t\r\n\v\f:.,-")
    return made if len(made) < len(body) else None


def unescaped_view(body: bytes) -> View:
    return _view(body, _ESCAPE, _decoded)


def unbroken_view(body: bytes) -> View:
    return _view(body, _BREAKS, _nothing)


def unseparated_view(body: bytes) -> View:
    return _view(body, _SEPARATORS, _nothing)


def _view(body: bytes, pattern: bytes, replaced: _Replaced) -> View:
    made = bytearray()
    starts: list[int] = []
    pieces: list[tuple[int, int]] = []
    at = 0
    for match in re.finditer(pattern, body):
        if match.start() > at:
            starts.append(len(made))
            pieces.append((at, 0))
            made += body[at : match.start()]
        if text := replaced(match):
            starts.append(len(made))
            pieces.append((match.start(), match.end() - match.start()))
            made += text
        at = match.end()
    if at < len(body):
        starts.append(len(made))
        pieces.append((at, 0))
        made += body[at:]
    return View(bytes(made), starts, pieces)


def _nothing(_match: re.Match[bytes]) -> bytes:
    return b""


def _decoded(match: re.Match[bytes]) -> bytes:
    percent, byte, high, low, unit, long, decimal, digits, name = match.groups()
    if percent or byte:
        return bytes.fromhex((percent or byte).decode())
    if high:
        code = 0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00
    elif name:
        from html.entities import html5  # 2,000 names: only when a text has one

        known = html5.get(f"{name.decode()};")
        return match[0] if known is None else known.encode()
    else:
        code = int(decimal) if decimal else int(unit or long or digits, 16)
    return chr(code).encode(errors="replace") if code <= 0x10FFFF else match[0]
