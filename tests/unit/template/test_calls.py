"""Calling a name that is not in the tables is a fault with a suggestion."""

from __future__ import annotations

import pytest

from noetl.template.compile import BadTemplate, Fault, compile_template


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("a|uper", Fault("unknown-filter", 'there is no filter "uper"', 1, "uper", 'did you mean "upper"?')),
        ("a|" + "z" * 99, Fault("unknown-filter", f'there is no filter "{"z" * 60}…"', 1, "z" * 99)),
        ("a|zzz", Fault("unknown-filter", 'there is no filter "zzz"', 1, "zzz")),
        (
            "a|random",
            Fault(
                "unknown-filter",
                'there is no filter "random"',
                1,
                "random",
                "its result is random, so a replay would differ",
            ),
        ),
        (
            "a is strin",
            Fault("unknown-test", 'there is no test "strin"', 1, "strin", 'did you mean "string"?'),
        ),
        (
            "a is sameas b",
            Fault(
                "unknown-test",
                'there is no test "sameas"',
                1,
                "sameas",
                "JSON values have no identity; use ==",
            ),
        ),
        ("(a|upper)()", Fault("not-allowed", "a value cannot be called", 1)),
        ("a[0]()", Fault("not-allowed", "a value cannot be called", 1)),
        (
            "a|upper(*b)",
            Fault("not-allowed", "write the arguments one by one; * and ** are not supported", 1, "*"),
        ),
    ],
)
def test_an_unknown_function_or_method_is_a_fault_with_a_suggestion(words: str, fault: Fault) -> None:
    with pytest.raises(BadTemplate) as bad:
        compile_template("{{ " + words + " }}")
    assert bad.value.faults == (fault,)


def test_a_filter_converts_any_value_to_text_and_names_a_missing_one() -> None:
    assert compile_template("{{ [1, 2]|replace(',', ';') }}")({}) == "[1;2]"


def test_arguments_may_be_computed() -> None:
    assert compile_template("{{ a|replace(b, c|upper, count=n) }}")({"a": "x-x", "b": "x", "c": "y", "n": 1}) == "Y-x"
