"""SQL → what matters in it: quotes and comments, words, parameters of its own, where a statement ends.

No grammar: enough to say where a bound value may stand, for PostgreSQL, SQLite and DuckDB alike.
Linear in the text, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["word", "number", "place", "name", "mark", "sign", "quoted", "comment"]

_NEXT = re.compile(
    r"""
      (?P<quote>['"`])
    | (?P<line>--)
    | (?P<block>/\*)
    | (?P<place>\$\d+)
    | (?P<dollar>\$(?:[^\W\d]\w*)?\$)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<number>\d[\w.]*)
    | (?P<cast>::)
    | (?P<name>(?<![\w:\])]):[^\W\d]\w*)
    | (?P<mark>\?)
    | (?P<sign>[;().\[\]])
    """,
    re.VERBOSE,
)
_COMMENT = re.compile(r"/\*|\*/")
_ESCAPED_END = re.compile(r"\\.|''|'", re.DOTALL)
_HEAD_WORDS = 6  # CREATE OR REPLACE TEMP CONSTRAINT TRIGGER
_MADE_OF_STATEMENTS = frozenset({"FUNCTION", "PROCEDURE", "TRIGGER"})


class Token(NamedTuple):
    """A part of SQL. `open`: the text ended before it did."""

    kind: Kind
    start: int
    end: int
    open: bool = False


def tokens(text: str) -> Iterator[Token]:
    """What matters, in order. White space and signs without a meaning for us are left out."""
    place = 0
    while (found := _NEXT.search(text, place)) is not None:
        start, kind = found.start(), found.lastgroup
        place = found.end()
        if kind == "quote":
            stop = _quote_end(text, start, found[0])
        elif kind == "dollar":
            stop = _after(text, found[0], place)
        elif kind == "line":
            stop = _after(text, "\n", place)
        elif kind == "block":
            stop = _comment_end(text, place)
        elif kind == "word" and found[0] in "eE" and text.startswith("'", place):
            stop = _escaped_end(text, place + 1)
            kind = "quote"
        else:
            if kind != "cast":
                yield Token(_KINDS[str(kind)], start, place)
            continue
        place = len(text) if stop < 0 else stop
        yield Token("comment" if kind in ("line", "block") else "quoted", start, place, open=stop < 0)


_KINDS: dict[str, Kind] = {
    "word": "word", "number": "number", "place": "place", "name": "name", "mark": "mark", "sign": "sign",
}  # fmt: skip


def _after(text: str, end: str, place: int) -> int:
    found = text.find(end, place)
    return -1 if found < 0 else found + len(end)


def _quote_end(text: str, start: int, quote: str) -> int:
    """Behind the closing quote; a doubled one does not close."""
    place = start + 1
    while (found := text.find(quote, place)) >= 0:
        if not text.startswith(quote, found + 1):
            return found + 1
        place = found + 2
    return -1


def _escaped_end(text: str, place: int) -> int:
    while (found := _ESCAPED_END.search(text, place)) is not None:
        if found[0] == "'":
            return found.end()
        place = found.end()
    return -1


def _comment_end(text: str, place: int) -> int:
    """PostgreSQL nests comments. Where others do not, we wait longer than they, which is safe."""
    depth = 1
    while depth and (found := _COMMENT.search(text, place)) is not None:
        depth += 1 if found[0] == "/*" else -1
        place = found.end()
    return -1 if depth else place


class Ends:
    """Sees where a statement ends: at a semicolon, but not inside brackets or the body of a routine."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._words = 0
        self._creates = False
        self._body = False  # CREATE FUNCTION, PROCEDURE or TRIGGER: semicolons may stand inside
        self._inside = 0  # BEGIN and CASE that no END has closed
        self._brackets = 0

    def at(self, token: Token, text: str) -> bool:
        if token.kind == "sign":
            sign = text[token.start]
            if sign == ";" and not self._inside and self._brackets <= 0:
                self._begin()
                return True
            self._brackets += {"(": 1, ")": -1}.get(sign, 0)
        elif token.kind == "word":
            self._word(text[token.start : token.end].upper())
        return False

    def _word(self, word: str) -> None:
        self._words += 1
        if self._words == 1:
            self._creates = word == "CREATE"
        elif self._body:
            self._inside += 1 if word in ("BEGIN", "CASE") else -1 if word == "END" and self._inside else 0
        elif self._creates and self._words <= _HEAD_WORDS:
            self._body = word in _MADE_OF_STATEMENTS
