"""Shapes: what may stand where in a document, as data. One table serves reader, JSON Schema and docs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from noetl.output import JSON

NAME_PATTERN = r"[A-Za-z_][A-Za-z0-9_-]*"  # steps, tasks, keychain entries, parts of paths


class TextShape(NamedTuple):
    """Text. `templated`: it may hold templates; `statements`: `{% %}` too (text fields of tools, D13)."""

    templated: bool = False
    statements: bool = False
    name: bool = False  # must be a name
    sql: bool = False  # every `{{ }}` in it is bound, and never pasted


class Flag(NamedTuple):
    templated: bool = False


class Number(NamedTuple):
    """A number of at least `minimum`."""

    minimum: float | None = None
    whole: bool = False
    templated: bool = False


class Choice(NamedTuple):
    values: tuple[str, ...]
    templated: bool = False


class GuardShape(NamedTuple):
    """A template or a boolean (D15)."""


class Expression(NamedTuple):
    """A template that gives the value."""


class Anything(NamedTuple):
    """Any value; its strings may be templates."""


class Null(NamedTuple):
    """Nothing at all."""


class Values(NamedTuple):
    """A mapping with keys of the author's own."""

    of: Shape = Anything()


class Many(NamedTuple):
    of: Shape


class Reserved(NamedTuple):
    """Accepted, answered with a warning, without effect (D64)."""


class KeyShape(NamedTuple):
    """One key of a record."""

    shape: Shape
    doc: str
    required: bool = False
    default: JSON = None  # shown in the docs and the schema; None: none, or said in the doc
    example: str | None = None


class Retired(NamedTuple):
    """A key that once had, or never gets, a meaning here: the answer that teaches more than `unknown-key`."""

    code: str
    message: str
    fix: str | None = None


class Record(NamedTuple):
    """A mapping with known keys."""

    title: str
    doc: str
    keys: Mapping[str, KeyShape]
    retired: Mapping[str, Retired] = {}
    extra: Shape | None = None  # shape of the keys that are not listed; None: there are none
    instead: Mapping[str, Retired] = {}  # what to say when something else stands there: "a list", "text", …


class ByKind(NamedTuple):
    """A mapping whose keys depend on its `kind`."""

    title: str
    doc: str
    kinds: Mapping[str, Record]
    unknown: Record  # read by this when the kind is not known, so that the rest is checked all the same


class Either(NamedTuple):
    """One of several shapes, told apart by what kind of value stands there."""

    shapes: tuple[Shape, ...]


Shape: TypeAlias = (
    TextShape
    | Flag
    | Number
    | Choice
    | GuardShape
    | Expression
    | Anything
    | Null
    | Values
    | Many
    | Reserved
    | Record
    | ByKind
    | Either
)


def sql_paths(keys: Mapping[str, KeyShape]) -> frozenset[tuple[str, ...]]:
    """Where SQL stands among the fields of a tool: ("query",), ("copy", "query")."""
    found: set[tuple[str, ...]] = set()
    for name, key in keys.items():
        if isinstance(key.shape, TextShape) and key.shape.sql:
            found.add((name,))
        elif isinstance(key.shape, Record):
            found.update((name, *inside) for inside in sql_paths(key.shape.keys))
    return frozenset(found)


def describe(shape: Shape) -> str:
    """A shape in words, for messages and docs."""
    match shape:
        case TextShape(name=True):
            return "a name"
        case TextShape(sql=True):
            return "SQL, every `{{ }}` in it bound"
        case TextShape(templated=True):
            return "text or a template"
        case TextShape():
            return "text"
        case Flag(templated):
            return "true, false or a template" if templated else "true or false"
        case Number(minimum, whole, templated):
            words = "a whole number" if whole else "a number"
            words += "" if minimum is None else f" of at least {minimum:g}"
            return words + (" or a template" if templated else "")
        case Choice(values):
            return "one of " + ", ".join(values)
        case GuardShape():
            return "a template or a boolean"
        case Expression():
            return "a template"
        case Anything():
            return "any value"
        case Null():
            return "nothing"
        case Values(of):
            return "a mapping" if isinstance(of, Anything) else f"a mapping of names to {describe(of)}"
        case Many(of):
            return f"a list of {describe(of)}" if isinstance(of, TextShape | Number) else "a list"
        case Reserved():
            return "nothing yet (reserved)"
        case Record(title) | ByKind(title):
            return f"a mapping ({title})"
        case Either(shapes):
            return " or ".join(describe(each) for each in shapes if not isinstance(each, Null))
