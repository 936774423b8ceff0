"""Rewrites the templates of a document for the canonical form: `outcome.result.x` → `output.data.x`.

The document still has its old structure at this point, because the meaning of a name depends on the step
and the task around it. Only the changed tokens are replaced; everything else, also white space, stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import NamedTuple

from noetl.playbook import language
from noetl.playbook.dialects import parts, template_tokens
from noetl.playbook.dialects.arc_args import Inbox, is_from_workload
from noetl.playbook.dialects.layout.scalars import Finder, TextEdit, replace
from noetl.playbook.dialects.layout.tree import Leaf, Map, Node, leaves
from noetl.playbook.dialects.notes import Findings
from noetl.playbook.dialects.parts import StepPart
from noetl.playbook.dialects.rules import names_of
from noetl.playbook.dialects.template_tokens import ParsedTemplate, PathPart, PathRead, TemplateToken

SCOPES = frozenset({*language.SCOPES, "outcome", "vars", "args", "token", "result", "result_ref"})
OLD_REF = ("store", "key", "range", "checksum", "size", "schema_hint")  # parts of a reference in v2 and v10 (D53)
_DEFAULTS = (["|", "default"], ["|", "d"])
_DEFINED = (["is", "defined"], ["is", "undefined"], ["is", "not", "defined"], ["is", "not", "undefined"])
_KEPT = frozenset({"status", "error", "meta", "http", "pg", "py", "ref", "data"})


class TemplateContext(NamedTuple):
    """The meaning of the names in a template, depending on its position."""

    kind: str | None = None  # kind of the task whose outcome is read
    before: str | None = None  # kind of the task whose result is `_prev`
    labels: frozenset[str] = frozenset()  # tasks of the same pipeline
    bare: Mapping[str, str] = {}  # names without a scope → with it (D81)
    shared: frozenset[str] = frozenset()  # names that `set_shared` writes, so that `vars.x` is `ctx.x`
    payload: str = "input"  # the new name of `args`
    guaranteed: frozenset[str] | None = None  # keys of `args` that are always there; None: all that are read


class Remark(NamedTuple):
    start: int
    code: str
    message: str


class RewriteResult(NamedTuple):
    changes: list[TextEdit]
    remarks: list[Remark]


def rewrite(source: str, context: TemplateContext) -> RewriteResult:
    """The edits of a template, and remarks about it."""
    if not template_tokens.is_template(source):
        return RewriteResult([], [])
    parsed = template_tokens.parse(source)
    if parsed is None:
        return RewriteResult(
            [], [Remark(0, "unread-template", "the template cannot be parsed, and has not been changed")]
        )
    rewriter = _Rewriter(parsed, context)
    for reading in parsed.readings:
        if reading.root not in parsed.bound:
            rewriter.reading(reading)
    rewriter.statuses()
    return RewriteResult(rewriter.changes, rewriter.remarks)


class _Rewriter:
    def __init__(self, parsed: ParsedTemplate, context: TemplateContext) -> None:
        self.parsed = parsed
        self.context = context
        self.changes: list[TextEdit] = []
        self.remarks: list[Remark] = []

    def reading(self, reading: PathRead) -> None:
        root = reading.root
        self.old_reference(reading)
        if root in self.context.labels:
            self.label(reading)
        elif root == "outcome":
            self.outcome(reading)
        elif root == "vars":
            shared = bool(reading.parts) and reading.parts[0].name in self.context.shared
            self.root(reading, "ctx" if shared else "step")
        elif root == "args":
            self.args(reading, reading.parts)
        elif root == "token" and reading.parts and reading.parts[0].name == "args":
            self.changes.append(TextEdit(reading.parts[0].start, reading.parts[0].end, ""))
            self.args(reading, reading.parts[1:])
        elif root == "_prev" and self.context.before == "http" and reading.parts:
            if reading.parts[0].name in ("data", "status_code", "headers"):
                words = "`_prev` of an http task is the response body, so `_prev.data` may have to be `_prev`"
                self.remark(reading, "http-body", words)
        elif root in self.context.bare:
            self.root(reading, self.context.bare[root])
        elif root == "result_ref":
            self.root(reading, "output.ref")
        elif root == "result":
            self.root(reading, "output.data")
            self.remark(reading, "result-name", "`result` is now read as the data of the task: `output.data`")

    def old_reference(self, reading: PathRead) -> None:
        path = reading.path
        for name, inner in pairwise(path):
            if name.endswith("ref") and inner in OLD_REF:
                words = f"a reference has `type`, `locator`, `auth_reference` and `meta`, but no `{inner}`"
                self.remark(reading, "old-ref", words)

    def root(self, reading: PathRead, name: str) -> None:
        self.changes.append(TextEdit(reading.start, reading.start + len(reading.root), name))

    def remark(self, reading: PathRead, code: str, message: str) -> None:
        self.remarks.append(Remark(reading.start, code, message))

    def label(self, reading: PathRead) -> None:
        """The output of an earlier task has the parts of `output`; its payload is `data`."""
        if reading.parts and reading.parts[0].name == "result":
            self.part(reading.parts[0], "data")
            name = reading.root
            self.remark(reading, "result-name", f"`{name}.result` has become `{name}.data`")

    def part(self, part: PathPart, name: str) -> None:
        self.changes.append(TextEdit(part.start, part.end, f"['{name}']" if part.bracketed else f".{name}"))

    def drop(self, part: PathPart) -> None:
        self.changes.append(TextEdit(part.start, part.end, ""))

    def outcome(self, reading: PathRead) -> None:
        self.root(reading, "output")
        if not reading.parts:
            words = "the whole `outcome` is read; it is now `output`, with `data` instead of `result`"
            self.remark(reading, "whole-outcome", words)
            return
        first, *rest = reading.parts
        if first.name == "result_ref":
            self.part(first, "ref")
        elif first.name == "result":
            self.result(reading, first, rest[0] if rest else None)
        elif first.name not in _KEPT:
            words = f"the older dialects have no `outcome.{first.name}`; it has become `output.{first.name}`"
            self.remark(reading, "unknown-outcome", words)

    def result(self, reading: PathRead, first: PathPart, second: PathPart | None) -> None:
        if self.context.kind != "http":
            self.part(first, "data")
            return
        match None if second is None else second.name:
            case "data":
                self.drop(first)
                words = "`output.data` is the response body: `outcome.result.data` has become `output.data`"
            case "status_code" if second is not None:
                self.part(first, "http")
                self.part(second, "status")
                words = "`outcome.result.status_code` has become `output.http.status`"
            case "headers":
                self.part(first, "http")
                words = "`outcome.result.headers` has become `output.http.headers`, with names in lower case"
            case None:
                self.part(first, "data")
                words = "`output.data` is only the response body, which was `outcome.result.data`"
            case name:
                self.part(first, "data")
                words = f"`output.data` is the response body; check that `{name}` is a part of it"
        self.remark(reading, "http-body", words)

    def args(self, reading: PathRead, parts: tuple[PathPart, ...]) -> None:
        name = self.context.payload
        if not parts:
            self.root(reading, name)
            words = f"all of `args` is read: `{name}` has only the keys that the step's `input` binds"
            self.remark(reading, "whole-args", words)
            return
        guaranteed = self.context.guaranteed
        if guaranteed is not None and parts[0].name not in guaranteed and not self.defaulted(reading):
            if name != "input":  # for the body of a step, its binding has the note
                words = f"not every token provides `{parts[0].name}`; without it the value is null"
                self.remark(reading, "payload-missing", words)
            alone = self.parsed.typed and (reading.first, reading.after) == (1, len(self.parsed.tokens) - 1)
            self.root(reading, name if alone else f"({name}")
            behind = " | default(none)" if alone else " | default(none))"
            self.changes.append(TextEdit(reading.end, reading.end, behind))
            return
        self.root(reading, name)

    def defaulted(self, reading: PathRead) -> bool:
        behind = [token.text for token in self.parsed.tokens[reading.after : reading.after + 3]]
        return behind[:2] in _DEFAULTS or behind in _DEFINED or behind[:2] in _DEFINED

    def statuses(self) -> None:
        """Replace `'success'` with `'ok'` where a status is compared with it, and nowhere else (D21)."""
        done: set[int] = set()
        status = [reading for reading in self.parsed.readings if self.is_status(reading)]
        for reading in status:
            for token in compared_strings(self.parsed.tokens, reading):
                if template_tokens.string_value(token) == "success" and token.start not in done:
                    done.add(token.start)
                    self.changes.append(TextEdit(token.start + 1, token.end - 1, "ok"))
        for token in self.parsed.tokens if status else []:
            if token.type == "string" and template_tokens.string_value(token) == "success" and token.start not in done:
                words = "a status is `ok` where v2 has `success`; this `success` has not been changed"
                self.remarks.append(Remark(token.start, "success-left", words))

    def is_status(self, reading: PathRead) -> bool:
        known = reading.root in ("outcome", "output", "event") or reading.root in self.context.labels
        return known and len(reading.parts) == 1 and reading.parts[0].name == "status"


def compared_strings(tokens: list[TemplateToken], reading: PathRead) -> list[TemplateToken]:
    """The strings that a path is compared with: by == and !=, from both sides, and by `in`."""
    behind = reading.after
    while [token.text for token in tokens[behind : behind + 1]] == ["|"] and behind + 1 < len(tokens):
        behind += 2
        if behind < len(tokens) and tokens[behind].text == "(":
            behind = template_tokens.closing_bracket(tokens, behind) + 1
    words = [token.text for token in tokens[behind : behind + 3]]
    strings: list[TemplateToken] = []
    if words[:1] in (["=="], ["!="]):
        strings += tokens[behind + 1 : behind + 2]
    member = 1 if words[:1] == ["in"] else 2 if words[:2] == ["not", "in"] else 0
    if member and words[member : member + 1] and words[member] in ("[", "("):
        strings += tokens[behind + member : template_tokens.closing_bracket(tokens, behind + member)]
    if reading.first >= 2 and tokens[reading.first - 1].text in ("==", "!="):
        strings.append(tokens[reading.first - 2])
    return [token for token in strings if token.type == "string"]


def rewrite_templates(root: Map, inboxes: dict[str, Inbox], findings: Findings) -> None:
    workload = {name: f"workload.{name}" for name in parts.workload_keys(root) if name not in SCOPES}
    for step in parts.steps(root):
        inbox = None if step.block else inboxes.get(step.name)
        _in_step(step, workload, inbox, findings)


def _in_step(step: StepPart, workload: dict[str, str], inbox: Inbox | None, findings: Findings) -> None:
    tasks = parts.tasks(step.body)
    iterators = {name: f"iter.{name}" for name in step.iterators if name not in SCOPES}
    outside = TemplateContext(
        kind=tasks[-1].kind if tasks else None,
        labels=frozenset(names_of(step.body)),
        bare={**workload, **iterators},
        shared=_shared(step.body),
        guaranteed=_always_bound(step.body, inbox, workload),
    )
    for entry in step.body.entries:
        context = outside
        if entry.name in ("step", "desc", "tool"):
            continue
        if entry.name == "loop":
            context = outside._replace(bare=workload)
        elif entry.name == "args" and inbox is not None:
            context = outside._replace(payload=inbox.path, guaranteed=inbox.sure)
        _rewrite(entry.value, context, findings)
    for value in parts.not_tasks(step.body):
        _rewrite(value, outside, findings)
    before: str | None = None
    for task in parts.all_tasks(step.body):
        decides = parts.is_decision(task.body)
        inner = {id(leaf) for each in parts.inner_tasks(task) for leaf in leaves(each.body)}
        context = outside._replace(kind=before if decides else task.kind, before=before)
        _rewrite(task.body, context, findings, inner)
        before = before if decides else task.kind


def _always_bound(body: Map, inbox: Inbox | None, workload: Mapping[str, str]) -> frozenset[str] | None:
    """The keys that the `input` of the step always has after the migration; None: they are not known."""
    if inbox is None or (isinstance(body.get("args"), Leaf) and not parts.is_null(body.get("args"))):
        return None
    from_workload = {key for key in inbox.reads if is_from_workload(key, inbox, workload)}
    return inbox.sure | inbox.own | from_workload


def _shared(body: Map) -> frozenset[str]:
    """The names that the step writes with `set_shared` and not also with `set_vars`."""
    names: dict[str, set[str]] = {"set_shared": set(), "set_vars": set()}
    for holder in parts.holders(body):
        for key, targets in names.items():
            inner = holder.map(key)
            targets.update(entry.name for entry in inner.entries) if inner else None
    return frozenset(names["set_shared"] - names["set_vars"])


def _rewrite(value: Node, context: TemplateContext, findings: Findings, other: Collection[int] = ()) -> None:
    """Rewrite the texts of the value. `other`: the ids of those that belong to tasks inside it."""
    code = parts.code_of(value) if isinstance(value, Map) else None
    for leaf in leaves(value):
        if id(leaf) in other:
            continue
        if leaf is not code:
            _rewrite_leaf(leaf, context, findings)
        elif template_tokens.free_reads(leaf.text):
            words = "templates in the code of a python task are not evaluated; bind the values under `input`"
            findings.note(leaf.start, "template-in-code", words)


def _rewrite_leaf(leaf: Leaf, context: TemplateContext, findings: Findings) -> None:
    changes, remarks = rewrite(leaf.text, context)
    finder = Finder(leaf)
    for remark in remarks:
        findings.note(finder.offset(remark.start), remark.code, remark.message)
    if changes:
        made = replace(leaf, changes)
        leaf.raw, leaf.text, leaf.style = made.raw, made.text, made.style
