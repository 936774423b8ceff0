"""Plain JSON values: undefined values, truth, paths, and the size of a value."""

from __future__ import annotations

import pytest

from noetl.template.values import (
    MISSING,
    TemplateError,
    Undefined,
    ValueSize,
    kind_of,
    lookup,
    measure,
    path_text,
    scalar_text,
    to_json,
    truth,
)


@pytest.mark.parametrize("value", [False, None, 0, 0.0, "", [], {}, "false", "False", "NO", "none", "NULL", "0"])
def test_false_values_are_false_in_upper_and_lower_case_d15(value: object) -> None:
    assert truth(value) is False


@pytest.mark.parametrize("value", [True, 1, 0.5, "x", "true", "yes", "off", "00", " ", "0.0", [0], {"a": None}])
def test_everything_else_is_true_d15(value: object) -> None:
    assert truth(value) is True


def test_undefined_is_false_and_equals_nothing_not_even_itself_d14() -> None:
    missing = Undefined("ctx.a", ("ctx", "a"))
    assert (truth(missing), missing == missing, missing != missing, missing in [1]) == (
        False,
        False,
        True,
        False,
    )


@pytest.mark.parametrize(
    ("value", "key", "found"),
    [
        ({"a": None}, "a", None),
        ([7, 8], -1, 8),
        ("abc", 1, "b"),
        ({"a": 1}, "b", MISSING),
        ({"a": 1}, 0, MISSING),
        ([7], 1, MISSING),
        ([7], True, MISSING),
        ([7], "append", MISSING),
        ("abc", "upper", MISSING),
        (5, "real", MISSING),
        (None, "a", MISSING),
        (MISSING, "a", MISSING),
        (ValueSize(1, 2), "chars", MISSING),
        (ValueSize(1, 2), 0, MISSING),
    ],
)
def test_only_maps_lists_and_texts_can_be_looked_into(value: object, key: object, found: object) -> None:
    assert lookup(value, key) is found or lookup(value, key) == found


def test_a_path_is_written_as_an_author_writes_it() -> None:
    assert path_text(("output", "http", "headers", "x-id", 0)) == 'output.http.headers["x-id"][0]'


def test_kinds_have_words() -> None:
    kinds = [kind_of(value) for value in (None, True, 1, 1.5, "", [], {}, Undefined("a"), object())]
    assert kinds == [
        "null",
        "a boolean",
        "a number",
        "a number",
        "text",
        "a list",
        "a map",
        "undefined",
        "not a JSON value",
    ]


def test_scalars_are_written_as_json_and_text_as_it_is_d12() -> None:
    values: list[object] = ["a", None, True, False, 12, 1.0, 1e22, [], {}]
    assert [scalar_text(value) for value in values] == [
        "a",
        "null",
        "true",
        "false",
        "12",
        "1.0",
        "1e22",
        None,
        None,
    ]


@pytest.mark.parametrize("value", [object(), ["\ud800"]])
def test_a_value_that_json_cannot_represent_is_an_error(value: object) -> None:
    with pytest.raises(TemplateError):
        to_json(value)


def test_weighing_counts_characters_and_parts() -> None:
    assert measure({"a": [1, "xyz"]}, 1_000, 1_000) == ValueSize(20, 5)


def test_weighing_stops_when_it_has_seen_enough() -> None:
    assert measure(["x" * 100] * 1_000_000, 50, 10).parts <= 3
    assert measure([1] * 1_000_000, 10_000_000, 10).parts <= 12
    assert measure({str(n): n for n in range(100)}, 50, 1_000).chars > 50
