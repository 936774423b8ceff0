"""The result of a task, a step or a playbook: an `Output` with a value, a Ref or a `Failure`.

`clean` converts the output of a tool to plain JSON, or names the place that is not JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import isfinite
from typing import Any, Literal, TypeAlias

from msgspec import Struct

JSON: TypeAlias = Any  # None, bool, int, float, str, list or dict with str keys

CALL_ERROR_KINDS = (  # of the failures that a call of any tool can have
    "credential", "input", "output", "payload-too-large", "reference", "timeout", "tool", "validation",
)  # fmt: skip
ERROR_KINDS = (  # besides the kinds of tools; docs/guides/failures.md explains the common ones
    *CALL_ERROR_KINDS, "template", "loop", "ctx-conflict", "routing", "rule", "playbook", "workbook", "runaway",
    "limit", "poison", "cancelled", "internal", "damaged", "problems",
)  # fmt: skip
OUTPUT_FIELDS = ("status", "data", "ref", "error", "meta")  # and the part of the tool: output.http, …
ERROR_FIELDS = ("kind", "retryable", "message", "details", "cause")
META_FIELDS = ("attempt", "duration_ms", "ts", "tries", "count", "succeeded", "failed", "select")
REF_FIELDS = ("type", "locator", "auth_reference", "meta")
STORED = "$stored"  # the key of the mark that stands for a value in the result store (D91)
DATA_LEVELS_MAX = 64  # of nested lists and mappings
INT_BITS_MAX = 14_000  # of an integer: larger ones cannot be written as text
_INT_MAX = 1 << INT_BITS_MAX
_SURROGATE = re.compile("[\ud800-\udfff]")
_MANY = 16  # minimum length of a list for the check as a whole
_SHOWN = 40  # characters of a key in an error message


class Failure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reason of a failure, in a form that rules can test."""

    kind: str  # "http", "timeout", "template", …
    message: str
    retryable: bool = False
    details: dict[str, JSON] = {}
    cause: Failure | None = None  # the failure that a rule with its own message replaced (D105)

    def view(self) -> dict[str, JSON]:
        """The mapping for templates. It has all fields, except that `cause` is undefined if there is none."""
        seen: dict[str, JSON] = {
            "kind": self.kind, "message": self.message, "retryable": self.retryable, "details": self.details,
        }  # fmt: skip
        if self.cause is not None:
            seen["cause"] = self.cause.view()
        return seen


class Output(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The final result of a task, a step or a playbook."""

    status: Literal["ok", "error"] = "ok"
    data: JSON = None
    ref: dict[str, JSON] | None = None  # a Ref to the data, if the data is too large for the log
    error: Failure | None = None
    meta: dict[str, JSON] = {}
    own: dict[str, JSON] = {}  # the part of the tool: {"http": {"status": 429}} → output.http.status

    def view(self) -> dict[str, JSON]:
        """The mapping for templates. `ref` and `error` are undefined if they are absent."""
        seen: dict[str, JSON] = {"status": self.status, "data": self.data, "meta": self.meta, **self.own}
        if self.ref is not None:
            seen["ref"] = self.ref
        if self.error is not None:
            seen["error"] = self.error.view()
        return seen


class LargeOutput(Output, frozen=True, kw_only=True, omit_defaults=True):
    """An output whose data is large and was checked by the tool. A worker encodes it in slices."""

    def plain(self) -> Output:
        return Output(
            status=self.status, data=self.data, ref=self.ref, error=self.error, meta=self.meta, own=self.own
        )  # fmt: skip


def failed(kind: str, message: str, *, retryable: bool = False) -> Output:
    """An output with a failure only."""
    return Output(status="error", error=Failure(kind=kind, message=message, retryable=retryable))


def tries_of(output: Output | None) -> int:
    """How many tries the call needed (D92)."""
    if output is not None and output.meta:
        match output.meta.get("tries"):
            case [*_, {"try": int(number)}]:
                return number
    return 1


_CONTAINERS = frozenset({dict, list})


class NotJSON(ValueError):
    """Data that JSON cannot represent; the message names the value and its place."""


def clean(value: JSON) -> JSON:
    """The value as plain JSON: the same object if it already is, or else a converted copy. Raises NotJSON.

    Tuples become lists, keys become text, and lone surrogates become U+FFFD. Non-finite numbers, bytes,
    datetimes and other types are refused: the tool must decide how to represent them.
    """
    return value if _are_clean((value,), DATA_LEVELS_MAX) else _cleaned(value, "data", DATA_LEVELS_MAX)


def clean_decoded(value: JSON) -> JSON:
    """The same for the result of a strict JSON decoder, where only the depth needs a check."""
    return value if _is_shallow(value) else clean(value)


def _is_shallow(value: JSON) -> bool:
    """Level by level: most values of a table are on one level."""
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
    """Whether no conversion is needed, which is nearly always so: a fast check without details."""
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
    """A fast check for long lists of one scalar type. False: they are not clean, or of several types."""
    if len(values) < _MANY:
        return False
    kinds = set(map(type, values))
    if kinds == {float}:
        return all(map(isfinite, values))
    if kinds == {str}:
        return all(map(str.isascii, values))
    return kinds == {int} and min(values) > -_INT_MAX and max(values) < _INT_MAX


def _is_text(text: str) -> bool:
    """Whether the text contains no lone surrogates."""
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
            raise NotJSON(f"{where} is an integer of more than {INT_BITS_MAX:,} bits")
        return int(value)
    if isinstance(value, float):
        if not isfinite(value):
            raise NotJSON(f"{where} is {float(value)}, and JSON has only finite numbers")
        return float(value)
    raise NotJSON(f"{where} is of type {type(value).__name__}, which JSON does not support")


def _cleaned_map(mapping: dict[JSON, JSON], where: str, levels: int) -> dict[str, JSON]:
    made: dict[str, JSON] = {}
    for key, each in mapping.items():
        name = _key(key, where)
        if name in made:
            raise NotJSON(f'{where} has two keys that are both "{name[:_SHOWN]}" as text')
        made[name] = _cleaned(each, f"{where}.{name[:_SHOWN]}", levels)
    return made


def _key(key: JSON, where: str) -> str:
    """The JSON text of a key: `true`, `null`, `1.5`."""
    if isinstance(key, str):
        return str(_cleaned(key, where, 0))
    if key is None:
        return "null"
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(_cleaned(key, f"a key of {where}", 0))
    raise NotJSON(f"{where} has a key of type {type(key).__name__}, and keys are text")
