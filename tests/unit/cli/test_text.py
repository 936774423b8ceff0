"""Lengths of time and instants in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from noetl.cli.output.screen import ago, duration, short, with_hint

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, ""),
        (-0.5, "0.00 s"),
        (0.004, "0.00 s"),
        (9.994, "9.99 s"),
        (10.04, "10.0 s"),
        (59.94, "59.9 s"),
        (60, "1 min 0 s"),
        (303.4, "5 min 3 s"),
        (3_600, "1 h 0 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_length_of_time_is_told_in_the_units_that_matter(seconds: float | None, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "just now"),
        (0.9, "just now"),
        (1, "1 s ago"),
        (59, "59 s ago"),
        (60, "1 min ago"),
        (7_199, "1 h ago"),
        (86_400 * 3, "3 d ago"),
        (86_400 * 40, "2026-01-23"),
    ],
)
def test_an_instant_is_told_as_so_long_ago_and_after_a_month_by_its_date(seconds: float, said: str) -> None:
    assert ago(NOW - timedelta(seconds=seconds), NOW) == said


def test_a_short_id_is_the_beginning_with_some_of_its_dice() -> None:
    assert short("01a1df73-f57c-7914-bb45-80921dc2a2bb") == "01a1df73-f57c-7914"


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        ('no secret "a" is stored: noetl secrets set a', True),
        ("no token 7: see noetl token list", True),
        ("the log of 01a1 cannot be folded (KeyError: 'x'): see noetl audit 01a1", True),
        ("see noetl audit; it is damaged", False),
        ("the noetl of this machine is too old", False),
        ("HTTP 404", False),
    ],
)
def test_a_command_at_the_end_of_an_error_comes_to_the_same_place(words: str, ends: bool) -> None:
    assert with_hint(words, " --db own.db") == (f"{words} --db own.db" if ends else words)
    assert with_hint(words, "") == words
