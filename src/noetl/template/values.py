"""The plain JSON values that templates work on: undefined values, truth, lookup, and conversion to text.

This module does not depend on Jinja2 or on the limits. It decides by the exact type of a value and never
reads attributes of it.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

JSON: TypeAlias = Any
ScopePath: TypeAlias = tuple[str | int, ...]

PLAIN = frozenset({type(None), bool, int, float, str, list, dict})
NUMBERS = frozenset({int, float})
RECORDED = frozenset({"now", "today", "uuid"})  # functions whose values are derived from the Moment
_FALSE = frozenset({"", "0", "no", "none", "null", "false"})
_LONGEST_FALSE = max(map(len, _FALSE))
_KINDS = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list", dict: "a map"}
_encode = msgspec.json.Encoder().encode
_LONG = 1 << 64
_LEVELS_MAX = 200  # nesting of a value that is written as JSON; the limit of the encoder differs by version
_QUOTED_CHARS_MAX = 40  # characters of a key that an error message repeats


class TemplateError(Exception):
    """A template could not be evaluated. `message` names the expression, `path` the missing value."""

    def __init__(self, message: str, path: ScopePath | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.kind = "template"  # the kind of the resulting failure
        self.tag: int | None = None  # the index of the {{ }} or {% %} within its template, from 0


class Moment(Struct, frozen=True):
    """The values from which `now()`, `today()` and `uuid()` are derived (D17)."""

    at: str  # the recorded time of the event, RFC 3339
    seed: str  # the id of the call


class Undefined:
    """A missing value: it is falsy and not equal to any value, including itself (D14)."""

    __slots__ = ("path", "text")

    def __init__(self, text: str, path: ScopePath | None = None) -> None:
        self.text = text  # as the author wrote it: "ctx.user.name"
        self.path = path

    def __bool__(self) -> Literal[False]:
        return False

    def __eq__(self, other: object) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__


OMIT = Undefined("omit()")  # the value of a key that is left out of its mapping (D96)


def undefined(missing: Undefined) -> TemplateError:
    return TemplateError(f"{missing.text} is undefined", missing.path)


def truth(value: JSON) -> bool:
    """The truth of a value as in Python, except that the texts false, no, none, null and 0 are false (D15).

    Letter case does not matter.
    """
    if type(value) is str:
        return len(value) > _LONGEST_FALSE or value.lower() not in _FALSE
    return bool(value)


def is_template(text: str) -> bool:
    """Does the text contain an expression, a statement or a comment of the language?"""
    return "{{" in text or "{%" in text or "{#" in text


def contains_template(value: JSON) -> bool:
    """Is one of the texts in a value a template?"""
    if type(value) is str:
        return is_template(value)
    parts = value.values() if type(value) is dict else value if type(value) is list else ()
    return any(map(contains_template, parts))


def kind_of(value: JSON) -> str:
    """The kind of a value for messages, with its article: "a list"."""
    if type(value) is Undefined:
        return "undefined"
    return "null" if value is None else _KINDS.get(type(value), "not a JSON value")


def path_text(path: ScopePath) -> str:
    """A path as an author writes it: `output.http.headers["x-id"][0]`."""
    text = str(path[0])
    for part in path[1:]:
        if type(part) is str and part.isidentifier():
            text += f".{part}"
        else:
            text += f"[{subscript_text(part)}]"
    return text


def subscript_text(key: JSON) -> str:
    if type(key) is str:
        return f'"{key[:_QUOTED_CHARS_MAX]}…"' if len(key) > _QUOTED_CHARS_MAX else f'"{key}"'
    return str(key) if type(key) is int and abs(key) < 1 << 64 else kind_of(key)


MISSING = Undefined("it")


def lookup(value: JSON, key: JSON) -> JSON:
    """The value under a key or at an index, never an attribute; `MISSING` if there is none."""
    kind = type(value)
    if kind is dict:
        return value.get(key, MISSING) if type(key) is str else MISSING
    if (kind is list or kind is str) and type(key) is int and -len(value) <= key < len(value):
        return value[key]
    return MISSING


def scalar_text(value: JSON) -> str | None:
    """A scalar as it is written inside text; None for a list or a map."""
    kind = type(value)
    if kind is str:
        return str(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return str(value)
    if kind is float:
        return _encode(value).decode()
    return None


def to_json(value: JSON) -> str:
    """Compact JSON. Keys keep their order, and characters outside ASCII are not escaped."""
    try:
        return _encode(value).decode()
    except RecursionError:
        raise TemplateError("the value is nested too deeply to be written as JSON") from None
    except UnicodeEncodeError:
        raise TemplateError("the text contains half a surrogate pair, which JSON cannot represent") from None
    except (TypeError, ValueError):
        raise TemplateError("the value is not plain JSON") from None


class ValueSize(NamedTuple):
    """The size of a value: roughly the characters of its JSON, and the number of its parts."""

    chars: int
    parts: int


def measure(value: JSON, enough: int, most: int) -> ValueSize:
    """Count without recursion, and stop after `enough` characters or `most` parts: data may have any size."""
    chars = parts = 0
    stack = [iter((value,))]
    while stack:
        if len(stack) > _LEVELS_MAX:
            raise TemplateError("the value is nested too deeply to be written as JSON")
        for item in stack[-1]:
            parts += 1
            kind = type(item)
            if kind is str:
                chars += len(item) + 2
            elif kind is dict:
                chars += 2 + sum(map(len, item)) + 4 * len(item) if len(item) <= enough else enough + 1
                parts += len(item)
                stack.append(iter(item.values()))
                break
            elif kind is list:
                chars += 2 + len(item)
                stack.append(iter(item))
                break
            elif kind is int and not -_LONG < item < _LONG:
                # Writing a number takes time proportional to the square of its digits.
                chars += item.bit_length() // 3
                parts += item.bit_length() ** 2 >> 16
            else:
                chars += 4
            if chars > enough or parts > most:
                return ValueSize(chars, parts)
        else:
            stack.pop()
        if chars > enough or parts > most:
            break
    return ValueSize(chars, parts)
