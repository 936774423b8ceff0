"""Values for and from PostgreSQL: JSON in the form that a parameter's type needs, and rows as JSON.

PostgreSQL reports the types. A value that the driver cannot convert is sent as text and parsed there.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple, TypeAlias

import msgspec

from noetl.output import JSON
from noetl.tools.payload import bytes_of_base64, memory_of_json
from noetl.tools.sql.statements import unique_names
from noetl.tools.sql.values import Convert, to_json

PgType: TypeAlias = Any  # asyncpg's: name, kind, schema

_TEXTS = frozenset({"text", "varchar", "bpchar", "name", "xml", "unknown", "citext"})
_JSONS = frozenset({"json", "jsonb"})
_INTS = frozenset({"int2", "int4", "int8", "oid"})
_FLOATS = frozenset({"float4", "float8"})
# The driver returns values of these column types as JSON values: they need no conversion.
_PLAIN = _INTS | {"bool", "text", "varchar", "bpchar", "name", "xml", "money", "interval", "citext"}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class BoundValue(NamedTuple):
    """A value in the form that the driver needs."""

    value: Any
    cast: bool = False  # the value is text that PostgreSQL must parse as the parameter's type


def json_text(value: JSON) -> str:
    return _encode(value).decode()


def encode_parameter(value: JSON, kind: PgType) -> BoundValue:
    """A JSON value for a parameter of this type. Raises ValueError or OverflowError."""
    if value is None:
        return BoundValue(None)
    if kind.kind == "array":
        return _array(value, kind)
    return _scalar(value, kind.name)


def _scalar(value: JSON, name: str) -> BoundValue:
    text = value if type(value) is str else None
    if name in _TEXTS or name in _JSONS:
        # Text for a JSON column is JSON already, as in SQL.
        return BoundValue(json_text(value) if text is None else text)
    if text is None and type(value) is not bool:
        if name in _INTS and type(value) is int:
            return BoundValue(value)
        if name in _FLOATS and isinstance(value, int | float):
            return BoundValue(float(value))
        if name == "numeric" and isinstance(value, int | float):
            return BoundValue(Decimal(repr(value)))
    if name == "bool" and type(value) is bool:
        return BoundValue(value)
    if name == "bytea" and (binary := bytes_of_base64(value)) is not None:
        return BoundValue(binary)
    if text is None and type(value) is float and value.is_integer() and name in _INTS:
        return BoundValue(int(value))
    return BoundValue(json_text(value) if text is None else text, cast=True)


def _array(value: JSON, kind: PgType) -> BoundValue:
    if type(value) is not list:
        return BoundValue(value if type(value) is str else json_text(value), cast=True)
    element = kind.name.removesuffix("[]")
    parts = [BoundValue(None) if each is None else _scalar(each, element) for each in value]
    if not any(part.cast for part in parts):
        return BoundValue([part.value for part in parts])
    return BoundValue(array_text(value), cast=True)


def array_text(values: list[JSON]) -> str:
    """A list as a PostgreSQL array literal: {1,"a\\"b",NULL}."""
    return "{" + ",".join(map(_element, values)) + "}"


def _element(value: JSON) -> str:
    if value is None:
        return "NULL"
    if type(value) is list:
        return array_text(value)
    text = value if type(value) is str else json_text(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def cast_placeholder(index: int, kind: PgType) -> str:
    """The placeholder of a text that PostgreSQL parses as this type."""
    array = "[]" if kind.kind == "array" else ""
    name = kind.name.removesuffix("[]").replace('"', '""')
    schema = kind.schema.replace('"', '""')
    return f'CAST(${index + 1}::text AS "{schema}"."{name}"{array})'


class RowConverter:
    """Records of one statement → JSON objects, by the types of its columns."""

    JSON_BYTES_MIN: ClassVar = 1024 * 1024  # smaller texts cannot need much memory

    def __init__(self, attributes: Sequence[Any]) -> None:
        self.names = unique_names(attribute.name for attribute in attributes)
        self._converts = [
            (name, _converter(attribute.type))
            for name, attribute in zip(self.names, attributes, strict=True)
            if attribute.type.name not in _PLAIN
        ]
        self._json = frozenset(name for name, convert in self._converts if convert is _parse_json)

    def json_bytes(self, records: Sequence[Any]) -> int:
        """About how much memory the values of JSON columns need, after they are decoded."""
        places = [place for place, name in enumerate(self.names) if name in self._json]
        texts = (record[place] for record in records for place in places)
        return sum(memory_of_json(str(each).encode(errors="replace")) for each in texts if each is not None)

    def convert(self, records: Sequence[Any]) -> list[dict[str, JSON]]:
        names, converts = self.names, self._converts
        rows = [dict(zip(names, record, strict=True)) for record in records]
        for name, convert in converts:
            for row in rows:
                if (value := row[name]) is not None:
                    row[name] = convert(value)
        return rows


def _converter(kind: PgType) -> Convert:
    return _parse_json if kind.name.removesuffix("[]") in _JSONS else to_json


def _parse_json(value: Any) -> JSON:
    """A json or jsonb column, or an array of them: the driver returns text."""
    if type(value) is list:
        return [None if each is None else _parse_json(each) for each in value]
    try:
        return _decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value  # a number that the decoder cannot represent: the text keeps all its digits
