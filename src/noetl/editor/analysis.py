"""A checked text with the names that it defines and uses, and where: for completion, definitions and renaming."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from noetl.checks.checker import Checked, check_read
from noetl.net.credentials import used_credentials
from noetl.net.program import TemplateUse
from noetl.net.scopes import SEES_TASKS, all_writes
from noetl.playbook.dialects.layout.scalars import Finder
from noetl.playbook.dialects.layout.tree import Leaf
from noetl.playbook.dialects.template_tokens import PathRead, free_reads
from noetl.playbook.incremental import read_again
from noetl.playbook.kinds import Kinds
from noetl.playbook.language import SCOPES
from noetl.playbook.model import END, Pipeline, Step
from noetl.playbook.reader import ReadResult
from noetl.playbook.reader import read as read_text
from noetl.playbook.source import Document, Mapping, Path, Scalar
from noetl.playbook.validation import NAME

NameKind: TypeAlias = Literal["step", "task", "block", "credential", "ctx", "workload"]
RENAMED: frozenset[NameKind] = frozenset({"step", "task"})


class Name(NamedTuple):
    """A name that a playbook defines."""

    kind: NameKind
    text: str  # "fetch"; of ctx and workload the first part of the path
    owner: Path = ()  # of a task: the path of its step or block


class Occurrence(NamedTuple):
    """A place in the text with a name."""

    name: Name
    start: int  # offsets of the name itself, without quotes
    end: int
    defines: bool = False  # a definition, or a write of ctx


class Analysis:
    """The result of the check of one text."""

    def __init__(self, text: str, kinds: Kinds, file: str = "<playbook>", before: Analysis | None = None) -> None:
        """`before`: an analysis of a similar text, of which the unchanged steps are kept."""
        self.text = text
        self.kinds = kinds
        whole = before.whole if before is not None else None
        read = read_again(whole.read, text, kinds) if whole is not None else read_text(text, kinds, file)
        self.read: ReadResult = read
        self.checked: Checked = check_read(self.read, kinds, whole.checked if whole is not None else None)
        self._earlier = whole if self.read.playbook is None else None

    @property
    def whole(self) -> Analysis | None:
        """The latest analysis of a text that could be read: while someone types, the text is often not valid YAML."""
        return self._earlier if self.checked.playbook is None else self

    @property
    def document(self) -> Document:
        return self.checked.document

    @cached_property
    def occurrences(self) -> tuple[Occurrence, ...]:
        """All names in the text, in its order."""
        return tuple(sorted(set(self._occurrences()), key=lambda each: each.start))

    def at(self, offset: int) -> Occurrence | None:
        return next((each for each in self.occurrences if each.start <= offset <= each.end), None)

    def of(self, name: Name) -> list[Occurrence]:
        return [each for each in self.occurrences if each.name == name]

    @cached_property
    def steps(self) -> list[str]:
        return [step.name for step in self.checked.playbook.steps] if self.checked.playbook else []

    @cached_property
    def blocks(self) -> list[str]:
        return [block.name for block in self.checked.playbook.blocks] if self.checked.playbook else []

    @cached_property
    def credentials(self) -> list[str]:
        return [entry.name for entry in self.checked.playbook.keychain] if self.checked.playbook else []

    @cached_property
    def workload(self) -> list[str]:
        playbook = self.checked.playbook
        names = [*playbook.workload, *(each.name for each in playbook.inputs or ())] if playbook else []
        return list(dict.fromkeys(names))

    @cached_property
    def written(self) -> dict[str, list[str]]:
        """Scope → the paths below it that some `set` writes."""
        found: dict[str, dict[str, None]] = {}
        for writes, _ in all_writes(self.checked.playbook) if self.checked.playbook else ():
            for target in writes:
                scope, _, name = target.partition(".")
                found.setdefault(scope, {})[name] = None
        return {scope: list(names) for scope, names in found.items()}

    def refusal(self, name: Name, new: str) -> str | None:
        """Why a name cannot be changed to `new`; None: it can."""
        playbook = self.checked.playbook
        if not NAME.match(new) or (name.kind == "step" and new == END):
            return f'"{new}" is not a name: write letters, digits, "_" and "-"'
        if any(each.name == name._replace(text=new) for each in self.occurrences):
            return f'there is already a {name.kind} "{new}"'
        if name.kind == "task" and new in SCOPES:
            return f'"{new}" is a scope: templates could not read the task'
        if (
            name.kind == "step"
            and playbook is not None
            and not playbook.executor.entry_step
            and name.text == playbook.entry
        ):
            return f'execution begins at the step "{name.text}": name another one in executor.spec.entry_step first'
        if name.kind == "task" and not new.isidentifier() and any(not each.defines for each in self.of(name)):
            return f'templates read the task by its name, and cannot read "{new}"'
        return None

    def owner(self, name: str) -> Pipeline | None:
        """The step with this name."""
        playbook = self.checked.playbook
        return next((step for step in playbook.steps if step.name == name), None) if playbook else None

    def _occurrences(self) -> Iterator[Occurrence]:
        playbook, program = self.checked.playbook, self.checked.program
        if playbook is None or program is None:
            return
        for step in playbook.steps:
            yield from self._value(Name("step", step.name), (*step.at, "step"), defines=True)
            yield from self._targets(step)
        if playbook.executor.entry_step is not None:
            yield from self._value(Name("step", playbook.entry), ("executor", "spec", "entry_step"))
        for block in playbook.blocks:
            yield from self._key(Name("block", block.name), block.at, defines=True)
        for credential in playbook.keychain:
            yield from self._value(Name("credential", credential.name), (*credential.at, "name"), defines=True)
        for section in ("workload", "input"):
            tree = self.document.find((section,))
            for key in tree.entries if isinstance(tree, Mapping) else ():
                yield from self._key(Name("workload", key), (section, key), defines=True)
        for owner in playbook.pipelines:
            yield from self._tasks(owner)
        for writes, at in all_writes(playbook):
            for target in writes:
                scope, _, path = target.partition(".")
                if scope == "ctx":
                    yield from self._key(Name("ctx", path.partition(".")[0]), (*at, target), skip=4, defines=True)
        for use in program.templates:
            yield from self._reads(use)

    def _targets(self, step: Step) -> Iterator[Occurrence]:
        for arc in step.arcs or ():
            if arc.step != END:
                yield from self._value(Name("step", arc.step), (*arc.at, "step"))
            for index, target in enumerate(arc.to or ()):
                yield from self._value(Name("step", target), (*arc.at, "to", index))

    def _tasks(self, owner: Pipeline) -> Iterator[Occurrence]:
        for task in owner.tasks:
            yield from self._value(Name("task", task.name, owner.at), (*task.at, "name"), defines=True)
            for rule in task.policy.rules if task.policy else ():
                inside = ("then",) if rule.when is not None else ("else", "then")
                if rule.to is not None:
                    yield from self._value(Name("task", rule.to, owner.at), (*rule.at, *inside, "to"))
            block = task.fields.get("block")
            if task.kind == "workbook" and isinstance(block, str):
                yield from self._value(Name("block", block), (*task.at, "block"))
            for name, place in used_credentials(task):
                yield from self._value(Name("credential", name), (*task.at, *place))
                yield from self._value(Name("credential", name), (*task.at, "input", *place))

    def _value(self, name: Name, path: Path, *, defines: bool = False) -> Iterator[Occurrence]:
        """The scalar at `path`, if it is this name."""
        tree = self.document.find(path)
        if isinstance(tree, Scalar) and tree.value == name.text:
            start = self.document.text.find(name.text, tree.start, tree.end)
            if start >= 0:
                yield Occurrence(name, start, start + len(name.text), defines)

    def _key(self, name: Name, path: Path, *, skip: int = 0, defines: bool = False) -> Iterator[Occurrence]:
        """The last key of `path`; `skip`: the length of a prefix that does not belong to the name."""
        around = self.document.find(path[:-1])
        if isinstance(around, Mapping) and str(path[-1]) in around.keys:
            start = around.keys[str(path[-1])]
            start += (self.document.text[start] in "\"'") + skip
            if self.document.text.startswith(name.text, start):
                yield Occurrence(name, start, start + len(name.text), defines)

    def _reads(self, use: TemplateUse) -> Iterator[Occurrence]:
        tree = self.document.find(use.path)
        if not isinstance(tree, Scalar) or not isinstance(tree.value, str):
            return
        tasks = {task.name for task in use.owner.tasks} if use.place in SEES_TASKS else set()
        finder: Finder | None = None
        for read in free_reads(tree.value):
            named = _name_of(read, tasks, use.owner.at)
            if named is None:
                continue
            if finder is None:
                finder = finder_of(self.document, tree, tree.value)
            name, position = named
            start = finder.offset(position)
            if self.document.text.startswith(name.text, start):
                yield Occurrence(name, start, start + len(name.text))


def finder_of(document: Document, tree: Scalar, value: str) -> Finder:
    """Maps characters of a value to offsets in the text."""
    raw = document.text[tree.start : tree.end]
    bare = raw.split(None, 1)[1] if raw.startswith("&") and " " in raw else raw
    style = bare[:1] if bare[:1] in ('"', "'", "|", ">") else ""
    return Finder(Leaf(raw=raw, text=value, style=style, start=tree.start))


_SCOPES: dict[str, NameKind] = {"ctx": "ctx", "workload": "workload", "keychain": "credential"}


def _name_of(read: PathRead, tasks: set[str], owner: Path) -> tuple[Name, int] | None:
    """What a template reads, and the position of the name in the template."""
    if read.root in tasks:
        return Name("task", read.root, owner), read.start
    if read.root in _SCOPES and read.parts:
        part = read.parts[0]
        return Name(_SCOPES[read.root], part.name), part.start + (2 if part.bracketed else 1)
    return None
