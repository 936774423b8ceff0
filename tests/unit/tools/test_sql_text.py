"""SQL and its values become statements, each with its own."""

from __future__ import annotations

import pytest

from noetl.output import JSON
from noetl.playbook.kinds import Sql
from noetl.tools.sql_text import (
    STATEMENTS_MAX,
    BadSql,
    Params,
    Style,
    distinct,
    one_statement,
    refuse_transactions,
    statements,
)


def found(sql: Sql, params: Params = None, style: Style = "$") -> list[tuple[str, list[JSON]]]:
    read = statements(sql, params, style=style)
    return [(each.text(lambda place: f"<{place}>"), list(each.values)) for each in read]


def test_statements_are_cut_at_semicolons_and_empty_ones_are_left_out() -> None:
    assert found(Sql(["SELECT 1; ; -- nothing\n;SELECT ';' "])) == [("SELECT 1", []), ("SELECT ';'", [])]


def test_each_statement_has_the_values_that_stand_in_it() -> None:
    sql = Sql(["INSERT INTO a VALUES (", ", ", "); DELETE FROM b WHERE c = ", ""], [1, "x", None])
    assert found(sql) == [
        ("INSERT INTO a VALUES (<0>, <1>)", [1, "x"]),
        ("DELETE FROM b WHERE c = <0>", [None]),
    ]


def test_places_are_numbered_anew_in_each_statement() -> None:
    sql = Sql(["SELECT $2, $1, $2; SELECT $3, '$1' -- $1"])
    assert found(sql, ["a", "b", "c"]) == [
        ("SELECT <0>, <1>, <0>", ["b", "a"]),
        ("SELECT <0>, '$1' -- $1", ["c"]),
    ]


def test_names_take_their_values_from_a_mapping_and_go_with_tags() -> None:
    sql = Sql(["SELECT :a::int, x[1:b], :b, ", ", :a"], ["tag"])
    assert found(sql, {"a": 1, "b": 2, "c": 3}) == [("SELECT <0>::int, x[1:b], <1>, <2>, <0>", [1, 2, "tag"])]


def test_question_marks_are_counted_through_all_statements() -> None:
    assert found(Sql(["SELECT ?, ?; SELECT ?"]), [1, 2, 3], "?") == [
        ("SELECT <0>, <1>", [1, 2]),
        ("SELECT <0>", [3]),
    ]


def test_a_question_mark_is_a_sign_of_its_own_in_postgresql() -> None:
    assert found(Sql(["SELECT a ? 'b'"])) == [("SELECT a ? 'b'", [])]


@pytest.mark.parametrize(
    ("sql", "params", "words"),
    [
        (Sql([" ; -- x"]), None, "no statement"),
        (Sql(["SELECT $1"]), None, "there are no params"),
        (Sql(["SELECT $1, ", ""], [1]), None, "takes its value from a list"),
        (Sql(["SELECT $1, ", ""], [1]), [1], "does not go with"),
        (Sql(["SELECT $3"]), [1, 2], "params has 2 values"),
        (Sql(["SELECT $0"]), [1], "params has 1 values"),
        (Sql(["SELECT $1"]), [1, 2], r"nothing in the text takes \$2"),
        (Sql(["SELECT :a"]), {"b": 1}, 'params has no "a"'),
        (Sql(["SELECT $1"]), {"b": 1}, "write {{ }} or :name"),
        (Sql(["SELECT 1;" * (STATEMENTS_MAX + 1)]), None, "STATEMENTS_MAX"),
    ],
)
def test_what_does_not_fit_together_is_told(sql: Sql, params: Params, words: str) -> None:
    with pytest.raises(BadSql, match=words):
        statements(sql, params)


def test_a_query_is_one_statement() -> None:
    assert one_statement(Sql(["WITH a AS (SELECT 1) SELECT * FROM a;"])).verb == "WITH"
    with pytest.raises(BadSql, match="here are 2"):
        one_statement(Sql(["SELECT 1; SELECT 2"]))


@pytest.mark.parametrize("text", ["BEGIN", "commit", "END", "ROLLBACK", "/* a */ START TRANSACTION", "ABORT"])
def test_a_command_does_not_end_its_own_transaction(text: str) -> None:
    with pytest.raises(BadSql, match="one transaction of its own"):
        refuse_transactions(one_statement(Sql([text])))


@pytest.mark.parametrize("text", ["SAVEPOINT a", "ROLLBACK TO a", "RELEASE a", "SELECT 1"])
def test_savepoints_are_fine(text: str) -> None:
    statement = one_statement(Sql([text]))
    refuse_transactions(statement)
    assert statement.text(str) == text


def test_sql_has_one_piece_more_than_values() -> None:
    with pytest.raises(ValueError, match="one more piece of text"):
        Sql(["a", "b"], [])


def test_of_two_columns_with_one_name_neither_is_lost() -> None:
    assert distinct(["id", "id", "id_2", "id"]) == ["id", "id_2", "id_2_2", "id_3"]
