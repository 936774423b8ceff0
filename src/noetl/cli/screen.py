"""Lines of styled text on a stream: colours by rich when a person looks at a terminal, plain text otherwise.

Text is written as it is, never as markup. It knows nothing of playbooks.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, TextIO, TypeAlias

from noetl.net.visible import visible, width, wrap

Style: TypeAlias = Literal[
    "", "error", "warning", "info", "strong", "name", "kind", "faint", "good", "added", "removed"
]

PLAIN_COLUMNS = 100
COLUMNS_MIN, COLUMNS_MAX = 40, 160
_RICH: dict[Style, str] = {
    "": "",
    "error": "bold red",
    "warning": "bold yellow",
    "info": "bold blue",
    "strong": "bold",
    "name": "bold cyan",
    "kind": "magenta",
    "faint": "dim",
    "good": "green",
    "added": "green",
    "removed": "red",
}


class Piece(NamedTuple):
    text: str
    style: Style = ""


class Screen:
    """Where lines go. `colour` None: decided by what the stream is."""

    def __init__(self, stream: TextIO, *, colour: bool | None = None) -> None:
        self.stream = stream
        self.colour = is_terminal(stream) if colour is None else colour
        self.columns = _columns(stream)
        self._write: Callable[[Sequence[Piece]], None] | None = None  # None: nothing was written yet

    def line(self, *pieces: Piece | str) -> None:
        """One line; control characters in it are made visible."""
        if self._write is None:
            self._write = _coloured(self.stream) if self.colour else self._plain
        self._write([_safe(piece) for piece in pieces])

    def lines(self, lines: Iterable[Sequence[Piece]]) -> None:
        for each in lines:
            self.line(*each)

    def _plain(self, pieces: Sequence[Piece]) -> None:
        self.stream.write("".join(piece.text for piece in pieces).rstrip() + "\n")


def _coloured(stream: TextIO) -> Callable[[Sequence[Piece]], None]:
    from rich.console import Console
    from rich.text import Text

    # Colour was decided before; what is left to rich is which colours there are, and NO_COLOR.
    console = Console(file=stream, force_terminal=True, highlight=False, markup=False, emoji=False)

    def write(pieces: Sequence[Piece]) -> None:
        text = Text.assemble(*((piece.text, _RICH[piece.style]) for piece in pieces))
        console.print(text, soft_wrap=True)

    return write


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _columns(stream: TextIO) -> int:
    if not stream.isatty():
        return PLAIN_COLUMNS
    return max(COLUMNS_MIN, min(shutil.get_terminal_size().columns, COLUMNS_MAX))


def _safe(piece: Piece | str) -> Piece:
    text, style = piece if isinstance(piece, Piece) else Piece(piece)
    return Piece(visible(text), style)


def folded(pieces: Sequence[Piece], columns: int) -> list[list[Piece]]:
    """Broken at spaces into lines of at most `columns`; every word keeps its style."""
    lines: list[list[Piece]] = [[]]
    used = 0
    for text, style in pieces:
        for number, word in enumerate(text.split(" ")):
            space = 1 if number else 0
            for part_number, part in enumerate(wrap(word, max(1, columns))):
                if used and (part_number or used + space + width(part) > columns):
                    lines.append([])
                    used = space = 0
                _append(lines[-1], Piece(" " * space + part, style))
                used += space + width(part)
    return lines


def _append(line: list[Piece], piece: Piece) -> None:
    if line and line[-1].style == piece.style:
        piece = Piece(line.pop().text + piece.text, piece.style)
    line.append(piece)
