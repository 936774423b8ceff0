"""Rows of DuckDB → plain JSON, by the same rules as those of the other databases."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from noetl.output import JSON
from noetl.tools.json_values import NotPlain, in_base64, parsed
from noetl.tools.postgres.values import plain as plain_scalar

_AS_THEY_ARE = frozenset({str, int, bool, type(None)})


def plain_row(columns: Sequence[str], row: Sequence[Any], documents: Sequence[str] = ()) -> dict[str, JSON]:
    """`documents` are the columns of type JSON, which DuckDB gives as texts."""
    made = {
        column: value if type(value) in _AS_THEY_ARE else plain(value)
        for column, value in zip(columns, row, strict=True)
    }
    for column in documents:
        if made[column] is not None:
            made[column] = _document(made[column])
    return made


def plain(value: Any) -> JSON:
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {_key(key): plain(each) for key, each in value.items()}
    if isinstance(value, bytes | bytearray | memoryview):
        return in_base64(bytes(value))
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    return plain_scalar(value)


def _document(text: str) -> JSON:
    try:
        return parsed(text.encode())
    except (NotPlain, UnicodeEncodeError):
        return text  # DuckDB takes for JSON what is none to us, such as numbers beyond all bounds.


def _key(key: Any) -> str:
    """Of a map: as JSON writes it."""
    made = plain(key)
    if isinstance(made, bool) or made is None:
        return {True: "true", False: "false", None: "null"}[made]
    return str(made)
