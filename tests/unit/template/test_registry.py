"""The tables and the argument checks are derived from signatures in text form."""

from __future__ import annotations

import pytest

from noetl.template.limits import Meter
from noetl.template.registry import (
    BuiltinTable,
    Parameter,
    register,
    take_items,
    take_map,
    take_number,
    take_text,
)
from noetl.template.values import TemplateError, Undefined


def test_a_signature_is_read_into_its_parameters() -> None:
    table: BuiltinTable = {}

    @register(table, 'text|pad(width: int, fill: text? = "-")', "Padded", ("{{ 1 }}", "1"), names=("p",))
    def pad(_: Meter, text: str, width: int, fill: str | None) -> str:
        return text + (fill or "") * width

    assert list(table) == ["pad", "p"]
    assert table["p"].input == "text"
    assert table["p"].parameters == (
        Parameter("width", "int", nullable=False, required=True, default=None),
        Parameter("fill", "text", nullable=True, required=False, default="-"),
    )
    assert table["p"].apply is pad


@pytest.mark.parametrize(
    ("kind", "accepts", "refuses"),
    [
        ("any", [None, 1, "a", []], []),
        ("text", ["a"], [1, None, ["a"]]),
        ("int", [1], [True, 1.5, "1", None]),
        ("number", [1, 1.5], [True, "1"]),
        ("bool", [True], [1, "true"]),
        ("list", [[]], ["a", {}]),
        ("map", [{}], [[]]),
        ("key", ["a", 1], [True, None]),
        ("pattern", ["a"], [1]),
    ],
)
def test_a_parameter_takes_its_kind_only(kind: str, accepts: list[object], refuses: list[object]) -> None:
    parameter = Parameter("p", kind, nullable=False, required=True, default=None)
    assert [parameter.accepts(value) for value in accepts + refuses] == [True] * len(accepts) + [False] * len(refuses)


def test_the_expected_type_of_a_nullable_parameter_mentions_null() -> None:
    parameter = Parameter("p", "int", nullable=True, required=True, default=None)
    assert (parameter.accepts(None), parameter.expected) == (True, "a whole number or null")


def test_the_value_before_the_bar_is_converted_to_text_or_items() -> None:
    meter = Meter()
    assert take_text(meter, [1], "a") == "[1]"
    assert take_items(meter, {"a": 1, "b": 2}, "a") == ["a", "b"]
    assert take_items(meter, "ab", "a") == ["a", "b"]


@pytest.mark.parametrize(
    ("take", "value", "message"),
    [
        (take_items, 1, "ctx.a is a number, not a list"),
        (take_number, True, "ctx.a is a boolean, not a number"),
        (take_map, [], "ctx.a is a list, not a map"),
        (take_text, Undefined("ctx.b"), "ctx.b is undefined"),
        (take_items, Undefined("ctx.b"), "ctx.b is undefined"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(take: object, value: object, message: str) -> None:
    assert callable(take)
    with pytest.raises(TemplateError) as error:
        take(Meter(), value, "ctx.a")
    assert error.value.message == message
