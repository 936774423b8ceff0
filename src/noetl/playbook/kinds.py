"""What the language must know of a tool kind: its fields, its knobs, how it takes `input`.

The tools themselves live upstairs; they describe themselves by msgspec structs, which become shapes here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple, TypeAlias

import msgspec
from msgspec import inspect

from noetl.output import JSON
from noetl.playbook.shapes import (
    AnyShape,
    BooleanShape,
    ChoiceShape,
    KeyShape,
    ListShape,
    MapShape,
    NullShape,
    NumberShape,
    RecordShape,
    Shape,
    TemplateShape,
    TextShape,
    UnionShape,
)

Raw: TypeAlias = Annotated[
    str, msgspec.Meta(extra={"raw": True})
]  # text that is never a template: program code
Fixed: TypeAlias = Annotated[
    str, msgspec.Meta(extra={"fixed": True})
]  # must be known before the run: no template


class Sql(msgspec.Struct, frozen=True):
    """SQL as a tool gets it: pieces of the author's text, and between them the values of its `{{ }}`.

    There is one piece more than there are values. What stands for a value is for the tool to say: `$1`, `?`.
    """

    text: list[str]
    values: list[JSON] = []

    def __post_init__(self) -> None:
        if len(self.text) != len(self.values) + 1:
            raise ValueError("SQL has one piece of text more than it has values")


class Kind(NamedTuple):
    """A tool kind as the reader sees it."""

    name: str
    doc: str
    fields: RecordShape  # the tool's own fields
    knobs: RecordShape  # what it takes under `spec` besides what every tool takes
    free_input: bool = False  # `input` holds the author's own arguments; fields stand beside `kind` (D9)
    pure: bool = False  # no effect on the world
    one_of: tuple[tuple[str, ...], ...] = ()  # of each group exactly one field is given
    defaults: Mapping[str, JSON] = {}  # the lowest layer of `spec`
    output: str | None = None  # its own part of the output: "http" for output.http


Kinds: TypeAlias = Mapping[str, Kind]


def record_of(struct: type[msgspec.Struct], title: str) -> RecordShape:
    """A msgspec struct as a Record: names, types, docs and defaults come from one definition."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    keys = {field.encode_name: _key(field) for field in info.fields}
    return RecordShape(title, (struct.__doc__ or "").strip(), keys)


def _key(field: inspect.Field) -> KeyShape:
    doc, example = "", None
    kind = field.type
    while isinstance(kind, inspect.Metadata):
        extra = kind.extra_json_schema or {}
        doc = doc or extra.get("description", "")
        example = example or next(iter(extra.get("examples", [])), None)
        if kind.extra:
            break  # the mark of Raw and Fixed, which says more than the type inside
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        # Null stands for a field that was left out, whatever the field's type.
        kinds = tuple(each for each in kind.types if not isinstance(each, inspect.NoneType))
        kind = kinds[0] if len(kinds) == 1 else inspect.UnionType(kinds)
    default = None if field.default is msgspec.NODEFAULT else field.default
    return KeyShape(shape_of(kind), doc, field.required, default, example)


def shape_of(kind: inspect.Type) -> Shape:
    """A msgspec type as a Shape. A template may stand for any value of a tool's field."""
    match kind:
        case inspect.Metadata(type=inner, extra=extra):
            return TextShape() if extra else shape_of(inner)
        case inspect.StrType():
            return TextShape(templated=True, statements=True)
        case inspect.BoolType():
            return BooleanShape(templated=True)
        case inspect.IntType(ge=ge):
            return NumberShape(ge, whole=True, templated=True)
        case inspect.FloatType(ge=ge):
            return NumberShape(ge, templated=True)
        case inspect.LiteralType(values=values):
            return ChoiceShape(tuple(str(value) for value in values), templated=True)
        case inspect.NoneType():
            return NullShape()
        case inspect.DictType(value_type=of):
            return UnionShape((MapShape(shape_of(of)), TemplateShape()))
        case inspect.ListType(item_type=of) | inspect.VarTupleType(item_type=of):
            return UnionShape((ListShape(shape_of(of)), TemplateShape()))
        case inspect.StructType(cls=struct) if struct is Sql:
            return TextShape(templated=True, statements=True, sql=True)
        case inspect.StructType(cls=struct):
            return record_of(struct, struct.__name__.lower())
        case inspect.UnionType(types=types):
            return UnionShape(tuple(shape_of(each) for each in types))
        case inspect.AnyType():
            return AnyShape()
    raise AssertionError(f"a tool's field has a type that no shape stands for: {kind}")
