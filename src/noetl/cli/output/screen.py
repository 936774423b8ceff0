"""Lines of styled text on a stream: coloured by rich on a terminal, plain text otherwise.

Text is written as it is, never as markup.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from noetl.escape import visible
from noetl.views.styled_text import Style, Styled

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

# The status of an execution or a run.
STYLES: dict[str, Style] = {
    "running": "info", "interrupted": "warning", "paused": "warning", "ok": "good", "error": "error",
    "cancelled": "warning", "waiting": "info", "scheduled": "faint", "stopped": "warning",
}  # fmt: skip


class Screen:
    """Where lines are written. `colour` None: coloured when the stream is a terminal."""

    def __init__(self, stream: TextIO, *, colour: bool | None = None) -> None:
        self.stream = stream
        self.colour = is_terminal(stream) if colour is None else colour
        self.columns = _columns(stream)
        self._write: Callable[[Sequence[Styled]], None] | None = None  # None: nothing was written yet

    def line(self, *pieces: Styled | str) -> None:
        """Write one line; control characters in it are made visible."""
        if self._write is None:
            self._write = _coloured(self.stream) if self.colour else self._plain
        self._write([_safe(piece) for piece in pieces])

    def lines(self, lines: Iterable[Sequence[Styled]]) -> None:
        for each in lines:
            self.line(*each)

    def _plain(self, pieces: Sequence[Styled]) -> None:
        self.stream.write("".join(piece.text for piece in pieces).rstrip() + "\n")


def _coloured(stream: TextIO) -> Callable[[Sequence[Styled]], None]:
    from rich.console import Console
    from rich.text import Text

    # Whether to colour is decided already; rich decides which colours exist, and honours NO_COLOR.
    console = Console(file=stream, force_terminal=True, highlight=False, markup=False, emoji=False)

    def write(pieces: Sequence[Styled]) -> None:
        text = Text.assemble(*((piece.text, _RICH[piece.style]) for piece in pieces))
        console.print(text, soft_wrap=True)

    return write


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _columns(stream: TextIO) -> int:
    if not stream.isatty():
        return PLAIN_COLUMNS
    return max(COLUMNS_MIN, min(shutil.get_terminal_size().columns, COLUMNS_MAX))


def _safe(piece: Styled | str) -> Styled:
    text, style = piece if isinstance(piece, Styled) else Styled(piece)
    return Styled(visible(text), style)
