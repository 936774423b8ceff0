"""Filters that return numbers."""

from __future__ import annotations

import pytest

from noetl.template.compile import TemplateError, compile_template


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("'1_000'|int", 1000),
        ("'inf'|int", 0),
        ("'nan'|float", 0.0),
        ("'inf'|float(1.5)", 1.5),
        ("[]|int", 0),
        ("{}|float", 0.0),
        ("none|int(none)", None),
        ("2|round(0, 'ceil')", 2.0),
    ],
)
def test_text_that_is_not_a_number_gives_the_default(words: str, value: object) -> None:
    found = compile_template("{{ " + words + " }}")({})
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("missing|int", "missing is undefined"),
        (
            "'99999999999999999999'|int",
            "the number is too large or not finite (limit INT_MAX: 9223372036854775807)",
        ),
        ("'a'|int(base=1)", "int needs a base from 2 to 36, or 0"),
        ("'a'|abs", "the value is text, not a number"),
        ("a.b|abs", "a.b is text, not a number"),
        ("1|round(99)", "round needs a precision from -30 to 30"),
        ("1|round(1, 'up')", 'round needs the method "common", "ceil" or "floor"'),
        ("'x'|filesizeformat", "filesizeformat needs a number, not text"),
    ],
)
def test_a_number_outside_the_limits_is_an_error(words: str, message: str) -> None:
    with pytest.raises(TemplateError) as error:
        compile_template("{{ " + words + " }}")({"a": {"b": "c"}})
    assert error.value.message == f'"{{{{ {words} }}}}": {message}'
