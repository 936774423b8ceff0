"""One entry for each filter, test, function and method: its signature, what it does, and an example.

The signature is written once, as text; the checks of arguments and the reference are made from it.
No entry knows Jinja: it gets a meter and plain values, and gives a plain value.
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

_SIGNATURE = re.compile(
    r"(?:(?P<input>[a-z ]+?)(?P<sign> is |\||\.))?(?P<name>[\w=<>!]+)(?:\((?P<rest>.*)\))?"
)
_PARAMETER = re.compile(r"(?P<name>\w+): (?P<kind>\w+)(?P<null>\?)?(?: = (?P<default>.+))?")
_EXACT = {
    "text": str,
    "pattern": str,
    "replacement": str,
    "int": int,
    "bool": bool,
    "list": list,
    "map": dict,
}
_EXPECTED = {
    "text": "text",
    "pattern": "text",
    "replacement": "text",
    "int": "a whole number",
    "number": "a number",
    "bool": "true or false",
    "list": "a list",
    "map": "a map",
    "key": "a key or a place",
}


class Parameter(NamedTuple):
    """One argument: its name, what it takes, and what it is when it is left out."""

    name: str
    kind: str  # any, text, pattern, replacement, int, number, bool, list, map, key
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
        """What it takes, for people."""
        return _EXPECTED[self.kind] + (" or null" if self.nullable else "")


class Builtin(msgspec.Struct, frozen=True, kw_only=True):
    """A filter, test, function or method, as templates and the reference see it."""

    name: str
    signature: str  # "text|center(width: int = 80)"
    doc: str  # one line
    example: tuple[str, str]  # a template, and the JSON that it gives
    input: str  # kind of the value before the bar; "" for functions
    parameters: tuple[Parameter, ...]
    apply: Apply  # gets the meter, the value, then all arguments in their order
    lenient: bool  # an undefined value is an answer too, not an error
    cost: int  # fuel in a turn of a loop, besides what the entry charges itself


def register(
    table: BuiltinTable,
    signature: str,
    doc: str,
    example: tuple[str, str],
    *,
    names: tuple[str, ...] = (),
    lenient: bool = False,
) -> Callable[[_Applied], _Applied]:
    """Enter a function into a table, under the name in its signature and under other names."""
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
    """Text as it is, anything else as it would be written inside text."""
    if type(value) is str:
        return value
    if type(value) is Undefined:
        raise undefined(value)
    return json_text(value, meter)


def take_items(meter: Meter, value: JSON, label: str) -> JSON:
    """A list as it is, the keys of a map, the letters of a text."""
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


def wrong(value: JSON, label: str, wanted: str) -> TemplateError:
    """The error for a value of another kind than the one that is needed."""
    if type(value) is Undefined:
        return undefined(value)
    return TemplateError(f"{label} is {kind_of(value)}, not {wanted}")


TAKES: dict[str, Callable[[Meter, JSON, str], JSON]] = {
    "any": take_any,
    "text": take_text,
    "list": take_items,
    "number": take_number,
    "map": take_map,
}
