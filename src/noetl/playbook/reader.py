"""Reads a document in the canonical form into a Playbook, and reports all problems of its shape (L1 and L2).

Invalid parts are reported and left out, so that the remaining parts can be read and checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import UNSET

from noetl.errors import Problem
from noetl.output import JSON
from noetl.playbook import source
from noetl.playbook.kinds import Kinds
from noetl.playbook.language import REDUCERS, language
from noetl.playbook.libs import LIBS_MAX, is_lib_name
from noetl.playbook.model import (
    COMPENSATE,
    NOTIFY,
    RUN_METHODS,
    Arc,
    Block,
    Credential,
    Executor,
    Guard,
    InputField,
    Loop,
    Notification,
    Playbook,
    Step,
    Trigger,
    Verify,
)
from noetl.playbook.shapes import ListShape
from noetl.playbook.source import Document, Path
from noetl.playbook.spec import merge
from noetl.playbook.task_reader import TaskReader
from noetl.playbook.validation import ProblemReport, validate, validate_record
from noetl.template.values import is_template

_SPEC_STRUCTURE = frozenset({"policy", "entry_step", "expected_s", "methods", "mode", "max_in_flight"})
_STEP_POLICY = ("lifecycle", "failure", "limits", "limit")
_TRIGGER_KEYS = {  # by kind: the keys of which one is necessary
    "cron": ("cron",),
    "interval": ("every_s",),
    "webhook": ("path",),
    "nats": ("subject", "stream"),
}


class ReadResult(NamedTuple):
    """The parts that could be read. `playbook` is None if the document is not a mapping."""

    document: Document
    playbook: Playbook | None
    problems: list[Problem]


def read(text: str | bytes, kinds: Kinds, file: str = "<playbook>") -> ReadResult:
    """Read a playbook from text, and report all problems of its YAML and its shape."""
    document, problems = source.parse(text, file)
    report = ProblemReport(document)
    report.problems = problems
    playbook = None
    if isinstance(document.root, source.Mapping):
        playbook = _Reader(document, kinds, report).playbook(document.root)
    elif document.root is not None or not problems:
        report.add("not-a-playbook", (), "a playbook is a mapping with apiVersion, kind, metadata and workflow")
    return ReadResult(document, playbook, problems)


def read_step(document: Document, kinds: Kinds, report: ProblemReport, index: int) -> Step | None:
    """One step of a document, with its problems; None: it is not valid as a whole."""
    at: Path = ("workflow", index)
    shape = language(kinds).keys["workflow"].shape
    tree = document.find(at)
    assert isinstance(shape, ListShape)
    fits, data = validate(tree, shape.of, at, report) if tree is not None else (False, {})
    return _Reader(document, kinds, report)._step(data or {}, at) if fits else None


def check_step_names(document: Document, kinds: Kinds, report: ProblemReport, steps: Iterable[Step]) -> None:
    """Report steps with the same name."""
    names = [(each.name, (*each.at, "step")) for each in steps]
    TaskReader(document, kinds, report).unique("duplicate-step", "step", names)


def read_around(document: Document, kinds: Kinds, report: ProblemReport, steps: tuple[Step, ...]) -> Playbook:
    """The playbook of a document whose steps were read before, with the problems of its other parts."""
    root = document.root
    assert isinstance(root, source.Mapping)
    without = source.Mapping({**root.entries, "workflow": source.Sequence([], 0)}, root.keys, root.start)
    return _Reader(document, kinds, report).playbook(without, steps)


class _Reader:
    def __init__(self, document: Document, kinds: Kinds, report: ProblemReport) -> None:
        self.document = document
        self.kinds = kinds
        self.report = report
        self.tasks = TaskReader(document, kinds, report)

    def playbook(self, root: source.Mapping, steps: tuple[Step, ...] = ()) -> Playbook:
        """`steps`: those that were read before."""
        data = validate_record(root, language(self.kinds), (), self.report)
        metadata = dict(data.get("metadata", {}))
        steps = steps or tuple(self._step(each, ("workflow", i)) for i, each in _numbered(data.get("workflow")))
        check_step_names(self.document, self.kinds, self.report, steps)
        if "workflow" in data and not steps and not root.entries["workflow"].items:  # type: ignore[union-attr]  # it is valid, so it is a list
            self.report.add("missing-key", ("workflow",), "a playbook needs at least one step", key=True)
        workload = data.get("workload", {})
        self._data(workload, ("workload",))
        return Playbook(
            name=metadata.pop("name", ""),
            path=metadata.pop("path", ""),
            metadata=metadata,
            executor=_executor(data.get("executor", {})),
            keychain=self._keychain(data.get("keychain")),
            workload=workload,
            inputs=self._inputs(data.get("input")),
            steps=steps,
            blocks=tuple(self._block(name, each) for name, each in data.get("workbook", {}).items()),
            triggers=self._triggers(data.get("triggers")),
            notifications=self._notifications(data.get(NOTIFY)),
            libs=self._libs(data.get("libs")),
        )

    def _inputs(self, data: JSON) -> tuple[InputField, ...] | None:
        """The valid declarations; None: the playbook has no `input` (D104)."""
        if data is None:
            return None
        fields = []
        for name, each in data.items():
            at: Path = ("input", name)
            if not (name.isascii() and name.isidentifier()):
                message = f'"{name}" is not a valid name of an input; use letters, digits and "_"'
                self.report.add("bad-name", at, message, key=True)
            if each is None or "type" not in each:
                fields.append(InputField(name=name, type="string", whole=False, at=at))
            else:
                self._data(each.get("default"), (*at, "default"))
                fields.append(_input_field(name, each, at))
        return tuple(fields)

    def _keychain(self, entries: JSON) -> tuple[Credential, ...]:
        credentials = []
        for index, entry in _numbered(entries):
            fields = {key: value for key, value in entry.items() if key not in ("name", "kind")}
            at: Path = ("keychain", index)
            self._data(fields, at)
            credentials.append(Credential(name=entry.get("name", ""), kind=entry.get("kind", ""), fields=fields, at=at))
        self._unique("duplicate-name", "keychain entry", [(each.name, (*each.at, "name")) for each in credentials])
        return tuple(credentials)

    def _libs(self, libs: JSON) -> dict[str, str]:
        found = {name: text for name, text in (libs or {}).items() if isinstance(text, str)}
        for name in found:
            if not is_lib_name(name):
                message = f'"{name}" is not a valid name of a module; write a relative path that ends in ".py"'
                self.report.add("bad-name", ("libs", name), message, key=True)
        if len(found) > LIBS_MAX:
            message = f"there are {len(found):,} modules (limit LIBS_MAX: {LIBS_MAX}); put them into a package"
            self.report.add("bad-value", ("libs",), message, key=True)
        return found

    def _triggers(self, entries: JSON) -> tuple[Trigger, ...]:
        """Those whose kind and required keys are valid."""
        triggers = []
        for index, entry in _numbered(entries):
            at: Path = ("triggers", index)
            kind = entry.get("kind")
            required = _TRIGGER_KEYS.get(str(kind), ())
            if "name" not in entry or not any(key in entry for key in required):
                if kind == "nats" and not self._has(at, *required):
                    self.report.add("missing-key", at, 'a trigger of kind "nats" needs "subject" or "stream"')
                continue
            others = {key: value for key, value in entry.items() if key not in ("desc", "verify")}
            triggers.append(Trigger(**others, verify=self._verify(entry.get("verify"), at), at=at))
        self._unique("duplicate-name", "trigger", [(each.name, (*each.at, "name")) for each in triggers])
        return tuple(triggers)

    def _verify(self, data: JSON, at: Path) -> Verify | None:
        if data is None:
            return None
        if len(data) != 1:
            self.report.add("bad-value", (*at, "verify"), '"verify" takes exactly one of "hmac" and "token"', key=True)
        if "hmac" in data:
            hmac = {"header": "X-Signature", **data["hmac"]}
            return Verify(**hmac, signed=True) if "secret" in hmac else None
        token = data.get("token")
        if isinstance(token, str):
            token = {"secret": token}
        return Verify(**{"header": "Authorization", **token}, signed=False) if token and "secret" in token else None

    def _notifications(self, entries: JSON) -> tuple[Notification, ...]:
        """Each has its place in the list, by which it is found later; invalid ones listen to nothing."""
        found = []
        for index, entry in _numbered(entries):
            at, spec, on = (NOTIFY, index), entry.get("spec", {}), entry.get("on")
            if on == [] and not self.report.document.find((*at, "on")).items:  # type: ignore[union-attr]  # it is valid, so it is a list
                self.report.add("bad-value", (*at, "on"), '"on" is empty, so nothing would be sent', fix="[failed]")
            block = Block(
                name=f"{NOTIFY}/{index}",
                desc=entry.get("desc"),
                tasks=self.tasks.pipeline(entry.get("tool"), (*at, "tool"), NOTIFY),
                policy=self._policy(spec.get("policy", {}), (*at, "spec", "policy")),
                spec=_layered(spec),
                notifies=True,
                at=at,
            )
            events = tuple(each for each in on or () if each is not None)
            found.append(Notification(on=events, when=entry.get("when"), block=block, at=at))
        return tuple(found)

    def _step(self, data: dict[str, JSON], at: Path) -> Step:
        spec = data.get("spec", {})
        policy = spec.get("policy", {})
        admit = policy.get("admit", {})
        following = data.get("next")
        arcs = None if following is None else self._arcs(following.get("arcs"), (*at, "next", "arcs"))
        name = data.get("step", "")
        if "tool" not in data and "next" not in data and not self._has(at, "tool", "next"):
            self.report.add("empty-step", at, f'step "{name}" has neither "tool" nor "next", so it does nothing')
        return Step(
            name=name,
            desc=data.get("desc"),
            input=self.tasks.input(data, at),
            loops=self._loops(data.get("loop"), (*at, "loop")),
            tasks=self.tasks.pipeline(data.get("tool"), (*at, "tool"), name),
            set=self.tasks.writes(data.get("set", {}), (*at, "set"), saves=True),
            admit=self._admit(admit.get("rules"), (*at, "spec", "policy", "admit", "rules")),
            join=admit.get("join"),
            mode=(following or {}).get("spec", {}).get("mode", "exclusive"),
            arcs=arcs,
            whole=self._has_all_arcs(arcs, at),
            compensate=self._compensation(data, at),
            policy=self._policy(policy, (*at, "spec", "policy")),
            spec=_layered(spec),
            at=at,
        )

    def _compensation(self, step: dict[str, JSON], step_at: Path) -> Block | None:
        """What undoes a run of the step. The `spec` of the step is the outer layer of its own."""
        data = step.get(COMPENSATE)
        if data is None:
            return None
        at, name, spec = (*step_at, COMPENSATE), step.get("step", ""), data.get("spec", {})
        if not self._has(step_at, "tool"):
            message = f'step "{name}" has no tool, so there is nothing to compensate'
            self.report.add("no-effect", at, message, key=True)
        return Block(
            name=f"{name}/{COMPENSATE}",
            desc=data.get("desc"),
            tasks=self.tasks.pipeline(data.get("tool"), (*at, "tool"), COMPENSATE),
            policy=self._policy(spec.get("policy", {}), (*at, "spec", "policy")),
            spec=merge(_layered(step.get("spec", {})), _layered(spec)),
            at=at,
        )

    def _block(self, name: str, data: dict[str, JSON]) -> Block:
        at: Path = ("workbook", name)
        spec = data.get("spec", {})
        return Block(
            name=name,
            desc=data.get("desc"),
            input=self.tasks.input(data, at),
            loops=self._loops(data.get("loop"), (*at, "loop")),
            tasks=self.tasks.pipeline(data.get("tool"), (*at, "tool"), name),
            set=self.tasks.writes(data.get("set", {}), (*at, "set")),
            policy=self._policy(spec.get("policy", {}), (*at, "spec", "policy")),
            spec=_layered(spec),
            at=at,
        )

    def _policy(self, policy: dict[str, JSON], at: Path) -> dict[str, JSON]:
        failure = policy.get("failure", {})
        tolerate = failure.get("tolerate")
        where = (*at, "failure", "tolerate")
        if isinstance(tolerate, str) and not _is_percent(tolerate):
            self.report.add("bad-value", where, f'"{tolerate}" is neither a number nor a percentage', fix='"25%"')
        if tolerate is not None and failure.get("mode") != "best_effort":
            self.report.add("misplaced-key", where, '"tolerate" is valid only with mode: best_effort', key=True)
        self.tasks.check_limit(policy.get("limit"), (*at, "limit"))
        return {key: policy[key] for key in _STEP_POLICY if key in policy}

    def _admit(self, rules: JSON, at: Path) -> tuple[Guard, ...] | None:
        if rules is None:
            return None
        guards = []
        for index, rule in _numbered(rules):
            where = (*at, index)
            invalid, otherwise, then = self.tasks.rule_parts(rule, where, index == len(rules) - 1)
            if then is not None and "allow" in then and not invalid:
                when = None if otherwise else rule.get("when")
                guards.append(Guard(when=when, allow=then["allow"], at=where))
        return tuple(guards)

    def _loops(self, data: JSON, at: Path) -> tuple[Loop, ...]:
        if data is None:
            return ()
        if isinstance(data, list):
            return tuple(self._loop(each, (*at, index)) for index, each in _numbered(data))
        return (self._loop(data, at),)

    def _loop(self, data: dict[str, JSON], at: Path) -> Loop:
        spec = data.get("spec", {})
        policy = spec.get("policy", {})
        reduce = policy.get("reduce", {})
        for target, reducer in reduce.items():
            where = (*at, "spec", "policy", "reduce", target)
            if reducer not in REDUCERS:
                suggestion = self.report.similar(reducer, REDUCERS)
                known = ", ".join(REDUCERS)
                self.report.add(
                    "unknown-reducer", where, f'there is no reducer "{reducer}"; use one of {known}', fix=suggestion
                )
            if not target.startswith("ctx."):
                self.report.add("bad-set-target", where, f'"{target}": a reducer can write only to ctx.*', key=True)
        if data.get("iterator") in ("index", "parent"):
            name = data["iterator"]
            self.report.add(
                "bad-name", (*at, "iterator"), f"iter.{name} is reserved; choose another name for the iterator"
            )
        return Loop(
            items=data.get("in"),
            iterator=data.get("iterator", ""),
            mode=self._single_value(spec, policy, "mode", at) or "sequential",
            max_in_flight=self._single_value(spec, policy, "max_in_flight", at),
            exec=policy.get("exec"),
            reduce=reduce,
            spec=_layered(spec),
            at=at,
        )

    def _single_value(self, spec: dict[str, JSON], policy: dict[str, JSON], key: str, at: Path) -> JSON:
        """A key that may be under loop.spec or loop.spec.policy; two different values are a problem (D64)."""
        if key in spec and key in policy and spec[key] != policy[key]:
            message = f"loop.spec.{key} is {spec[key]} and loop.spec.policy.{key} is {policy[key]}"
            self.report.add("conflicting-values", (*at, "spec", "policy", key), message, key=True)
        return spec.get(key, policy.get(key))

    def _arcs(self, arcs: JSON, at: Path) -> tuple[Arc, ...]:
        result = []
        for index, arc in _numbered(arcs):
            where = (*at, index)
            if "step" not in arc:
                continue
            if "to" in arc and not is_template(arc["step"]):
                message = '"to" lists the targets of a template, but the target of this arc is constant'
                self.report.add("misplaced-key", (*where, "to"), message, key=True)
            result.append(
                Arc(
                    step=arc["step"],
                    when=arc.get("when"),
                    set=self.tasks.writes(arc.get("set", {}), (*where, "set")),
                    to=tuple(arc["to"]) if "to" in arc else None,
                    at=where,
                )
            )
        return tuple(result)

    def _has_all_arcs(self, arcs: tuple[Arc, ...] | None, at: Path) -> bool:
        written = self.document.find((*at, "next", "arcs"))
        if isinstance(written, source.Sequence):
            return len(written.items) == len(arcs or ())
        return not self._has(at, "next")

    def _data(self, value: JSON, at: Path) -> None:
        """Warn about templates in data, which are not evaluated, and refuse the key of a mark (D91)."""
        if isinstance(value, str):
            if is_template(value):
                message = f"templates in {at[0]} are not evaluated; write it in the step that uses the value"
                self.report.add("template-in-data", at, message)
        elif isinstance(value, dict):
            self.tasks.check_keys(value, at)
            for key, each in value.items():
                self._data(each, (*at, key))
        elif isinstance(value, list):
            for index, each in enumerate(value):
                self._data(each, (*at, index))

    def _unique(self, code: str, what: str, names: list[tuple[str, Path]]) -> None:
        self.tasks.unique(code, what, names)

    def _has(self, at: Path, *keys: str) -> bool:
        """Is one of the keys present, with any value?"""
        tree = self.document.find(at)
        return isinstance(tree, source.Mapping) and any(key in tree.entries for key in keys)


def _numbered(items: JSON) -> list[tuple[int, dict[str, JSON]]]:
    """The valid records of a list, with their indexes."""
    return [(index, item) for index, item in enumerate(items or []) if item is not None]


def _input_field(name: str, data: dict[str, JSON], at: Path) -> InputField:
    items, enum = data.get("items"), data.get("enum")
    return InputField(
        name=name,
        type=data["type"],
        desc=data.get("desc"),
        default=data.get("default", UNSET),
        required=data.get("required"),
        enum=None if enum is None else tuple(enum),
        pattern=data.get("pattern"),
        min=data.get("min"),
        max=data.get("max"),
        format=data.get("format"),
        items=None if items is None or "type" not in items else _input_field("", items, (*at, "items")),
        secret=data.get("secret", False),
        at=at,
    )


def _executor(data: dict[str, JSON]) -> Executor:
    spec = data.get("spec", {})
    return Executor(
        profile=data.get("profile"),
        version=data.get("version"),
        entry_step=spec.get("entry_step"),
        expected_s=spec.get("expected_s"),
        methods=tuple(spec.get("methods", RUN_METHODS)),
        policy=spec.get("policy", {}),
        spec=_layered(spec),
    )


def _layered(spec: dict[str, JSON]) -> dict[str, JSON]:
    """The part of a spec that takes part in the layering of task specs."""
    return {key: value for key, value in spec.items() if key not in _SPEC_STRUCTURE}


def _is_percent(text: str) -> bool:
    number = text.removesuffix("%")
    return text.endswith("%") and number.isdigit() and int(number) <= 100
