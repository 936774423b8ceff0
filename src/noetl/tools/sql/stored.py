"""Refs to rows in the author's own databases (D98): the field `stored`, and the SQL that reads such rows.

A Ref contains names and values, never SQL. Names are quoted, and values are bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Struct

from noetl.output import JSON
from noetl.template.filters.sql import sql_ident
from noetl.template.limits import Meter
from noetl.template.values import TemplateError
from noetl.tools.errors import InvalidInput
from noetl.tools.sql.statements import Statement

KEYCHAIN: Final = "keychain/"  # before the name of the entry in `auth_reference`
VALUES_MAX: Final = 10_000  # in one `where`
_COMPARISONS: Final = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "ne": "<>"}


class Stored(Struct, kw_only=True):
    """The rows that a task has stored in the database. `output.ref` is a Ref to them."""

    table: Annotated[str, Meta(description="table with the rows, for example `schema.table`")]
    columns: Annotated[list[str] | None, Meta(description="columns of the rows; default: all of them")] = None
    where: Annotated[
        dict[str, JSON] | None,
        Meta(
            description="which rows: a value, a list of values, null, or `{gt|gte|lt|lte|ne: value}` for each column; "
            "all conditions must hold; default: all rows"
        ),
    ] = None
    order: Annotated[
        list[str] | None,
        Meta(description="columns by which readers sort the rows; without it, slices have no defined order"),
    ] = None
    count: Annotated[bool, Meta(description="count the rows now, and keep the number in `output.ref.meta.count`")] = (
        False
    )


StoredField: TypeAlias = Annotated[
    Stored | None,
    Meta(
        description="the rows that the statement has stored: `output.ref` is a Ref to them, which `resolve` fetches, "
        "and `output.data` is `{rows}`"
    ),
]


class Rows(Struct, kw_only=True, omit_defaults=True):
    """The part of a locator that names rows, as it was read from a Ref."""

    table: str
    columns: list[str] | None = None
    where: dict[str, JSON] | None = None
    order: list[str] | None = None


class RowRange(NamedTuple):
    first: int = 0
    limit: int | None = None  # None: to the end


def rows_in(locator: Mapping[str, JSON]) -> Rows:
    """Raises InvalidInput if the locator names no rows."""
    try:
        return msgspec.convert(dict(locator), Rows)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the Ref names no rows: {error}") from None


def stored_ref(
    stored: Stored, place: Mapping[str, JSON], auth: str | None = None, count: int | None = None
) -> dict[str, JSON]:
    """`place`: the system and where it is. Raises InvalidInput for names and conditions that cannot be used."""
    named: dict[str, JSON] = msgspec.to_builtins(
        Rows(table=stored.table, columns=stored.columns, where=stored.where, order=stored.order)
    )
    rows_statement(rows_in(named))
    ref: dict[str, JSON] = {"type": "relational", "locator": {**place, **named}}
    if auth is not None:
        ref["auth_reference"] = f"{KEYCHAIN}{auth}"
    return {**ref, "meta": {"content_type": "application/json", **({} if count is None else {"count": count})}}


ALL: Final = RowRange()


def rows_statement(rows: Rows, part: RowRange = ALL, columns: list[str] | None = None) -> Statement:
    """SELECT of the rows. `columns`: only these. Raises InvalidInput."""
    wanted = columns if columns is not None else rows.columns
    if wanted is not None and rows.columns is not None:
        unknown = next((column for column in wanted if column not in rows.columns), None)
        if unknown is not None:
            raise InvalidInput(f'the Ref has no column "{unknown}"; it has: {", ".join(rows.columns)}')
    if wanted == []:
        raise InvalidInput("the list of columns is empty")
    names = "*" if wanted is None else ", ".join(quoted_column(column) for column in wanted)
    draft = _Draft(f"SELECT {names} FROM {quoted_table(rows.table)}")
    _add_conditions(draft, rows.where or {})
    if rows.order:
        draft.add(" ORDER BY " + ", ".join(quoted_column(column) for column in rows.order))
    if part.limit is not None:
        draft.add(f" LIMIT {part.limit:d}")
    if part.first:
        # SQLite has no OFFSET without LIMIT; every database accepts this number.
        draft.add("" if part.limit is not None else f" LIMIT {2**62:d}")
        draft.add(f" OFFSET {part.first:d}")
    return draft.statement()


def count_statement(rows: Rows) -> Statement:
    draft = _Draft(f"SELECT count(*) AS count FROM {quoted_table(rows.table)}")
    _add_conditions(draft, rows.where or {})
    return draft.statement()


class _Draft:
    """A SELECT while it is being written."""

    def __init__(self, text: str) -> None:
        self.pieces = [text]
        self.values: list[JSON] = []

    def add(self, text: str) -> None:
        self.pieces[-1] += text

    def bind(self, value: JSON) -> None:
        self.values.append(value)
        self.pieces.append("")

    def statement(self) -> Statement:
        return Statement(tuple(self.pieces), tuple(range(len(self.values))), tuple(self.values), "SELECT")


def _add_conditions(draft: _Draft, where: Mapping[str, JSON]) -> None:
    for index, (column, value) in enumerate(where.items()):
        draft.add(" AND " if index else " WHERE ")
        name = quoted_column(column)
        if isinstance(value, dict):
            _add_comparisons(draft, name, column, value)
        elif isinstance(value, list):
            _add_list(draft, name, column, value)
        else:
            _compare(draft, name, "=", value)
    if len(draft.values) > VALUES_MAX:
        raise InvalidInput(f"`where` has {len(draft.values):,} values (limit VALUES_MAX: {VALUES_MAX:,})")


def _add_comparisons(draft: _Draft, name: str, column: str, value: Mapping[str, JSON]) -> None:
    for index, (word, compared) in enumerate(value.items()):
        if word not in _COMPARISONS or isinstance(compared, list | dict):
            break
        draft.add(" AND " if index else "")
        _compare(draft, name, _COMPARISONS[word], compared)
    else:
        if value:
            return
    known = ", ".join(_COMPARISONS)
    raise InvalidInput(f'`where`: the condition of "{column}" must be a value, a list, null, or {{{known}: value}}')


def _add_list(draft: _Draft, name: str, column: str, values: list[JSON]) -> None:
    if any(each is None or isinstance(each, list | dict) for each in values):
        raise InvalidInput(f'`where`: the list of "{column}" may contain text, numbers and booleans only')
    if not values:
        draft.add("1 = 0")
        return
    draft.add(f"{name} IN (")
    for index, each in enumerate(values):
        draft.add(", " if index else "")
        draft.bind(each)
    draft.add(")")


def _compare(draft: _Draft, name: str, sign: str, value: JSON) -> None:
    if value is None:
        if sign not in ("=", "<>"):
            raise InvalidInput("`where`: null can only be compared with a plain null or with `ne`")
        draft.add(f"{name} IS {'NOT ' if sign == '<>' else ''}NULL")
        return
    draft.add(f"{name} {sign} ")
    draft.bind(value)


def quoted_table(name: JSON) -> str:
    return _quoted(name, "table")


def quoted_column(name: JSON) -> str:
    return _quoted([name], "column")


def _quoted(name: JSON, what: str) -> str:
    try:
        return sql_ident(Meter(), name)
    except TemplateError as error:
        raise InvalidInput(f"the name of a {what} is not valid in SQL: {error.message}") from None


def keychain_entry(ref: Mapping[str, JSON]) -> str | None:
    """The keychain entry that the Ref names; None: it names none. Raises InvalidInput."""
    named = ref.get("auth_reference")
    if named is None:
        return None
    if not isinstance(named, str) or not named.startswith(KEYCHAIN):
        raise InvalidInput(f"`auth_reference` of a Ref must be {KEYCHAIN}<name>")
    return named.removeprefix(KEYCHAIN)
