"""Reducers: how the writes of parallel iterations to one path of ctx become one value (D47, D86).

Partial results can be joined in any grouping, so the order in which iterations finish does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from noetl.engine.scopes import ABSENT, at_path
from noetl.output import JSON
from noetl.template.values import kind_of, truth

NOTHING = object()  # no value yet, and no neutral value
SAME = "same"  # without a reducer all iterations must write the same value
_sorted = msgspec.json.Encoder(order="sorted").encode


class ReduceConflict(ValueError):
    """Two iterations write different values, and no reducer combines them."""


class Reducer(NamedTuple):
    """Raises ValueError, with a message for the author, when a value does not fit."""

    single: Callable[[JSON], JSON]  # a value → a partial result of its own
    joined: Callable[[JSON, JSON], JSON]  # (left, right): it may change left, but not right
    finish: Callable[[JSON], JSON]
    neutral: JSON = NOTHING  # the start value when ctx has none


def begin(reducer: str, ctx: dict[str, JSON], path: str) -> JSON:
    """The start value: the value that ctx had, else the neutral value, else NOTHING (D86)."""
    how = REDUCERS[reducer]
    value = at_path(ctx, tuple(path.split(".")))
    if value is ABSENT:
        return how.neutral if how.neutral is NOTHING else _begun(reducer, how.neutral)
    return NOTHING if reducer == SAME else _begun(reducer, value)


def _begun(reducer: str, value: JSON) -> JSON:
    match reducer:
        case "append" | "union":
            return REDUCERS[reducer].single(_list(value)) if reducer == "union" else list(_list(value))
        case "count":
            return _number(value)
        case _:
            return REDUCERS[reducer].single(value)


def joined(reducer: str, left: JSON, right: JSON) -> JSON:
    """Left may be changed; right stays unchanged even when the result changes later."""
    if left is NOTHING:
        return right.copy() if isinstance(right, list | dict) else right
    return REDUCERS[reducer].joined(left, right)


# Facts record these messages, and a replay must make the same decisions: do not change their text.


def _number(value: JSON) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{kind_of(value)} is no number")
    return value


def _list(value: JSON) -> list[JSON]:
    if not isinstance(value, list):
        raise ValueError(f"{kind_of(value)} is no list")
    return value


def _mapping(value: JSON) -> list[JSON]:
    if not isinstance(value, dict):
        raise ValueError(f"{kind_of(value)} is no mapping")
    return [value]


def _all_the_same(left: JSON, right: JSON) -> JSON:
    if _sorted(left) != _sorted(right):
        raise ReduceConflict
    return left


def _addend(value: JSON) -> list[JSON]:
    """The first part is the sum of whole numbers; the others are parts of floats whose sum is exact."""
    return [value] if isinstance(_number(value), int) else [0, value]


def _added(left: list[JSON], right: list[JSON]) -> list[JSON]:
    left[0] += right[0]
    for part in right[1:]:
        _grow(left, part)
    return left


def _grow(parts: list[JSON], more: float) -> None:
    """Shewchuk's sum: the parts after the first lose no bit, so every order of adding gives the same sum."""
    place = 1
    for part in parts[1:]:
        big, small = (more, part) if abs(more) >= abs(part) else (part, more)
        more = big + small
        rest = small - (more - big)
        if rest:
            parts[place] = rest
            place += 1
    parts[place:] = [more]


def _total(parts: list[JSON]) -> JSON:
    if len(parts) == 1:
        return parts[0]
    try:
        total = math.fsum(parts)
    except (OverflowError, ValueError):
        total = math.inf
    if not math.isfinite(total):
        raise ValueError("the sum is too large")
    return total


def _deep(outer: JSON, inner: JSON) -> JSON:
    if not (isinstance(outer, dict) and isinstance(inner, dict)):
        return inner
    made = dict(outer)
    for key, each in inner.items():
        made[key] = _deep(made[key], each) if key in made else each
    return made


def _agree(outer: JSON, inner: JSON) -> bool:
    """Are all values at each key mappings, or none?

    Only then may they be merged before the value on the left.
    """
    if not (isinstance(outer, dict) and isinstance(inner, dict)):
        return not isinstance(outer, dict) and not isinstance(inner, dict)
    return all(_agree(outer[key], each) for key, each in inner.items() if key in outer)


def _merged(left: list[JSON], right: list[JSON]) -> list[JSON]:
    for each in right:
        if _agree(left[-1], each):
            left[-1] = _deep(left[-1], each)
        else:
            left.append(each)
    return left


def _all_merged(parts: list[JSON]) -> JSON:
    made: JSON = {}
    for part in parts:
        made = _deep(made, part)
    return made


def _members(value: JSON) -> dict[str, JSON]:
    made: dict[str, JSON] = {}
    for each in value if isinstance(value, list) else [value]:
        made.setdefault(_sorted(each).decode(), each)
    return made


def _united(left: dict[str, JSON], right: dict[str, JSON]) -> dict[str, JSON]:
    for key, each in right.items():
        left.setdefault(key, each)
    return left


def _extended(left: list[JSON], right: list[JSON]) -> list[JSON]:
    left.extend(right)
    return left


def _as_is(value: JSON) -> JSON:
    return value


REDUCERS: dict[str, Reducer] = {
    SAME: Reducer(_as_is, _all_the_same, _as_is),
    "sum": Reducer(_addend, _added, _total, 0),
    "min": Reducer(_number, min, _as_is),
    "max": Reducer(_number, max, _as_is),
    "count": Reducer(lambda _value: 1, lambda left, right: left + right, _as_is, 0),
    "append": Reducer(lambda value: [value], _extended, _as_is, []),
    "extend": Reducer(lambda value: list(_list(value)), _extended, _as_is, []),
    "merge": Reducer(_mapping, _merged, _all_merged, {}),
    "union": Reducer(_members, _united, lambda left: list(left.values()), []),
    "any": Reducer(truth, lambda left, right: left or right, _as_is, False),
    "all": Reducer(truth, lambda left, right: left and right, _as_is, True),
    "first": Reducer(_as_is, lambda left, _right: left, _as_is),
    "last": Reducer(_as_is, lambda _left, right: right, _as_is),
}
