"""Reads a text again after an edit: the unchanged steps, their trees and their models are kept.

The result is that of `read`, which reads all unusual texts itself: those with anchors, or with problems of the YAML.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from msgspec.structs import replace

from noetl.errors import Problem
from noetl.playbook import source
from noetl.playbook.kinds import Kinds
from noetl.playbook.model import Step
from noetl.playbook.moved import moved
from noetl.playbook.problems import CODES
from noetl.playbook.reader import ReadResult, check_step_names, read, read_around, read_step
from noetl.playbook.source import (
    TEXT_BYTES_MAX,
    VALUES_MAX,
    Document,
    Mapping,
    Path,
    Scalar,
    Sequence,
    ShiftedItems,
    Tree,
    shifted,
)
from noetl.playbook.validation import ProblemReport

PROBLEMS_KEPT_MAX: Final = 100  # of the unchanged parts; with more of them, suggestions depend on all of the text
_HEAD: Final = "workflow:\n"  # puts steps at the depth that they have in the whole text
_DASH: Final = re.compile(r" *- +\Z")
_MARKER: Final = re.compile(r"^(?:---|\.\.\.)", re.MULTILINE)  # a new document may begin there


def read_again(old: ReadResult, text: str, kinds: Kinds) -> ReadResult:
    """The result of `read` for another text, with the models of the steps that are the same."""
    again = reread(old, text, kinds)
    if again is not None:
        return again
    document, playbook, problems = read(text, kinds, old.document.file)
    if playbook is None or old.playbook is None:
        return ReadResult(document, playbook, problems)
    known = {step.at: step for step in old.playbook.steps}
    texts, before = _texts(document), _texts(old.document)
    steps = []
    for step in playbook.steps:
        # The same model may be written in two ways, with other paths of its values.
        same = known.get(step.at) == step and texts.get(step.at) == before.get(step.at)
        steps.append(known[step.at] if same else step)
    return ReadResult(document, replace(playbook, steps=tuple(steps)), problems)


def _texts(document: Document) -> dict[Path, str]:
    """The text of each step."""
    workflow = document.find(("workflow",))
    if not isinstance(workflow, Sequence):
        return {}
    starts = [_start(workflow, place) for place in range(len(workflow.items))]
    ends = [*starts[1:], len(document.text)]
    return {("workflow", place): document.text[starts[place] : ends[place]] for place in range(len(starts))}


def reread(old: ReadResult, text: str, kinds: Kinds) -> ReadResult | None:
    """The result of `read` for another text; None: it has to be read as a whole."""
    edit = _edit(old, text)
    if edit is None or len(text.encode("utf-8", "surrogatepass")) > TEXT_BYTES_MAX:
        return None
    run = edit.steps()
    again = _with_steps(edit, run, kinds) if run is not None else None
    return again if again is not None else _with_sections(edit, kinds)


class _Run(NamedTuple):
    """Steps that follow each other, and their lines."""

    first: int
    last: int
    start: int
    end: int


class _Edit(NamedTuple):
    """The difference of two texts, and the parts of the old one."""

    old: ReadResult
    text: str  # the new one
    root: Mapping
    workflow: Sequence
    begin: int  # offsets of the difference in the old text
    end: int
    starts: list[int]  # of the lines of each step
    tail: int  # the offset behind the last step

    @property
    def delta(self) -> int:
        return len(self.text) - len(self.old.document.text)

    def models(self) -> dict[int, Step]:
        """By their place in the workflow. A step that is not a mapping has none."""
        assert self.old.playbook is not None
        return {int(step.at[1]): step for step in self.old.playbook.steps}

    def steps(self) -> _Run | None:
        """The steps that contain all differences; None: other parts of the text differ."""
        before = self.old.document.text
        first = max((place for place, start in enumerate(self.starts) if start < self.begin), default=None)
        if first is None or self.end > self.tail:
            return None
        last = max(place for place, start in enumerate(self.starts) if start < max(self.end, self.begin))
        while last + 1 < len(self.starts) and not self._ends_at(self.starts[last + 1]):
            last += 1
        end = self.starts[last + 1] if last + 1 < len(self.starts) else self.tail
        places = [first, *([last + 1] if last + 1 < len(self.starts) else [])]
        if not all(_DASH.match(before[self.starts[each] : _start(self.workflow, each)]) for each in places):
            return None
        return _Run(first, last, self.starts[first], end) if self._ends_at(end) else None

    def _ends_at(self, offset: int) -> bool:
        """Do the differences end with whole lines at an offset of the old text?"""
        if self.end > offset:
            return False
        here = offset + self.delta
        return here == len(self.text) or self.text[here - 1] == "\n"


def _edit(old: ReadResult, text: str) -> _Edit | None:
    """None: one of the texts is unusual."""
    document, root = old.document, old.document.root
    workflow = root.entries.get("workflow") if isinstance(root, Mapping) else None
    if old.playbook is None or not isinstance(root, Mapping) or not isinstance(workflow, Sequence):
        return None
    if not workflow.items or document.anchored or text.startswith("\ufeff") or document.text[workflow.start] != "-":
        return None
    if len(old.problems) > PROBLEMS_KEPT_MAX:
        return None
    # A problem of the YAML may have removed a value from the tree, so that the values cannot be counted.
    if any(CODES[each.code].level == "L1" for each in old.problems):
        return None
    begin = _common(document.text, text)
    end = len(document.text) - _common(document.text[begin:][::-1], text[begin:][::-1])
    starts = [document.text.rfind("\n", 0, _start(workflow, place)) + 1 for place in range(len(workflow.items))]
    tail = min((at for at in root.keys.values() if at > workflow.start), default=len(document.text))
    return _Edit(old, text, root, workflow, begin, end, starts, tail)


def _with_steps(edit: _Edit, run: _Run, kinds: Kinds) -> ReadResult | None:
    """Read steps again, of which there may be more or fewer now."""
    document, items = edit.old.document, edit.workflow.items
    trees = _step_trees(edit, run)
    if trees is None:
        return None
    values = document.values + sum(map(_values, trees)) - sum(_values(items[n]) for n in range(run.first, run.last + 1))
    if values > VALUES_MAX:
        return None
    root = _root(edit, run, trees)
    made = Document(document.file, edit.text, root, source.lines_of(edit.text), values)
    report = ProblemReport(made)
    models, old = [], edit.models()
    more = len(trees) - (run.last + 1 - run.first)
    for place in range(len(items) + more):
        if run.first <= place < run.first + len(trees):
            model = read_step(made, kinds, report, place)
        else:
            model = old.get(place if place < run.first else place - more)
        if model is not None:
            models.append(model if model.at[1] == place else moved(model, place))
    if not models:
        return None
    check_step_names(made, kinds, report, models)
    assert edit.old.playbook is not None
    first, last = (document.lines.position(offset)[0] for offset in (run.start, max(run.start, run.end - 1)))
    old_problems = [each for each in edit.old.problems if each.code != "duplicate-step"]
    kept = [each for each in old_problems if each.at.line < first]
    kept += _shifted([each for each in old_problems if each.at.line > last], _more_lines(edit, made, run.end))
    return ReadResult(made, replace(edit.old.playbook, steps=tuple(models)), [*report.problems, *kept])


def _with_sections(edit: _Edit, kinds: Kinds) -> ReadResult | None:
    """Read everything but the steps again."""
    if not (edit.end <= edit.root.keys["workflow"] or edit.begin >= edit.tail):
        return None
    document, delta = edit.old.document, edit.delta if edit.begin < edit.tail else 0
    first, size, key = edit.starts[0] + delta, edit.tail - edit.starts[0], edit.root.keys["workflow"] + delta
    around = _sections(edit, first, size, key)
    values = document.values + (_values_around(around) if around else 0) - _values_around(edit.root)
    if around is None or values > VALUES_MAX:
        return None
    items = edit.workflow.items
    deltas = items.deltas if isinstance(items, ShiftedItems) else [0] * len(items)
    steps = ShiftedItems([_raw(items, place) for place in range(len(items))], [each + delta for each in deltas])
    entries = {name: shifted(tree, size if around.keys[name] > key else 0) for name, tree in around.entries.items()}
    entries["workflow"] = Sequence(steps, edit.workflow.start + delta)
    keys = {name: at + size if at > key else at for name, at in around.keys.items()}
    root = Mapping(entries, keys, around.start)
    made = Document(document.file, edit.text, root, source.lines_of(edit.text), values)
    report = ProblemReport(made)
    assert edit.old.playbook is not None
    playbook = read_around(made, kinds, report, edit.old.playbook.steps)
    top, bottom = (document.lines.position(offset)[0] for offset in (edit.starts[0], edit.tail - 1))
    kept = [each for each in edit.old.problems if top <= each.at.line <= bottom and each.code != "duplicate-step"]
    more = _more_lines(edit, made, edit.starts[0]) if delta else 0
    return ReadResult(made, playbook, [*report.problems, *_shifted(kept, more)])


def _sections(edit: _Edit, first: int, size: int, key: int) -> Mapping | None:
    """The new text without its steps; None: the steps may mean something else there.

    The steps are `size` characters from the offset `first` on, and the key of the workflow is at the offset `key`.
    """
    parsed = source.parse(edit.text[:first] + edit.text[first + size :])
    root = parsed.document.root
    if parsed.problems or parsed.document.anchored or not isinstance(root, Mapping):
        return None
    empty = root.entries.get("workflow")
    if not isinstance(empty, Scalar) or empty.value is not None or root.keys["workflow"] != key:
        return None
    if (key and edit.text[key - 1] != "\n") or (edit.begin == edit.tail and first not in root.keys.values()):
        return None
    return root


def _more_lines(edit: _Edit, made: Document, offset: int) -> int:
    """How many lines an offset of the old text, which is behind the differences, has moved."""
    there = made.lines.position(offset + edit.delta)[0]
    return there - edit.old.document.lines.position(offset)[0]


def _shifted(problems: list[Problem], lines: int) -> list[Problem]:
    return [each._replace(at=each.at._replace(line=each.at.line + lines)) for each in problems]


def _start(workflow: Sequence, place: int) -> int:
    items = workflow.items
    if isinstance(items, ShiftedItems):
        return items.raw(place).start + items.deltas[place]
    return items[place].start


def _raw(items: list[Tree], place: int) -> Tree:
    return items.raw(place) if isinstance(items, ShiftedItems) else items[place]


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


def _step_trees(edit: _Edit, run: _Run) -> list[Tree] | None:
    """The trees of the steps of a run in the new text; None: the lines are not steps alone."""
    chunk = edit.text[run.start : run.end + edit.delta]
    parsed = source.parse(_HEAD + chunk)
    root = parsed.document.root
    if parsed.problems or parsed.document.anchored or _MARKER.search(chunk):
        return None
    if not isinstance(root, Mapping) or len(root.entries) != 1:
        return None
    steps = root.entries["workflow"]
    if not isinstance(steps, Sequence):
        return None
    column = steps.start - len(_HEAD)  # the first step is on the first line: the text above may contain what is there
    start = edit.workflow.start
    if column != start - edit.old.document.text.rfind("\n", 0, start) - 1 or chunk[column] != "-":
        return None
    return [shifted(each, run.start - len(_HEAD)) for each in steps.items]


def _root(edit: _Edit, run: _Run, steps: list[Tree]) -> Mapping:
    items, root, delta = edit.workflow.items, edit.root, edit.delta
    trees = [_raw(items, place) for place in range(len(items))]
    deltas = list(items.deltas) if isinstance(items, ShiftedItems) else [0] * len(trees)
    behind = [each + delta for each in deltas[run.last + 1 :]]
    trees = [*trees[: run.first], *steps, *trees[run.last + 1 :]]
    deltas = [*deltas[: run.first], *([0] * len(steps)), *behind]
    entries: dict[str, Tree] = {}
    for key, tree in root.entries.items():
        entries[key] = tree if root.keys[key] < run.end else shifted(tree, delta)
    entries["workflow"] = Sequence(ShiftedItems(trees, deltas), edit.workflow.start)
    keys = {key: at if at < run.end else at + delta for key, at in root.keys.items()}
    return Mapping(entries, keys, root.start)


def _values_around(root: Mapping) -> int:
    return sum(1 + _values(tree) for key, tree in root.entries.items() if key != "workflow")


def _values(tree: Tree) -> int:
    """How many values count towards the limit: keys count, too."""
    match tree:
        case Scalar():
            return 1
        case Sequence(items):
            return 1 + sum(map(_values, items))
        case Mapping(entries):
            return 1 + len(entries) + sum(map(_values, entries.values()))
