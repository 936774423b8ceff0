"""The plain JSON values that templates work on: what is undefined, what is true, how a value is written.

Nothing here knows Jinja, limits or fuel; the value is looked at by its exact type, never by its attributes.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

JSON: TypeAlias = Any
ScopePath: TypeAlias = tuple[str | int, ...]

PLAIN = frozenset({type(None), bool, int, float, str, list, dict})
NUMBERS = frozenset({int, float})
_FALSE = frozenset({"", "0", "no", "none", "null", "false"})
_LONGEST_FALSE = max(map(len, _FALSE))
_KINDS = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list", dict: "a map"}
_encode = msgspec.json.Encoder().encode
_LONG = 1 << 64
_LEVELS_MAX = 200  # of a value that is written as JSON; how deep an encoder recurses differs between versions
_SHOWN = 40  # characters of a value or a key that an error repeats


class TemplateError(Exception):
    """A template that can not be evaluated: `message` names the expression, `path` what was missing."""

    def __init__(self, message: str, path: ScopePath | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.kind = "template"  # of the failure that it makes
        self.tag: int | None = None  # the place of the {{ }} or {% %} within its template, from 0


class Moment(NamedTuple):
    """What `now()` and `uuid()` are derived from (D17)."""

    at: str  # the recorded time of the event, RFC 3339
    seed: str  # the id of the call


class Undefined:
    """What is not there: falsy, equal to nothing, not even to itself (D14)."""

    __slots__ = ("path", "text")

    def __init__(self, text: str, path: ScopePath | None = None) -> None:
        self.text = text  # how the author wrote it: "ctx.user.name"
        self.path = path

    def __bool__(self) -> Literal[False]:
        return False

    def __eq__(self, other: object) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__


def undefined(missing: Undefined) -> TemplateError:
    return TemplateError(f"{missing.text} is undefined", missing.path)


def truth(value: JSON) -> bool:
    """Native truth, and the strings false, no, none, null, 0 and "" are false, in any case (D15)."""
    if type(value) is str:
        return len(value) > _LONGEST_FALSE or value.lower() not in _FALSE
    return bool(value)


def is_template(text: str) -> bool:
    """Does the text contain an expression, a statement or a comment of the language?"""
    return "{{" in text or "{%" in text or "{#" in text


def kind_of(value: JSON) -> str:
    """The kind of a value in the author's words, with its article."""
    if type(value) is Undefined:
        return "undefined"
    return "null" if value is None else _KINDS.get(type(value), "no JSON value")


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
        return f'"{key[:_SHOWN]}…"' if len(key) > _SHOWN else f'"{key}"'
    return str(key) if type(key) is int and abs(key) < 1 << 64 else kind_of(key)


MISSING = Undefined("it")


def lookup(value: JSON, key: JSON) -> JSON:
    """What stands under a key or at a place, never an attribute; `MISSING` if there is nothing."""
    kind = type(value)
    if kind is dict:
        return value.get(key, MISSING) if type(key) is str else MISSING
    if (kind is list or kind is str) and type(key) is int and -len(value) <= key < len(value):
        return value[key]
    return MISSING


def scalar_text(value: JSON) -> str | None:
    """How a scalar is written inside text; None: it is a list or a map."""
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
    """Compact JSON, keys in their order, letters as they are."""
    try:
        return _encode(value).decode()
    except RecursionError:
        raise TemplateError("the value is nested too deeply to be written as JSON") from None
    except UnicodeEncodeError:
        raise TemplateError("the text holds half a surrogate pair, which JSON can not carry") from None
    except (TypeError, ValueError):
        raise TemplateError("the value is not plain JSON") from None


class ValueSize(NamedTuple):
    """How much a value is: about the characters of its JSON, and its parts."""

    chars: int
    parts: int


def measure(value: JSON, enough: int, most: int) -> ValueSize:
    """Count without recursion, and not beyond `enough` characters or `most` parts: data has any size."""
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
                # Digits take the square of their number.
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
