"""Calculation: numbers of 64 bits, finite floats, and no repetition or formatting of text."""

from __future__ import annotations

import pytest

from noetl.template.compile import TemplateError, compile_template

SCOPE = {"n": 7, "f": 2.5, "s": "a", "l": [1], "t": True, "big": 10**30}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("{{ n + 1 }}", 8),
        ("{{ n + f }}", 9.5),
        ("{{ s + 'b' }}", "ab"),
        ("{{ l + [2] }}", [1, 2]),
        ("{{ n - 10 }}", -3),
        ("{{ n * f }}", 17.5),
        ("{{ n / 2 }}", 3.5),
        ("{{ n // 2 }}", 3),
        ("{{ n % 4 }}", 3),
        ("{{ n ** 2 }}", 49),
        ("{{ 2 ** -1 }}", 0.5),
        ("{{ 4 ** 0.5 }}", 2.0),
        ("{{ -n }}", -7),
        ("{{ +n }}", 7),
        ("{{ 2 + 3 * 4 }}", 14),
        ("{{ 9223372036854775806 + 1 }}", 2**63 - 1),
        ("{{ -9223372036854775807 }}", 1 - 2**63),
    ],
)
def test_numbers_are_calculated_and_keep_their_type_d12(source: str, value: object) -> None:
    found = compile_template(source)(SCOPE)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("n + 's'", '"+" does not work with a number and text (~ joins values as text)'),
        ("t + 1", '"+" does not work with a boolean and a number (~ joins values as text)'),
        ("s * 3", '"*" does not work with text and a number'),
        ("l * 3", '"*" does not work with a list and a number'),
        ("s % 1", '"%" does not work with text and a number'),
        ("none - 1", '"-" does not work with null and a number'),
        ("-s", '"-" needs a number, not text'),
        ("+t", '"+" needs a number, not a boolean'),
        ("n / 0", "division by zero"),
        ("n // 0", "division by zero"),
        ("n % 0.0", "division by zero"),
        ("0 ** -1", "0 has no negative power"),
        ("0.0 ** -1.5", "0 has no negative power"),
        ("(0 - 8) ** 0.5", "a negative number has no fractional power"),
        ("missing + 1", "missing is undefined"),
        ("1 + missing", "missing is undefined"),
        ("-missing", "missing is undefined"),
    ],
)
def test_an_impossible_calculation_is_an_error_with_a_reason(words: str, message: str) -> None:
    with pytest.raises(TemplateError) as error:
        compile_template("{{ " + words + " }}")(SCOPE)
    assert error.value.message == f'"{{{{ {words} }}}}": {message}'


@pytest.mark.parametrize(
    "words",
    [
        "2 ** 63",
        "9 ** 9 ** 9",
        "2 ** 62 * 2",
        "9223372036854775807 + 1",
        "1e308 * 10",
        "10.0 ** 400",
        "big + 1",
        "big / 2",
        "-big",
    ],
)
def test_a_number_that_grows_too_large_is_an_error(words: str) -> None:
    with pytest.raises(TemplateError, match=r"the number is too large or not finite \(limit INT_MAX"):
        compile_template("{{ " + words + " }}")(SCOPE)
