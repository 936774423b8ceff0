"""No comment of the author is lost: what a rule dropped with its part is written above the part that is nearest."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, List, Map, Node, comments
from noetl.playbook.dialects.layout.writer import is_block


def placed(node: Node, start: int = 0) -> list[tuple[int, str]]:
    """All comments of a tree, each with the position of the entry to which it belongs."""
    if isinstance(node, Leaf):
        head = node.raw.split("\n", 1)[0] if node.style in ("|", ">") else ""
        return [(start, text) for text in comments(head)]
    found = [(start, text) for text in comments(node.open)]
    for entry in node.entries:
        at = entry.start if entry.start >= 0 else start
        around = [*entry.lead, entry.glue, entry.gap]
        found += [(at, text) for line in around for text in comments(line)]
        found += placed(entry.value, at)
        found += [(at, text) for line in [entry.tail, *entry.after] for text in comments(line)]
    return [*found, *((start, text) for text in comments(node.close))]


def restore(root: Map, before: list[tuple[int, str]]) -> None:
    """Write the comments that are missing now."""
    have = Counter(text for _, text in placed(root))
    missing: list[tuple[int, str]] = []
    for at, text in before:
        if have[text] > 0:
            have[text] -= 1
        else:
            missing.append((at, text))
    if not missing or not is_block(root):
        return
    entries = sorted((entry for entry in _lines(root) if entry.start >= 0), key=lambda entry: entry.start)
    starts = [entry.start for entry in entries]
    for at, text in missing:
        position = bisect_right(starts, at)
        entry = entries[max(position - 1, 0)] if entries else root.entries[0]
        entry.lead = [*entry.lead, " " * (entry.base or 0) + text]


def _lines(group: Map | List) -> list[LayoutEntry]:
    """The entries that begin a line."""
    found: list[LayoutEntry] = []
    for entry in group.entries:
        found.append(entry)
        if not isinstance(entry.value, Leaf) and is_block(entry.value):
            found += _lines(entry.value)
    return found
