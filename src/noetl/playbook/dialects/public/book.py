"""The document on which the rules work, and the edits that several rules share.

A rule changes the layout and reports what it did. Positions always refer to the author's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from noetl.errors import Related
from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import (
    LayoutEntry,
    Leaf,
    List,
    Map,
    Node,
    comments,
    detach,
    name_leaf,
    pair,
    quoted,
    to_block,
)
from noetl.playbook.dialects.notes import Findings
from noetl.playbook.dialects.parts import StepPart, TaskPart

PAGES = "pages are read by a pipeline with `jump`; see the pagination example of the documentation"
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")


class Book(Struct, eq=False):
    """A document while it is normalised."""

    root: Map
    findings: Findings
    exact: bool = False
    public: bool = False  # an idiom of the public engine was found, so ambiguous names have its meaning
    legacy: bool = False  # the first generation: a step without guards on its targets starts all of them
    local: bool = False  # `executor.profile: local`: the public command line ran it

    def note(self, at: int, code: str, message: str) -> None:
        self.public = True
        self.findings.note(at, code, message)

    def refuse(self, at: int, message: str, fix: str, *, related: tuple[Related, ...] = ()) -> None:
        self.findings.refuse(at, message, fix=fix, related=related)

    def changed(self) -> None:
        """Say that an idiom was translated exactly, which needs no note."""
        self.public = True

    @property
    def steps(self) -> list[StepPart]:
        return [step for step in parts.steps(self.root) if not step.block]

    @property
    def owners(self) -> list[StepPart]:
        """Steps and blocks."""
        return parts.steps(self.root)

    def tasks(self) -> Iterator[tuple[StepPart, TaskPart]]:
        for step in self.owners:
            for task in parts.tasks(step.body):
                yield step, task

    @property
    def step_names(self) -> set[str]:
        return {step.name for step in self.steps}


def is_template(text: str) -> bool:
    return _TEMPLATE.search(text) is not None


def text_of(node: Node | None) -> str | None:
    return node.text if isinstance(node, Leaf) and not node.null and node.style != "*" else None


def text_leaf(text: str, like: Leaf | None = None) -> Leaf:
    """A leaf with new text: a literal block if it has several lines, otherwise in quotes."""
    start = like.start if like is not None else -1
    if "\n" not in text.rstrip("\n") or "\r" in text or any(not (c.isprintable() or c in "\n\t") for c in text):
        made = quoted(text)
        made.start = start
        return made
    bare = text.rstrip("\n")
    ends = len(text) - len(bare)
    chomp = {0: "-", 1: ""}.get(ends, "+")
    first = next(line for line in bare.split("\n") if line.strip())
    mark = "2" if first.startswith(" ") or bare.startswith("\n") else ""
    body = "\n".join("  " + line if line.strip() else line and "  " + line for line in bare.split("\n"))
    raw = f"|{mark}{chomp}\n{body}" + "\n" * (ends - 1 if ends > 1 else 0)
    return Leaf(raw=raw, text=text, style="|", base=0, start=start)


def change_text(entry: LayoutEntry, text: str) -> None:
    """Give an entry new text."""
    old = entry.value if isinstance(entry.value, Leaf) else None
    put(entry, text_leaf(text, old))


def put(entry: LayoutEntry, value: Node) -> None:
    """Replace the value of an entry; the comment on its line stays."""
    tail = entry.tail
    if isinstance(value, Leaf) and value.style in ("|", ">"):
        to_block(entry)
        entry.gap = ": " if entry.key is not None else " "
        if tail.strip():
            entry.lead, entry.tail = [*entry.lead, " " * (entry.base or 0) + tail.strip()], ""
    elif isinstance(value, Leaf):
        above = comments(entry.gap)
        entry.gap = ": " if entry.key is not None else " "
        entry.lead = [*entry.lead, *(" " * (entry.base or 0) + line for line in above)]
    elif not entry.flow:
        above = comments(entry.gap)
        entry.gap = ":" if entry.key is not None else " "
        kept = [*above, *comments(tail)]
        entry.lead, entry.tail = [*entry.lead, *(" " * (entry.base or 0) + line for line in kept)], ""
    entry.value = value


def new(key: str, value: Node, start: int) -> LayoutEntry:
    """A new entry that stands for a part of the author's text."""
    made = pair(key, value)
    made.start = start
    return made


def all_comments(node: Node) -> list[str]:
    """Every comment inside a value."""
    if isinstance(node, Leaf):
        return comments(node.raw.split("\n", 1)[0]) if node.style in ("|", ">") else []
    found = comments(node.open)
    for entry in node.entries:
        found += [text for line in entry.lead for text in comments(line)]
        found += [*comments(entry.glue), *comments(entry.gap), *all_comments(entry.value), *comments(entry.tail)]
        found += [text for line in entry.after for text in comments(line)]
    return [*found, *comments(node.close)]


def discard(group: Map | List, entry: LayoutEntry) -> None:
    """Remove an entry. Its comments, also those inside of it, go to the entry that follows or precedes it."""
    position = next(index for index, each in enumerate(group.entries) if each is entry)
    left = [text for line in entry.lead for text in comments(line)]
    left += [*comments(entry.gap), *all_comments(entry.value), *comments(entry.tail)]
    left += [text for line in entry.after for text in comments(line)]
    if isinstance(group, Map):
        detach(group, entry)
    else:
        group.entries.pop(position)
    if not left or not group.entries:
        return
    near = group.entries[min(position, len(group.entries) - 1)]
    to_block(near)
    lines = [" " * (near.base or 0) + line for line in left]
    if position < len(group.entries):
        near.lead = [*lines, *near.lead]
    else:
        near.after = [*near.after, *lines]


def insert(body: Map, entry: LayoutEntry, *, before: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> None:
    """Insert an entry before the first of some keys, or after the last of others; otherwise at the end."""
    position = body.index(*before) if before else None
    if position is None and after:
        last = [index for index, each in enumerate(body.entries) if each.name in after]
        position = last[-1] + 1 if last else None
    body.entries.insert(len(body.entries) if position is None else position, entry)
    if body.style == "flow":
        entry.flow = False


def move(entry: LayoutEntry, source: Map, target: Map) -> None:
    """Move an entry with its comments to the end of another mapping."""
    detach(source, entry)
    if "#" in entry.glue:
        entry.glue = ""  # its comment has stayed
    target.entries.append(entry)


def child(holder: Map, key: str, start: int) -> Map | None:
    """The mapping under `key`, made if it is missing or null; None if there is something else."""
    entry = holder.entry(key)
    if entry is None:
        made = Map()
        holder.entries.append(new(key, made, start))
        return made
    if parts.is_null(entry.value):
        put(entry, Map())
    return entry.value if isinstance(entry.value, Map) else None


def is_empty(node: Node | None) -> bool:
    return parts.is_null(node) or (isinstance(node, Map | List) and not node.entries)


def constant(node: Node) -> str:
    """A constant as it is written in an expression."""
    assert isinstance(node, Leaf)
    if node.null and not node.style:
        return "none"
    if not node.style and re.fullmatch(r"-?\d+(\.\d+)?|true|false", node.text):
        return node.text
    return "'" + node.text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def scalar(text: str) -> Leaf:
    """New text as a name if possible, otherwise in quotes."""
    return name_leaf(text)
