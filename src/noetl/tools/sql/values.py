"""Values of a database → JSON, by the same rules for all SQL tools.

Decimals are numbers if a double has all their digits, otherwise text. Dates and times are RFC 3339 text.
NaN, Infinity and types that JSON does not have are text, binary data is {"base64": …}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, TypeAlias

from noetl.output import JSON
from noetl.tools.payload import base64_of

Convert: TypeAlias = Callable[[Any], JSON]

PLAIN_TYPES = frozenset({str, int, bool, type(None)})  # JSON already
_DOUBLE_CHARS = 16  # 15 digits and a decimal point
_DIGITS_MAX = 400  # of a whole number; longer ones are text


def to_json(value: Any) -> JSON:
    convert = _BY_TYPE.get(type(value))
    if convert is not None:
        return convert(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if hasattr(value, "lower_inc"):  # a range of asyncpg
        return _range(value)
    if hasattr(value, "as_string"):  # a bit string of asyncpg
        return value.as_string()
    if hasattr(value, "keys"):  # a composite type of asyncpg, which is a tuple too
        return _mapping(value)
    return _list(value) if isinstance(value, list | tuple) else str(value)


def _list(value: Sequence[Any]) -> JSON:
    return [to_json(each) for each in value]


def _mapping(value: Mapping[Any, Any]) -> JSON:
    return {_key(key): to_json(each) for key, each in value.items()}


def _key(key: Any) -> str:
    """A key of a map, as JSON writes it."""
    if isinstance(key, str):
        return key
    made = to_json(key)
    if isinstance(made, bool) or made is None:
        return {True: "true", False: "false", None: "null"}[made]
    return str(made)


def _float(value: float) -> JSON:
    if isfinite(value):
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _decimal(value: Decimal) -> JSON:
    """A number if JSON writes exactly the same digits, otherwise text."""
    text = str(value)
    if len(text) <= _DOUBLE_CHARS and "E" not in text and "N" not in text and "I" not in text:
        # A double represents this few digits exactly, so a comparison is not necessary.
        whole, _, fraction = text.partition(".")
        return float(text) if fraction.strip("0") else int(whole)
    if not value.is_finite() or value.adjusted() > _DIGITS_MAX:
        return text
    if value == value.to_integral_value():
        return int(value)
    number = float(value)
    return number if Decimal(repr(number)) == value else text


def _datetime(value: datetime) -> str:
    if value.year == 9999 and value.replace(tzinfo=None) == datetime.max:
        return "infinity"
    if value.year == 1 and value.replace(tzinfo=None) == datetime.min:
        return "-infinity"
    if value.tzinfo is not None and value.tzinfo is not UTC:
        value = value.astimezone(UTC)
    return value.isoformat().replace("+00:00", "Z")


def _date(value: date) -> str:
    return "infinity" if value == date.max else "-infinity" if value == date.min else value.isoformat()


def _range(value: Any) -> str:
    if value.isempty:
        return "empty"
    lower, upper = ("" if each is None else str(to_json(each)) for each in (value.lower, value.upper))
    return f"{'[' if value.lower_inc else '('}{lower},{upper}{']' if value.upper_inc else ')'}"


_BY_TYPE: dict[type, Convert] = {
    list: _list,
    tuple: _list,
    dict: _mapping,
    float: _float,
    Decimal: _decimal,
    datetime: _datetime,
    date: _date,
    time: time.isoformat,
    timedelta: str,
    bytes: base64_of,
    bytearray: base64_of,
    memoryview: base64_of,
}
