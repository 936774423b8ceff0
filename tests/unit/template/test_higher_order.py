"""Filters that apply other filters or tests: default, map, select and the others."""

from __future__ import annotations

import pytest

from noetl.template.compile import BadTemplate, TemplateError, compile_template

SCOPE: dict[str, object] = {
    "rows": [{"n": 1, "t": ["a", "b"]}, {"n": 2, "t": []}, {"t": ["c"]}],
    "words": ["x", "", "no"],
    "k": "n",
    "two": 2,
}


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("missing|default", ""),
        ("missing|default(1)", 1),
        ("missing.deep.er|d(default_value=1)", 1),
        ("none|default(1)", None),
        ("none|default(1, true)", 1),
        ("'no'|default(1, boolean=true)", 1),
        ("'no'|default(1)", "no"),
        ("missing|default(gone)|default(3)", 3),
        ("rows|map(attribute='t')|map('length')", [2, 0, 1]),
        ("rows|map(attribute='t')|map('join', '+')", ["a+b", "", "c"]),
        ("rows|map(attribute='n', default=0)|sum", 3),
        ("rows|map(attribute=k, default=0)", [1, 2, 0]),
        ("rows|map(attribute='t')|map('map', 'upper')", [["A", "B"], [], ["C"]]),
        ("rows|map(attribute='t')|map('select', 'eq', 'a')", [["a"], [], []]),
        ("[[{'a': 1}]]|map('map', attribute='a')", [[1]]),
        ("words|map('default', '-', true)", ["x", "-", "-"]),
        ("words|select", ["x"]),
        ("words|reject", ["", "no"]),
        ("rows|selectattr('n')|list|length", 2),
        ("rows|selectattr('n', 'defined')|list|length", 2),
        ("rows|rejectattr('n', 'defined')|list|length", 1),
        ("rows|selectattr('n', '==', two)|map(attribute='n')", [2]),
        ("rows|selectattr('n', 'in', [1])|map(attribute='n')", [1]),
        ("rows|selectattr('n', 'ne', 1)|list|length", 2),
        ("{'a': 1}|map('upper')", ["A"]),
        ("'ab'|map('upper')|join", "AB"),
    ],
)
def test_a_filter_is_applied_to_each_item(words: str, value: object) -> None:
    assert compile_template("{{ " + words + " }}")(SCOPE) == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("missing|default(gone)", "gone is undefined"),
        ("missing|map('upper')", "missing is undefined"),
        ("rows|map(attribute='n')", 'item 2 of the list has no "n"'),
        ("rows|selectattr('n', 'odd')", '"n" of an item is undefined'),
        ("rows|selectattr('n', 'gt', 1)", '"n" of an item is undefined'),
        ("two|select('odd')", "the value is a number, not a list"),
        ("words|map('center', two ~ '')", '"center": width is text, not a whole number'),
    ],
)
def test_an_impossible_operation_is_an_error_with_a_reason_d14(words: str, message: str) -> None:
    with pytest.raises(TemplateError) as error:
        compile_template("{{ " + words + " }}")(SCOPE)
    assert error.value.message == f'"{{{{ {words} }}}}": {message}'


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("rows|map", "bad-arguments", '"map" needs the name of a filter as a constant text'),
        ("rows|map(k)", "bad-arguments", '"map" needs the name of a filter as a constant text'),
        ("rows|select(k)", "bad-arguments", '"select" needs the name of a test as a constant text'),
        ("rows|map('nope')", "unknown-filter", 'there is no filter "nope"'),
        ("rows|select('nope')", "unknown-test", 'there is no test "nope"'),
        ("rows|map('center', 'x')", "bad-arguments", '"center": width is text, not a whole number'),
        ("rows|selectattr", "bad-arguments", '"selectattr": needs the argument "attribute"'),
        (
            "rows|map(attribute=true)",
            "bad-arguments",
            '"map": attribute is a boolean, not a key or an index or null',
        ),
        (
            "rows|map(" + "'map', " * 500 + "'upper')",
            "bad-arguments",
            '"map" is nested in too many other filters',
        ),
        ("a|default(1, 2)", "bad-arguments", '"default": boolean is a number, not true or false'),
        ("a|default(1, false, 3)", "bad-arguments", '"default": takes 2 arguments, not 3'),
    ],
)
def test_names_of_filters_and_tests_are_checked_when_the_template_compiles(words: str, code: str, message: str) -> None:
    with pytest.raises(BadTemplate) as bad:
        compile_template("{{ " + words + " }}")
    assert [(fault.code, fault.message) for fault in bad.value.faults] == [(code, message)]
