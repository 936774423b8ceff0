"""Reads the tasks of a pipeline, with `choose`, `while` and `until`, and reports what the shapes do not cover."""

from __future__ import annotations

from typing import NamedTuple

from noetl.errors import Related
from noetl.output import JSON, STORED
from noetl.playbook import source
from noetl.playbook.branches import Branching, BranchItems, Item, expanded
from noetl.playbook.kinds import Kind, Kinds
from noetl.playbook.language import SCOPES
from noetl.playbook.model import DECISIONS, Form, Policy, Rule, Task
from noetl.playbook.source import Document, Path
from noetl.playbook.validation import NAME, ProblemReport

_TASK_KEYS = frozenset({"name", "kind", "desc", "auth", "input", "set", "spec"})
# A task may be called "saved", as in playbooks of 0.1.0: it hides the scope in its own pipeline.
_RESERVED_NAMES = frozenset({*SCOPES, "range", "now", "uuid", "loop", "true", "false", "none"}) - {"saved"}
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
        tasks = expanded(self._items(data, at, owner, ""))
        if not isinstance(data, dict) or len(tasks) > 1:
            names = [(task.name, (*task.at, "name", *(("_end",) if task.form == "jump" else ()))) for task in tasks]
            self.unique("duplicate-task", "task", names)
        return tasks

    def _items(self, data: JSON, at: Path, owner: str, prefix: str) -> list[Item]:
        """`owner` gives the name of a single item without one, `prefix` begins the names of those in a list."""
        if isinstance(data, dict):
            found = [self._item(data, at, f"{owner}_{_form(data)}")]
        else:
            numbered = [(index, each) for index, each in enumerate(data) if each is not None]
            found = [self._item(each, (*at, index), f"{prefix}{_form(each)}_{index}") for index, each in numbered]
        return [item for item in found if item is not None]

    def _item(self, data: dict[str, JSON], at: Path, name: str) -> Item | None:
        form = _form(data)
        if form == "task":
            return self._task(data, self._labelled(at), name)
        name = data.get("name") or name
        self._check_name(data, at)
        branches = self._branches(data[form], name, (*at, form))
        read = [branch for branch in branches if branch is not None]
        return Branching(form, name, data.get("desc"), read, len(read) == len(branches), at) if read else None

    def _branches(self, data: JSON, name: str, at: Path) -> list[BranchItems | None]:
        if isinstance(data, dict):
            items = self._inside(data, "tool", at, name)
            return [BranchItems(data["when"], items, at) if items and "when" in data else None]
        if not data:
            fix = '- when: "{{ … }}"\n  then: {kind: …}'
            self.report.add("missing-key", at, f'"{at[-1]}" has no branches', key=True, fix=fix)
        last = len(data) - 1
        return [None if each is None else self._branch(each, name, (*at, i), i == last) for i, each in enumerate(data)]

    def _branch(self, data: dict[str, JSON], name: str, at: Path, last: bool) -> BranchItems | None:
        invalid, otherwise, _ = self.rule_parts(data, at, last, "branch", "{kind: …}")
        holder, inside = (data.get("else"), (*at, "else")) if otherwise else (data, at)
        if invalid or holder is None:
            return None
        items = self._inside(holder, "then", inside, f"{name}_{'else' if otherwise else at[-1]}")
        return BranchItems(None if otherwise else data["when"], items, at) if items else None

    def _inside(self, holder: dict[str, JSON], key: str, at: Path, owner: str) -> list[Item]:
        """The items under a key, which must not be empty."""
        if holder.get(key) == [] or key not in self._written(at):
            message = f'there are no tasks under "{key}"'
            self.report.add("missing-key", (*at, key), message, key=True, fix=f"{key}: {{kind: …}}")
        return self._items(holder[key], (*at, key), owner, f"{owner}_") if holder.get(key) else []

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
                message, fix = f'{what} "{name}" is defined twice', None
                if self.document.find(at) is None or self.document.find(first[name]) is None:
                    message, fix = f"{message}: one of them has no name of its own, and gets this one", "name: …"
                self.report.add(code, at, message, fix=fix, related=related)
            elif name:
                first[name] = at

    def _check_name(self, data: dict[str, JSON], at: Path) -> None:
        if data.get("name") in _RESERVED_NAMES:
            message = f'"{data["name"]}" is a scope or function of templates; choose another task name'
            self.report.add("bad-name", (*at, "name"), message)

    def _task(self, data: dict[str, JSON], at: Path, name: str) -> Task:
        kind = self.kinds.get(data.get("kind", ""))
        spec = data.get("spec", {})
        self._check_name(data, at)
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

    def input(self, data: dict[str, JSON], at: Path) -> dict[str, JSON]:
        """The `input` of a step, a block or a task."""
        input: dict[str, JSON] = data.get("input", {})
        self.check_keys(input, (*at, "input"))
        return input

    def check_keys(self, value: dict[str, JSON], at: Path) -> None:
        if STORED in value:
            message = f'"{STORED}" is reserved for values in the result store; choose another name'
            self.report.add("bad-name", (*at, STORED), message, key=True)

    def _fields(
        self, kind: Kind | None, data: dict[str, JSON], at: Path
    ) -> tuple[str | None, dict[str, JSON], dict[str, JSON]]:
        """(auth, fields, input): fields of kinds without free input are moved into the input (D9)."""
        auth = data.get("auth")
        input = dict(self.input(data, at))
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
        return {key for key, value in tree.entries.items() if key == "else" or not source.is_null(value)}

    def _policy(self, data: JSON, at: Path) -> Policy | None:
        if data is None:
            return None
        self.check_limit(data.get("limit"), (*at, "limit"))
        if "rules" not in data and "limit" not in data:
            if not {"rules", "limit"} & self._written(at):
                message = 'a policy needs "rules" or "limit"'
                self.report.add("missing-key", at, message, key=True, fix="rules: […]")
            return None
        rules = data.get("rules", [])
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
            limit=data.get("limit", {}),
            at=at,
        )

    def check_limit(self, limit: JSON, at: Path) -> None:
        """A limit needs something that it limits (D113)."""
        if limit is not None and not {"in_flight", "rate"} & self._written(at):
            message = 'a limit needs "in_flight" or "rate"; without them it limits nothing'
            self.report.add("missing-key", at, message, key=True, fix="in_flight: 3")

    def rule_parts(
        self, rule: dict[str, JSON], at: Path, last: bool, what: str = "rule", action: str = "{do: …}"
    ) -> RuleParts:
        """The common part of rules and branches: when/then or else/then, with else last (D11, D89)."""
        written = self._written(at)
        if "else" not in written:
            if "when" not in written and "expr" not in written:
                self.report.add("missing-key", at, f'a {what} needs "when" or "else"', fix='when: "{{ … }}"')
            invalid = self._without_then(rule, written, at, what, action) or "when" not in rule
            return RuleParts(invalid, False, rule.get("then"))
        if not last:
            self.report.add("rule-order", (*at, "else"), f'"else" must be the last {what}', key=True)
            return RuleParts(True, True, None)
        if "when" in written:
            self.report.add("misplaced-key", (*at, "when"), f'a {what} has "when" or "else", not both', key=True)
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
        invalid = self._without_then(inner, self._written((*at, "else")), (*at, "else"), what, action)
        return RuleParts(invalid, True, inner.get("then"))

    def _without_then(self, holder: dict[str, JSON], written: set[str], at: Path, what: str, action: str) -> bool:
        if "then" in holder:
            return False
        if written <= {"when"}:
            self.report.add("missing-then", at, f'the {what} has no action; add "then"', fix=f"then: {action}")
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

    def writes(self, data: dict[str, JSON], at: Path, *, saves: bool = False) -> dict[str, JSON]:
        """The valid entries of `set`. Targets are ctx.*, step.* and iter.* (D29), and saved.* where `saves`."""
        good: dict[str, JSON] = {}
        for target, value in data.items():
            scope, _, rest = target.partition(".")
            if scope == "saved":
                self._write_saved(good, target, value, at, saves=saves)
                continue
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

    def _write_saved(self, good: dict[str, JSON], target: str, value: JSON, at: Path, *, saves: bool) -> None:
        """A value that outlives the execution is written only when a whole step has succeeded."""
        name = target.partition(".")[2]
        if saves and NAME.match(name):
            good[target] = value
            return
        if not saves:
            message = f'"{target}": only the set of a step writes saved.*, when the step has succeeded'
        else:
            message = f'"{target}" is not a valid target; write saved.name, and a mapping as the whole value'
        self.report.add("bad-set-target", (*at, target), message, key=True)


def _form(data: dict[str, JSON]) -> Form:
    return next((form for form in DECISIONS if form in data and "kind" not in data), "task")


def _quoted_list(group: tuple[str, ...]) -> str:
    return " or ".join(f'"{key}"' for key in group)
