"""A document in the canonical form → Playbook, and every problem of its shape (levels L1 and L2) at once.

What is broken is told and left out, so that the rest is read and checked all the same.
"""

from __future__ import annotations

from typing import NamedTuple

from noetl.errors import Problem
from noetl.output import JSON
from noetl.playbook import source
from noetl.playbook.conform import ProblemReport, conform_record, has_braces
from noetl.playbook.kinds import Kinds
from noetl.playbook.language import REDUCERS, language
from noetl.playbook.model import Arc, Block, Credential, Executor, Guard, Loop, Playbook, Step
from noetl.playbook.source import Document, Path
from noetl.playbook.task_reader import TaskReader

_SPEC_STRUCTURE = frozenset({"policy", "entry_step", "mode", "max_in_flight"})
_STEP_POLICY = ("lifecycle", "failure", "limits")


class ReadResult(NamedTuple):
    """What could be read. `playbook` is None when the document is no mapping at all."""

    document: Document
    playbook: Playbook | None
    problems: list[Problem]


def read(text: str | bytes, kinds: Kinds, file: str = "<playbook>") -> ReadResult:
    """Text → Playbook. All problems of YAML and shape at once."""
    document, problems = source.parse(text, file)
    report = ProblemReport(document)
    report.problems = problems
    playbook = None
    if isinstance(document.root, source.Mapping):
        playbook = _Reader(document, kinds, report).playbook(document.root)
    elif document.root is not None or not problems:
        report.tell(
            "not-a-playbook", (), "a playbook is a mapping with apiVersion, kind, metadata and workflow"
        )
    return ReadResult(document, playbook, problems)


class _Reader:
    def __init__(self, document: Document, kinds: Kinds, report: ProblemReport) -> None:
        self.document = document
        self.kinds = kinds
        self.report = report
        self.tasks = TaskReader(document, kinds, report)

    def playbook(self, root: source.Mapping) -> Playbook:
        left = conform_record(root, language(self.kinds), (), self.report)
        metadata = dict(left.get("metadata", {}))
        steps = tuple(self._step(each, ("workflow", i)) for i, each in _numbered(left.get("workflow")))
        self._unique("duplicate-step", "step", [(each.name, (*each.at, "step")) for each in steps])
        if "workflow" in left and not steps and not root.entries["workflow"].items:  # type: ignore[union-attr]  # a list, or it were not left
            self.report.tell("missing-key", ("workflow",), "a playbook needs at least one step", key=True)
        workload = left.get("workload", {})
        self._data(workload, ("workload",))
        return Playbook(
            name=metadata.pop("name", ""),
            path=metadata.pop("path", ""),
            metadata=metadata,
            executor=_executor(left.get("executor", {})),
            keychain=self._keychain(left.get("keychain")),
            workload=workload,
            steps=steps,
            blocks=tuple(self._block(name, each) for name, each in left.get("workbook", {}).items()),
        )

    def _keychain(self, entries: JSON) -> tuple[Credential, ...]:
        found = []
        for index, entry in _numbered(entries):
            fields = {key: value for key, value in entry.items() if key not in ("name", "kind")}
            at: Path = ("keychain", index)
            self._data(fields, at)
            found.append(
                Credential(name=entry.get("name", ""), kind=entry.get("kind", ""), fields=fields, at=at)
            )
        self._unique("duplicate-name", "keychain entry", [(each.name, (*each.at, "name")) for each in found])
        return tuple(found)

    def _step(self, left: dict[str, JSON], at: Path) -> Step:
        spec = left.get("spec", {})
        policy = spec.get("policy", {})
        admit = policy.get("admit", {})
        following = left.get("next")
        arcs = None if following is None else self._arcs(following.get("arcs"), (*at, "next", "arcs"))
        name = left.get("step", "")
        if "tool" not in left and "next" not in left and not self._has(at, "tool", "next"):
            self.report.tell("empty-step", at, f'step "{name}" has neither tool nor next; it does nothing')
        return Step(
            name=name,
            desc=left.get("desc"),
            input=left.get("input", {}),
            loops=self._loops(left.get("loop"), (*at, "loop")),
            tasks=self.tasks.pipeline(left.get("tool"), (*at, "tool"), name),
            set=self.tasks.writes(left.get("set", {}), (*at, "set")),
            admit=self._admit(admit.get("rules"), (*at, "spec", "policy", "admit", "rules")),
            join=admit.get("join"),
            mode=(following or {}).get("spec", {}).get("mode", "exclusive"),
            arcs=arcs,
            whole=self._has_all_arcs(arcs, at),
            policy=self._policy(policy, (*at, "spec", "policy")),
            spec=_layered(spec),
            at=at,
        )

    def _block(self, name: str, left: dict[str, JSON]) -> Block:
        at: Path = ("workbook", name)
        spec = left.get("spec", {})
        return Block(
            name=name,
            desc=left.get("desc"),
            input=left.get("input", {}),
            loops=self._loops(left.get("loop"), (*at, "loop")),
            tasks=self.tasks.pipeline(left.get("tool"), (*at, "tool"), name),
            set=self.tasks.writes(left.get("set", {}), (*at, "set")),
            policy=self._policy(spec.get("policy", {}), (*at, "spec", "policy")),
            spec=_layered(spec),
            at=at,
        )

    def _policy(self, policy: dict[str, JSON], at: Path) -> dict[str, JSON]:
        failure = policy.get("failure", {})
        tolerate = failure.get("tolerate")
        where = (*at, "failure", "tolerate")
        if isinstance(tolerate, str) and not _is_percent(tolerate):
            self.report.tell(
                "bad-value", where, f'"{tolerate}" is neither a number nor a percentage', fix='"25%"'
            )
        if tolerate is not None and failure.get("mode") != "best_effort":
            self.report.tell("misplaced-key", where, '"tolerate" goes with mode: best_effort (D87)', key=True)
        return {key: policy[key] for key in _STEP_POLICY if key in policy}

    def _admit(self, rules: JSON, at: Path) -> tuple[Guard, ...] | None:
        if rules is None:
            return None
        guards = []
        for index, rule in _numbered(rules):
            where = (*at, index)
            told, otherwise, then = self.tasks.rule_parts(rule, where, index == len(rules) - 1)
            if then is not None and "allow" in then and not told:
                when = None if otherwise else rule.get("when")
                guards.append(Guard(when=when, allow=then["allow"], at=where))
        return tuple(guards)

    def _loops(self, left: JSON, at: Path) -> tuple[Loop, ...]:
        if left is None:
            return ()
        if isinstance(left, list):
            return tuple(self._loop(each, (*at, index)) for index, each in _numbered(left))
        return (self._loop(left, at),)

    def _loop(self, left: dict[str, JSON], at: Path) -> Loop:
        spec = left.get("spec", {})
        policy = spec.get("policy", {})
        reduce = policy.get("reduce", {})
        for target, reducer in reduce.items():
            where = (*at, "spec", "policy", "reduce", target)
            if reducer not in REDUCERS:
                near = self.report.near(reducer, REDUCERS)
                known = ", ".join(REDUCERS)
                self.report.tell("unknown-reducer", where, f'"{reducer}" is no reducer: {known}', fix=near)
            if not target.startswith("ctx."):
                self.report.tell("bad-set-target", where, f'"{target}": reducers fold ctx.* (D47)', key=True)
        if left.get("iterator") in ("index", "parent"):
            name = left["iterator"]
            self.report.tell(
                "bad-name", (*at, "iterator"), f"iter.{name} has a meaning; choose another iterator"
            )
        return Loop(
            items=left.get("in"),
            iterator=left.get("iterator", ""),
            mode=self._said_once(spec, policy, "mode", at) or "sequential",
            max_in_flight=self._said_once(spec, policy, "max_in_flight", at),
            exec=policy.get("exec"),
            reduce=reduce,
            spec=_layered(spec),
            at=at,
        )

    def _said_once(self, spec: dict[str, JSON], policy: dict[str, JSON], key: str, at: Path) -> JSON:
        """loop.spec.policy.mode means loop.spec.mode; both with different values is a problem (D64)."""
        if key in spec and key in policy and spec[key] != policy[key]:
            message = f"loop.spec.{key} is {spec[key]} and loop.spec.policy.{key} is {policy[key]}"
            self.report.tell("conflicting-values", (*at, "spec", "policy", key), message, key=True)
        return spec.get(key, policy.get(key))

    def _arcs(self, arcs: JSON, at: Path) -> tuple[Arc, ...]:
        found = []
        for index, arc in _numbered(arcs):
            where = (*at, index)
            if "step" not in arc:
                continue
            if "to" in arc and not has_braces(arc["step"]):
                message = '"to" limits the targets of a template; this arc has a fixed target'
                self.report.tell("misplaced-key", (*where, "to"), message, key=True)
            found.append(
                Arc(
                    step=arc["step"],
                    when=arc.get("when"),
                    set=self.tasks.writes(arc.get("set", {}), (*where, "set")),
                    to=tuple(arc["to"]) if "to" in arc else None,
                    at=where,
                )
            )
        return tuple(found)

    def _has_all_arcs(self, arcs: tuple[Arc, ...] | None, at: Path) -> bool:
        written = self.document.find((*at, "next", "arcs"))
        if isinstance(written, source.Sequence):
            return len(written.items) == len(arcs or ())
        return not self._has(at, "next")

    def _data(self, value: JSON, at: Path) -> None:
        """Data is never rendered: braces in it are probably a mistake."""
        if isinstance(value, str):
            if has_braces(value):
                message = (
                    f"{at[0]} is data, so this template stays as it is; build the value where it is used"
                )
                self.report.tell("template-in-data", at, message)
        elif isinstance(value, dict):
            for key, each in value.items():
                self._data(each, (*at, key))
        elif isinstance(value, list):
            for index, each in enumerate(value):
                self._data(each, (*at, index))

    def _unique(self, code: str, what: str, names: list[tuple[str, Path]]) -> None:
        self.tasks.unique(code, what, names)

    def _has(self, at: Path, *keys: str) -> bool:
        """Does one of the keys stand there, whatever its value?"""
        tree = self.document.find(at)
        return isinstance(tree, source.Mapping) and any(key in tree.entries for key in keys)


def _numbered(items: JSON) -> list[tuple[int, dict[str, JSON]]]:
    """The records that could be read, with their places in the list."""
    return [(index, item) for index, item in enumerate(items or []) if item is not None]


def _executor(left: dict[str, JSON]) -> Executor:
    spec = left.get("spec", {})
    return Executor(
        profile=left.get("profile"),
        version=left.get("version"),
        entry_step=spec.get("entry_step"),
        policy=spec.get("policy", {}),
        spec=_layered(spec),
    )


def _layered(spec: dict[str, JSON]) -> dict[str, JSON]:
    """The part of a spec that feeds the layering of task specs."""
    return {key: value for key, value in spec.items() if key not in _SPEC_STRUCTURE}


def _is_percent(text: str) -> bool:
    number = text.removesuffix("%")
    return text.endswith("%") and number.isdigit() and int(number) <= 100
