"""Comparison: equality, order and containment."""

from __future__ import annotations

import pytest

from noetl.template.compile import TemplateError, compile_template
from noetl.template.limits import FUEL_MAX, Meter

SCOPE = {
    "n": 2,
    "s": "b",
    "l": [1, "a", [2], {"k": 1}],
    "m": {"k": 1},
    "t": "abc",
    "rows": [{"id": 1, "x": [1, 2]}],
    "copy": [{"id": 1, "x": [1, 2]}],
}


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("n == 2", True),
        ("n == 2.0", True),
        ("n != '2'", True),
        ("rows == copy", True),
        ("rows != copy", False),
        ("m == {'k': 1}", True),
        ("l == l[:3]", False),
        ("s == t", False),
        ("1 < n < 3", True),
        ("1 < n > 5", False),
        ("n <= 2", True),
        ("n >= 2.5", False),
        ("'a' < s", True),
        ("1 in l", True),
        ("[2] in l", True),
        ("m in l", True),
        ("n in [1, 2, 3]", True),
        ("n not in [1, 2, 3]", False),
        ("s in ['a', n]", False),
        ("l in [1, 2]", False),
        ("l not in [1, 2]", True),
        ("'k' in m", True),
        ("1 in m", False),
        ("'bc' in t", True),
        ("'x' not in t", True),
        ("missing in [1]", False),
        ("missing in l", False),
        ("missing in m", False),
        ("missing == missing", False),
        ("missing != missing", True),
        ("missing == none", False),
        ("missing != 1", True),
    ],
)
def test_values_are_compared_and_undefined_equals_nothing_d14(words: str, value: bool) -> None:
    assert compile_template("{{ " + words + " }}")(SCOPE) is value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("n < 'a'", "a number and text have no order; compare two numbers or two texts"),
        ("true < 2", "a boolean and a number have no order; compare two numbers or two texts"),
        ("none > 1", "null and a number have no order; compare two numbers or two texts"),
        ("l >= l", "a list and a list have no order; compare two numbers or two texts"),
        ("missing < 1", "missing is undefined"),
        ("1 <= missing.at", "missing.at is undefined"),
        ("1 in missing", "missing is undefined"),
        ("missing in t", "missing is undefined"),
        ("1 in t", "only text can be contained in text, not a number"),
        ("1 in n", '"in" needs a list, a map or text, not a number'),
    ],
)
def test_comparing_values_without_an_order_is_an_error_d14(words: str, message: str) -> None:
    with pytest.raises(TemplateError) as error:
        compile_template("{{ " + words + " }}")(SCOPE)
    assert error.value.message == f'"{{{{ {words} }}}}": {message}'


def test_comparing_large_values_is_paid_for() -> None:
    scope = {"a": list(range(10_000)), "b": list(range(10_000))}
    meter = Meter()
    assert compile_template("{{ a == b }}").evaluate(scope, meter) is True
    assert FUEL_MAX - meter.fuel >= 10_000
