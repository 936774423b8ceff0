"""Writes a Layout as YAML text. Unchanged parts stay byte for byte, and moved parts are indented again."""

from __future__ import annotations

import re

from noetl.playbook.dialects.layout.tree import (
    NEW,
    Formatting,
    Layout,
    LayoutEntry,
    Leaf,
    List,
    Map,
    Node,
    comments,
    to_block,
)

_JSON_VALUE = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def write(layout: Layout) -> str:
    writer = _Writer(layout.formatting)
    root = layout.root
    if isinstance(root, Leaf):
        body = root.raw
    elif not is_block(root):
        body = writer.flow_text(root)
    else:
        body = "\n".join(writer.lines(root, root.base or 0))[root.base or 0 :]
    return layout.prologue + body + layout.epilogue


def shift(text: str, by: int) -> str:
    """Indent all lines except the first by `by` columns."""
    if by == 0 or "\n" not in text:
        return text
    first, *rest = text.split("\n")
    return "\n".join([first, *(shift_line(line, by) for line in rest)])


def shift_line(line: str, by: int) -> str:
    if line in ("", "\r"):
        return line
    if by >= 0:
        return " " * by + line
    return line[min(-by, len(line) - len(line.lstrip(" "))) :]


def is_block(group: Map | List) -> bool:
    """Are its entries written in block style, not in flow style?"""
    return bool(group.entries) and (group.style != "flow" or _needs_lines(group))


class _Writer:
    def __init__(self, formatting: Formatting) -> None:
        self.formatting = formatting

    def lines(self, group: Map | List, column: int) -> list[str]:
        """The lines of a group in block style, with their indentation."""
        made: list[str] = []
        for entry in self.block_entries(group):
            lead, body = self.entry(entry, column)
            made += [*lead, body, *_moved(entry.after, entry, column)]
        return made

    def entry(self, entry: LayoutEntry, column: int) -> tuple[list[str], str]:
        """The lines above an entry, and the entry."""
        delta = _delta(entry, column)
        lead = _moved(entry.lead, entry, column)
        head = " " * column + ("-" if entry.key is None else entry.key.raw)
        value = entry.value
        if isinstance(value, Leaf) or not is_block(value):
            text = value.raw if isinstance(value, Leaf) else self.flow_text(value)
            text = shift(text, 0 if value.base is None else column - value.base)
            gap = entry.gap + " " if text and entry.gap in (":", "") else entry.gap
            # The last line of the gap is the indentation of the value, which is shifted although it is blank.
            return lead, head + shift(gap + "x", delta)[:-1] + text + entry.tail
        gap = entry.gap if "\n" not in entry.gap else ":"
        if value.style == "flow" and (anchor := value.open[:-1].strip()):
            gap = f"{gap.rstrip()} {anchor}"
        if entry.key is None and entry.inline:
            inner = column + 1 + len(gap)
            first, *rest = self.block_entries(value)
            above, body = self.entry(first, inner)
            below = _moved(first.after, first, inner)
            others = self.lines(_like(value, rest), inner)
            # Lines above the first entry cannot be written after the dash.
            lead += [shift_line(line, column - inner) for line in above]
            lead += [" " * column + entry.tail.strip()] if entry.tail.strip() else []
            return lead, "\n".join([head + gap + body[inner:], *below, *others])
        rel = value.rel
        if rel is None or value.style != "block":
            rel = self.formatting.map_indent if isinstance(value, Map) else self.formatting.list_indent
        if entry.key is None:
            rel = max(rel, 1)
        line = head + (gap if value.style == "block" else gap.rstrip()) + entry.tail
        return lead, "\n".join([line, *self.lines(value, column + rel)])

    def block_entries(self, group: Map | List) -> list[LayoutEntry]:
        """The entries of a group, converted to block style."""
        for entry in group.entries:
            to_block(entry)
        if group.style == "flow" and (left := comments(group.close)):
            group.entries[-1].after, group.close = left, ""
        return group.entries

    def flow_text(self, group: Map | List) -> str:
        pad = self.pad(group)
        made = group.open
        for position, entry in enumerate(group.entries):
            glue = _separated(entry.glue, position, pad) if entry.flow else ("," + (pad or " ") if position else pad)
            value = self.leaf(entry.value) if isinstance(entry.value, Leaf) else self.flow_text(entry.value)
            if entry.key is None:
                made += glue + value
                continue
            gap = entry.gap if entry.flow and (":" in entry.gap or not value) else ": "
            made += glue + self.leaf(entry.key) + gap + value
        close = group.close or (pad if "\n" not in pad else "") + ("}" if isinstance(group, Map) else "]")
        return made + (close if group.open else "")

    def leaf(self, leaf: Leaf) -> str:
        """A scalar in flow style. New texts in a JSON document get quotes."""
        if not self.formatting.json or leaf.style in ("'", '"') or leaf.start != NEW:
            return leaf.raw
        return leaf.raw if _JSON_VALUE.fullmatch(leaf.raw) else f'"{leaf.raw}"'

    def pad(self, group: Map | List) -> str:
        """The white space between a brace and the first entry."""
        if not group.entries:
            return ""
        existing = next((e.glue for e in group.entries if e.flow and not e.glue.strip()), None)
        if existing is not None:
            return existing
        return self.formatting.pad if isinstance(group, Map) else ""


def _needs_lines(value: Node) -> bool:
    """Does it contain a part that is not possible in flow style: a block, a block scalar, a comment?"""
    if isinstance(value, Leaf):
        return value.style in ("|", ">")
    if value.style == "block" and value.entries:
        return True
    return any(
        _needs_lines(entry.value)
        or (not entry.flow and any("#" in text for text in (*entry.lead, *entry.after, entry.tail, entry.gap)))
        for entry in value.entries
    )


def _moved(lines: list[str], entry: LayoutEntry, column: int) -> list[str]:
    """The lines around an entry, indented for its new column."""
    if entry.base is None:
        return [" " * column + line.strip() if line.strip() else line for line in lines]
    return [shift_line(line, column - entry.base) for line in lines]


def _separated(glue: str, position: int, pad: str) -> str:
    """The text before an entry in flow style, with a comma if its new position needs one."""
    comma = glue.lstrip().startswith(",")
    if position == 0:
        return pad if comma and "#" not in glue else glue.replace(",", "", 1) if comma else glue
    return glue if comma else "," + (glue or " ")


def _delta(entry: LayoutEntry, column: int) -> int:
    return 0 if entry.base is None else column - entry.base


def _like(group: Map | List, entries: list[LayoutEntry]) -> Map | List:
    return Map(entries=entries) if isinstance(group, Map) else List(entries=entries)
