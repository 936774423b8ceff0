"""Text that strangers wrote, made safe to show: what a terminal or XML would obey becomes visible.

It also knows how wide text is on a screen. It knows nothing of playbooks.
"""

from __future__ import annotations

import re
import unicodedata

# Controls, bidirectional overrides, invisible spaces, lone surrogates: all of them can hide or forge text.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
_SPACE = re.compile(r"\s+")


def visible(text: str) -> str:
    """The same text with every unsafe character written out, such as `␛` for escape."""
    return text if text.isascii() and text.isprintable() else _UNSAFE.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"\\u{code:04x}"


def width(text: str) -> int:
    """Columns on a screen: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(char: str) -> int:
    if unicodedata.east_asian_width(char) in "WF":
        return 2
    return 0 if unicodedata.category(char) in ("Mn", "Me", "Cf") else 1


def one_line(text: str) -> str:
    """White space of any length becomes one space; the rest is made visible."""
    return visible(_SPACE.sub(" ", text.strip()))


def shorten(text: str, length: int) -> str:
    """At most `length` characters, the last of them `…` when something was left out."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def wrap(text: str, columns: int) -> list[str]:
    """Lines of at most `columns`, broken at spaces; a longer word is broken where it must be."""
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
    """The longest beginning that fits, never empty."""
    room = columns
    for place, char in enumerate(word):
        room -= _columns(char)
        if room < 0 and place:
            return word[:place]
    return word
