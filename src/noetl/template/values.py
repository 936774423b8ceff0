"""The JSON values of templates, and the limits and the meter of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from sys import getsizeof
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

TEMPLATE_CHARS_MAX = 65_536  # characters of the source of a template
TOKENS_MAX = (
    3_000  # names, numbers, operators and pieces of text in a template; Jinja2 needs 5 to 8 µs for each
)
NESTING_MAX = 32  # open brackets, blocks and unary operators: Jinja2's parser nests 14 calls for each
EXPRESSION_DEPTH_MAX = 64  # depth of the syntax tree of an expression
FUEL_MAX = 400_000  # units of work for one evaluation: about 20 ms, and less than 50
MEMORY_MAX = 8_388_608  # bytes that one evaluation allocates in total, including values that it drops again
TEXT_CHARS_MAX = 1_048_576  # characters of one text that a template creates
ITEMS_MAX = 100_000  # items of one list that a template creates
RANGE_MAX = 10_000  # items of range()
INT_MAX = 2**63 - 1  # whole numbers that a template calculates
BITS_MAX = 14_000  # bits of a number in the data that is written as text
JSON_DEPTH_MAX = 64  # nesting of a text that fromjson reads
PATTERN_CHARS_MAX = 1_000  # characters of a regular expression
PATTERN_PROGRAM_MAX = 2_000  # instructions of a compiled regular expression
PATTERN_MEMORY_MAX = 262_144  # bytes that RE2 may use for one regular expression


def limit_exceeded(name: str, what: str) -> TemplateError:
    return TemplateError(f"{what} (limit {name}: {globals()[name]:,})")


class Meter:
    """The remaining budget of one evaluation. Class attributes hold the defaults: creating one is cheap."""

    fuel: int = FUEL_MAX
    memory: int = MEMORY_MAX
    written: int = 0  # characters of the text that the template has produced
    uuids: int = 0  # how often uuid() was called
    moment: Moment | None = None  # None: now() and uuid() have no value here
    slots: list[JSON]  # the variables of {% for %}
    patterns: Mapping[str, JSON] = MappingProxyType({})  # regular expressions compiled so far, by their text

    def charge(self, units: int) -> None:
        left = self.fuel - units
        if left < 0:
            raise limit_exceeded("FUEL_MAX", "the template needs too much work")
        self.fuel = left

    def allocate(self, size: int) -> None:
        left = self.memory - size
        if left < 0:
            raise limit_exceeded("MEMORY_MAX", "the template creates too much data")
        self.memory = left

    def text(self, chars: int) -> None:
        """Check the limit and charge for a text of `chars` characters, before it is created."""
        if chars > TEXT_CHARS_MAX:
            raise limit_exceeded("TEXT_CHARS_MAX", f"the template creates a text of {chars:,} characters")
        self.charge(1 + (chars >> 8))

    def keep(self, text: str) -> str:
        """Count a text that was created, and return it."""
        if len(text) > TEXT_CHARS_MAX:
            raise limit_exceeded("TEXT_CHARS_MAX", "the template creates a text that is too long")
        self.allocate(getsizeof(text))
        return text

    def items(self, count: int) -> None:
        """Check the limit and charge for a list of `count` items, before it is created."""
        if count > ITEMS_MAX:
            raise limit_exceeded("ITEMS_MAX", f"the template creates a list of {count:,} items")
        self.charge(1 + count)
        self.allocate(56 + 8 * count)

    def measure(self, value: JSON, enough: int = TEXT_CHARS_MAX) -> ValueSize:
        """Count the characters and parts of a value, and charge for visiting all of them."""
        size = measure(value, enough, self.fuel // 3)
        self.charge(20 + 3 * size.parts + (size.chars >> 6))
        return size

    def search(self, text: str, part: str) -> None:
        """Charge for searching a part in a text: for short texts the cost is the product of both lengths."""
        chars = len(text)
        self.charge(1 + (chars >> 4) + (min(chars, 30_000) * min(len(part), 100) >> 6))


def json_text(value: JSON, meter: Meter | None = None) -> str:
    """A value as it is written inside text: text unchanged, any other value as compact JSON (D12)."""
    meter = meter or Meter()
    if type(value) is int and not -INT_MAX <= value <= INT_MAX:
        # Writing a number takes time proportional to the square of its digits. Only data has such numbers.
        bits = value.bit_length()
        if bits > BITS_MAX:
            raise limit_exceeded("BITS_MAX", "the number is too large to be written as text")
        meter.charge(bits * bits >> 15)
    text = scalar_text(value)
    if text is not None:
        return text
    meter.text(meter.measure(value).chars)
    return meter.keep(to_json(value))


JSON: TypeAlias = Any
ScopePath: TypeAlias = tuple[str | int, ...]

PLAIN = frozenset({type(None), bool, int, float, str, list, dict})
NUMBERS = frozenset({int, float})
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


class Moment(NamedTuple):
    """The values from which `now()` and `uuid()` are derived (D17)."""

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
