"""Replaces characters inside a YAML scalar without changing its quotes, escapes and line breaks.

The module determines which part of the raw text each character of the value comes from. It does not depend
on templates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from noetl.playbook.dialects.layout.tree import Leaf, quoted

_ANCHOR = re.compile(r"&\S+\s+")
_BREAK = re.compile(r"[ \t]*\r?\n[ \t]*(?:\r?\n[ \t]*)*")
_HEADER = re.compile(r"[|>][-+0-9]*[ \t]*(?:#[^\n]*)?\n?")
_ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r",
    "e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0",
    "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_HEX = {"x": 2, "u": 4, "U": 8}


class TextEdit(NamedTuple):
    """Replaces the characters from start to end of the value with `text`."""

    start: int
    end: int
    text: str


class ScalarSource(NamedTuple):
    """A character of the value, and the part of the raw text that represents it."""

    char: str
    start: int
    end: int


def replace(leaf: Leaf, changes: Iterable[TextEdit]) -> Leaf:
    """The leaf with a changed value in the same style, or in quotes if the style is not supported."""
    ordered = sorted(changes)
    text = _apply(leaf.text, ordered)
    sources = decode(leaf)
    if sources is None:
        new_leaf = quoted(text)
        return Leaf(raw=new_leaf.raw, text=text, style=new_leaf.style, base=leaf.base, start=leaf.start)
    raw, done = "", 0
    for start, end, new in ordered:
        first = sources[start].start if start < len(sources) else sources[-1].end
        last = sources[end - 1].end if end > start else first
        raw += leaf.raw[done:first] + _encode(new, leaf.style)
        done = last
    return Leaf(raw=raw + leaf.raw[done:], text=text, style=leaf.style, base=leaf.base, start=leaf.start)


class Finder:
    """Maps characters of a value to offsets in the original text. The scalar is decoded on first use."""

    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf
        self.sources: list[ScalarSource] | None = None
        self.read = False

    def offset(self, position: int) -> int:
        if not self.read:
            self.sources, self.read = decode(self.leaf), True
        if not self.sources:
            return self.leaf.start
        return self.leaf.start + self.sources[min(position, len(self.sources) - 1)].start


def decode(leaf: Leaf) -> list[ScalarSource] | None:
    """The source of each character of the value; None if the raw text cannot be decoded."""
    anchor = _ANCHOR.match(leaf.raw)
    begin = anchor.end() if anchor and leaf.style != "*" else 0
    match leaf.style:
        case "'" | '"':
            sources = _flow(leaf.raw, begin + 1, len(leaf.raw) - 1, leaf.style)
        case "|" | ">":
            sources = _block(leaf, begin)
        case _:
            sources = _flow(leaf.raw, begin, len(leaf.raw), "")
    if sources is None or "".join(each.char for each in sources) != leaf.text:
        return None
    return sources


def _apply(text: str, changes: list[TextEdit]) -> str:
    for start, end, new in reversed(changes):
        text = text[:start] + new + text[end:]
    return text


def _encode(text: str, style: str) -> str:
    if style == '"':
        return text.replace("\\", "\\\\").replace('"', '\\"')
    return text.replace("'", "''") if style == "'" else text


def _flow(raw: str, pos: int, end: int, style: str) -> list[ScalarSource] | None:
    """Plain and quoted text, folded if it has several lines."""
    sources: list[ScalarSource] = []
    while pos < end:
        if (fold := _BREAK.match(raw, pos, end)) is not None:
            lines = fold.group().count("\n")
            chars = " " if lines == 1 else "\n" * (lines - 1)
            sources += [ScalarSource(char, pos, fold.end()) for char in chars]
            pos = fold.end()
            continue
        step = 1
        char = raw[pos]
        if style == "'" and raw.startswith("''", pos):
            step = 2
        elif style == '"' and char == "\\":
            escape = _escape(raw, pos)
            if escape is None:
                return None
            char, step = escape
        if char:
            sources.append(ScalarSource(char, pos, pos + step))
        pos += step
    return sources


def _escape(raw: str, pos: int) -> tuple[str, int] | None:
    """The character of an escape ("" for an escaped line break), and the length of the escape."""
    sign = raw[pos + 1 : pos + 2]
    if sign in ("\n", "\r"):
        joined = re.compile(r"\\\r?\n[ \t]*").match(raw, pos)
        return None if joined is None else ("", len(joined.group()))
    if sign in _HEX:
        digits = raw[pos + 2 : pos + 2 + _HEX[sign]]
        return chr(int(digits, 16)), 2 + _HEX[sign]
    return (_ESCAPES[sign], 2) if sign in _ESCAPES else None


def _block(leaf: Leaf, begin: int) -> list[ScalarSource] | None:
    """A literal or folded block. The first line with text determines the indentation."""
    header = _HEADER.match(leaf.raw, begin)
    if header is None:
        return None
    lines: list[tuple[int, str]] = []
    pos = header.end()
    for line in leaf.raw[pos:].split("\n"):
        lines.append((pos, line))
        pos += len(line) + 1
    indents = [len(line) - len(line.lstrip(" ")) for _, line in lines if line.strip(" ")]
    digits = [char for char in header.group() if char.isdigit() and "#" not in header.group()]
    if not indents:
        return None
    indent = (leaf.base or 0) + int(digits[0]) if digits else indents[0]
    sources: list[ScalarSource] = []
    for start, line in lines:
        sources += [ScalarSource(char, start + i, start + i + 1) for i, char in enumerate(line) if i >= indent]
        sources.append(ScalarSource("\n", start + len(line), start + len(line)))
    if leaf.style == ">":
        sources = _fold(sources)
    text = "".join(each.char for each in sources)
    bare, expected = text.rstrip("\n"), leaf.text.rstrip("\n")
    if bare != expected:
        return None
    # Chomping determines the line breaks at the end, which are never changed.
    kept = sources[: len(bare)]
    at = kept[-1].end if kept else header.end()
    return kept + [ScalarSource("\n", at, at)] * (len(leaf.text) - len(bare))


def _fold(lines: list[ScalarSource]) -> list[ScalarSource]:
    """A single line break between two lines of text becomes a space; of several, one is dropped."""
    text = "".join(each.char for each in lines)
    made: list[ScalarSource] = []
    pos = 0
    for breaks in re.finditer(r"(?<=[^\n])\n+(?=[^\n])", text):
        start, end = breaks.span()
        line_before = text[text.rfind("\n", 0, start) + 1 : start]
        indented = text[end] in " \t" or line_before[:1] in (" ", "\t")
        made += lines[pos:start]
        count = end - start
        if indented:
            made += lines[start:end]
        elif count == 1:
            made.append(ScalarSource(" ", lines[start].start, lines[start].end))
        else:
            made += lines[start + 1 : end]
        pos = end
    return made + lines[pos:]
