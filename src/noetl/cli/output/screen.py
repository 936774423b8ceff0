"""Lines of styled text on a stream: colours on a terminal, plain text otherwise."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TextIO

from noetl.escape import visible
from noetl.views.styled_text import Style, Styled

MINUTE, HOUR, DAY = 60, 3_600, 86_400
DAYS_AGO_MAX = 30  # then the date is shown
SHORT_CHARS = 18  # of an id in a hint: its millisecond and 12 random bits, so that it stays unique
_COMMAND = r"(?:: |see )noetl [a-z]+( [^ :;]+)*\Z"  # at the end of an error message


def short(execution_id: str) -> str:
    """Enough of an id to name it in a command."""
    return execution_id[:SHORT_CHARS]


def with_hint(message: str, hint: str) -> str:
    """A command at the end of a message gets the option that leads it to the same place."""
    return f"{message}{hint}" if re.search(_COMMAND, message) else message


def duration(seconds: float | None) -> str:
    """In its two largest units; empty when it is unknown."""
    if seconds is None:
        return ""
    if seconds < 10:
        return f"{max(0.0, seconds):.2f} s"
    if seconds < MINUTE:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE} s"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"
    return f"{whole // DAY} d {whole % DAY // HOUR} h"


def ago(then: datetime, now: datetime) -> str:
    """The clocks of two machines may differ: an instant in the future counts as now."""
    seconds = int((now - then).total_seconds())
    if seconds < 1:
        return "just now"
    if seconds >= DAYS_AGO_MAX * DAY:
        return f"{then:%Y-%m-%d}"
    for unit, word in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= unit:
            return f"{seconds // unit} {word} ago"
    return f"{seconds} s ago"


_DIFF_STYLES: dict[str, Style] = {"+": "added", "-": "removed", "@": "kind"}


def diff_lines(lines: Iterable[str]) -> Iterator[list[Styled]]:
    """The output of `diff -u`, coloured."""
    for number, line in enumerate(lines):
        yield [Styled(line, "strong" if number < 2 else _DIFF_STYLES.get(line[:1], ""))]


def print_diff(old: str, new: str, name: str, screen: Screen) -> None:
    import difflib

    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), name, name, lineterm="")
    screen.lines(diff_lines(lines))


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
        self._write: Callable[[Sequence[Styled]], None] | None = None  # None: nothing was written yet

    @property
    def columns(self) -> int:
        """Its width now: a window can be resized."""
        if not self.stream.isatty():
            return PLAIN_COLUMNS
        import shutil

        return max(COLUMNS_MIN, min(shutil.get_terminal_size().columns, COLUMNS_MAX))

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


def _safe(piece: Styled | str) -> Styled:
    text, style = piece if isinstance(piece, Styled) else Styled(piece)
    return Styled(visible(text), style)
