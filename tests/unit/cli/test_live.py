"""Progress on a screen, plain and by rich."""

from __future__ import annotations

import asyncio
import io
import re
from datetime import UTC, datetime

import pytest

from noetl.cli.output.progress import ROWS_MAX, LiveView, PlainView, Progress, Row, drawn
from noetl.cli.output.screen import Screen
from noetl.clock import SystemClock
from noetl.testing import FakeClock

ROOT = "01a1df73-f57c-7914-bb45-80921dc2a2bb"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def row(step: str, **known: int) -> Row:
    made = Row(execution_id=ROOT, id=f"{step}#1", step=step, depth=0, scheduled_at=AT)
    for name, value in known.items():
        setattr(made, name, value)
    return made


def test_plain_lines_tell_a_start_once_and_of_a_loop_once_a_second() -> None:
    clock, stream = FakeClock(), io.StringIO()
    progress = Progress(ROOT, clock)
    view = PlainView(progress, Screen(stream), clock)
    loop = progress.rows[ROOT, "fetch#1"] = row("fetch", total=10_000)
    for done, seconds in ((0, 0.0), (100, 0.5), (350, 1.0), (350, 2.0), (700, 3.0)):
        loop.done = done
        clock.advance(seconds - clock.monotonic())
        view.draw()
    assert stream.getvalue().splitlines() == [
        "▶ fetch",
        "  fetch  350/10,000 iterations, 350/s",
        "  fetch  700/10,000 iterations, 233/s",
    ]


def test_rows_have_bars_rates_and_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "150")
    clock, stream = FakeClock(), io.StringIO()
    progress = Progress(ROOT, clock)
    progress.rows[ROOT, "fetch#1"] = loop = row("fetch", total=100)
    progress.rows[ROOT, "plain#1"] = row("plain")
    for number in range(ROWS_MAX):
        progress.rows[ROOT, f"s{number}#1"] = row(f"s{number}")
    view = LiveView(progress, Screen(stream, colour=True), clock)
    view.draw()
    loop.done = 50
    clock.advance(10)
    stream.truncate(0)
    view.draw()
    view.close()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue()).replace("\x00", "")
    lines = [re.sub(" +", " ", line).strip() for line in text.splitlines() if line.strip()]
    assert lines[0] == f"● fetch {'━' * 12}{'╌' * 12} 50/100 iterations, 5.0/s, 10.0 s left"
    assert (lines[1], lines[ROWS_MAX]) == ("● plain running", "… and 2 more")


def test_lines_that_came_last_are_shown_when_it_ends() -> None:
    stream = io.StringIO()
    progress = Progress(ROOT, SystemClock())

    async def main() -> None:
        async with drawn(progress, Screen(stream), SystemClock()):
            progress.warn("the last word")

    asyncio.run(main())
    assert stream.getvalue() == "the last word\n"
