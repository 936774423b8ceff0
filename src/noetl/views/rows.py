"""A large value in the size of a screen: the rows of a list, the columns with their types, a search, and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from noetl.output import JSON

TYPED_ROWS_MAX = 1_000  # rows that decide the columns and their types
COLUMNS_MAX = 200
CELL_CHARS_MAX = 2_000  # of a cell in a page
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "list", dict: "map"}
_encode = msgspec.json.Encoder().encode


class Column(Struct, frozen=True, kw_only=True):
    """A column: a key of the rows, and the types of its values."""

    name: str
    type: str  # "integer", or several: "integer | string"
    nullable: bool = False  # some rows have null, or do not have it


class RowsPage(Struct, frozen=True, kw_only=True):
    """Some rows of a value."""

    shape: str  # "table": a list of maps; "list": any other list; "map": its keys are the rows; "value": one row
    columns: tuple[Column, ...]  # of a table; of another shape, one or two
    rows: tuple[tuple[JSON, ...], ...]  # cells in the order of the columns; long texts are cut
    places: tuple[int, ...]  # of these rows in the value, from 0
    total: int  # rows of the value
    found: int  # rows that contain the text; without a text, all


class ResultRows:
    """A value as rows."""

    def __init__(self, value: JSON) -> None:
        self.shape, self._rows = _shaped(value)
        self.columns = _columns(self.shape, self._rows)

    def page(self, offset: int, limit: int, text: str = "") -> RowsPage:
        places: Sequence[int] = range(len(self._rows))
        if text:
            places = [place for place, row in enumerate(self._rows) if _contains(row, text.lower())]
        shown = places[offset : offset + limit]
        return RowsPage(
            shape=self.shape,
            columns=self.columns,
            rows=tuple(tuple(map(_cut, self._cells(self._rows[place]))) for place in shown),
            places=tuple(shown),
            total=len(self._rows),
            found=len(places),
        )

    def csv(self) -> bytes:
        """All rows. Lists and maps are JSON; null and a missing key are empty."""
        file = io.StringIO(newline="")
        writer = csv.writer(file)
        writer.writerow([column.name for column in self.columns])
        writer.writerows([list(map(_csv_cell, self._cells(row))) for row in self._rows])
        return file.getvalue().encode()

    def _cells(self, row: JSON) -> tuple[JSON, ...]:
        if self.shape == "table":
            return tuple(row.get(column.name) for column in self.columns)
        return tuple(row) if self.shape == "map" else (row,)


def _shaped(value: JSON) -> tuple[str, list[JSON]]:
    match value:
        case list() if value and all(isinstance(row, dict) or row is None for row in value):
            tables = [row for row in value if row is not None]
            names = {name for row in tables[:TYPED_ROWS_MAX] for name in row}
            if 0 < len(names) <= COLUMNS_MAX:
                return "table", [row or {} for row in value]
            return "list", value
        case list():
            return "list", value
        case dict():
            return "map", [[key, each] for key, each in value.items()]
    return "value", [value]


def _columns(shape: str, rows: list[JSON]) -> tuple[Column, ...]:
    seen = rows[:TYPED_ROWS_MAX]
    if shape == "table":
        names = dict.fromkeys(name for row in seen for name in row)
        return tuple(_column(name, [row.get(name) for row in seen]) for name in names)
    if shape == "map":
        return Column(name="key", type="string"), _column("value", [row[1] for row in seen])
    return (_column("value", seen),)


def _column(name: str, values: list[JSON]) -> Column:
    types = dict.fromkeys(_TYPES[type(value)] for value in values if value is not None)
    kinds = ["number"] if set(types) == {"integer", "number"} else [*types]
    return Column(name=name, type=" | ".join(kinds) or "null", nullable=any(value is None for value in values))


def _contains(row: JSON, text: str) -> bool:
    return text in _encode(row).decode("utf-8", "replace").lower()


def _cut(value: JSON) -> JSON:
    if isinstance(value, str) and len(value) > CELL_CHARS_MAX:
        return value[:CELL_CHARS_MAX] + "…"
    if isinstance(value, list | dict) and len(text := _encode(value).decode()) > CELL_CHARS_MAX:
        return text[:CELL_CHARS_MAX] + "…"
    return value


def _csv_cell(value: JSON) -> JSON:
    if isinstance(value, list | dict):
        return _encode(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value
