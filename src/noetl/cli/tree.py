"""Trees of styled lines, drawn with Unicode branches and folded to a width. It knows nothing of playbooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from noetl.cli.screen import Piece, folded
from noetl.net.visible import width


class Branch(NamedTuple):
    """One line and what hangs below it. An arrow is drawn with a head."""

    pieces: tuple[Piece, ...]
    below: tuple[Branch, ...] = ()
    arrow: bool = False
    hang: int = 2  # columns by which further lines are moved in


def branches(children: Sequence[Branch], columns: int, indent: str = "") -> Iterator[list[Piece]]:
    """The children of something, one below the other."""
    for number, child in enumerate(children):
        last = number == len(children) - 1
        mark = ("└" if last else "├") + ("→ " if child.arrow else "─ ")
        follow = indent + ("   " if last else "│  ")
        room = columns - width(follow) - child.hang
        for place, line in enumerate(folded(child.pieces, max(room, 20))):
            if place == 0:
                yield [Piece(indent + mark, "faint"), *line]
            else:
                stem = "│" if child.below else " "
                yield [Piece(follow + stem + " " * (child.hang - 1), "faint"), *line]
        yield from branches(child.below, columns, follow)


def table(rows: Sequence[Sequence[Piece]], indent: str = "  ") -> Iterator[list[Piece]]:
    """Columns as wide as their widest cell; the last one is as long as it is."""
    wide = [max(width(row[place].text) for row in rows) for place in range(len(rows[0]) - 1)] if rows else []
    for row in rows:
        cells = [
            Piece(cell.text + " " * (room - width(cell.text) + 2), cell.style)
            for cell, room in zip(row, wide, strict=False)
        ]
        yield [Piece(indent), *cells, row[-1]]
