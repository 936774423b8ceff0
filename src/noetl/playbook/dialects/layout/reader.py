"""Reads YAML text into a Layout, from the positions of PyYAML's events.

`noetl.playbook.source` has parsed the text before: it is valid and within the limits, and its keys are text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import yaml

from noetl.playbook.dialects.layout.tree import Formatting, Layout, LayoutEntry, Leaf, List, Map, Node

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BETWEEN = re.compile(r"(?:\s|#[^\n]*)*")
_BLANK_END = re.compile(r"(?:\n[ \t]*)+\Z")
_BLANK_LINE = re.compile(r"\n([ \t]*)")


def read(text: str, file: str) -> Layout | None:
    """None if the text has no value, or a layout that is not supported (`? key`)."""
    reader = _Reader(text)
    try:
        root = reader.document()
    except _Strange:
        return None
    if root is None:
        return None
    formatting = _formatting(root)
    return Layout(
        text=text, file=file, root=root, prologue=reader.prologue, epilogue=reader.epilogue, formatting=formatting
    )


class _Strange(Exception):
    """A layout that this reader does not support."""


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.events: Iterator[yaml.Event] = iter(yaml.parse(text, Loader=_LOADER))
        self.pos = 0  # the end of the text that has been read
        self.last: LayoutEntry | None = None  # the entry whose line has not been read completely
        self.prologue = ""
        self.epilogue = ""

    def document(self) -> Node | None:
        for event in self.events:
            if isinstance(event, yaml.NodeEvent):
                break
        else:
            return None
        if _is_block(event):
            group, self.prologue = self.block(event)
            tail, newline, rest = self.text[self.pos :].partition("\n")
            if self.last is not None:
                self.last.tail = tail
            self.epilogue = newline + rest
            return group
        self.prologue = self.text[: _start(event)]
        root = self.inside(event, 0)
        self.epilogue = self.text[self.pos :]
        return root

    def block(self, event: yaml.Event) -> tuple[Map | List, str]:
        """A mapping or list in block style, and the text before its first entry."""
        group: Map | List = List(style="block") if isinstance(event, yaml.SequenceStartEvent) else Map(style="block")
        group.anchored = getattr(event, "anchor", None) is not None
        before = ""
        for first in self.events:
            if isinstance(first, yaml.CollectionEndEvent):
                break
            start = self.dash(event, not group.entries) if isinstance(group, List) else _start(first)
            between, column = self.text[self.pos : start], start - (self.text.rfind("\n", 0, start) + 1)
            if group.base is None:
                before, group.base, group.start = between, column, start
                lead: list[str] = []
            else:
                lead = self.close(between, group.entries[-1], group.base)
            self.pos = start + 1
            entry = LayoutEntry(value=Leaf(raw="", text=""), lead=lead, base=column, start=start)
            if isinstance(group, Map):
                entry.key = self.leaf(first, column)
            self.fill(entry, first if isinstance(group, List) else next(self.events), column)
            group.entries.append(entry)
        return group, before

    def dash(self, event: yaml.Event, first: bool) -> int:
        """The offset of the dash of the next item."""
        start = self.pos
        if first:
            anchor: str | None = getattr(event, "anchor", None)
            start = _start(event) + (0 if anchor is None else len(anchor) + 1)
        match = _BETWEEN.match(self.text, start)
        if match is None or self.text[match.end() : match.end() + 1] != "-":
            raise _Strange
        return match.end()

    def close(self, between: str, previous: LayoutEntry, column: int) -> list[str]:
        """End the line of the last entry. Comments deeper than `column` belong to the preceding entry."""
        tail, _, rest = between.partition("\n")
        if self.last is not None:
            self.last.tail, self.last = tail, None
        lines = rest.split("\n")[:-1]
        deeper = [
            position
            for position, line in enumerate(lines)
            if line.lstrip().startswith("#") and len(line) - len(line.lstrip()) > column
        ]
        cut = deeper[-1] + 1 if deeper else 0
        previous.after = lines[:cut]
        return lines[cut:]

    def fill(self, entry: LayoutEntry, event: yaml.Event, column: int) -> None:
        """Read the value of an entry in block style."""
        if not _is_block(event):
            entry.gap = self.text[self.pos : _start(event)]
            entry.value = self.inside(event, column)
            self.last = entry
            return
        group, before = self.block(event)
        line, newline, rest = before.partition("\n")
        entry.gap, entry.inline, entry.value = line, not newline, group
        group.rel = (group.base or 0) - column
        if newline:
            group.entries[0].lead = rest.split("\n")[:-1]

    def inside(self, event: yaml.Event, base: int) -> Node:
        """A scalar or a flow collection. `base` is the column of the surrounding lines."""
        if isinstance(event, yaml.ScalarEvent | yaml.AliasEvent):
            return self.leaf(event, base)
        group: Map | List
        if isinstance(event, yaml.SequenceStartEvent):
            group = List(style="flow", base=base, start=_start(event))
        else:
            group = Map(style="flow", base=base, start=_start(event))
        group.anchored = getattr(event, "anchor", None) is not None
        bare = self.text[group.start] not in "{[&"  # a single pair such as `[a: b]`
        opened = group.start if bare else self.text.index(group.open, group.start) + 1
        group.open, self.pos = self.text[group.start : opened], opened
        for first in self.events:
            if isinstance(first, yaml.CollectionEndEvent):
                end = self.pos if bare else _end(first)
                group.close, self.pos = self.text[self.pos : end], end
                break
            start = _start(first)
            entry = LayoutEntry(
                value=Leaf(raw="", text=""), glue=self.text[self.pos : start], gap="", flow=True, start=start
            )
            self.pos = start
            if isinstance(group, Map):
                entry.key = self.leaf(first, base)
                first = next(self.events)
                entry.gap = self.text[self.pos : _start(first)]
            entry.value = self.inside(first, base)
            group.entries.append(entry)
        return group

    def leaf(self, event: yaml.Event, base: int) -> Leaf:
        start, end = _start(event), _end(event)
        if isinstance(event, yaml.AliasEvent):
            self.pos = end
            return Leaf(raw=self.text[start:end], text="", style="*", base=base, start=start)
        if not isinstance(event, yaml.ScalarEvent):
            raise _Strange
        style = event.style or ""
        raw = self.text[start:end]
        if style in ("|", ">"):
            # Blank lines after the scalar belong to the layout, unless "|+" makes them part of the value.
            keep = "+" in raw.split("\n", 1)[0].split("#", 1)[0]
            raw = raw.removesuffix("\n") if keep else _without_blank_end(raw)
        self.pos = start + len(raw)
        return Leaf(raw=raw, text=event.value, style=style, base=base, start=start)


def _without_blank_end(raw: str) -> str:
    """A block scalar without its last blank lines. Lines that are deeper than its indentation are part of the value."""
    text = _BLANK_END.sub("", raw)
    first = next((line for line in text.split("\n")[1:] if line.strip(" ")), "")
    indent = len(first) - len(first.lstrip(" "))
    end = len(text)
    for blank in _BLANK_LINE.finditer(raw, len(text)):
        if first and len(blank.group(1)) > indent:
            end = blank.end()
    return raw[:end]


def _start(event: yaml.Event) -> int:
    assert event.start_mark is not None
    return event.start_mark.index


def _end(event: yaml.Event) -> int:
    assert event.end_mark is not None
    return event.end_mark.index


def _is_block(event: yaml.Event) -> bool:
    return isinstance(event, yaml.CollectionStartEvent) and not event.flow_style


def _formatting(root: Node) -> Formatting:
    """The formatting that the author uses most."""
    maps: Counter[int] = Counter()
    lists: Counter[int] = Counter()
    pads: Counter[str] = Counter()
    json = isinstance(root, Map) and root.style == "flow"
    waiting: list[Node] = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Leaf):
            continue
        if isinstance(value, Map) and value.style == "flow" and value.entries:
            pads[" " if value.entries[0].glue else ""] += 1
        for entry in value.entries:
            waiting.append(entry.value)
            json = json and (entry.key is None or entry.key.style == '"')
            if entry.key is not None and isinstance(entry.value, Map | List) and entry.value.rel is not None:
                (maps if isinstance(entry.value, Map) else lists)[entry.value.rel] += 1
    pad = pads.most_common(1)[0][0] if pads else " "
    return Formatting(map_indent=_most(maps, 2), list_indent=_most(lists, 2), pad=pad, json=json)


def _most(counter: Counter[int], default: int) -> int:
    return counter.most_common(1)[0][0] if counter else default
