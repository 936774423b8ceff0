"""Maps positions in a written layout back to the text that the author wrote."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from noetl.errors import Mark
from noetl.playbook.dialects.layout.tree import Layout, Leaf, Node


class Origin(NamedTuple):
    """A part begins at this line and column of the new text, and at `at` of the author's text."""

    line: int
    column: int
    at: Mark
    exact: bool = False  # its text is unchanged, so columns inside of it are the same


def origins(before: Layout, after: Layout) -> tuple[Origin, ...]:
    """The origins of all parts, in the order of the new text. Both layouts have the same structure."""
    made = []
    for new, old, exact in _pairs(before.root, after.root, max(0, _start(before.root))):
        place = after.mark(new)
        made.append(Origin(place.line, place.column, before.mark(old), exact))
    return tuple(sorted(made, key=lambda each: each[:2]))


def author_mark(places: tuple[Origin, ...], at: Mark) -> Mark:
    """The position in the author's text of a position in the new one."""
    position = bisect_right(places, (at.line, at.column), key=lambda each: each[:2])
    if not position:
        return Mark(at.file, 1, 1)
    found = places[position - 1]
    inside = at.column - found.column if found.exact and at.line == found.line else 0
    return Mark(at.file, found.at.line, found.at.column + inside)


def _start(node: Node) -> int:
    return node.start


def _pairs(old: Node, new: Node, near: int) -> Iterator[tuple[int, int, bool]]:
    """(offset in the new text, offset in the author's text, unchanged). New parts have the place of their holder."""
    if isinstance(old, Leaf) or isinstance(new, Leaf):
        if isinstance(old, Leaf) and isinstance(new, Leaf):
            yield new.start, old.start if old.start >= 0 else near, old.start >= 0 and old.raw == new.raw
        return
    here = old.start if old.start >= 0 else near
    for mine, theirs in zip(old.entries, new.entries, strict=False):
        at = mine.start if mine.start >= 0 else here
        yield theirs.start, at, False
        yield from _pairs(mine.value, theirs.value, at)
