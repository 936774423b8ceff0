"""Styled lines: wrapped to a width, in tables, and in trees with Unicode branches.

Independent of playbooks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from noetl.escape import width, wrap

Style: TypeAlias = Literal[
    "", "error", "warning", "info", "strong", "name", "kind", "faint", "good", "added", "removed"
]


class Styled(NamedTuple):
    text: str
    style: Style = ""


class TreeBranch(NamedTuple):
    """One line and its children. An arrow is drawn with a head."""

    pieces: tuple[Styled, ...]
    below: tuple[TreeBranch, ...] = ()
    arrow: bool = False
    hang: int = 2  # columns by which continuation lines are indented
    whole: bool = False  # never wrapped: a command that a user may copy


def branches(children: Sequence[TreeBranch], columns: int, indent: str = "") -> Iterator[list[Styled]]:
    """The lines of a list of children."""
    for number, child in enumerate(children):
        last = number == len(children) - 1
        mark = ("└" if last else "├") + ("→ " if child.arrow else "─ ")
        follow = indent + ("   " if last else "│  ")
        room = columns - width(follow) - child.hang
        lines = [list(child.pieces)] if child.whole else folded(child.pieces, max(room, 20))
        for place, line in enumerate(lines):
            if place == 0:
                yield [Styled(indent + mark, "faint"), *line]
            else:
                stem = "│" if child.below else " "
                yield [Styled(follow + stem + " " * (child.hang - 1), "faint"), *line]
        yield from branches(child.below, columns, follow)


def table(rows: Sequence[Sequence[Styled]], indent: str = "  ") -> Iterator[list[Styled]]:
    """Columns as wide as their widest cell; the last column is not padded."""
    wide = [max(width(row[place].text) for row in rows) for place in range(len(rows[0]) - 1)] if rows else []
    for row in rows:
        cells = [
            Styled(cell.text + " " * (room - width(cell.text) + 2), cell.style)
            for cell, room in zip(row, wide, strict=False)
        ]
        yield [Styled(indent), *cells, row[-1]]


def folded(pieces: Sequence[Styled], columns: int) -> list[list[Styled]]:
    """Wrap at spaces into lines of at most `columns`; every word keeps its style."""
    lines: list[list[Styled]] = [[]]
    used = 0
    for text, style in pieces:
        for number, word in enumerate(text.split(" ")):
            space = 1 if number else 0
            for part_number, part in enumerate(wrap(word, max(1, columns))):
                if used and (part_number or used + space + width(part) > columns):
                    lines.append([])
                    used = space = 0
                _append(lines[-1], Styled(" " * space + part, style))
                used += space + width(part)
    return lines


def _append(line: list[Styled], piece: Styled) -> None:
    if line and line[-1].style == piece.style:
        piece = Styled(line.pop().text + piece.text, piece.style)
    line.append(piece)
