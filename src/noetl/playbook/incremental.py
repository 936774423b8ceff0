"""Reads a text again after an edit inside one step: the other steps, their trees and their models are kept.

The result is that of `read`, which handles all unusual texts itself: those with anchors, or problems in another step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple, SupportsIndex, overload

from msgspec.structs import replace

from noetl.playbook import source
from noetl.playbook.kinds import Kinds
from noetl.playbook.problems import CODES
from noetl.playbook.reader import ReadResult, read_step
from noetl.playbook.source import TEXT_BYTES_MAX, VALUES_MAX, Document, Mapping, Scalar, Sequence, Tree
from noetl.playbook.validation import ProblemReport

_HEAD: Final = "workflow:\n"  # puts a step at the depth that it has in the whole text
_DASH: Final = re.compile(r" *- +\Z")
_ANCHOR: Final = re.compile(r"(?:^|[\s\[{,])[&*][A-Za-z0-9_]")


class ShiftedItems(list[Tree]):
    """The trees of steps, whose offsets are corrected when one of them is used."""

    def __init__(self, trees: list[Tree], deltas: list[int]) -> None:
        super().__init__(trees)
        self.deltas = deltas

    @overload
    def __getitem__(self, index: SupportsIndex) -> Tree: ...
    @overload
    def __getitem__(self, index: slice) -> list[Tree]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Tree | list[Tree]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        if self.deltas[place]:
            self[place] = _shifted(super().__getitem__(place), self.deltas[place])
            self.deltas[place] = 0
        return super().__getitem__(place)

    def __iter__(self) -> Iterator[Tree]:
        return (self[place] for place in range(len(self)))

    def raw(self) -> list[Tree]:
        """The trees with the offsets that they had."""
        return [super(ShiftedItems, self).__getitem__(place) for place in range(len(self))]


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
    return inside and not text.startswith("\ufeff") and _ANCHOR.search(text) is None


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
        return list.__getitem__(items, place).start + items.deltas[place]
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
    return _shifted(steps.items[0], start - len(_HEAD))


def _root(root: Mapping, workflow: Sequence, span: _Span, step: Tree, delta: int) -> Mapping:
    items = workflow.items
    trees = items.raw() if isinstance(items, ShiftedItems) else list(items)
    deltas = list(items.deltas) if isinstance(items, ShiftedItems) else [0] * len(trees)
    trees[span.place], deltas[span.place] = step, 0
    for place in range(span.place + 1, len(trees)):
        deltas[place] += delta
    entries: dict[str, Tree] = {}
    for key, tree in root.entries.items():
        entries[key] = tree if root.keys[key] < span.end else _shifted(tree, delta)
    entries["workflow"] = Sequence(ShiftedItems(trees, deltas), workflow.start)
    keys = {key: at if at < span.end else at + delta for key, at in root.keys.items()}
    return Mapping(entries, keys, root.start)


def _shifted(tree: Tree, delta: int) -> Tree:
    match tree:
        case Scalar(value, start, end):
            return Scalar(value, start + delta, end + delta)
        case Sequence(items, start):
            return Sequence([_shifted(each, delta) for each in items], start + delta)
        case Mapping(entries, keys, start):
            moved = {key: _shifted(each, delta) for key, each in entries.items()}
            return Mapping(moved, {key: at + delta for key, at in keys.items()}, start + delta)


def _values(tree: Tree) -> int:
    """How many values count towards the limit: keys count, too."""
    match tree:
        case Scalar():
            return 1
        case Sequence(items):
            return 1 + sum(map(_values, items))
        case Mapping(entries):
            return 1 + len(entries) + sum(map(_values, entries.values()))
