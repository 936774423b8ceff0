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


class BooleanShape(NamedTuple):
    templated: bool = False


class NumberShape(NamedTuple):
    """A number of at least `minimum`."""

    minimum: float | None = None
    whole: bool = False
    templated: bool = False


class ChoiceShape(NamedTuple):
    values: tuple[str, ...]
    templated: bool = False


class GuardShape(NamedTuple):
    """A template or a boolean (D15)."""


class TemplateShape(NamedTuple):
    """A template that gives the value."""


class AnyShape(NamedTuple):
    """Any value; its strings may be templates."""


class NullShape(NamedTuple):
    """Nothing at all."""


class MapShape(NamedTuple):
    """A mapping with keys of the author's own."""

    of: Shape = AnyShape()


class ListShape(NamedTuple):
    of: Shape


class ReservedShape(NamedTuple):
    """Accepted, answered with a warning, without effect (D64)."""


class KeyShape(NamedTuple):
    """One key of a record."""

    shape: Shape
    doc: str
    required: bool = False
    default: JSON = None  # shown in the docs and the schema; None: none, or said in the doc
    example: str | None = None


class RetiredKey(NamedTuple):
    """A key that once had, or never gets, a meaning here: the answer that teaches more than `unknown-key`."""

    code: str
    message: str
    fix: str | None = None


class RecordShape(NamedTuple):
    """A mapping with known keys."""

    title: str
    doc: str
    keys: Mapping[str, KeyShape]
    retired: Mapping[str, RetiredKey] = {}
    extra: Shape | None = None  # shape of the keys that are not listed; None: there are none
    wrong_types: Mapping[
        str, RetiredKey
    ] = {}  # what to say when something else stands there: "a list", "text", …


class KindShape(NamedTuple):
    """A mapping whose keys depend on its `kind`."""

    title: str
    doc: str
    kinds: Mapping[str, RecordShape]
    unknown: RecordShape  # read by this when the kind is not known, so that the rest is checked all the same


class UnionShape(NamedTuple):
    """One of several shapes, told apart by what kind of value stands there."""

    shapes: tuple[Shape, ...]


Shape: TypeAlias = (
    TextShape
    | BooleanShape
    | NumberShape
    | ChoiceShape
    | GuardShape
    | TemplateShape
    | AnyShape
    | NullShape
    | MapShape
    | ListShape
    | ReservedShape
    | RecordShape
    | KindShape
    | UnionShape
)


def sql_paths(keys: Mapping[str, KeyShape]) -> frozenset[tuple[str, ...]]:
    """Where SQL stands among the fields of a tool: ("query",), ("copy", "query")."""
    paths: set[tuple[str, ...]] = set()
    for name, key in keys.items():
        if isinstance(key.shape, TextShape) and key.shape.sql:
            paths.add((name,))
        elif isinstance(key.shape, RecordShape):
            paths.update((name, *inside) for inside in sql_paths(key.shape.keys))
    return frozenset(paths)


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
        case BooleanShape(templated):
            return "true, false or a template" if templated else "true or false"
        case NumberShape(minimum, whole, templated):
            words = "a whole number" if whole else "a number"
            words += "" if minimum is None else f" of at least {minimum:g}"
            return words + (" or a template" if templated else "")
        case ChoiceShape(values):
            return "one of " + ", ".join(values)
        case GuardShape():
            return "a template or a boolean"
        case TemplateShape():
            return "a template"
        case AnyShape():
            return "any value"
        case NullShape():
            return "nothing"
        case MapShape(of):
            return "a mapping" if isinstance(of, AnyShape) else f"a mapping of names to {describe(of)}"
        case ListShape(of):
            return f"a list of {describe(of)}" if isinstance(of, TextShape | NumberShape) else "a list"
        case ReservedShape():
            return "nothing yet (reserved)"
        case RecordShape(title) | KindShape(title):
            return f"a mapping ({title})"
        case UnionShape(shapes):
            return " or ".join(describe(each) for each in shapes if not isinstance(each, NullShape))
