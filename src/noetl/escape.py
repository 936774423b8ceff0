"""Makes untrusted text safe to display: control characters for terminals and XML become visible.

It also measures and wraps text for a screen.
"""

from __future__ import annotations

import re
import unicodedata

# Controls, bidirectional overrides, invisible spaces, lone surrogates: all can hide or forge text.
_UNSAFE = "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
_SPACE = re.compile(r"\s+")


def visible(text: str) -> str:
    """The text with each unsafe character replaced by a symbol, such as `␛` for escape."""
    return text if text.isascii() and text.isprintable() else re.sub(_UNSAFE, _symbol, text)


def _symbol(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"\\u{code:04x}"


def width(text: str) -> int:
    """Columns on a screen: wide characters take two, combining characters none."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(char: str) -> int:
    if unicodedata.east_asian_width(char) in "WF":
        return 2
    return 0 if unicodedata.category(char) in ("Mn", "Me", "Cf") else 1


def one_line(text: str) -> str:
    """The text on one line: each run of white space becomes one space."""
    return visible(_SPACE.sub(" ", text.strip()))


def shorten(text: str, length: int) -> str:
    """At most `length` characters; the last one is `…` if text was cut."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def wrap(text: str, columns: int) -> list[str]:
    """Lines of at most `columns`, broken at spaces; longer words are split."""
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if width(joined) <= columns:
            line = joined
            continue
        if line:
            lines.append(line)
        while width(word) > columns:
            start = head(word, columns)
            lines.append(start)
            word = word[len(start) :]
        line = word
    return [*lines, line] if line or not lines else lines


def head(word: str, columns: int) -> str:
    """The longest prefix that fits, at least one character."""
    room = columns
    for place, char in enumerate(word):
        room -= _columns(char)
        if room < 0 and place:
            return word[:place]
    return word
