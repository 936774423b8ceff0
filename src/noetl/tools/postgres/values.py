"""Values on their way into PostgreSQL and out of it: JSON as the parameter's type wants it, rows as JSON.

PostgreSQL says the types. What the driver has no form for goes as text, and PostgreSQL's own input reads it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

import msgspec

from noetl.output import JSON
from noetl.tools.json_values import in_base64
from noetl.tools.sql_text import distinct

Type: TypeAlias = Any  # asyncpg's: name, kind, schema
Convert: TypeAlias = Callable[[Any], JSON]

_TEXTS = frozenset({"text", "varchar", "bpchar", "name", "xml", "unknown", "citext"})
_JSONS = frozenset({"json", "jsonb"})
_INTS = frozenset({"int2", "int4", "int8", "oid"})
_FLOATS = frozenset({"float4", "float8"})
# Columns whose values are JSON as they come: nothing is called for them.
_PLAIN = _INTS | {"bool", "text", "varchar", "bpchar", "name", "xml", "money", "interval", "citext"}
_DOUBLE_CHARS = 16  # 15 digits and a point
_DIGITS_MAX = 400  # of a number; longer ones are text
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Fitted(NamedTuple):
    """A value as the driver takes it."""

    value: Any
    cast: bool = False  # it is text that PostgreSQL must read as the type


def json_text(value: JSON) -> str:
    return _encode(value).decode()


def fitted(value: JSON, kind: Type) -> Fitted:
    """A JSON value for a parameter of that type."""
    if value is None:
        return Fitted(None)
    if kind.kind == "array":
        return _array(value, kind)
    return _scalar(value, kind.name)


def _scalar(value: JSON, name: str) -> Fitted:
    text = value if type(value) is str else None
    if name in _TEXTS or name in _JSONS:
        # Text for a json column is JSON already, as it is in SQL.
        return Fitted(json_text(value) if text is None else text)
    if text is None and type(value) is not bool:
        if name in _INTS and type(value) is int:
            return Fitted(value)
        if name in _FLOATS and isinstance(value, int | float):
            return Fitted(float(value))
        if name == "numeric" and isinstance(value, int | float):
            return Fitted(Decimal(repr(value)))
    if name == "bool" and type(value) is bool:
        return Fitted(value)
    if name == "bytea" and type(value) is dict and list(value) == ["base64"]:
        return Fitted(base64.b64decode(str(value["base64"]), validate=True))
    if text is None and type(value) is float and value.is_integer() and name in _INTS:
        return Fitted(int(value))
    return Fitted(json_text(value) if text is None else text, cast=True)


def _array(value: JSON, kind: Type) -> Fitted:
    if type(value) is not list:
        return Fitted(value if type(value) is str else json_text(value), cast=True)
    element = kind.name.removesuffix("[]")
    parts = [Fitted(None) if each is None else _scalar(each, element) for each in value]
    if not any(part.cast for part in parts):
        return Fitted([part.value for part in parts])
    return Fitted(array_text(value), cast=True)


def array_text(values: list[JSON]) -> str:
    """A list as PostgreSQL writes arrays: {1,"a\\"b",NULL}."""
    return "{" + ",".join(map(_element, values)) + "}"


def _element(value: JSON) -> str:
    if value is None:
        return "NULL"
    if type(value) is list:
        return array_text(value)
    text = value if type(value) is str else json_text(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def cast_to(place: int, kind: Type) -> str:
    """The placeholder of a text that PostgreSQL reads as that type."""
    array = "[]" if kind.kind == "array" else ""
    name = kind.name.removesuffix("[]").replace('"', '""')
    schema = kind.schema.replace('"', '""')
    return f'CAST(${place + 1}::text AS "{schema}"."{name}"{array})'


class Rows:
    """Records of one statement → objects, by the types of its columns."""

    def __init__(self, attributes: Sequence[Any]) -> None:
        self.names = distinct(attribute.name for attribute in attributes)
        self._converts = [
            (name, _convert(attribute.type))
            for name, attribute in zip(self.names, attributes, strict=True)
            if attribute.type.name not in _PLAIN
        ]

    def objects(self, records: Sequence[Any]) -> list[dict[str, JSON]]:
        names, converts = self.names, self._converts
        rows = [dict(zip(names, record, strict=True)) for record in records]
        for name, convert in converts:
            for row in rows:
                if (value := row[name]) is not None:
                    row[name] = convert(value)
        return rows


def _convert(kind: Type) -> Convert:
    name = kind.name.removesuffix("[]")
    if name in _JSONS:
        return _each(_parsed)
    return plain


def _each(convert: Convert) -> Convert:
    def convert_all(value: Any) -> JSON:
        if type(value) is list:
            return [None if each is None else convert_all(each) for each in value]
        return convert(value)

    return convert_all


def _parsed(text: str) -> JSON:
    try:
        return _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text  # a number that JSON of ours can not hold: nothing is lost


def plain(value: Any) -> JSON:
    """A value of the driver as JSON; what it has no form for is told as text."""
    convert = _BY_TYPE.get(type(value))
    if convert is not None:
        return convert(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list):
        return [plain(each) for each in value]
    if hasattr(value, "lower_inc"):
        return _range(value)
    if hasattr(value, "as_string"):
        return value.as_string()
    if isinstance(value, Mapping) or hasattr(value, "keys"):  # a composite
        return {str(key): plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, tuple) else str(value)


def _float(value: float) -> JSON:
    if isfinite(value):
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _decimal(value: Decimal) -> JSON:
    """A number where JSON writes the very same digits, else text."""
    text = str(value)
    if len(text) <= _DOUBLE_CHARS and "E" not in text and "N" not in text and "I" not in text:
        # So few digits are the same again after a double, so nothing needs to be compared.
        whole, _, fraction = text.partition(".")
        return float(text) if fraction.strip("0") else int(whole)
    if not value.is_finite() or value.adjusted() > _DIGITS_MAX:
        return text
    if value == value.to_integral_value():
        return int(value)
    number = float(value)
    return number if Decimal(repr(number)) == value else text


def _instant(value: datetime) -> str:
    if value.year == 9999 and value.replace(tzinfo=None) == datetime.max:
        return "infinity"
    if value.year == 1 and value.replace(tzinfo=None) == datetime.min:
        return "-infinity"
    return value.isoformat().replace("+00:00", "Z")


def _date(value: date) -> str:
    return "infinity" if value == date.max else "-infinity" if value == date.min else value.isoformat()


def _range(value: Any) -> str:
    if value.isempty:
        return "empty"
    lower, upper = ("" if each is None else str(plain(each)) for each in (value.lower, value.upper))
    return f"{'[' if value.lower_inc else '('}{lower},{upper}{']' if value.upper_inc else ')'}"


_BY_TYPE: dict[type, Convert] = {
    float: _float,
    Decimal: _decimal,
    datetime: _instant,
    date: _date,
    time: time.isoformat,
    timedelta: str,
    bytes: in_base64,
}
