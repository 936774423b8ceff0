"""The windows of a backfill: lengths, time zones, and clocks that change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.session.backfill import Every, parse_every, parse_instant, parse_zone, windows_between
from noetl.session.errors import UsageError


def windows(begin: str, end: str, every: str, zone: str = "UTC") -> list[tuple[str, str]]:
    place = parse_zone(zone)
    found = windows_between(
        parse_instant(begin, place, "--from"), parse_instant(end, place, "--to"), parse_every(every)
    )
    return [(each.document()["start"], each.document()["end"]) for each in found]


def starts(*arguments: str) -> list[str]:
    return [start for start, _ in windows(*arguments)]


def test_the_end_is_exclusive_and_the_last_window_is_cut() -> None:
    assert windows("2026-01-01", "2026-01-03", "1d") == [
        ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"),
    ]
    assert windows("2026-01-01", "2026-01-01T08:00:00", "6h") == [
        ("2026-01-01T00:00:00Z", "2026-01-01T06:00:00Z"),
        ("2026-01-01T06:00:00Z", "2026-01-01T08:00:00Z"),
    ]
    assert starts("2026-01-01", "2026-01-16", "1w") == [f"2026-01-{day}T00:00:00Z" for day in ("01", "08", "15")]


def test_months_begin_on_the_same_day_or_on_the_last_one() -> None:
    assert starts("2026-01-31", "2026-05-01", "1mo") == [
        "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z", "2026-04-30T00:00:00Z"
    ]  # fmt: skip
    assert starts("2025-11-01", "2026-03-01", "2mo") == ["2025-11-01T00:00:00Z", "2026-01-01T00:00:00Z"]


def test_days_follow_the_calendar_when_the_clock_changes() -> None:
    spring = windows("2026-03-28", "2026-03-31", "1d", "Europe/Zurich")
    assert spring == [
        ("2026-03-28T00:00:00+01:00", "2026-03-29T00:00:00+01:00"),
        ("2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"),
        ("2026-03-30T00:00:00+02:00", "2026-03-31T00:00:00+02:00"),
    ]
    autumn = windows("2026-10-25", "2026-10-26", "1d", "Europe/Zurich")
    assert autumn == [("2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00")]
    assert len(windows("2026-03-29", "2026-03-30", "1h", "Europe/Zurich")) == 23
    assert len(windows("2026-10-25", "2026-10-26", "1h", "Europe/Zurich")) == 25


def test_a_midnight_that_does_not_exist_is_moved() -> None:
    assert windows("2018-11-03", "2018-11-05", "1d", "America/Sao_Paulo") == [
        ("2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00"),
        ("2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"),
    ]


def test_an_instant_with_a_zone_of_its_own() -> None:
    assert starts("2026-01-01T00:00:00Z", "2026-01-01T02:00:00Z", "1h", "Europe/Zurich") == [
        "2026-01-01T01:00:00+01:00", "2026-01-01T02:00:00+01:00"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("2026-01-01", "2026-01-02", "1y"), '--every "1y" is not a length'),
        (("2026-01-01", "2026-01-02", "0d"), '--every "0d" is not a length'),
        (("soon", "2026-01-02", "1d"), '--from "soon" is not a time'),
        (("2026-01-02", "2026-01-02", "1d"), "which is exclusive"),
        (("2026-01-01", "2026-01-02", "1d", "Mars/North"), '--timezone "Mars/North" is unknown'),
        (("2020-01-01", "2026-01-02", "1h"), "more than 10,000 windows"),
    ],
)
def test_wrong_input_is_explained(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        windows(*arguments)


@given(
    st.datetimes().filter(lambda at: 1950 < at.year < 2100),
    st.integers(1, 40),
    st.sampled_from([Every(1, "h"), Every(6, "h"), Every(1, "d"), Every(2, "w"), Every(1, "mo"), Every(5, "mo")]),
    st.sampled_from(["UTC", "Europe/Zurich", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu"]),
)
def test_windows_cover_the_time_without_gaps_and_overlaps(at: datetime, days: int, every: Every, name: str) -> None:
    zone = parse_zone(name)
    begin = parse_instant(at.replace(microsecond=0).isoformat(), zone, "--from")
    end = parse_instant((at.replace(microsecond=0) + timedelta(days=days)).isoformat(), zone, "--to")
    found = [each.key for each in windows_between(begin, end, every)]
    assert (found[0][0], found[-1][1]) == (begin.astimezone(UTC), end.astimezone(UTC))
    assert all(start < stop for start, stop in found)
    assert [stop for _, stop in found[:-1]] == [start for start, _ in found[1:]]
