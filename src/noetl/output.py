"""What a task, a step or a playbook gives back: an `Output` with a value, a Ref, or a `Failure`.

`clean` stands at the door: what a tool gives is JSON, or it is refused with the place that is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import isfinite
from typing import Any, Literal, TypeAlias

from msgspec import Struct

JSON: TypeAlias = Any  # None, bool, int, float, str, list or dict with str keys

OUTPUT_FIELDS = ("status", "data", "ref", "error", "meta")  # and the tool's own part: output.http, …
ERROR_FIELDS = ("kind", "retryable", "message", "details")
META_FIELDS = ("attempt", "duration_ms", "ts", "count", "succeeded", "failed", "select")
REF_FIELDS = ("type", "locator", "auth_reference", "meta")
DATA_LEVELS_MAX = 64  # of lists and maps in each other
INT_BITS_MAX = 14_000  # of a whole number: what can still be written as text
_INT_MAX = 1 << INT_BITS_MAX
_SURROGATE = re.compile("[\ud800-\udfff]")
_MANY = 16  # items of a list that are looked at together
_SHOWN = 40  # characters of a key that an error repeats


class Failure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why something did not work, in a shape that rules can test."""

    kind: str  # "http", "timeout", "template", …
    message: str
    retryable: bool = False
    details: dict[str, JSON] = {}

    def view(self) -> dict[str, JSON]:
        """As templates read it: every part is there."""
        parts = {"kind": self.kind, "message": self.message, "retryable": self.retryable}
        return {**parts, "details": self.details}


class Output(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The one final result of a task, a step or a playbook."""

    status: Literal["ok", "error"] = "ok"
    data: JSON = None
    ref: dict[str, JSON] | None = None  # a Ref: where the data lies, when it is too large to stand here
    error: Failure | None = None
    meta: dict[str, JSON] = {}
    own: dict[str, JSON] = {}  # the tool's own part: {"http": {"status": 429}} → output.http.status

    def view(self) -> dict[str, JSON]:
        """As templates read it. What is not there is undefined: `ref`, and `error` when all is well."""
        seen: dict[str, JSON] = {"status": self.status, "data": self.data, "meta": self.meta, **self.own}
        if self.ref is not None:
            seen["ref"] = self.ref
        if self.error is not None:
            seen["error"] = self.error.view()
        return seen


def failed(kind: str, message: str, *, retryable: bool = False) -> Output:
    """An output that is nothing but a failure."""
    return Output(status="error", error=Failure(kind=kind, message=message, retryable=retryable))


_CONTAINERS = frozenset({dict, list})


class NotJSON(ValueError):
    """Data that JSON can not carry: the message says what, and where."""


def clean(value: JSON) -> JSON:
    """The value as JSON carries it: itself when it is fine, else a copy that is; NotJSON when there is none.

    Tuples become lists, keys text, and half a surrogate pair becomes U+FFFD. Numbers that are not finite,
    bytes, instants and whatever else JSON has no word for are refused: what they mean is for the tool to say.
    """
    return value if _are_clean((value,), DATA_LEVELS_MAX) else _cleaned(value, "data", DATA_LEVELS_MAX)


def clean_decoded(value: JSON) -> JSON:
    """The same for what a strict decoder of JSON has made: only its depth is still to be looked at."""
    return value if _is_shallow(value) else clean(value)


def _is_shallow(value: JSON) -> bool:
    """Level by level, since most of a page of rows is on one."""
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(DATA_LEVELS_MAX):
        if not level:
            return True
        below: list[JSON] = []
        for each in level:
            below += each.values() if type(each) is dict else each
        level = [each for each in below if type(each) in _CONTAINERS]
    return not level


def _are_clean(values: Iterable[JSON], levels: int) -> bool:
    """Is there nothing to do? So it is nearly always: this is quick, and says no more."""
    for value in values:
        kind = type(value)
        if kind is str:
            if not value.isascii() and not _is_text(value):
                return False
        elif kind is dict:
            if not levels or not _are_keys(value) or not _are_clean(value.values(), levels - 1):
                return False
        elif kind is list:
            if not levels or not (_are_alike(value) or _are_clean(value, levels - 1)):
                return False
        elif kind is int:
            if not -_INT_MAX < value < _INT_MAX:
                return False
        elif kind is float:
            if not isfinite(value):
                return False
        elif value is not None and kind is not bool:
            return False
    return True


def _are_keys(mapping: dict[JSON, JSON]) -> bool:
    try:
        keys = "".join(mapping)
    except TypeError:
        return False
    return keys.isascii() or _is_text(keys)


def _are_alike(values: list[JSON]) -> bool:
    """Long lists of one kind of scalar are told at once. False: they are not, or not clean."""
    if len(values) < _MANY:
        return False
    kinds = set(map(type, values))
    if kinds == {float}:
        return all(map(isfinite, values))
    if kinds == {str}:
        return all(map(str.isascii, values))
    return kinds == {int} and min(values) > -_INT_MAX and max(values) < _INT_MAX


def _is_text(text: str) -> bool:
    """Is every surrogate a half of a pair that Python has put together?"""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _cleaned(value: JSON, where: str, levels: int) -> JSON:
    if isinstance(value, str):
        return "".join(value) if _is_text(value) else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, dict | list | tuple):
        if not levels:
            raise NotJSON(f"{where} is nested deeper than {DATA_LEVELS_MAX} levels")
        if isinstance(value, dict):
            return _cleaned_map(value, where, levels - 1)
        return [_cleaned(each, f"{where}[{place}]", levels - 1) for place, each in enumerate(value)]
    if isinstance(value, int):
        if not -_INT_MAX < value < _INT_MAX:
            raise NotJSON(f"{where} is a whole number of more than {INT_BITS_MAX:,} bits")
        return int(value)
    if isinstance(value, float):
        if not isfinite(value):
            raise NotJSON(f"{where} is {float(value)}, and JSON has only finite numbers")
        return float(value)
    raise NotJSON(f"{where} is of type {type(value).__name__}, which JSON does not have")


def _cleaned_map(mapping: dict[JSON, JSON], where: str, levels: int) -> dict[str, JSON]:
    made: dict[str, JSON] = {}
    for key, each in mapping.items():
        name = _key(key, where)
        if name in made:
            raise NotJSON(f'{where} has two keys that are both "{name[:_SHOWN]}" as text')
        made[name] = _cleaned(each, f"{where}.{name[:_SHOWN]}", levels)
    return made


def _key(key: JSON, where: str) -> str:
    """A key as JSON writes it: `true`, `null`, `1.5`."""
    if isinstance(key, str):
        return str(_cleaned(key, where, 0))
    if key is None:
        return "null"
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(_cleaned(key, f"a key of {where}", 0))
    raise NotJSON(f"{where} has a key of type {type(key).__name__}, and keys are text")
