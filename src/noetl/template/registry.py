"""The registry of filters, tests, functions and methods: signature, description and example of each.

The signature is written once, as text. The checks of arguments and the reference page are derived from it.
Entries do not depend on Jinja2: they take a meter and plain values, and return a plain value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from noetl.template.limits import Meter, json_text
from noetl.template.values import JSON, NUMBERS, TemplateError, Undefined, kind_of, undefined

Apply: TypeAlias = Callable[..., JSON]
BuiltinTable: TypeAlias = dict[str, "Builtin"]
_Applied = TypeVar("_Applied", bound=Apply)

_SIGNATURE = re.compile(r"(?:(?P<input>[a-z ]+?)(?P<sign> is |\||\.))?(?P<name>[\w=<>!]+)(?:\((?P<rest>.*)\))?")
_PARAMETER = re.compile(r"(?P<name>\w+): (?P<kind>\w+)(?P<null>\?)?(?: = (?P<default>.+))?")
_TEXTS = ("text", "pattern", "replacement", "format", "unit", "step")
_EXACT = {**dict.fromkeys(_TEXTS, str), "int": int, "bool": bool, "list": list, "map": dict}
_EXPECTED = {
    **dict.fromkeys(_TEXTS, "text"),
    "int": "a whole number",
    "number": "a number",
    "bool": "true or false",
    "list": "a list",
    "map": "a map",
    "key": "a key or an index",
}


class Parameter(NamedTuple):
    """One parameter: its name, its type, and its default."""

    name: str
    kind: str  # any, text, pattern, replacement, format, unit, step, int, number, bool, list, map, key
    nullable: bool
    required: bool
    default: JSON

    def accepts(self, value: JSON) -> bool:
        if self.kind == "any" or (self.nullable and value is None):
            return True
        if self.kind == "number":
            return type(value) in NUMBERS
        if self.kind == "key":
            return type(value) is str or type(value) is int
        return type(value) is _EXACT[self.kind]

    @property
    def expected(self) -> str:
        """The expected type, for messages."""
        return _EXPECTED[self.kind] + (" or null" if self.nullable else "")


class Builtin(msgspec.Struct, frozen=True, kw_only=True):
    """A filter, test, function or method."""

    name: str
    signature: str  # "text|center(width: int = 80)"
    doc: str  # one line
    example: tuple[str, str]  # a template and its value as JSON
    input: str  # kind of the value before the bar; "" for functions
    parameters: tuple[Parameter, ...]
    apply: Apply  # called with the meter, the value, then all arguments in order
    lenient: bool  # accepts an undefined value
    cost: int  # fuel per call, in addition to what the entry charges itself


def register(
    table: BuiltinTable,
    signature: str,
    doc: str,
    example: tuple[str, str],
    *,
    names: tuple[str, ...] = (),
    lenient: bool = False,
) -> Callable[[_Applied], _Applied]:
    """Add the decorated function to a table, under the name in its signature and under `names`."""
    match = _SIGNATURE.fullmatch(signature)
    assert match is not None, signature
    parameters = tuple(map(_parameter, match["rest"].split(", "))) if match["rest"] else ()

    def enter(apply: _Applied) -> _Applied:
        for name in (match["name"], *names):
            table[name] = Builtin(
                name=name,
                signature=signature,
                doc=doc,
                example=example,
                input=match["input"] or "",
                parameters=parameters,
                apply=apply,
                lenient=lenient,
                cost=14,
            )
        return apply

    return enter


def _parameter(text: str) -> Parameter:
    match = _PARAMETER.fullmatch(text)
    assert match is not None, text
    default = match["default"]
    return Parameter(
        match["name"],
        match["kind"],
        match["null"] is not None,
        default is None,
        None if default is None else msgspec.json.decode(default),
    )


def take_any(_: Meter, value: JSON, _label: str) -> JSON:
    if type(value) is Undefined:
        raise undefined(value)
    return value


def take_lenient(_: Meter, value: JSON, _label: str) -> JSON:
    return value


def take_text(meter: Meter, value: JSON, _label: str) -> JSON:
    """Text unchanged, any other value as it is written inside text."""
    if type(value) is str:
        return value
    if type(value) is Undefined:
        raise undefined(value)
    return json_text(value, meter)


def take_items(meter: Meter, value: JSON, label: str) -> JSON:
    """The items of a list, the keys of a map, or the characters of a text."""
    kind = type(value)
    if kind is list:
        return value
    if kind is dict or kind is str:
        meter.items(len(value))
        return list(value)
    raise wrong(value, label, "a list")


def take_number(_: Meter, value: JSON, label: str) -> JSON:
    if type(value) in NUMBERS:
        return value
    raise wrong(value, label, "a number")


def take_map(_: Meter, value: JSON, label: str) -> JSON:
    if type(value) is dict:
        return value
    raise wrong(value, label, "a map")


def wrong(value: JSON, label: str, expected: str) -> TemplateError:
    """The error for a value of the wrong kind."""
    if type(value) is Undefined:
        return undefined(value)
    return TemplateError(f"{label} is {kind_of(value)}, not {expected}")


TAKES: dict[str, Callable[[Meter, JSON, str], JSON]] = {
    "any": take_any,
    "text": take_text,
    "list": take_items,
    "number": take_number,
    "map": take_map,
}
