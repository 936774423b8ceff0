"""Reads a text again after an edit inside one step: the other steps, their trees and their models are kept.

The result is that of `read`, which handles all unusual texts itself: those with anchors, or problems in another step.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from msgspec.structs import replace

from noetl.playbook import source
from noetl.playbook.kinds import Kinds
from noetl.playbook.problems import CODES
from noetl.playbook.reader import ReadResult, read_step
from noetl.playbook.source import (
    TEXT_BYTES_MAX,
    VALUES_MAX,
    Document,
    Mapping,
    Scalar,
    Sequence,
    ShiftedItems,
    Tree,
    shifted,
)
from noetl.playbook.validation import ProblemReport

_HEAD: Final = "workflow:\n"  # puts a step at the depth that it has in the whole text
_DASH: Final = re.compile(r" *- +\Z")
_ANCHOR: Final = re.compile(r"(?:^|[\s\[{,])[&*][A-Za-z0-9_]")


class _Span(NamedTuple):
    """The lines of a step."""

    place: int
    start: int
    end: int


def reread(old: ReadResult, text: str, kinds: Kinds) -> ReadResult | None:
    """The result of `read` for another text; None: it has to be read as a whole."""
    document, playbook = old.document, old.playbook
    root = document.root
    workflow = root.entries.get("workflow") if isinstance(root, Mapping) else None
    if playbook is None or not isinstance(root, Mapping) or not isinstance(workflow, Sequence):
        return None
    span = _edited_step(document.text, text, root, workflow)
    if span is None or len(playbook.steps) != len(workflow.items) or not _is_plain(old, span, text):
        return None
    delta = len(text) - len(document.text)
    step = _step_tree(text[span.start : span.end + delta], span.start)
    values = document.values + (_values(step) - _values(workflow.items[span.place]) if step is not None else 0)
    if step is None or values > VALUES_MAX or len(text.encode("utf-8", "surrogatepass")) > TEXT_BYTES_MAX:
        return None
    made = Document(document.file, text, _root(root, workflow, span, step, delta), source.lines_of(text), values)
    report = ProblemReport(made)
    model = read_step(made, kinds, report, span.place)
    if model is None:
        return None
    steps = (*playbook.steps[: span.place], model, *playbook.steps[span.place + 1 :])
    if len({each.name for each in steps}) < len(steps):
        return None
    return ReadResult(made, replace(playbook, steps=steps), report.problems)


def _is_plain(old: ReadResult, span: _Span, text: str) -> bool:
    """No anchors, and no problems outside of the step."""
    first, last = (old.document.mark(offset).line for offset in (span.start, max(span.start, span.end - 1)))
    # A problem of the YAML may have removed a value from the tree, so that the values cannot be counted.
    inside = all(first <= each.line <= last and CODES[each.code].level != "L1" for each in old.problems)
    anchors = ("&" in text or "*" in text) and _ANCHOR.search(text) is not None
    return inside and not anchors and not text.startswith("\ufeff")


def _edited_step(old: str, new: str, root: Mapping, workflow: Sequence) -> _Span | None:
    """The step that contains all differences."""
    begin = _common(old, new)
    end = len(old) - _common(old[begin:][::-1], new[begin:][::-1])
    after = [at for at in root.keys.values() if at > workflow.start]
    starts = [old.rfind("\n", 0, _start(workflow, place)) + 1 for place in range(len(workflow.items))]
    ends = [*starts[1:], min(after, default=len(old))]
    for place in range(len(starts)):
        if starts[place] < begin and end <= ends[place]:
            prefix = old[starts[place] : _start(workflow, place)]
            whole = end < ends[place] or ends[place] == len(old)
            return _Span(place, starts[place], ends[place]) if whole and _DASH.match(prefix) else None
    return None


def _start(workflow: Sequence, place: int) -> int:
    items = workflow.items
    if isinstance(items, ShiftedItems):
        return items.raw(place).start + items.deltas[place]
    return items[place].start


def _common(one: str, other: str) -> int:
    """The length of the common beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _step_tree(chunk: str, start: int) -> Tree | None:
    """The tree of one step, with offsets in the whole text."""
    parsed = source.parse(_HEAD + chunk)
    root = parsed.document.root
    if parsed.problems or not isinstance(root, Mapping) or len(root.entries) != 1:
        return None
    steps = root.entries["workflow"]
    if not isinstance(steps, Sequence) or len(steps.items) != 1 or not isinstance(steps.items[0], Mapping):
        return None
    return shifted(steps.items[0], start - len(_HEAD))


def _root(root: Mapping, workflow: Sequence, span: _Span, step: Tree, delta: int) -> Mapping:
    items = workflow.items
    trees = [items.raw(place) for place in range(len(items))] if isinstance(items, ShiftedItems) else list(items)
    deltas = list(items.deltas) if isinstance(items, ShiftedItems) else [0] * len(trees)
    trees[span.place], deltas[span.place] = step, 0
    for place in range(span.place + 1, len(trees)):
        deltas[place] += delta
    entries: dict[str, Tree] = {}
    for key, tree in root.entries.items():
        entries[key] = tree if root.keys[key] < span.end else shifted(tree, delta)
    entries["workflow"] = Sequence(ShiftedItems(trees, deltas), workflow.start)
    keys = {key: at if at < span.end else at + delta for key, at in root.keys.items()}
    return Mapping(entries, keys, root.start)


def _values(tree: Tree) -> int:
    """How many values count towards the limit: keys count, too."""
    match tree:
        case Scalar():
            return 1
        case Sequence(items):
            return 1 + sum(map(_values, items))
        case Mapping(entries):
            return 1 + len(entries) + sum(map(_values, entries.values()))
