"""Filters for dates and times (D107). They are pure: the time comes from `now()`, `today()` or the data.

A date is text such as `2026-01-31`, a time is text in RFC 3339 in UTC: `2026-01-31T12:00:00Z`. Every filter also
takes a number of seconds since 1970, and a time with another offset or with none, which then is in UTC. Names of
months and days are English, independent of the machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from noetl.template.limits import RANGE_MAX, Meter, limit_exceeded
from noetl.template.registry import BuiltinTable, register, wrong
from noetl.template.values import JSON, NUMBERS, TemplateError

DATE_FILTERS: BuiltinTable = {}
_CHARS_MAX = 64  # of a date as text, and of a format
_COST = 20  # fuel for reading or writing one date
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ("minute", "hour", "day", "week", "month", "quarter", "year")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)
_STEP = re.compile(r"(?P<count>[1-9]\d{0,5})(?P<unit>s|m|h|d|w|mo|y)")
_STEPS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Point(NamedTuple):
    """A date or a time."""

    at: datetime  # in UTC
    whole: bool  # a date, without a time

    def text(self) -> str:
        return self.at.date().isoformat() if self.whole else self.at.isoformat().replace("+00:00", "Z")


class _Directive(NamedTuple):
    write: Callable[[datetime], str]
    pattern: str | None = None  # None: `to_datetime` does not read it


_DIRECTIVES: dict[str, _Directive] = {
    "Y": _Directive(lambda at: f"{at.year:04}", r"\d{4}"),
    "y": _Directive(lambda at: f"{at.year % 100:02}", r"\d{2}"),
    "m": _Directive(lambda at: f"{at.month:02}", r"\d{1,2}"),
    "d": _Directive(lambda at: f"{at.day:02}", r"\d{1,2}"),
    "H": _Directive(lambda at: f"{at.hour:02}", r"\d{1,2}"),
    "I": _Directive(lambda at: f"{at.hour % 12 or 12:02}", r"\d{1,2}"),
    "p": _Directive(lambda at: "PM" if at.hour >= 12 else "AM", "[AaPp][Mm]"),
    "M": _Directive(lambda at: f"{at.minute:02}", r"\d{1,2}"),
    "S": _Directive(lambda at: f"{at.second:02}", r"\d{1,2}"),
    "f": _Directive(lambda at: f"{at.microsecond:06}", r"\d{1,6}"),
    "z": _Directive(lambda _: "+0000", r"Z|[+-]\d{2}:?\d{2}"),
    "B": _Directive(lambda at: _MONTHS[at.month - 1], "|".join(_MONTHS)),
    "b": _Directive(lambda at: _MONTHS[at.month - 1][:3], "|".join(month[:3] for month in _MONTHS)),
    "A": _Directive(lambda at: _DAYS[at.weekday()], "|".join(_DAYS)),
    "a": _Directive(lambda at: _DAYS[at.weekday()][:3], "|".join(day[:3] for day in _DAYS)),
    "j": _Directive(lambda at: f"{at.timetuple().tm_yday:03}"),
    "G": _Directive(lambda at: f"{at.isocalendar().year:04}"),
    "V": _Directive(lambda at: f"{at.isocalendar().week:02}"),
    "u": _Directive(lambda at: str(at.isoweekday())),
    "%": _Directive(lambda _: "%", "%"),
}
_SHORT = {"F": "%Y-%m-%d", "T": "%H:%M:%S"}


def check_format(format: str) -> None:
    """Raise a TemplateError for a directive that does not exist."""
    if len(format) > _CHARS_MAX:
        raise TemplateError(f"the format is longer than {_CHARS_MAX} characters")
    for found in _DIRECTIVE.finditer(format):
        if found[1] not in _DIRECTIVES and found[1] not in _SHORT:
            known = " ".join(f"%{name}" for name in (*_DIRECTIVES, *_SHORT))
            raise TemplateError(f'the format has no "{found[0]}"; there are {known}')


def check_unit(unit: str) -> None:
    if unit not in _UNITS:
        raise TemplateError(f'"{unit[:_CHARS_MAX]}" is not one of {", ".join(_UNITS)}')


def check_step(step: str) -> None:
    _step(step)


def point(meter: Meter, value: JSON, label: str = "the value") -> Point:
    """A date or time that the data contains."""
    meter.charge(_COST)
    try:
        if type(value) in NUMBERS:
            return Point(_EPOCH + timedelta(seconds=value), whole=False)
        if type(value) is str and len(value) <= _CHARS_MAX:
            text = value.strip()
            return Point(_utc(datetime.fromisoformat(text)), whole=len(text) <= 10)
    except ValueError:
        pass
    except OverflowError:
        raise _out_of_range() from None
    if type(value) is str:
        raise TemplateError(f'{label} "{value[:_CHARS_MAX]}" is not a date such as 2026-01-31 or 2026-01-31T12:00:00Z')
    raise wrong(value, label, "a date, as text or in seconds since 1970")


def _utc(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _out_of_range() -> TemplateError:
    return TemplateError("the date is outside the years 1 to 9999")


def _written(meter: Meter, made: Point) -> str:
    meter.charge(_COST)
    return meter.keep(made.text())


@register(
    DATE_FILTERS,
    "any|to_datetime(format: format? = null)",
    "Converts a date to a time in UTC; with `format`, reads text of that form",
    (
        "{{ ['2026-01-31T14:00:00+02:00', 0]|map('to_datetime')|list }}",
        '["2026-01-31T12:00:00Z","1970-01-01T00:00:00Z"]',
    ),
)
def to_datetime(meter: Meter, value: JSON, format: str | None) -> str:
    if format is None:
        return _written(meter, point(meter, value)._replace(whole=False))
    if type(value) is not str:
        raise wrong(value, "the value", "text")
    meter.charge(3 * _COST)
    found = _reader(format).fullmatch(value.strip()) if len(value) <= _CHARS_MAX else None
    if found is None:
        raise TemplateError(f'"{value[:_CHARS_MAX]}" does not have the form "{format}"')
    try:
        return _written(meter, Point(_read(found.groupdict()), whole=False))
    except ValueError:
        raise TemplateError(f'"{value}" is not a date') from None
    except OverflowError:
        raise _out_of_range() from None


@lru_cache(maxsize=256)
def _reader(format: str) -> re.Pattern[str]:
    check_format(format)
    for short, whole in _SHORT.items():
        format = format.replace(f"%{short}", whole)
    pieces, seen, end = [], set(), 0
    for found in _DIRECTIVE.finditer(format):
        name = found[1]
        pattern = _DIRECTIVES[name].pattern
        if pattern is None or (name in seen and name != "%"):
            raise TemplateError(f'to_datetime does not read "%{name}"' + (" twice" if name in seen else ""))
        seen.add(name)
        group = f"(?:{pattern})" if name == "%" else f"(?P<{name}>{pattern})"
        pieces += [re.escape(format[end : found.start()]), group]
        end = found.end()
    if not seen & {"Y", "y"}:
        raise TemplateError(f'the format "{format}" has no year')
    return re.compile("".join(pieces) + re.escape(format[end:]))


def _read(parts: dict[str, str]) -> datetime:
    year = int(parts["Y"]) if "Y" in parts else 2000 + int(parts["y"]) - 100 * (int(parts["y"]) > 68)
    month = int(parts.get("m", "1"))
    names = [each[: len(parts[key])] for key in ("B", "b") if key in parts for each in _MONTHS]
    if names:
        month = names.index(parts.get("B") or parts["b"]) % 12 + 1
    hour = int(parts.get("H", "0"))
    if "I" in parts:
        if not 1 <= int(parts["I"]) <= 12:
            raise ValueError
        hour = int(parts["I"]) % 12 + 12 * (parts.get("p", "am").lower() == "pm")
    micros = int(parts.get("f", "0").ljust(6, "0"))
    made = datetime(
        year, month, int(parts.get("d", "1")), hour, int(parts.get("M", "0")), int(parts.get("S", "0")), micros, UTC
    )
    offset = parts.get("z", "Z").replace(":", "")
    if offset == "Z":
        return made
    ahead = timedelta(hours=int(offset[1:3]), minutes=int(offset[3:]))
    return made + ahead if offset[0] == "-" else made - ahead


@register(
    DATE_FILTERS,
    'any|date(format: format = "%Y-%m-%d")',
    "Formats a date or a time; the directives are those of strftime, with English names",
    ("{{ '2026-01-31T12:00:00Z'|date('%d %b %Y') }}", '"31 Jan 2026"'),
)
def date(meter: Meter, value: JSON, format: str) -> str:
    check_format(format)
    at = point(meter, value).at
    meter.charge(2 * _COST)
    for short, whole in _SHORT.items():
        format = format.replace(f"%{short}", whole)
    return meter.keep(_DIRECTIVE.sub(lambda found: _DIRECTIVES[found[1]].write(at), format))


@register(
    DATE_FILTERS,
    "any|timestamp",
    "Returns the seconds since 1970, a whole number if the time has no fraction of a second",
    ("{{ '2026-01-31T12:00:00Z'|timestamp }}", "1769860800"),
)
def timestamp(meter: Meter, value: JSON) -> float:
    past = point(meter, value).at - _EPOCH
    whole = past.days * 86_400 + past.seconds
    return whole + past.microseconds / 1_000_000 if past.microseconds else whole


@register(
    DATE_FILTERS,
    "any|add(days: number = 0, hours: number = 0, minutes: number = 0, seconds: number = 0, weeks: number = 0, "
    "months: int = 0, years: int = 0)",
    "Adds to a date or a time, or subtracts if negative; a day that the month does not have becomes its last day",
    ("{{ '2026-01-31'|add(months=1, days=1) }}", '"2026-03-01"'),
)
def add(meter: Meter, value: JSON, *amounts: float) -> str:
    days, hours, minutes, seconds, weeks, months, years = amounts
    start = point(meter, value)
    try:
        at = _months_later(start.at, int(months + 12 * years))
        at += timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, weeks=weeks)
    except (OverflowError, ValueError):
        raise _out_of_range() from None
    # A date stays a date, unless a part of a day was added to it.
    return _written(meter, Point(at, start.whole and at.time() == start.at.time()))


def _months_later(at: datetime, months: int) -> datetime:
    if not months:
        return at
    years, month = divmod(at.year * 12 + at.month - 1 + months, 12)
    if not 1 <= years <= 9999:
        raise ValueError
    for day in range(at.day, 28, -1):
        try:
            return at.replace(year=years, month=month + 1, day=day)
        except ValueError:
            continue  # the month is shorter
    return at.replace(year=years, month=month + 1, day=min(at.day, 28))


@register(
    DATE_FILTERS,
    "any|start_of(unit: unit)",
    "Returns the start of the minute, hour, day, week (Monday), month, quarter or year",
    ("{{ '2026-05-31'|start_of('quarter') }}", '"2026-04-01"'),
)
def start_of(meter: Meter, value: JSON, unit: str) -> str:
    check_unit(unit)
    start = point(meter, value)
    meter.charge(_COST)
    at = start.at.replace(second=0, microsecond=0)
    if unit != "minute":
        at = at.replace(minute=0)
    if unit not in ("minute", "hour"):
        at = at.replace(hour=0)
    if unit == "week":
        try:
            at -= timedelta(days=at.weekday())
        except OverflowError:
            raise _out_of_range() from None
    elif unit in ("month", "quarter", "year"):
        month = {"month": at.month, "quarter": (at.month - 1) // 3 * 3 + 1, "year": 1}[unit]
        at = at.replace(month=month, day=1)
    return _written(meter, Point(at, start.whole))


@register(
    DATE_FILTERS,
    'any|range_of_dates(to: any, step: step = "1d")',
    "Returns the dates from the value to `to`, including `to`; `step` is a number and s, m, h, d, w, mo or y",
    ("{{ '2026-01-30'|range_of_dates('2026-02-01') }}", '["2026-01-30","2026-01-31","2026-02-01"]'),
)
def range_of_dates(meter: Meter, value: JSON, to: JSON, step: str) -> list[str]:
    first, last = point(meter, value), point(meter, to, "to")
    length, months = _step(step)
    whole = first.whole and last.whole and not length % timedelta(days=1)
    found: list[str] = []
    at = first.at
    try:
        while at <= last.at:
            if len(found) == RANGE_MAX:
                raise limit_exceeded("RANGE_MAX", "range_of_dates has too many dates; use a larger step")
            found.append(_written(meter, Point(at, whole)))
            # Each date is calculated from the first one: the 31st stays the last day of each month.
            at = _months_later(first.at, months * len(found)) + length * len(found)
    except (OverflowError, ValueError):
        pass  # the next one is after the year 9999
    meter.items(len(found))
    return found


def _step(step: str) -> tuple[timedelta, int]:
    """A length of time, and a number of months."""
    found = _STEP.fullmatch(step)
    if found is None:
        raise TemplateError(f'the step "{step[:_CHARS_MAX]}" is not a number and a unit, such as 1d, 6h, 2w or 1mo')
    count, unit = int(found["count"]), found["unit"]
    if unit in ("mo", "y"):
        return timedelta(), count * (12 if unit == "y" else 1)
    return timedelta(**{_STEPS[unit]: count}), 0
