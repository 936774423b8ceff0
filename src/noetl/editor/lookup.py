"""The part of the language table that applies at a path: allowed keys, allowed values, documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from noetl.editor.cursor import Cursor
from noetl.playbook.kinds import Kinds
from noetl.playbook.language import language
from noetl.playbook.shapes import (
    KeyShape,
    KindShape,
    ListShape,
    MapShape,
    RecordShape,
    ReservedShape,
    Shape,
    UnionShape,
    describe,
)
from noetl.playbook.source import Path
from noetl.template.limits import json_text


class Lookup:
    """Looks up paths in the language of the installed tools."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.root = language(kinds)

    def shapes(self, path: Path, cursor: Cursor) -> list[Shape]:
        """What the value at `path` may be. The keys around the cursor decide between kinds."""
        found = _expanded(self.root, cursor.keys_at(0))
        for depth, part in enumerate(path, 1):
            keys = cursor.keys_at(depth)
            found = [each for shape in found for inner in _inside(shape, part) for each in _expanded(inner, keys)]
        return found

    def keys(self, path: Path, cursor: Cursor) -> dict[str, KeyShape]:
        """The keys that the mapping at `path` may have."""
        records = [shape for shape in self.shapes(path, cursor) if isinstance(shape, RecordShape)]
        return {
            name: key
            for record in reversed(records)
            for name, key in record.keys.items()
            if not isinstance(key.shape, ReservedShape)
        }

    def key(self, path: Path, cursor: Cursor) -> KeyShape | None:
        """The key that `path` ends with."""
        return self.keys(path[:-1], cursor).get(str(path[-1])) if path else None

    def kind_shape(self, path: Path, cursor: Cursor) -> KindShape | None:
        """The mapping at `path`, if its keys depend on its `kind`."""
        shapes = (
            [inner for shape in self.shapes(path[:-1], cursor) for inner in _inside(shape, path[-1])] if path else []
        )
        return next((each for shape in shapes for each in _options(shape) if isinstance(each, KindShape)), None)


def _options(shape: Shape) -> Iterator[Shape]:
    if isinstance(shape, UnionShape):
        for each in shape.shapes:
            yield from _options(each)
    else:
        yield shape


def _expanded(shape: Shape, keys: Mapping[str, str]) -> list[Shape]:
    """The shapes without unions and kinds: one of them describes a mapping with these keys."""
    found: list[Shape] = []
    for each in _options(shape):
        if not isinstance(each, KindShape):
            found.append(each)
        elif keys.get("kind") in each.kinds:
            found.append(each.kinds[keys["kind"]])
        elif other := next((name for name in each.others if name in keys), None):
            found.append(each.others[other])
        else:
            found += [each.unknown, *each.others.values()]
    return found


def _inside(shape: Shape, part: str | int) -> Iterator[Shape]:
    match shape:
        case RecordShape() if isinstance(part, str):
            if part in shape.keys:
                yield shape.keys[part].shape
            elif shape.extra is not None:
                yield shape.extra
        case MapShape(of) if isinstance(part, str):
            yield of
        case ListShape(of) if isinstance(part, int):
            yield of


def key_text(name: str, key: KeyShape) -> str:
    """The documentation of a key, as Markdown."""
    facts = [describe(key.shape)]
    if key.required:
        facts.append("required")
    if key.default is not None:
        facts.append(f"default `{json_text(key.default)}`")
    example = f"\n\nExample: `{name}: {key.example}`" if key.example else ""
    return f"**{name}**: {key.doc}\n\n{'; '.join(facts)}{example}"
