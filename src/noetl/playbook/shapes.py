"""Shapes: the schema of a document as data, used by the reader, the JSON Schema and the docs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from noetl.output import JSON

NAME_PATTERN = r"[A-Za-z_][A-Za-z0-9_-]*"  # steps, tasks, keychain entries, parts of paths


class TextShape(NamedTuple):
    """Text. `templated`: it may contain templates."""

    templated: bool = False
    name: bool = False  # must be a name
    sql: bool = False  # every `{{ }}` in it is bound as a parameter, never inserted as text
    shell: bool = False  # every `{{ }}` in it is a value for the shell, which does not interpret it


class BooleanShape(NamedTuple):
    templated: bool = False


class NumberShape(NamedTuple):
    """A number, with an optional minimum."""

    minimum: float | None = None
    whole: bool = False
    templated: bool = False


class ChoiceShape(NamedTuple):
    values: tuple[str, ...]
    templated: bool = False


class GuardShape(NamedTuple):
    """A template or a boolean (D15)."""


class TemplateShape(NamedTuple):
    """A template that returns the value."""


class AnyShape(NamedTuple):
    """Any value; its strings may be templates."""


class NullShape(NamedTuple):
    """An empty value."""


class MapShape(NamedTuple):
    """A mapping with keys that the author chooses."""

    of: Shape = AnyShape()


class ListShape(NamedTuple):
    of: Shape


class ReservedShape(NamedTuple):
    """A key without effect that is accepted with a warning (D64, D101)."""

    instead: str | None = None  # a key that exists and does the same or something similar


class KeyShape(NamedTuple):
    """One key of a record."""

    shape: Shape
    doc: str
    required: bool = False
    default: JSON = None  # shown in the docs and the schema; None: no default, or described in `doc`
    example: str | None = None
    nullable: bool = False  # its type includes null


class RetiredKey(NamedTuple):
    """A key of an older dialect, or a common mistake, with a message more helpful than `unknown-key`."""

    code: str
    message: str
    fix: str | None = None


class RecordShape(NamedTuple):
    """A mapping with known keys."""

    title: str
    doc: str
    keys: Mapping[str, KeyShape]
    retired: Mapping[str, RetiredKey] = {}
    extra: Shape | None = None  # shape of the keys that are not listed; None: they are not allowed
    wrong_types: Mapping[
        str, RetiredKey
    ] = {}  # the expected type in the message about another value: "a list", "text", …


class KindShape(NamedTuple):
    """A mapping whose keys depend on its `kind`."""

    title: str
    doc: str
    kinds: Mapping[str, RecordShape]
    unknown: RecordShape  # the shape for an unknown kind, so that the remaining keys are checked
    others: Mapping[str, RecordShape] = {}  # by the key that replaces `kind`; they may contain this shape again
    advice: Mapping[str, str] = {}  # kinds that do not exist here → what to write instead


class UnionShape(NamedTuple):
    """One of several shapes, chosen by the type of the value."""

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
    """The paths of the SQL fields of a tool: ("query",), ("copy", "query")."""
    paths: set[tuple[str, ...]] = set()
    for name, key in keys.items():
        if isinstance(key.shape, TextShape) and key.shape.sql:
            paths.add((name,))
        elif isinstance(key.shape, RecordShape):
            paths.update((name, *inside) for inside in sql_paths(key.shape.keys))
    return frozenset(paths)


def describe(shape: Shape) -> str:
    """A shape as text, for messages and docs."""
    match shape:
        case TextShape(name=True):
            return "a name"
        case TextShape(sql=True):
            return "SQL, with every `{{ }}` bound as a parameter"
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
