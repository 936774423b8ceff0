"""The pipeline of a step or block: tasks with their fields, rules and writes, from what the shapes left."""

from __future__ import annotations

from typing import NamedTuple

from noetl.errors import Related
from noetl.output import JSON
from noetl.playbook import source
from noetl.playbook.conform import NAME, ProblemReport
from noetl.playbook.kinds import Kind, Kinds
from noetl.playbook.model import Policy, Rule, Task
from noetl.playbook.source import Document, Path

SCOPES = (
    "workload", "ctx", "step", "iter", "input", "output", "keychain", "execution_id", "event",
    "_prev", "_task", "_attempt",
)  # fmt: skip
_TASK_KEYS = frozenset({"name", "kind", "desc", "auth", "input", "set", "spec"})
_TAKEN = frozenset({*SCOPES, "range", "now", "uuid", "loop", "true", "false", "none"})
_BELONGS = {
    "retry": ("attempts", "backoff", "delay", "max_delay", "jitter"),
    "jump": ("to",),
}


class RuleParts(NamedTuple):
    told: bool  # something is wrong with it, and has been told
    otherwise: bool  # it is the else
    then: dict[str, JSON] | None


class TaskReader:
    """Reads tasks; tells what shapes alone can not see."""

    def __init__(self, document: Document, kinds: Kinds, report: ProblemReport) -> None:
        self.document = document
        self.kinds = kinds
        self.report = report

    def pipeline(self, left: JSON, at: Path, owner: str) -> tuple[Task, ...]:
        """`tool`: one task, or a list of them; nameless ones get their name here (D8)."""
        if left is None:
            return ()
        if isinstance(left, dict):
            return (self._task(left, self._labelled(at), f"{owner}_task"),)
        tasks = [
            self._task(each, self._labelled((*at, index)), f"task_{index}")
            for index, each in enumerate(left)
            if each is not None
        ]
        self.unique("duplicate-task", "task", [(task.name, (*task.at, "name")) for task in tasks])
        return tuple(tasks)

    def _labelled(self, at: Path) -> Path:
        """In the labelled form of the older dialects the task stands one level deeper; it is still read."""
        tree = self.document.find(at)
        assert isinstance(tree, source.Mapping)
        return at if "kind" in tree.entries else (*at, *tree.entries)

    def unique(self, code: str, what: str, names: list[tuple[str, Path]]) -> None:
        """Names of one list must differ."""
        first: dict[str, Path] = {}
        for name, at in names:
            if name in first:
                related = (Related(self.report.at(first[name]), f'"{name}" stands here first'),)
                self.report.tell(code, at, f'{what} "{name}" is there twice', related=related)
            elif name:
                first[name] = at

    def _task(self, left: dict[str, JSON], at: Path, name: str) -> Task:
        kind = self.kinds.get(left.get("kind", ""))
        spec = left.get("spec", {})
        if left.get("name") in _TAKEN:
            message = (
                f'a task must not be named "{left["name"]}": templates would not see the scope of that name'
            )
            self.report.tell("bad-name", (*at, "name"), message)
        auth, fields, input = self._fields(kind, left, at)
        return Task(
            name=left.get("name") or name,
            kind=left.get("kind", ""),
            desc=left.get("desc"),
            auth=auth,
            fields=fields,
            input=input,
            set=self.writes(left.get("set", {}), (*at, "set")),
            policy=self._policy(spec.get("policy"), (*at, "spec", "policy")),
            spec={key: value for key, value in spec.items() if key != "policy"},
            at=at,
        )

    def _fields(
        self, kind: Kind | None, left: dict[str, JSON], at: Path
    ) -> tuple[str | None, dict[str, JSON], dict[str, JSON]]:
        """(auth, fields beside a free input, input): where a tool's fields stand is settled here (D9)."""
        auth = left.get("auth")
        input = dict(left.get("input", {}))
        beside = {key: value for key, value in left.items() if key not in _TASK_KEYS}
        if kind is None:
            return auth, beside, input
        if kind.free_input:
            self._one_of(kind, beside, at)
            return auth, beside, input
        for key in (*beside, *(("auth",) if auth is not None else ())):
            if key in input:
                related = (Related(self.report.document.key_at((*at, key)), "and here"),)
                message = f'"{key}" stands beside "kind" and under "input"'
                self.report.tell("duplicate-field", (*at, "input", key), message, key=True, related=related)
        own_auth = input.pop("auth", None)
        fields = {**beside, **input}
        for key, field in kind.fields.keys.items():
            if field.required and key not in fields and not self._stands(at, key):
                message = f'a task of kind "{kind.name}" needs "{key}": {field.doc}'
                self.report.tell("missing-key", at, message, key=True)
        self._one_of(kind, fields, at)
        return auth or own_auth, {}, fields

    def _one_of(self, kind: Kind, fields: dict[str, JSON], at: Path) -> None:
        for group in kind.one_of:
            given = [key for key in group if key in fields]
            if len(given) > 1:
                message = f'a task of kind "{kind.name}" takes one of {_words(group)}, not both'
                where = next(
                    (p for p in ((*at, given[1]), (*at, "input", given[1])) if self.document.find(p)), at
                )
                self.report.tell("misplaced-key", where, message, key=True)
            elif not given and not any(self._stands(at, key) for key in group):
                self.report.tell(
                    "missing-key", at, f'a task of kind "{kind.name}" needs {_words(group)}', key=True
                )

    def _stands(self, at: Path, key: str) -> bool:
        """Is the key written, though its value may not have fitted?"""
        return (key in self._written(at) and key not in _TASK_KEYS) or key in self._written((*at, "input"))

    def _written(self, at: Path) -> set[str]:
        """The keys that stand there with a value: a null is as good as nothing, but for `else`."""
        tree = self.document.find(at)
        if not isinstance(tree, source.Mapping):
            return set()
        return {
            key for key, value in tree.entries.items() if key == "else" or source.plain(value) is not None
        }

    def _policy(self, left: JSON, at: Path) -> Policy | None:
        if left is None or "rules" not in left:
            return None
        rules = left["rules"]
        read = [
            self._rule(rule, (*at, "rules", index), index == len(rules) - 1)
            for index, rule in enumerate(rules)
            if rule is not None
        ]
        return Policy(
            rules=tuple(rule for rule in read if rule is not None),
            whole=None not in read and None not in rules,
            on_unmatched=left.get("on_unmatched"),
            limits=left.get("limits", {}),
            at=at,
        )

    def rule_parts(self, rule: dict[str, JSON], at: Path, last: bool) -> RuleParts:
        """What task and admission rules have in common: when/then or else/then, else last (D11, D89)."""
        written = self._written(at)
        if "else" not in written:
            if "when" not in written and "expr" not in written:
                self.report.tell(
                    "missing-key", at, 'a rule needs "when", or is the "else"', fix='when: "{{ … }}"'
                )
            told = self._without_then(rule, written, at) or "when" not in rule
            return RuleParts(told, False, rule.get("then"))
        if not last:
            self.report.tell("rule-order", (*at, "else"), '"else" is the last rule', key=True)
            return RuleParts(True, True, None)
        if "when" in written:
            self.report.tell(
                "misplaced-key", (*at, "when"), 'a rule has "when" or "else", not both', key=True
            )
        if "then" in written:
            message = '"then" stands inside "else"'
            self.report.tell("missing-then", (*at, "else"), message, key=True, fix="else: {then: {…}}")
            return RuleParts(True, True, None)
        inner = rule.get("else")
        if not isinstance(inner, dict):
            if inner is None and "else" in rule:
                message = '"else" says nothing'
                self.report.tell("missing-then", (*at, "else"), message, key=True, fix="else: {then: {…}}")
            return RuleParts(True, True, None)
        told = self._without_then(inner, self._written((*at, "else")), (*at, "else"))
        return RuleParts(told, True, inner.get("then"))

    def _without_then(self, holder: dict[str, JSON], written: set[str], at: Path) -> bool:
        if "then" in holder:
            return False
        if written <= {"when"}:
            self.report.tell("missing-then", at, 'nothing says what to do: add "then"', fix="then: {do: …}")
        return True

    def _rule(self, rule: dict[str, JSON], at: Path, last: bool) -> Rule | None:
        told, otherwise, then = self.rule_parts(rule, at, last)
        if then is None or told:
            return None
        inside: Path = (*at, "else", "then") if otherwise else (*at, "then")
        if "do" not in then:
            if "do" not in self._written(inside):
                self.report.tell("missing-do", inside, '"then" must say what to do: "do"', fix="do: continue")
            return None
        self._belonging(then, inside)
        if otherwise and then["do"] == "skip":
            self.report.tell("else-skip", (*inside, "do"), '"else" with "skip" would skip the task always')
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
            set=self.writes(then.get("set", {}), (*inside, "set")),
            at=at,
        )

    def _belonging(self, then: dict[str, JSON], at: Path) -> None:
        """`to` goes with jump, `attempts` with retry, and so on."""
        for directive, keys in _BELONGS.items():
            for key in keys:
                if key in then and then["do"] != directive:
                    message = f'"{key}" goes with do: {directive}, not with do: {then["do"]}'
                    self.report.tell("no-effect", (*at, key), message, key=True)
        if then["do"] == "jump" and "to" not in then and "to" not in self._written(at):
            self.report.tell("missing-key", at, 'do: jump needs "to": the task to go on with', fix="to: …")

    def writes(self, left: dict[str, JSON], at: Path) -> dict[str, JSON]:
        """`set`: targets are ctx.*, step.*, iter.* (D29)."""
        good: dict[str, JSON] = {}
        for target, value in left.items():
            scope, _, rest = target.partition(".")
            if (
                scope in ("ctx", "step", "iter")
                and rest
                and all(NAME.match(part) for part in rest.split("."))
            ):
                good[target] = value
                continue
            if scope in ("workload", "input", "output", "keychain"):
                message = f'"{target}": {scope} can not be written'
            elif scope in ("ctx", "step", "iter"):
                message = f'"{target}" is not a path like {scope}.name'
            else:
                message = f'"{target}" is not a scope that can be written: ctx.*, step.* or iter.*'
            near = self.report.near(scope, ("ctx", "step", "iter"))
            fix = (
                f"{near}.{rest}" if near and rest and near != scope else f"ctx.{target}" if not rest else None
            )
            self.report.tell("bad-set-target", (*at, target), message, key=True, fix=fix)
        return good


def _words(group: tuple[str, ...]) -> str:
    return " or ".join(f'"{key}"' for key in group)
