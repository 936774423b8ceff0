"""Notes of a migration as comments in the text, each on the line above what it is about."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from noetl.playbook.dialects.layout import Entry, Layout, Leaf, List, Map
from noetl.playbook.dialects.notes import Note
from noetl.playbook.dialects.writing import stands_in_lines

SIGN = "# migrate: "


def annotate(layout: Layout, notes: list[Note]) -> None:
    """Put each note above the entry that stood nearest before it, unless it is there already."""
    root = layout.root
    if not isinstance(root, Map) or not stands_in_lines(root):
        return
    first: dict[int, Entry] = {}
    for entry in _entries(root):
        if entry.start >= 0:
            first.setdefault(layout.mark(entry.start).line, entry)
    lines = sorted(first)
    there: dict[int, set[str]] = {}  # by the offset of the entry
    for note in notes:
        place = bisect_right(lines, note.at.line)
        entry = first[lines[place - 1]] if place else root.entries[0]
        comment = SIGN + note.message
        if entry.start not in there:
            there[entry.start] = {above.strip() for above in entry.lead}
        if comment not in there[entry.start]:
            there[entry.start].add(comment)
            entry.lead.append(" " * (entry.base or 0) + comment)


def _entries(group: Map | List) -> Iterator[Entry]:
    """Entries that stand in lines, outermost first."""
    for entry in group.entries:
        yield entry
        if not isinstance(entry.value, Leaf) and stands_in_lines(entry.value):
            yield from _entries(entry.value)
