"""The documentation of a tool kind for screen, server and docs, from the structs that describe it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from noetl.output import JSON
from noetl.playbook.kinds import Kind
from noetl.playbook.shapes import (
    AnyShape,
    ChoiceShape,
    KeyShape,
    KindShape,
    ListShape,
    MapShape,
    NullShape,
    RecordShape,
    Shape,
    UnionShape,
    describe,
)

TEMPLATE = "a template"
PLURALS = {"a name": "names", "text": "texts", "a whole number": "whole numbers"}


class FieldDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A field or a knob."""

    name: str
    value: str  # the allowed values
    meaning: str
    required: bool = False
    default: JSON = None  # None: there is none
    example: str | None = None


class KindDocument(Struct, frozen=True, kw_only=True):
    """A kind, with everything that an author must know about it."""

    kind: str
    doc: str
    fields: tuple[FieldDocument, ...]
    knobs: tuple[FieldDocument, ...]
    notes: tuple[str, ...]
    example: str  # a task in YAML; empty: there is none
    output: tuple[FieldDocument, ...] = ()  # the fields of its own part of the output, as templates read them


def kind_document(kind: Kind, example: str) -> KindDocument:
    return KindDocument(
        kind=kind.name,
        doc=unfolded(kind.doc),
        fields=tuple(_fields(kind.fields.keys)),
        knobs=tuple(_fields(kind.knobs.keys)),
        notes=tuple(sentences(kind)),
        example=example,
        output=tuple(output_fields(kind)),
    )


def output_fields(kind: Kind) -> Iterator[FieldDocument]:
    """The fields of the kind's own part of the output, as templates read them."""
    if kind.output_fields is None:
        return
    for name, key in kind.output_fields.keys.items():
        values = [words for words in alternatives(key.shape, mapping) if words != TEMPLATE]
        if key.nullable:
            values.append("null")
        yield FieldDocument(
            name=f"output.{kind.output}.{name}", value=" or ".join(dict.fromkeys(values)), meaning=key.doc
        )


def _fields(keys: Mapping[str, KeyShape]) -> Iterator[FieldDocument]:
    for name, key in keys.items():
        yield FieldDocument(
            name=name,
            value=" or ".join(dict.fromkeys(alternatives(key.shape, mapping))),
            meaning=key.doc,
            required=key.required,
            default=key.default,
            example=key.example,
        )


def alternatives(shape: Shape, record: Callable[[Shape], str]) -> Iterator[str]:
    """The allowed values, in words, a template last; `record` describes a mapping with known keys."""
    match shape:
        case RecordShape() | KindShape():
            yield record(shape)
        case ListShape(of) if not isinstance(of, AnyShape):
            words = next(alternatives(of, record))
            yield f"a list of {PLURALS.get(words, words)}"
        case MapShape(of) if not isinstance(of, AnyShape):
            yield f"a mapping of names to {' or '.join(dict.fromkeys(alternatives(of, record)))}"
        case UnionShape(shapes):
            found = [words for each in shapes for words in alternatives(each, record)]
            yield from sorted(found, key=TEMPLATE.__eq__)
        case ChoiceShape(values):
            yield "one of " + ", ".join(f"`{value}`" for value in values)
        case NullShape():
            return
        case _:
            yield describe(shape).removesuffix(f" or {TEMPLATE}")
    if getattr(shape, "templated", False) and not getattr(shape, "sql", False):
        yield TEMPLATE


def mapping(shape: Shape) -> str:
    """A mapping, described by its keys."""
    if not isinstance(shape, RecordShape):
        return describe(shape)
    return "a mapping with " + ", ".join(f"`{key}`" for key in shape.keys)


def summary_of(doc: str) -> str:
    """The first sentence of a description."""
    return doc.partition("\n\n")[0].partition(". ")[0].removesuffix(".")


def unfolded(doc: str) -> str:
    """A docstring without the line breaks and the indentation of its source; paragraphs stay."""
    paragraphs = (" ".join(part.split()) for part in doc.split("\n\n"))
    return "\n\n".join(paragraphs)


def sentences(kind: Kind) -> Iterator[str]:
    """Notes that the tables of fields do not contain."""
    if kind.free_input:
        own = "Its fields are beside `kind`" if kind.fields.keys else "It has no fields of its own"
        yield f"{own}; `input` holds your own arguments (D9)."
    elif "name" in kind.fields.keys:
        yield "Its `name` is under `input`: beside `kind` it would be the name of the task."
    else:
        yield "Its fields are under `input` or beside `kind` (D9)."
    for group in kind.one_of:
        yield f"Exactly one of {' and '.join(f'`{name}`' for name in group)} is required."
    if kind.output:
        yield f"Its own part of the output is `output.{kind.output}`."
    if kind.pure:
        yield "It has no side effects."
    if kind.defaults:
        words = ", ".join(f"`{name}: {as_text(value)}`" for name, value in kind.defaults.items())
        yield f"Defaults of its `spec`: {words}."


def as_text(value: JSON) -> str:
    """A text as it is, everything else as short JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
