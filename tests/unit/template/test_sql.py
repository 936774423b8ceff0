"""Templates in SQL: every {{ }} is bound as a value, or the author gets a problem with a fix."""

from __future__ import annotations

import pytest

from noetl.output import JSON
from noetl.template.compile import BadTemplate, TemplateError, compile_template, compile_value
from tests.playbooks import checked

SCOPE: dict[str, JSON] = {
    "x": 5,
    "t": "users",
    "xs": [1, "a"],
    "nothing": [],
    "null": None,
    "rows": [{"a": 1, "b": "q"}, {"a": 2, "b": "w"}],
}


def bound(source: str) -> tuple[list[str], list[JSON]]:
    made = compile_template(source, sql=True)(SCOPE)
    assert set(made) == {"text", "values"}
    return made["text"], made["values"]


@pytest.mark.parametrize(
    ("source", "text", "values"),
    [
        ("SELECT 1 {# why #}", ["SELECT 1 "], []),
        ("a = {{ x }}", ["a = ", ""], [5]),
        ("a = {{ x + 1 }} OR b = {{ rows[0] }}", ["a = ", " OR b = ", ""], [6, {"a": 1, "b": "q"}]),
        ("a = {{ null }}", ["a = ", ""], [None]),
        ("({{ x }},{{ t }})", ["(", ",", ")"], [5, "users"]),
        ("{{ x }}::int", ["", "::int"], [5]),
        ("l[{{ x }}]", ["l[", "]"], [5]),
        # Quotes that contain only the value are removed.
        ("VALUES ('{{ t }}', {{ x }}, '{{ rows|tojson }}')", ["VALUES (", ", ", ", ", ")"],
         ["users", 5, '[{"a":1,"b":"q"},{"a":2,"b":"w"}]']),
        ("IN ({{ xs|sql_list }})", ["IN (", ", ", ")"], [1, "a"]),
        ("IN ({{ nothing | sql_list }})", ["IN (NULL)"], []),
        ("FROM {{ t|sql_ident }} x", ['FROM "users" x'], []),
        ("FROM s.{{ t|sql_ident }}.{{ t|sql_ident }}", ['FROM s."users"."users"'], []),
        ("{% if x > 1 %}a = {{ x }}{% else %}b{% endif %} c", ["a = ", " c"], [5]),
        ("VALUES {% for r in rows %}({{ r.a }}, '{{ r.b }}'){% if not loop.last %},{% endif %}{% endfor %}",
         ["VALUES (", ", ", "),(", ", ", ")"], [1, "q", 2, "w"]),
        ("extract(year FROM {{ x }}), y IS DISTINCT FROM {{ x }}", ["extract(year FROM ", "), y IS DISTINCT FROM ", ""], [5, 5]),
        ("'it''s' -- a 'comment\n, E'\\'', $q$ ' $q$ = {{ x }}", ["'it''s' -- a 'comment\n, E'\\'', $q$ ' $q$ = ", ""], [5]),
        ("'{% if x %}a{% else %}b{% endif %}' = {{ t }}", ["'a' = ", ""], ["users"]),
        ("a\r\n= {{ x }}", ["a\r\n= ", ""], [5]),
    ],
)  # fmt: skip
def test_every_tag_is_a_value_between_two_pieces(source: str, text: list[str], values: list[JSON]) -> None:
    assert bound(source) == (text, values)


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("LIKE '%{{ t }}%'", "sql-in-quotes"),
        ("'{{ t }} '", "sql-in-quotes"),
        ("'{{ t }}''{{ x }}'", "sql-in-quotes"),
        ("E'{{ t }}'", "sql-in-quotes"),
        ('SELECT "{{ t }}"', "sql-in-quotes"),
        ("SELECT `{{ t }}`", "sql-in-quotes"),
        ("$a$ {{ t }} $a$", "sql-in-quotes"),
        ("SELECT 1 -- {{ t }}", "sql-in-quotes"),
        ("SELECT 1 /* {{ t }} */", "sql-in-quotes"),
        ("SELECT 'a{% if x %}{{ t }}{% endif %}'", "sql-in-quotes"),
        ("'{{ t|sql_ident }}'", "sql-in-quotes"),
        ("FROM items_{{ x }}", "sql-in-word"),
        ("FROM {{ t|sql_ident }}s", "sql-in-word"),
        ("FROM s.{{ t }}", "sql-in-word"),
        ("SELECT {{ t }}.a", "sql-in-word"),
        ("SELECT {{ t }}{{ x }}", "sql-in-word"),
        ("SELECT 1 FROM {{ t }}", "sql-not-a-value"),
        ("SELECT 1 FROM (SELECT 1 FROM {{ t }})", "sql-not-a-value"),
        ("INSERT INTO {{ t }} VALUES (1)", "sql-not-a-value"),
        ("UPDATE {{ t }} SET a = 1", "sql-not-a-value"),
        ("SELECT 1 FROM a JOIN {{ t }}", "sql-not-a-value"),
        ("DROP TABLE {{ t }}", "sql-not-a-value"),
        ("SELECT a {{ ',' if x }} b", "sql-not-a-value"),
        ("{{ t }}", "sql-not-a-value"),
        ("{% if x %}{{ t }}{% endif %}", "sql-not-a-value"),
    ],
)  # fmt: skip
def test_a_position_that_cannot_be_bound_is_a_fault(source: str, code: str) -> None:
    with pytest.raises(BadTemplate) as refused:
        compile_template(source, sql=True)
    assert {fault.code for fault in refused.value.faults} == {code}
    assert all(fault.fix for fault in refused.value.faults)


def test_an_undefined_value_is_an_error_that_quotes_the_expression() -> None:
    with pytest.raises(TemplateError, match=r'"\{\{ gone }}": gone is undefined'):
        bound("a = {{ x }} AND b = {{ gone }}")


def test_data_is_never_read_as_a_template_or_as_sql() -> None:
    evil = "'; DROP TABLE a; -- {{ x }} {% if %}"
    made = compile_template("a = {{ evil }}", sql=True)({"evil": evil, "x": 1})
    assert made == {"text": ["a = ", ""], "values": [evil]}


def test_only_the_fields_that_hold_sql_are_compiled_so() -> None:
    value = {"query": "a = {{ x }}", "other": "a = {{ x }}", "copy": {"query": "SELECT 1", "to": "csv"}}
    made = compile_value(value, sql=frozenset({("query",), ("copy", "query")}))(SCOPE)
    assert made == {
        "query": {"text": ["a = ", ""], "values": [5]},
        "other": "a = 5",
        "copy": {"query": {"text": ["SELECT 1"], "values": []}, "to": "csv"},
    }


def test_the_length_of_the_output_is_limited() -> None:
    many = "{% for a in l %}{% for b in l %}{{ b }},{% endfor %}{% endfor %}"
    with pytest.raises(TemplateError, match="limit"):
        compile_template("x " + many, sql=True)({"l": list(range(2_000))})


def test_a_fault_in_sql_has_a_position_in_the_playbook() -> None:
    problems = checked("""
        workload: {name: a}
        keychain: [{name: pg, kind: postgres_credential, dsn: {env: DSN}}]
        workflow:
          - step: start
            tool:
              kind: postgres
              auth: pg
              copy:
                query: "SELECT * FROM {{ workload.name }}"
    """).problems
    assert [(each.code, each.at.line, each.at.column) for each in problems if each.severity == "error"] == [
        ("sql-not-a-value", 13, 34)
    ]
