"""SQL and its values become statements, each with its own values."""

from __future__ import annotations

import pytest

from noetl.output import JSON
from noetl.playbook.kinds import Sql
from noetl.tools.errors import InvalidInput
from noetl.tools.sql.statements import (
    STATEMENTS_MAX,
    Params,
    Style,
    parse_statement,
    parse_statements,
    refuse_transactions,
    unique_names,
)


def found(sql: Sql, params: Params = None, style: Style = "$") -> list[tuple[str, list[JSON]]]:
    read = parse_statements(sql, params, style=style)
    return [(each.text(lambda index: f"<{index}>"), list(each.values)) for each in read]


def test_statements_are_split_at_semicolons_and_empty_ones_are_dropped() -> None:
    assert found(Sql(["SELECT 1; ; -- nothing\n;SELECT ';' "])) == [("SELECT 1", []), ("SELECT ';'", [])]


def test_each_statement_has_its_own_values() -> None:
    sql = Sql(["INSERT INTO a VALUES (", ", ", "); DELETE FROM b WHERE c = ", ""], [1, "x", None])
    assert found(sql) == [
        ("INSERT INTO a VALUES (<0>, <1>)", [1, "x"]),
        ("DELETE FROM b WHERE c = <0>", [None]),
    ]


def test_placeholders_are_numbered_anew_in_each_statement() -> None:
    sql = Sql(["SELECT $2, $1, $2; SELECT $3, '$1' -- $1"])
    assert found(sql, ["a", "b", "c"]) == [
        ("SELECT <0>, <1>, <0>", ["b", "a"]),
        ("SELECT <0>, '$1' -- $1", ["c"]),
    ]


def test_names_take_their_values_from_a_mapping_also_beside_templates() -> None:
    sql = Sql(["SELECT :a::int, x[1:b], :b, ", ", :a"], ["tag"])
    assert found(sql, {"a": 1, "b": 2, "c": 3}) == [("SELECT <0>::int, x[1:b], <1>, <2>, <0>", [1, 2, "tag"])]


def test_question_marks_are_counted_across_all_statements() -> None:
    assert found(Sql(["SELECT ?, ?; SELECT ?"]), [1, 2, 3], "?") == [
        ("SELECT <0>, <1>", [1, 2]),
        ("SELECT <0>", [3]),
    ]


def test_a_question_mark_is_an_operator_in_postgresql() -> None:
    assert found(Sql(["SELECT a ? 'b'"])) == [("SELECT a ? 'b'", [])]


@pytest.mark.parametrize(
    ("sql", "params", "message"),
    [
        (Sql([" ; -- x"]), None, "contains no statement"),
        (Sql(["SELECT $1"]), None, "the task has no `params`"),
        (Sql(["SELECT $1, ", ""], [1]), None, "needs a list of `params`"),
        (Sql(["SELECT $1, ", ""], [1]), [1], "use only one of them"),
        (Sql(["SELECT $3"]), [1, 2], "`params` has 2 values"),
        (Sql(["SELECT $0"]), [1], "`params` has 1 values"),
        (Sql(["SELECT $1"]), [1, 2], r"the SQL does not use value \$2"),
        (Sql(["SELECT :a"]), {"b": 1}, '`params` has no "a"'),
        (Sql(["SELECT $1"]), {"b": 1}, "write {{ }} or :name"),
        (Sql(["SELECT 1;" * (STATEMENTS_MAX + 1)]), None, "STATEMENTS_MAX"),
    ],
)
def test_sql_and_params_that_do_not_match_are_rejected(sql: Sql, params: Params, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_statements(sql, params)


def test_a_query_is_one_statement() -> None:
    assert parse_statement(Sql(["WITH a AS (SELECT 1) SELECT * FROM a;"])).verb == "WITH"
    with pytest.raises(InvalidInput, match="but has 2"):
        parse_statement(Sql(["SELECT 1; SELECT 2"]))


@pytest.mark.parametrize("text", ["BEGIN", "commit", "END", "ROLLBACK", "/* a */ START TRANSACTION", "ABORT"])
def test_a_command_must_not_end_its_transaction(text: str) -> None:
    with pytest.raises(InvalidInput, match="always runs in one transaction"):
        refuse_transactions(parse_statement(Sql([text])))


@pytest.mark.parametrize("text", ["SAVEPOINT a", "ROLLBACK TO a", "RELEASE a", "SELECT 1"])
def test_savepoints_are_allowed(text: str) -> None:
    statement = parse_statement(Sql([text]))
    refuse_transactions(statement)
    assert statement.text(str) == text


def test_sql_has_one_more_piece_than_values() -> None:
    with pytest.raises(ValueError, match="one more piece of text than values"):
        Sql(["a", "b"], [])


def test_columns_with_the_same_name_get_a_number() -> None:
    assert unique_names(["id", "id", "id_2", "id"]) == ["id", "id_2", "id_2_2", "id_3"]
