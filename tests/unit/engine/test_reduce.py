"""Reducers: any grouping gives the same, and that is the fold from left to right (D47, D86)."""

from __future__ import annotations

import itertools
from functools import reduce

import pytest

from noetl.engine.reduce import NOTHING, REDUCERS, SAME, ReduceConflict, begin, joined
from noetl.output import JSON

VALUES: dict[str, list[JSON]] = {
    "sum": [0.1, 3, 1e16, -1e16],
    "min": [3, 1.5, 2, 1.5],
    "max": [3, 1.5, 7, 7.0],
    "count": ["a", None, 3, 4],
    "append": [1, [2], None, {"a": 1}],
    "extend": [[1], [], [2, 3], [4]],
    "merge": [{"a": {"x": 1}}, {"a": 5}, {"a": {"y": 2}}, {"a": {"x": 3}, "b": 1}],
    "union": [[1, 2], 2, [True, 1.0], [{"b": 1, "a": 2}, {"a": 2, "b": 1}]],
    "any": [False, "no", 1, 0],
    "all": [True, "yes", "false", 1],
    "first": [None, 2, 3, 4],
    "last": [1, 2, None, 4],
    SAME: [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 2}],
}
FOLDED: dict[str, JSON] = {
    "sum": 3.1,
    "min": 1.5,
    "max": 7,
    "count": 4,
    "append": [1, [2], None, {"a": 1}],
    "extend": [1, 2, 3, 4],
    "merge": {"a": {"y": 2, "x": 3}, "b": 1},
    "union": [1, 2, True, 1.0, {"b": 1, "a": 2}],
    "any": True,
    "all": False,
    "first": None,
    "last": 4,
    SAME: {"a": 1, "b": 2},
}


def test_all_reducers_are_here() -> None:
    assert set(VALUES) == set(FOLDED) == set(REDUCERS)


@pytest.mark.parametrize("name", REDUCERS)
def test_every_grouping_gives_the_same_d47(name: str) -> None:
    how = REDUCERS[name]
    for cuts in itertools.product([False, True], repeat=3):
        groups: list[list[JSON]] = [[VALUES[name][0]]]
        for value, cut in zip(VALUES[name][1:], cuts, strict=True):
            groups.append([value]) if cut else groups[-1].append(value)
        pieces = [reduce(how.joined, map(how.single, group)) for group in groups]
        start = begin(name, {}, "x")
        total = reduce(lambda left, right: joined(name, left, right), pieces, start)
        made = how.finish(total)
        assert repr(made) == repr(FOLDED[name])


@pytest.mark.parametrize("name", REDUCERS)
def test_what_stands_to_the_right_is_not_changed(name: str) -> None:
    how = REDUCERS[name]
    first, second, third, _ = (how.single(value) for value in VALUES[name])
    before = repr(second)
    total = joined(name, joined(name, NOTHING, second), third)
    joined(name, first, second)
    assert repr(second) == before
    assert total is not None or name in ("first", "last")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("sum", "x", "text is no number"),
        ("sum", True, "a boolean is no number"),
        ("min", None, "null is no number"),
        ("extend", 1, "a number is no list"),
        ("merge", [1], "a list is no mapping"),
    ],
)
def test_a_value_that_does_not_fit_is_named(name: str, value: JSON, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        REDUCERS[name].single(value)


def test_different_values_without_a_reducer_are_a_conflict_d47() -> None:
    with pytest.raises(ReduceConflict):
        REDUCERS[SAME].joined(1, True)


def test_folding_begins_with_what_ctx_had_d86() -> None:
    ctx: dict[str, JSON] = {"a": {"list": [1, 1], "n": 2, "map": {"x": 1}}}
    assert begin("append", ctx, "a.list") == [1, 1]
    assert REDUCERS["union"].finish(begin("union", ctx, "a.list")) == [1]
    assert REDUCERS["sum"].finish(begin("sum", ctx, "a.n")) == 2
    assert begin("count", ctx, "a.n") == 2
    assert begin("min", ctx, "a.missing") is NOTHING
    assert begin(SAME, ctx, "a.n") is NOTHING
    with pytest.raises(ValueError, match="a number is no list"):
        begin("append", ctx, "a.n")


def test_what_ctx_had_is_not_changed() -> None:
    ctx: dict[str, JSON] = {"all": [1]}
    joined("append", begin("append", ctx, "all"), [2])
    assert ctx == {"all": [1]}


def test_a_sum_that_is_too_large_is_no_number() -> None:
    how = REDUCERS["sum"]
    with pytest.raises(ValueError, match="too large"):
        how.finish(how.joined(how.single(1.7e308), how.single(1.7e308)))
