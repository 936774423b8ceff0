"""Dates and times (D107): they are read, calculated with and written, without a clock and within limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.output import JSON
from noetl.template.compile import BadTemplate, TemplateError, compile_template
from noetl.template.values import Moment

MOMENT = Moment("2026-01-31T12:34:56.789012Z", "e/start#1/1")
TIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC))


def value(expression: str, **data: JSON) -> JSON:
    return compile_template(f"{{{{ {expression} }}}}")({"ctx": data}, MOMENT)


def error(expression: str, **data: JSON) -> str:
    with pytest.raises(TemplateError) as raised:
        value(expression, **data)
    return raised.value.message.partition('}}": ')[2]


def fault(expression: str) -> str:
    with pytest.raises(BadTemplate) as bad:
        compile_template(f"{{{{ {expression} }}}}")
    (found,) = bad.value.faults
    assert found.code == "bad-arguments"
    return found.message


@pytest.mark.parametrize(
    ("expression", "made"),
    [
        ("now()", "2026-01-31T12:34:56.789012Z"),
        ("today()", "2026-01-31"),
        ("now() | date", "2026-01-31"),
        ("now() | date('%d.%m.%y %H:%M')", "31.01.26 12:34"),
        ("'2026-05-03' | date('%A, %d %B; %a %b')", "Sunday, 03 May; Sun May"),
        ("'2026-01-01T00:05:00Z' | date('%I:%M %p')", "12:05 AM"),
        ("'2027-01-01' | date('%G-W%V-%u %j %F %T %z 100%%')", "2026-W53-5 001 2027-01-01 00:00:00 +0000 100%"),
        ("'0099-01-01' | date", "0099-01-01"),
        ("'2026-01-31T14:00:00+02:00' | to_datetime", "2026-01-31T12:00:00Z"),
        ("'2026-01-31 14:00' | to_datetime", "2026-01-31T14:00:00Z"),
        ("'2026-01-31' | to_datetime", "2026-01-31T00:00:00Z"),
        ("1769860800.5 | to_datetime", "2026-01-31T12:00:00.500000Z"),
        ("'31/01/2026' | to_datetime('%d/%m/%Y')", "2026-01-31T00:00:00Z"),
        ("'Jan 5 26, 11:07 pm' | to_datetime('%b %d %y, %I:%M %p')", "2026-01-05T23:07:00Z"),
        ("'3 May 1999 12:00:00.5 -0330' | to_datetime('%d %B %Y %H:%M:%S.%f %z')", "1999-05-03T15:30:00.500000Z"),
        ("'01.02.69' | to_datetime('%d.%m.%y')", "1969-02-01T00:00:00Z"),
        ("'2026-01-31T12:00:00Z' | timestamp", 1769860800),
        ("now() | timestamp", 1769862896.789012),
        ("today() | add(days=1)", "2026-02-01"),
        ("today() | add(1)", "2026-02-01"),
        ("today() | add(hours=24)", "2026-02-01"),
        ("today() | add(hours=1)", "2026-01-31T01:00:00Z"),
        ("now() | add(days=-1, hours=2, minutes=3, seconds=0.5)", "2026-01-30T14:37:57.289012Z"),
        ("'2024-02-29' | add(years=1)", "2025-02-28"),
        ("'2026-01-31' | add(months=1)", "2026-02-28"),
        ("'2026-01-31' | add(months=-2, weeks=1)", "2025-12-07"),
        ("'2026-12-30' | add(months=14)", "2028-02-29"),
        ("now() | start_of('minute')", "2026-01-31T12:34:00Z"),
        ("now() | start_of('hour')", "2026-01-31T12:00:00Z"),
        ("now() | start_of('day')", "2026-01-31T00:00:00Z"),
        ("today() | start_of('week')", "2026-01-26"),
        ("today() | start_of('month') | add(days=-1)", "2025-12-31"),
        ("'2026-12-05' | start_of('quarter')", "2026-10-01"),
        ("today() | start_of('year')", "2026-01-01"),
        ("today() | range_of_dates('2026-02-02')", ["2026-01-31", "2026-02-01", "2026-02-02"]),
        ("today() | range_of_dates('2026-01-30')", []),
        ("'2026-01-31' | range_of_dates('2026-04-30', '1mo')", ["2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30"]),
        ("'2026-01-01' | range_of_dates('2026-01-20', step='1w')", ["2026-01-01", "2026-01-08", "2026-01-15"]),
        ("'2026-01-31' | range_of_dates('2026-01-31T06:00:00Z', '6h')", ["2026-01-31T00:00:00Z", "2026-01-31T06:00:00Z"]),
        ("'2024-02-29' | range_of_dates('2028-03-01', '2y')", ["2024-02-29", "2026-02-28", "2028-02-29"]),
        ("'9999-12-31' | range_of_dates('9999-12-31')", ["9999-12-31"]),
    ],
)  # fmt: skip
def test_dates_are_read_calculated_and_written_d107(expression: str, made: JSON) -> None:
    assert value(expression) == made


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("ctx.a | date", 'the value "soon" is not a date such as 2026-01-31 or 2026-01-31T12:00:00Z'),
        ("[] | date", "the value is a list, not a date, as text or in seconds since 1970"),
        ("true | timestamp", "the value is a boolean, not a date, as text or in seconds since 1970"),
        ("'2026-02-30' | add(days=1)", 'the value "2026-02-30" is not a date such as 2026-01-31 or 2026-01-31T12:00:00Z'),
        ("'9999-12-31' | add(days=1)", "the date is outside the years 1 to 9999"),
        ("'2026-01-31' | add(months=-30000)", "the date is outside the years 1 to 9999"),
        ("(10 ** 15) | to_datetime", "the date is outside the years 1 to 9999"),
        ("'0001-01-01T00:00:00+01:00' | to_datetime", "the date is outside the years 1 to 9999"),
        ("today() | range_of_dates(ctx.a)", 'to "soon" is not a date such as 2026-01-31 or 2026-01-31T12:00:00Z'),
        ("'1999-01-01' | range_of_dates('2030-01-01')", "range_of_dates has too many dates; use a larger step (limit RANGE_MAX: 10,000)"),
        ("'31.01.2026' | to_datetime('%d/%m/%Y')", '"31.01.2026" does not have the form "%d/%m/%Y"'),
        ("'31.02.2026' | to_datetime('%d.%m.%Y')", '"31.02.2026" is not a date'),
        ("'13 am 2026' | to_datetime('%I %p %Y')", '"13 am 2026" is not a date'),
        ("1 | to_datetime('%Y')", "the value is a number, not text"),
        ("today() | date(ctx.format)", 'the format has no "%Q"; there are'),
        ("today() | start_of(ctx.a)", '"soon" is not one of minute, hour, day, week, month, quarter, year'),
        ("ctx.missing | date", "ctx.missing is undefined"),
    ],
)  # fmt: skip
def test_what_is_no_date_is_said_d107(expression: str, said: str) -> None:
    assert error(expression, a="soon", format="%Q").startswith(said)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("today() | date('%Q')", '"date": the format has no "%Q"; there are'),
        ("today() | date('%')", '"date": the format has no "%"; there are'),
        ("today() | start_of('months')", '"start_of": "months" is not one of minute, hour'),
        ("today() | range_of_dates(today(), '1 day')", '"range_of_dates": the step "1 day" is not a number and a unit'),
        ("today() | range_of_dates(today(), '0d')", '"range_of_dates": the step "0d" is not a number and a unit'),
        ("today() | add(day=1)", '"add": has no argument "day"'),
        ("today() | add(months=0.5)", '"add": months is a number, not a whole number'),
    ],
)
def test_a_wrong_format_unit_or_step_is_a_fault_before_the_run_d107(expression: str, said: str) -> None:
    assert fault(expression).startswith(said)


@pytest.mark.parametrize("format", ["%V %Y", "%Y %Y", "%d.%m"])
def test_a_format_that_can_not_be_read_is_said(format: str) -> None:
    with pytest.raises(TemplateError, match=r"to_datetime does not read|has no year"):
        value(f"'x' | to_datetime('{format}')")


def test_dates_have_no_value_where_nothing_is_recorded_d17() -> None:
    with pytest.raises(TemplateError, match=r"today\(\) is not available here"):
        compile_template("{{ today() }}")({})
    assert compile_template("{{ today() | add(days=1) }}").calls == {"today"}


@given(TIMES, st.integers(-500_000, 500_000), st.integers(-100_000, 100_000))
def test_adding_and_taking_away_gives_the_same_time_d107(at: datetime, days: int, seconds: int) -> None:
    try:
        later = at + timedelta(days=days, seconds=seconds)
    except OverflowError:
        return
    text, other = (each.isoformat().replace("+00:00", "Z") for each in (at, later))
    assert value(f"ctx.at | add(days={days}, seconds={seconds})", at=text) == other
    assert value("ctx.at | to_datetime | timestamp | to_datetime | date('%F %T')", at=text) == at.strftime(
        "%Y-%m-%d %T"
    ).rjust(19, "0")


@given(TIMES)
def test_a_written_time_is_read_back_with_its_format_d107(at: datetime) -> None:
    text = at.isoformat().replace("+00:00", "Z")
    format = "%d of %B %Y, %H-%M-%S.%f%z"
    assert value(f"ctx.at | date('{format}') | to_datetime('{format}')", at=text) == text


def test_work_with_many_dates_is_limited() -> None:
    assert "limit FUEL_MAX" in error("ctx.many | map('date') | map('to_datetime') | list", many=["2026-01-31"] * 20_000)
