"""Reducers: how the writes of parallel iterations to one path of ctx become one value (D47, D86)."""

from __future__ import annotations

from collections.abc import Callable

from noetl.output import JSON

_MISSING = object()


def fold(reducer: str, so_far: JSON, value: JSON) -> JSON:
    """One more value. Raises ValueError in words for the author when it does not fit."""
    return _FOLDS[reducer](so_far, value)


def start(reducer: str, ctx: dict[str, JSON], path: str) -> JSON:
    """What folding begins with: the value that ctx had, else the reducer's neutral one; _MISSING: none."""
    value: JSON = ctx
    for part in path.split("."):
        if not isinstance(value, dict) or part not in value:
            return _NEUTRAL.get(reducer, _MISSING)
        value = value[part]
    return value


def _number(value: JSON) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{type(value).__name__} is no number")
    return value


def _list(value: JSON) -> list[JSON]:
    if not isinstance(value, list):
        raise ValueError(f"{type(value).__name__} is no list")
    return value


def _merged(outer: JSON, inner: JSON) -> JSON:
    if not (isinstance(outer, dict) and isinstance(inner, dict)):
        raise ValueError("only mappings can be merged")
    return {
        **outer,
        **{key: _deep(outer[key], each) if key in outer else each for key, each in inner.items()},
    }


def _deep(outer: JSON, inner: JSON) -> JSON:
    return _merged(outer, inner) if isinstance(outer, dict) and isinstance(inner, dict) else inner


def _union(so_far: JSON, value: JSON) -> list[JSON]:
    made = list(_list(so_far))
    for each in value if isinstance(value, list) else [value]:
        if each not in made:
            made.append(each)
    return made


_NEUTRAL: dict[str, JSON] = {
    "sum": 0, "count": 0, "append": [], "extend": [], "merge": {}, "union": [], "any": False, "all": True,
}  # fmt: skip
_FOLDS: dict[str, Callable[[JSON, JSON], JSON]] = {
    "sum": lambda so_far, value: _number(so_far) + _number(value),
    "min": lambda so_far, value: value if so_far is _MISSING else min(_number(so_far), _number(value)),
    "max": lambda so_far, value: value if so_far is _MISSING else max(_number(so_far), _number(value)),
    "count": lambda so_far, _value: _number(so_far) + 1,
    "append": lambda so_far, value: [*_list(so_far), value],
    "extend": lambda so_far, value: [*_list(so_far), *_list(value)],
    "merge": _merged,
    "union": _union,
    "any": lambda so_far, value: bool(so_far) or bool(value),
    "all": lambda so_far, value: bool(so_far) and bool(value),
    "first": lambda so_far, value: value if so_far is _MISSING else so_far,
    "last": lambda _so_far, value: value,
}
