"""The concrete syntax tree of YAML text, with all white space, quotes and comments of the author.

Unchanged parts are written back byte for byte. Parts can be removed, renamed and moved. The tree does not
depend on the language of playbooks.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct, field

from noetl.errors import Mark
from noetl.playbook.source import resolve

# "auto" is new text: flow style inside flow style, block style elsewhere.
Style: TypeAlias = Literal["block", "flow", "auto"]

NEW = -1  # the offset of a part that was not in the original text
_SAFE = re.compile(r"[A-Za-z_][\w./-]*\Z")
_RESERVED = frozenset({"true", "false", "null"})


class Leaf(Struct, kw_only=True, eq=False):
    """A scalar as it is written. Style: "" is plain, "*" an alias, otherwise the indicator of YAML."""

    raw: str
    text: str  # its value, without quotes and escapes
    style: str = ""
    base: int | None = None  # column of the surrounding lines, by which its further lines are shifted; None: one line
    start: int = NEW

    @property
    def null(self) -> bool:
        return self.style == "" and self.text in ("", "~", "null", "Null", "NULL")


class LayoutEntry(Struct, kw_only=True, eq=False):
    """One entry of a mapping or list, with the text around it."""

    value: Node
    key: Leaf | None = None  # None: an item of a list
    lead: list[str] = field(default_factory=list)  # whole lines above
    glue: str = ""  # flow style: the text before the key
    gap: str = " "  # between the key, or the dash, and the value
    tail: str = ""  # the rest of the line, usually a comment
    after: list[str] = field(default_factory=list)  # comments below that are indented deeper than the next entry
    flow: bool = False  # the text around it has flow style
    inline: bool = True  # a list item whose block starts on the line of the dash
    base: int | None = None  # its original column
    start: int = NEW

    @property
    def name(self) -> str:
        return "" if self.key is None else self.key.text


class Map(Struct, kw_only=True, eq=False):
    entries: list[LayoutEntry] = field(default_factory=list)
    style: Style = "auto"
    open: str = "{"
    close: str = ""  # "": not written yet
    rel: int | None = None  # indentation relative to its parent; None: as in the rest of the document
    base: int | None = None
    anchored: bool = False
    start: int = NEW

    def entry(self, key: str) -> LayoutEntry | None:
        return next((entry for entry in self.entries if entry.name == key), None)

    def get(self, key: str) -> Node | None:
        entry = self.entry(key)
        return None if entry is None else entry.value

    def map(self, key: str) -> Map | None:
        """The mapping under `key`; None if there is none, or a value of another type."""
        value = self.get(key)
        return value if isinstance(value, Map) else None

    def text(self, key: str) -> str | None:
        value = self.get(key)
        return value.text if isinstance(value, Leaf) and not value.null else None

    def index(self, *keys: str) -> int | None:
        """The index of the first of these keys."""
        return next((position for position, entry in enumerate(self.entries) if entry.name in keys), None)

    def take(self, key: str) -> LayoutEntry | None:
        """Remove an entry and return it."""
        position = self.index(key)
        return None if position is None else self.entries.pop(position)


class List(Struct, kw_only=True, eq=False):
    entries: list[LayoutEntry] = field(default_factory=list)
    style: Style = "auto"
    open: str = "["
    close: str = ""
    rel: int | None = None
    base: int | None = None
    anchored: bool = False
    start: int = NEW


Node: TypeAlias = Leaf | Map | List


class Formatting(Struct, frozen=True, kw_only=True):
    """The formatting that the author uses most, for new text."""

    map_indent: int = 2
    list_indent: int = 2
    pad: str = " "  # white space inside braces
    json: bool = False  # flow style only, with all keys in double quotes


class Layout(Struct, kw_only=True):
    """A whole document."""

    text: str
    file: str
    root: Node
    prologue: str = ""
    epilogue: str = ""
    formatting: Formatting = Formatting()
    starts: list[int] = field(default_factory=list)  # offsets of lines; computed on first use

    def mark(self, offset: int) -> Mark:
        """The position of an offset in the original text."""
        if not self.starts:
            self.starts = [0, *(line_end.end() for line_end in re.finditer("\n", self.text))]
        offset = max(offset, 0)
        line = bisect_right(self.starts, offset)
        return Mark(self.file, line, offset - self.starts[line - 1] + 1)


def plain(text: str) -> Leaf:
    return Leaf(raw=text, text=text)


def quoted(text: str) -> Leaf:
    """New text, in the quotes that need the fewest escapes."""
    if '"' in text and "'" not in text and "\n" not in text:
        return Leaf(raw=f"'{text}'", text=text, style="'")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return Leaf(raw=f'"{escaped}"', text=text, style='"')


def name_leaf(text: str) -> Leaf:
    """A name, without quotes if YAML reads it as text."""
    return plain(text) if _SAFE.match(text) and text.lower() not in _RESERVED else quoted(text)


def pair(key: str, value: Node, *, lead: list[str] | None = None, base: int | None = None) -> LayoutEntry:
    gap = ": " if isinstance(value, Leaf) else ":"
    return LayoutEntry(key=name_leaf(key), value=value, gap=gap, lead=lead or [], base=base)


def item(value: Node) -> LayoutEntry:
    return LayoutEntry(value=value)


def table(**values: Node) -> Map:
    return Map(entries=[pair(key, value) for key, value in values.items()])


def rename(entry: LayoutEntry, key: str) -> None:
    """Change the key of an entry, and keep its quotes."""
    assert entry.key is not None
    old = entry.key
    quote = old.style if old.style in ("'", '"') else ""
    entry.key = Leaf(raw=quote + key + quote, text=key, style=quote, base=old.base, start=old.start)


def prefix_key(entry: LayoutEntry, prefix: str) -> None:
    """Put `prefix` before a key, inside its quotes."""
    assert entry.key is not None
    old = entry.key
    raw = old.raw[0] + prefix + old.raw[1:] if old.style in ("'", '"') else prefix + old.raw
    entry.key = Leaf(raw=raw, text=prefix + old.text, style=old.style, base=old.base, start=old.start)


def append_comment(entry: LayoutEntry, comment: str) -> None:
    """Write a comment after an entry, which then needs a line of its own."""
    if comment.strip():
        to_block(entry)
        entry.tail = f"{entry.tail}  {comment.strip()}" if entry.tail.strip() else comment


def to_block(entry: LayoutEntry) -> None:
    """Convert the text around an entry from flow to block style. Comments move above the entry."""
    if entry.flow:
        entry.lead = [*entry.lead, *comments(entry.glue), *comments(entry.gap)]
        entry.gap = " " if entry.key is None else ": "
        entry.flow, entry.glue, entry.base = False, "", None


def set_value(entry: LayoutEntry, value: Node) -> None:
    """Replace the value of an entry. A mapping or list goes below its line; the comment on the line stays."""
    entry.value = value
    if isinstance(value, Leaf) or entry.flow:
        entry.gap = ": "
        return
    entry.gap, entry.tail = ":" + entry.tail, ""


def leaves(value: Node) -> Iterator[Leaf]:
    """All scalars below `value`, except keys."""
    if isinstance(value, Leaf):
        yield value
        return
    for entry in value.entries:
        yield from leaves(entry.value)


def same_content(one: Node, other: Node) -> bool:
    """Do both have the same content, regardless of their layout?"""
    if isinstance(one, Leaf) and isinstance(other, Leaf):
        if one.style in ("|", ">"):
            # The last line break depends on the following text.
            return one.style == other.style and one.text.rstrip("\n") == other.text.rstrip("\n")
        return _meaning(one) == _meaning(other)
    if isinstance(one, Leaf) or isinstance(other, Leaf) or isinstance(one, Map) != isinstance(other, Map):
        return False
    pairs = zip(one.entries, other.entries, strict=False)
    return len(one.entries) == len(other.entries) and all(
        left.name == right.name and same_content(left.value, right.value) for left, right in pairs
    )


def _meaning(leaf: Leaf) -> tuple[object, bool]:
    value = resolve(leaf.text) if leaf.style == "" else leaf.raw if leaf.style == "*" else leaf.text
    return value, isinstance(value, bool)  # 1 is not true


def detach(group: Map, entry: LayoutEntry) -> None:
    """Remove an entry, but keep the comments before it in flow style."""
    position = group.entries.index(entry)
    group.entries.pop(position)
    if not entry.flow or "#" not in entry.glue:
        return
    if position < len(group.entries):
        following = group.entries[position]
        following.glue = entry.glue + following.glue.replace(",", "", 1)
    else:
        group.close = entry.glue.replace(",", "", 1) + group.close


def drop(group: Map, entry: LayoutEntry) -> None:
    """Remove an entry, and attach its comments to the next or the preceding entry."""
    position = group.entries.index(entry)
    detach(group, entry)
    above = [line.strip() for line in entry.lead if line.strip()]
    left = [*above, *comments(entry.gap), *comments(entry.tail), *(line.strip() for line in entry.after)]
    near = group.entries[min(position, len(group.entries) - 1)] if group.entries else None
    if not left or near is None:
        return
    to_block(near)
    lines = [" " * (near.base or 0) + line for line in left]
    if position < len(group.entries):
        blank = [line for line in near.lead[:1] if not line.strip()]
        near.lead = [*blank, *lines, *near.lead[len(blank) :]]
    else:
        near.after = [*near.after, *lines]


def comments(glue: str) -> list[str]:
    """The comments in the text between two values in flow style."""
    return [line[line.index("#") :].rstrip() for line in glue.split("\n") if "#" in line]
