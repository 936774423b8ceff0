"""Offsets in a text ↔ positions of the protocol, which count lines from 0 and UTF-16 units."""

from __future__ import annotations

from bisect import bisect_right

from lsprotocol.types import Position, Range


class Positions:
    """Converts offsets of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.split("\n")
        self._starts = [0]
        for line in self._lines[:-1]:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def offset(self, position: Position) -> int:
        """The nearest offset: an editor may be ahead of us."""
        if position.line >= len(self._lines):
            return len(self._text)
        line = self._lines[position.line]
        column = position.character
        if not line.isascii():
            column = len(line.encode("utf-16-le")[: 2 * position.character].decode("utf-16-le", "ignore"))
        return self._starts[position.line] + min(column, len(line))

    def position(self, offset: int) -> Position:
        number = bisect_right(self._starts, offset) - 1
        column = offset - self._starts[number]
        line = self._lines[number]
        if not line.isascii():
            column = len(line[:column].encode("utf-16-le")) // 2
        return Position(number, column)

    def range(self, start: int, end: int) -> Range:
        return Range(self.position(start), self.position(end))

    def of_mark(self, line: int, column: int) -> int:
        """The offset of a line and column that count from 1."""
        number = min(line, len(self._starts)) - 1
        return min(self._starts[number] + column - 1, self._starts[number] + len(self._lines[number]))
