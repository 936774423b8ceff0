"""The description of a tool kind for the language: its fields, its settings, and how it uses `input`.

Tools describe themselves with msgspec structs, which this module converts to shapes.
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
]  # text that is never a template, such as program code
Fixed: TypeAlias = Annotated[
    str, msgspec.Meta(extra={"fixed": True})
]  # text that must be constant: a template is not allowed


class Sql(msgspec.Struct, frozen=True):
    """SQL as a tool receives it: pieces of the author's text, and between them the values of its `{{ }}`.

    There is one more piece than there are values. The tool chooses the placeholder for values: `$1`, `?`.
    """

    text: list[str]
    values: list[JSON] = []

    def __post_init__(self) -> None:
        if len(self.text) != len(self.values) + 1:
            raise ValueError("SQL must have one more piece of text than values")


class Shell(Sql, frozen=True):
    """A shell script as a tool receives it: the same for the `{{ }}` of a script, except those with `raw_shell`.

    The type of a field is `str | Shell`, because a script without `{{ }}` is text.
    """


class Sandbox(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Restrictions of a program, by Landlock and seccomp. They need Linux 6.2 or newer on the worker."""

    network: Annotated[
        bool, msgspec.Meta(description="allow sockets: network connections, and sockets of other programs")
    ] = False
    writable: Annotated[
        list[str],
        msgspec.Meta(
            description="files and folders that the program may change, relative to the playbook; it may also write to"
            " its temporary folder, `TMPDIR`",
            examples=["[out]"],
        ),
    ] = []


class Kind(NamedTuple):
    """A tool kind, for the reader."""

    name: str
    doc: str
    fields: RecordShape  # the tool's own fields
    knobs: RecordShape  # its own keys under `spec`, in addition to those of every tool
    free_input: bool = False  # `input` contains arguments of the author; fields are beside `kind` (D9)
    pure: bool = False  # it has no side effects
    one_of: tuple[tuple[str, ...], ...] = ()  # groups of fields; exactly one of each group is required
    defaults: Mapping[str, JSON] = {}  # the lowest layer of `spec`
    output: str | None = None  # its own part of the output: "http" for output.http
    output_fields: RecordShape | None = None  # the fields of that part; None: they are not described
    ignores: tuple[str, ...] = ()  # keys of tasks that have no effect on it: "auth", "timeout.read"
    failures: tuple[str, ...] | None = None  # kinds of its own failures; None: they are not described

    @property
    def repeats(self) -> bool:
        """Whether `spec.retry` repeats its calls (D92)."""
        return not self.pure and "retry" not in self.ignores


Kinds: TypeAlias = Mapping[str, Kind]


def record_of(struct: type[msgspec.Struct], title: str) -> RecordShape:
    """A msgspec struct as a RecordShape: names, types, docs and defaults come from one definition."""
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
            break  # the marker of Raw and Fixed takes precedence over the inner type
        kind = kind.type
    nullable = isinstance(kind, inspect.UnionType) and kind.includes_none
    if isinstance(kind, inspect.UnionType):
        # A field of any type may be null, which counts as left out.
        kinds = tuple(each for each in kind.types if not isinstance(each, inspect.NoneType))
        kind = kinds[0] if len(kinds) == 1 else inspect.UnionType(kinds)
    default = None if field.default is msgspec.NODEFAULT else field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    return KeyShape(shape_of(kind), doc, field.required, default, example, nullable)


def shape_of(kind: inspect.Type) -> Shape:
    """A msgspec type as a Shape. Any field of a tool may be a template."""
    match kind:
        case inspect.Metadata(type=inner, extra=extra):
            return TextShape() if extra else shape_of(inner)
        case inspect.StrType():
            return TextShape(templated=True)
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
            return TextShape(templated=True, sql=True)
        case inspect.StructType(cls=struct):
            return record_of(struct, struct.__name__.lower())
        case inspect.UnionType(types=types) if any(getattr(each, "cls", None) is Shell for each in types):
            return TextShape(templated=True, shell=True)
        case inspect.UnionType(types=types):
            return UnionShape(tuple(shape_of(each) for each in types))
        case inspect.AnyType():
            return AnyShape()
    raise AssertionError(f"no shape corresponds to the type of a tool's field: {kind}")
