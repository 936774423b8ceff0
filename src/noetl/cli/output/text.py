"""Durations, instants and ids as people read them: `1.24 s`, `5 min 3 s`, `2 h ago`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime

from noetl.views.styled_text import Style, Styled

MINUTE, HOUR, DAY = 60, 3_600, 86_400
DAYS_AGO_MAX = 30  # then the date is shown
SHORT_CHARS = 18  # of an id in a hint: its millisecond and 12 random bits, so that it stays unique
_COMMAND = re.compile(r"(?:: |see )noetl [a-z]+( [^ :;]+)*\Z")  # at the end of an error message


def short(execution_id: str) -> str:
    """Enough of an id to name it in a command."""
    return execution_id[:SHORT_CHARS]


def with_hint(message: str, hint: str) -> str:
    """A command at the end of a message gets the option that leads it to the same place."""
    return f"{message}{hint}" if _COMMAND.search(message) else message


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
