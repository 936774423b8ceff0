"""Views of progress: plain lines for pipes and logs; on a terminal rows with bars, drawn by rich.

A view draws a few times a second, never once per fact.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from noetl.cli.output.progress import Progress, Row, loop_text, row_name
from noetl.cli.output.screen import Screen, duration, short
from noetl.clock import Clock
from noetl.escape import visible
from noetl.views.styled_text import Style, Styled

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

DRAW_S = 0.2
LOOP_LINE_S = 1.0  # at least, between two plain lines about the same loop
ROWS_MAX = 12
BAR_COLUMNS = 24
_RICH: dict[Style, str] = {
    "good": "green", "error": "bold red", "warning": "yellow", "info": "blue", "name": "bold", "faint": "dim",
}  # fmt: skip


class ProgressView(Protocol):
    def draw(self) -> None: ...

    def close(self) -> None: ...


class PlainView:
    """A line for each step that starts, ends, fails or waits; one per second for a loop."""

    def __init__(self, progress: Progress, screen: Screen, clock: Clock) -> None:
        self._progress = progress
        self._screen = screen
        self._clock = clock
        self._loops: dict[tuple[str, str], tuple[float, int]] = {}  # row → when its last line was, and how far it was

    def draw(self) -> None:
        self._progress.sample()
        self._screen.lines(self._progress.lines())
        for row in self._progress.running():
            self._screen.line("▶ ", row_name(row))
        now = self._clock.monotonic()
        for key, row in self._progress.rows.items():
            if row.total is None or row.depth > 0:
                continue
            shown_at, shown = self._loops.get(key, (0.0, -1))
            if key not in self._loops:
                self._loops[key] = (now, row.done)
            elif now - shown_at >= LOOP_LINE_S and row.done != shown:
                self._loops[key] = (now, row.done)
                self._screen.line("  ", f"{row_name(row)}  {loop_text(row)}")
        self._screen.stream.flush()

    def close(self) -> None:
        """Runs that are still open get no line about their start."""
        self._screen.lines(self._progress.lines(last=True))
        if self._progress.left_out:
            see = f"noetl events {short(self._progress.root or '')}{self._progress.hint}"
            self._screen.line(f"… {self._progress.left_out:,} more lines; see {see}")
        self._screen.stream.flush()


class LiveView:
    """Rows that are redrawn in place; lines about ended runs scroll above them."""

    def __init__(self, progress: Progress, screen: Screen, clock: Clock) -> None:
        from rich.console import Console
        from rich.live import Live

        self._progress = progress
        self._clock = clock
        console = Console(file=screen.stream, force_terminal=True, highlight=False, markup=False, emoji=False)
        self._live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._live.start()

    def draw(self) -> None:
        self._progress.sample()
        self._scroll()
        self._live.update(self._rows(), refresh=True)

    def close(self) -> None:
        self._scroll(last=True)
        self._live.stop()

    def _scroll(self, *, last: bool = False) -> None:
        for line in self._progress.lines(last=last):
            self._live.console.print(_text(line), soft_wrap=True)

    def _rows(self) -> Table:
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        rows = list(self._progress.rows.values())
        room = max(1, min(ROWS_MAX, shutil.get_terminal_size().lines - 4))
        for row in rows[:room]:
            table.add_row(*self._cells(row))
        if len(rows) > room:
            table.add_row(_text([Styled(f"… and {len(rows) - room:,} more", "faint")]))
        return table

    def _cells(self, row: Row) -> list[Text]:
        name = _text([Styled(f"{'  ' * row.depth}● ", "info"), Styled(row_name(row), "name")])
        if row.total is None:
            return [name, _text([Styled(row.waits or row.note or "running")])]
        bar = _bar(row.done, row.total)
        text = loop_text(row)
        if row.rate is not None and row.total > row.done:
            text += f", {duration((row.total - row.done) / row.rate)} left"
        return [name, _text([Styled(bar, "good"), Styled(f"  {text}")])]


def _bar(done: int, total: int) -> str:
    full = BAR_COLUMNS * min(done, total) // total if total else BAR_COLUMNS
    return "━" * full + "╌" * (BAR_COLUMNS - full)


def _text(pieces: list[Styled]) -> Text:
    from rich.text import Text

    return Text.assemble(*((visible(piece.text), _RICH.get(piece.style, "")) for piece in pieces))


@asynccontextmanager
async def drawn(progress: Progress, screen: Screen, clock: Clock) -> AsyncIterator[None]:
    """Draw the progress while the body runs."""
    view: ProgressView = LiveView(progress, screen, clock) if screen.colour else PlainView(progress, screen, clock)
    drawing = asyncio.ensure_future(_draw(view, clock))
    try:
        yield
    finally:
        drawing.cancel()
        closed = isinstance((await asyncio.gather(drawing, return_exceptions=True))[0], OSError)
        if not closed:
            view.close()


async def _draw(view: ProgressView, clock: Clock) -> None:
    """A closed output stops only the drawing; the execution continues."""
    while True:
        await clock.sleep(DRAW_S)
        view.draw()
