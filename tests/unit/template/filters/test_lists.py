"""Filters for lists and maps: order, groups, attributes, and missing values."""

from __future__ import annotations

import pytest

from noetl.template.compile import TemplateError, compile_template

SCOPE: dict[str, object] = {
    "rows": [{"id": 2, "on": True, "k": {"x": 1}}, {"id": 1, "on": False, "k": {"x": 1}}, {"id": 3}],
    "mixed": [1, "a"],
    "pairs": [[1, 2], [3]],
    "n": 5,
}


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("[true, false]|sort", [False, True]),
        ("[2, 1.5]|sort", [1.5, 2]),
        ("rows[:2]|groupby('on')|map(attribute='grouper')", [False, True]),
        ("rows|groupby('on', default=false)|map(attribute='list')|map('length')", [2, 1]),
        ("rows[:2]|map(attribute='k')|unique", [{"x": 1}]),
        ("pairs|sum(start=[])", [1, 2, 3]),
        ("pairs|map('first')", [1, 3]),
        ("pairs|map('sum')|sum", 6),
        ("{'a': 1}|list", ["a"]),
        ("{'a': 1}|reverse", ["a"]),
        ("pairs|map(attribute=0)", [1, 3]),
        ("pairs|map(attribute='0')", [1, 3]),
        ("[]|first is defined", False),
        ("[]|max|default(0)", 0),
        ("[none, 1]|unique", [None, 1]),
        ("rows|map(attribute='id')|zip(['a', 'b', 'c'])", [[2, "a"], [1, "b"], [3, "c"]]),
        ("'ab'|zip([1, 2, 3], strict=false)", [["a", 1], ["b", 2]]),
        ("{'a': 1}|enumerate", [[0, "a"]]),
        ("['x', 'y']|enumerate(start=n)", [[5, "x"], [6, "y"]]),
    ],
)
def test_a_list_filter_returns_its_result(words: str, value: object) -> None:
    assert compile_template("{{ " + words + " }}")(SCOPE) == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("mixed|sort", "a number and text have no order; compare two numbers or two texts"),
        ("[none, none]|max", "null and null have no order; compare two numbers or two texts"),
        ("[true, 1]|min", "a boolean and a number have no order; compare two numbers or two texts"),
        ("rows|map(attribute='on')", 'item 2 of the list has no "on"'),
        ("rows|sort(attribute='on')", 'item 2 of the list has no "on"'),
        ("rows|groupby('on')", 'item 2 of the list has no "on"'),
        ("[]|first", "the first item of an empty list is undefined"),
        ("[]|last", "the last item of an empty list is undefined"),
        ("[]|min", "the smallest item of an empty list is undefined"),
        ("[[]]|map('first')", "the first item of an empty list is undefined"),
        ("n|length", "a number has no length"),
        ("n|list", "n is a number, not a list"),
        ("n|first", "the value is a number, not a list"),
        ("n|items", "n is a number, not a map"),
        ("mixed|sum", "sum adds numbers; use join for text"),
        ("mixed|sum(start=[])", "an item is a number, not a list"),
        ("[1]|batch(0)", "batch needs a linecount of at least 1"),
        ("[1]|slice(0)", "slice needs at least 1 slice"),
        ("{}|dictsort(by='x')", 'dictsort sorts by "key" or "value"'),
    ],
)
def test_an_error_of_a_list_filter_has_a_reason_d14(words: str, message: str) -> None:
    with pytest.raises(TemplateError) as error:
        compile_template("{{ " + words + " }}")(SCOPE)
    assert error.value.message == f'"{{{{ {words} }}}}": {message}'


def test_the_authors_data_is_never_changed() -> None:
    data = {"l": [3, 1, 2], "m": {"b": 1}}
    for words in (
        "l|sort",
        "l|reverse",
        "l|batch(2, 0)",
        "l|slice(2, 0)",
        "l + [4]",
        "l|sum(start=l)",
        "m|items",
    ):
        try:
            compile_template("{{ " + words + " }}")(data)
        except TemplateError:
            continue
    assert data == {"l": [3, 1, 2], "m": {"b": 1}}


def test_pairs_of_lists_of_different_lengths_are_an_error_d107() -> None:
    """An item must not disappear in silence."""
    with pytest.raises(TemplateError) as error:
        compile_template("{{ rows|zip([1]) }}")(SCOPE)
    assert error.value.message.endswith("zip: the lists have 3 and 1 items; strict=false stops at the shorter one")


@pytest.mark.parametrize("words", ["range(10000)|zip(range(10000))", "range(10000)|enumerate"])
def test_pairs_are_limited_d107(words: str) -> None:
    with pytest.raises(TemplateError, match=r"limit (MEMORY|FUEL)_MAX"):
        compile_template("{{ [" + ", ".join([words] * 12) + "] }}")({})
