"""Reads a document in the canonical form into a Playbook, and reports all problems of its shape (L1 and L2).

Invalid parts are reported and left out, so that the remaining parts can be read and checked.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import UNSET

from noetl.errors import Problem, Related
from noetl.output import JSON
from noetl.playbook import source
from noetl.playbook.kinds import Kind, Kinds
from noetl.playbook.language import REDUCERS, SCOPES, language
from noetl.playbook.model import (
    COMPENSATE,
    Arc,
    Block,
    Credential,
    Executor,
    Guard,
    InputField,
    Loop,
    Playbook,
    Policy,
    Rule,
    Step,
    Task,
)
from noetl.playbook.source import Document, Path
from noetl.playbook.spec import merge
from noetl.playbook.validation import NAME, ProblemReport, validate_record
from noetl.template.values import is_template

_TASK_KEYS = frozenset({"name", "kind", "desc", "auth", "input", "set", "spec"})
_RESERVED_NAMES = frozenset({*SCOPES, "range", "now", "uuid", "loop", "true", "false", "none"})
_DIRECTIVE_KEYS = {
    "retry": ("attempts", "backoff", "delay", "max_delay", "jitter"),
    "jump": ("to",),
    "fail": ("message", "details"),
}


class RuleParts(NamedTuple):
    invalid: bool  # the rule has a problem, which has been reported
    otherwise: bool  # the rule is the else
    then: dict[str, JSON] | None


class TaskReader:
    """Reads tasks, and reports the problems that the shapes do not cover."""

    def __init__(self, document: Document, kinds: Kinds, report: ProblemReport) -> None:
        self.document = document
        self.kinds = kinds
        self.report = report

    def pipeline(self, data: JSON, at: Path, owner: str) -> tuple[Task, ...]:
        """Read `tool`, which is one task or a list of tasks. Tasks without a name get one (D8)."""
        if data is None:
            return ()
        if isinstance(data, dict):
            return (self._task(data, self._labelled(at), f"{owner}_task"),)
        tasks = [
            self._task(each, self._labelled((*at, index)), f"task_{index}")
            for index, each in enumerate(data)
            if each is not None
        ]
        self.unique("duplicate-task", "task", [(task.name, (*task.at, "name")) for task in tasks])
        return tuple(tasks)

    def _labelled(self, at: Path) -> Path:
        """The path of a task. A labelled task of an older dialect is one level deeper, and is read too."""
        tree = self.document.find(at)
        assert isinstance(tree, source.Mapping)
        return at if "kind" in tree.entries else (*at, *tree.entries)

    def unique(self, code: str, what: str, names: list[tuple[str, Path]]) -> None:
        """Report names that occur twice in one list."""
        first: dict[str, Path] = {}
        for name, at in names:
            if name in first:
                related = (Related(self.report.at(first[name]), f'first occurrence of "{name}"'),)
                self.report.add(code, at, f'{what} "{name}" is defined twice', related=related)
            elif name:
                first[name] = at

    def _task(self, data: dict[str, JSON], at: Path, name: str) -> Task:
        kind = self.kinds.get(data.get("kind", ""))
        spec = data.get("spec", {})
        if data.get("name") in _RESERVED_NAMES:
            message = f'"{data["name"]}" is a scope or function of templates; choose another task name'
            self.report.add("bad-name", (*at, "name"), message)
        auth, fields, input = self._fields(kind, data, at)
        return Task(
            name=data.get("name") or name,
            kind=data.get("kind", ""),
            desc=data.get("desc"),
            auth=auth,
            fields=fields,
            input=input,
            set=self.writes(data.get("set", {}), (*at, "set")),
            policy=self._policy(spec.get("policy"), (*at, "spec", "policy")),
            spec={key: value for key, value in spec.items() if key != "policy"},
            at=at,
        )

    def _fields(
        self, kind: Kind | None, data: dict[str, JSON], at: Path
    ) -> tuple[str | None, dict[str, JSON], dict[str, JSON]]:
        """(auth, fields, input): fields of kinds without free input are moved into the input (D9)."""
        auth = data.get("auth")
        input = dict(data.get("input", {}))
        beside = {key: value for key, value in data.items() if key not in _TASK_KEYS}
        if kind is None:
            return auth, beside, input
        if kind.free_input:
            self._one_of(kind, beside, at)
            return auth, beside, input
        for key in (*beside, *(("auth",) if auth is not None else ())):
            if key in input:
                related = (Related(self.report.document.key_at((*at, key)), "also here"),)
                message = f'"{key}" is set both beside "kind" and under "input"'
                self.report.add("duplicate-field", (*at, "input", key), message, key=True, related=related)
        own_auth = input.pop("auth", None)
        fields = {**beside, **input}
        for key, field in kind.fields.keys.items():
            if field.required and key not in fields and not self._is_written(at, key):
                message = f'a task of kind "{kind.name}" needs "{key}": {field.doc}'
                self.report.add("missing-key", at, message, key=True)
        self._one_of(kind, fields, at)
        return auth or own_auth, {}, fields

    def _one_of(self, kind: Kind, fields: dict[str, JSON], at: Path) -> None:
        for group in kind.one_of:
            present = [key for key in group if key in fields]
            if len(present) > 1:
                message = f'a task of kind "{kind.name}" takes only one of {_quoted_list(group)}'
                where = next((p for p in ((*at, present[1]), (*at, "input", present[1])) if self.document.find(p)), at)
                self.report.add("misplaced-key", where, message, key=True)
            elif not present and not any(self._is_written(at, key) for key in group):
                self.report.add(
                    "missing-key", at, f'a task of kind "{kind.name}" needs {_quoted_list(group)}', key=True
                )

    def _is_written(self, at: Path, key: str) -> bool:
        """Is the key present, even if its value is invalid?"""
        return (key in self._written(at) and key not in _TASK_KEYS) or key in self._written((*at, "input"))

    def _written(self, at: Path) -> set[str]:
        """The keys that have a value. A key with null counts as left out, except `else`."""
        tree = self.document.find(at)
        if not isinstance(tree, source.Mapping):
            return set()
        return {key for key, value in tree.entries.items() if key == "else" or source.plain(value) is not None}

    def _policy(self, data: JSON, at: Path) -> Policy | None:
        if data is None or "rules" not in data:
            return None
        rules = data["rules"]
        read = [
            self._rule(rule, (*at, "rules", index), index == len(rules) - 1)
            for index, rule in enumerate(rules)
            if rule is not None
        ]
        return Policy(
            rules=tuple(rule for rule in read if rule is not None),
            whole=None not in read and None not in rules,
            on_unmatched=data.get("on_unmatched"),
            limits=data.get("limits", {}),
            at=at,
        )

    def rule_parts(self, rule: dict[str, JSON], at: Path, last: bool) -> RuleParts:
        """The common part of task and admission rules: when/then or else/then, with else last (D11, D89)."""
        written = self._written(at)
        if "else" not in written:
            if "when" not in written and "expr" not in written:
                self.report.add("missing-key", at, 'a rule needs "when" or "else"', fix='when: "{{ … }}"')
            invalid = self._without_then(rule, written, at) or "when" not in rule
            return RuleParts(invalid, False, rule.get("then"))
        if not last:
            self.report.add("rule-order", (*at, "else"), '"else" must be the last rule', key=True)
            return RuleParts(True, True, None)
        if "when" in written:
            self.report.add("misplaced-key", (*at, "when"), 'a rule has "when" or "else", not both', key=True)
        if "then" in written:
            message = '"then" belongs inside "else"'
            self.report.add("missing-then", (*at, "else"), message, key=True, fix="else: {then: {…}}")
            return RuleParts(True, True, None)
        inner = rule.get("else")
        if not isinstance(inner, dict):
            if inner is None and "else" in rule:
                message = '"else" is empty'
                self.report.add("missing-then", (*at, "else"), message, key=True, fix="else: {then: {…}}")
            return RuleParts(True, True, None)
        invalid = self._without_then(inner, self._written((*at, "else")), (*at, "else"))
        return RuleParts(invalid, True, inner.get("then"))

    def _without_then(self, holder: dict[str, JSON], written: set[str], at: Path) -> bool:
        if "then" in holder:
            return False
        if written <= {"when"}:
            self.report.add("missing-then", at, 'the rule has no action; add "then"', fix="then: {do: …}")
        return True

    def _rule(self, rule: dict[str, JSON], at: Path, last: bool) -> Rule | None:
        invalid, otherwise, then = self.rule_parts(rule, at, last)
        if then is None or invalid:
            return None
        inside: Path = (*at, "else", "then") if otherwise else (*at, "then")
        if "do" not in then:
            if "do" not in self._written(inside):
                self.report.add("missing-do", inside, '"then" needs a directive: "do"', fix="do: continue")
            return None
        self._check_directive_keys(then, inside)
        if otherwise and then["do"] == "skip":
            self.report.add("else-skip", (*inside, "do"), '"do: skip" under "else" would always skip the task')
            return None
        return Rule(
            when=None if otherwise else rule.get("when"),
            do=then["do"],
            to=then.get("to"),
            attempts=then.get("attempts"),
            backoff=then.get("backoff"),
            delay=then.get("delay"),
            max_delay=then.get("max_delay"),
            jitter=then.get("jitter"),
            message=then.get("message"),
            details=then.get("details", {}),
            set=self.writes(then.get("set", {}), (*inside, "set")),
            at=at,
        )

    def _check_directive_keys(self, then: dict[str, JSON], at: Path) -> None:
        """Check the keys that belong to one directive: `to` to jump, `attempts` to retry, and so on."""
        for directive, keys in _DIRECTIVE_KEYS.items():
            for key in keys:
                if key in then and then["do"] != directive:
                    message = f'"{key}" belongs to do: {directive} and has no effect with do: {then["do"]}'
                    self.report.add("no-effect", (*at, key), message, key=True)
        if then["do"] == "jump" and "to" not in then and "to" not in self._written(at):
            self.report.add("missing-key", at, 'do: jump needs "to": the task to continue with', fix="to: …")

    def writes(self, data: dict[str, JSON], at: Path) -> dict[str, JSON]:
        """The valid entries of `set`. Targets are ctx.*, step.* and iter.* (D29)."""
        good: dict[str, JSON] = {}
        for target, value in data.items():
            scope, _, rest = target.partition(".")
            if scope in ("ctx", "step", "iter") and rest and all(NAME.match(part) for part in rest.split(".")):
                good[target] = value
                continue
            if scope in ("workload", "input", "output", "keychain"):
                message = f'"{target}": {scope} is read-only'
            elif scope in ("ctx", "step", "iter"):
                message = f'"{target}" is not a valid target; write {scope}.name'
            else:
                message = f'"{target}" is not a valid target; set writes to ctx.*, step.* or iter.*'
            suggestion = self.report.similar(scope, ("ctx", "step", "iter"))
            fix = (
                f"{suggestion}.{rest}"
                if suggestion and rest and suggestion != scope
                else f"ctx.{target}"
                if not rest
                else None
            )
            self.report.add("bad-set-target", (*at, target), message, key=True, fix=fix)
        return good


def _quoted_list(group: tuple[str, ...]) -> str:
    return " or ".join(f'"{key}"' for key in group)


_SPEC_STRUCTURE = frozenset({"policy", "entry_step", "mode", "max_in_flight"})
_STEP_POLICY = ("lifecycle", "failure", "limits")


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


class _Reader:
    def __init__(self, document: Document, kinds: Kinds, report: ProblemReport) -> None:
        self.document = document
        self.kinds = kinds
        self.report = report
        self.tasks = TaskReader(document, kinds, report)

    def playbook(self, root: source.Mapping) -> Playbook:
        data = validate_record(root, language(self.kinds), (), self.report)
        metadata = dict(data.get("metadata", {}))
        steps = tuple(self._step(each, ("workflow", i)) for i, each in _numbered(data.get("workflow")))
        self._unique("duplicate-step", "step", [(each.name, (*each.at, "step")) for each in steps])
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
            input=data.get("input", {}),
            loops=self._loops(data.get("loop"), (*at, "loop")),
            tasks=self.tasks.pipeline(data.get("tool"), (*at, "tool"), name),
            set=self.tasks.writes(data.get("set", {}), (*at, "set")),
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
            input=data.get("input", {}),
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
        """Warn about templates in data, which are not evaluated."""
        if isinstance(value, str):
            if is_template(value):
                message = f"templates in {at[0]} are not evaluated; write it in the step that uses the value"
                self.report.add("template-in-data", at, message)
        elif isinstance(value, dict):
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
        policy=spec.get("policy", {}),
        spec=_layered(spec),
    )


def _layered(spec: dict[str, JSON]) -> dict[str, JSON]:
    """The part of a spec that takes part in the layering of task specs."""
    return {key: value for key, value in spec.items() if key not in _SPEC_STRUCTURE}


def _is_percent(text: str) -> bool:
    number = text.removesuffix("%")
    return text.endswith("%") and number.isdigit() and int(number) <= 100
