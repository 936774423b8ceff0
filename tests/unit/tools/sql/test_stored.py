"""`stored`: Refs to rows contain names and values, and the SQL that reads them quotes and binds these (D98)."""

from __future__ import annotations

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.output import JSON
from noetl.tools.errors import InvalidInput
from noetl.tools.sql.statements import Statement
from noetl.tools.sql.stored import (
    RowRange,
    Rows,
    Stored,
    count_statement,
    keychain_entry,
    rows_in,
    rows_statement,
    stored_ref,
)


def text(statement: Statement) -> str:
    return statement.text(lambda index: f"${index + 1}")


@pytest.mark.parametrize(
    ("rows", "part", "columns", "sql", "values"),
    [
        (Rows(table="t"), RowRange(), None, 'SELECT * FROM "t"', ()),
        (Rows(table="s.T", columns=["a", "b"]), RowRange(), None, 'SELECT "a", "b" FROM "s"."T"', ()),
        (Rows(table="t", columns=["a", "b"]), RowRange(), ["b"], 'SELECT "b" FROM "t"', ()),
        (Rows(table="t"), RowRange(5, 10), None, 'SELECT * FROM "t" LIMIT 10 OFFSET 5', ()),
        (Rows(table="t"), RowRange(5), None, f'SELECT * FROM "t" LIMIT {2**62} OFFSET 5', ()),
        (Rows(table="t", order=["a", "b"]), RowRange(0, 1), None, 'SELECT * FROM "t" ORDER BY "a", "b" LIMIT 1', ()),
        (
            Rows(table="t", where={"a": 1, "b": None, "c": ["x", True]}),
            RowRange(),
            None,
            'SELECT * FROM "t" WHERE "a" = $1 AND "b" IS NULL AND "c" IN ($2, $3)',
            (1, "x", True),
        ),
        (
            Rows(table="t", where={"a": {"gte": 1, "lt": 9}, "b": {"ne": None}, "c": []}),
            RowRange(),
            None,
            'SELECT * FROM "t" WHERE "a" >= $1 AND "a" < $2 AND "b" IS NOT NULL AND 1 = 0',
            (1, 9),
        ),
        (Rows(table="t", where={"a.b": 1}), RowRange(), None, 'SELECT * FROM "t" WHERE "a.b" = $1', (1,)),
    ],
)
def test_the_rows_of_a_ref_as_sql(
    rows: Rows, part: RowRange, columns: list[str] | None, sql: str, values: tuple[JSON, ...]
) -> None:
    statement = rows_statement(rows, part, columns)
    assert (text(statement), statement.values, statement.verb) == (sql, values, "SELECT")


def test_the_rows_of_a_ref_are_counted_without_order_and_columns() -> None:
    statement = count_statement(Rows(table="t", columns=["a"], where={"a": 1}, order=["a"]))
    assert (text(statement), statement.values) == ('SELECT count(*) AS count FROM "t" WHERE "a" = $1', (1,))


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [
        (Rows(table=""), None, "the name of a table is not valid in SQL"),
        (Rows(table="a.b.c.d.e"), None, "the name of a table is not valid in SQL"),
        (Rows(table="t`; DROP TABLE x"), None, "the name of a table is not valid in SQL"),
        (Rows(table="t", columns=[]), None, "the list of columns is empty"),
        (Rows(table="t", columns=["a\0"]), None, "the name of a column is not valid in SQL"),
        (Rows(table="t", columns=["a"]), ["b"], 'the Ref has no column "b"; it has: a'),
        (Rows(table="t", where={"a": {"like": "x"}}), None, 'the condition of "a" must be a value'),
        (Rows(table="t", where={"a": {}}), None, 'the condition of "a" must be a value'),
        (Rows(table="t", where={"a": {"gt": [1]}}), None, 'the condition of "a" must be a value'),
        (Rows(table="t", where={"a": [None]}), None, 'the list of "a" may contain text, numbers and booleans only'),
        (Rows(table="t", where={"a": {"gt": None}}), None, "null can only be compared"),
        (Rows(table="t", where={"a": list(range(10_001))}), None, "`where` has 10,001 values (limit VALUES_MAX"),
    ],
)
def test_names_and_conditions_that_cannot_be_used_are_refused(
    rows: Rows, columns: list[str] | None, words: str
) -> None:
    with pytest.raises(InvalidInput) as error:
        rows_statement(rows, columns=columns)
    assert words in str(error.value)


@pytest.mark.parametrize("where", [{}, {"table": 1}, {"table": "t", "columns": "a"}, {"table": "t", "where": "a = 1"}])
def test_a_locator_without_rows_is_refused(where: dict[str, JSON]) -> None:
    with pytest.raises(InvalidInput, match="the Ref names no rows"):
        rows_in(where)


NAMES = st.text(min_size=1, max_size=12)
VALUES = st.one_of(st.text(max_size=12), st.integers(-9, 9), st.booleans())


@given(table=NAMES, column=NAMES, value=VALUES)
def test_no_name_and_no_value_becomes_sql_d98(table: str, column: str, value: JSON) -> None:
    """A real database reads exactly the one row, or the name is refused."""
    try:
        statement = rows_statement(Rows(table=table.replace(".", ""), columns=[column], where={column: value}))
    except InvalidInput:
        return
    connection = apsw.Connection(":memory:")
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    quoted = [name.replace('"', '""') for name in (table.replace(".", ""), column)]
    connection.execute(f'CREATE TABLE "{quoted[0]}" ("{quoted[1]}"); CREATE TABLE "other secret" (x)')
    bound = int(value) if isinstance(value, bool) else value
    connection.execute(f'INSERT INTO "{quoted[0]}" VALUES (?1)', (bound,))
    connection.execute('INSERT INTO "other secret" VALUES (1)')
    found = list(connection.execute(statement.text(lambda index: f"?{index + 1}"), (bound,)))
    assert found == [(bound,)]
    tables = [row[0] for row in connection.execute("SELECT count(*) FROM sqlite_schema")]
    assert tables == [2]


def test_a_ref_names_the_system_the_rows_and_the_credential_d98() -> None:
    stored = Stored(table="sales.orders", columns=["id"], where={"batch": 7}, order=["id"])
    assert stored_ref(stored, {"system": "postgres"}, "warehouse", 3) == {
        "type": "relational",
        "locator": {
            "system": "postgres", "table": "sales.orders", "columns": ["id"], "where": {"batch": 7}, "order": ["id"],
        },
        "auth_reference": "keychain/warehouse",
        "meta": {"content_type": "application/json", "count": 3},
    }  # fmt: skip
    assert stored_ref(Stored(table="t"), {"system": "sqlite", "path": "/x.db"}) == {
        "type": "relational",
        "locator": {"system": "sqlite", "path": "/x.db", "table": "t"},
        "meta": {"content_type": "application/json"},
    }


def test_the_credential_of_a_ref_is_a_keychain_entry() -> None:
    assert keychain_entry({"auth_reference": "keychain/main"}) == "main"
    assert keychain_entry({}) is None
    with pytest.raises(InvalidInput, match="must be keychain/<name>"):
        keychain_entry({"auth_reference": "main"})
