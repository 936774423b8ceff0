"""Lengths of time and instants as people say them: `1.24 s`, `5 min 3 s`, `2 h ago`."""

from __future__ import annotations

from datetime import datetime

MINUTE, HOUR, DAY = 60, 3_600, 86_400
DAYS_AGO_MAX = 30  # then the date says more


def duration(seconds: float | None) -> str:
    """In the two units that matter; nothing when it is not known."""
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
    """Clocks of two machines may disagree: what lies ahead is now."""
    seconds = int((now - then).total_seconds())
    if seconds < 1:
        return "just now"
    if seconds >= DAYS_AGO_MAX * DAY:
        return f"{then:%Y-%m-%d}"
    for unit, word in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= unit:
            return f"{seconds // unit} {word} ago"
    return f"{seconds} s ago"
