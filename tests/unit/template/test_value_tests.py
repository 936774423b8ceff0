"""Tests: `value is …`."""

from __future__ import annotations

import jinja2
import pytest

from noetl.template.compile import TemplateError, compile_template

SCOPE: dict[str, object] = {
    "i": 3,
    "f": 1.5,
    "s": "abc",
    "u": "ABC",
    "l": [1],
    "m": {"a": 1},
    "t": True,
    "z": None,
}


@pytest.mark.parametrize("name", ["i", "f", "s", "u", "l", "m", "t", "z", "missing"])
@pytest.mark.parametrize(
    "test",
    [
        "defined",
        "undefined",
        "none",
        "boolean",
        "true",
        "false",
        "integer",
        "float",
        "string",
        "mapping",
        "eq(3)",
        "ne(3)",
        "in([3, 'abc'])",
    ],
)
def test_a_test_answers_as_jinja_does_and_undefined_is_of_no_kind_d14(name: str, test: str) -> None:
    words = f"{name} is {test}"
    assert compile_template("{{ " + words + " }}")(SCOPE) is jinja2.Environment().compile_expression(words)(**SCOPE)


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("i is odd", True),
        ("i is even", False),
        ("i is divisibleby 3", True),
        ("i is gt 2", True),
        ("i is lessthan 2", False),
        ("s is lower", True),
        ("u is upper", True),
        ("t is number", False),
        ("f is number", True),
        ("m is sequence", True),
        ("i is iterable", False),
        ("i is not none", True),
    ],
)
def test_a_test_holds_or_not(words: str, value: bool) -> None:
    assert compile_template("{{ " + words + " }}")(SCOPE) is value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("s is odd", "the value is text, not a whole number"),
        ("t is even", "the value is a boolean, not a whole number"),
        ("i is divisibleby(0)", "division by zero"),
        ("missing is odd", "missing is undefined"),
        ("missing is upper", "missing is undefined"),
        ("missing is lt(1)", "missing is undefined"),
        ("i is eq(missing)", "missing is undefined"),
    ],
)
def test_a_question_that_makes_no_sense_is_an_error(words: str, message: str) -> None:
    with pytest.raises(TemplateError) as error:
        compile_template("{{ " + words + " }}")(SCOPE)
    assert error.value.message == f'"{{{{ {words} }}}}": {message}'
