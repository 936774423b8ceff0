"""Every template of a document, rewritten for the place where it stands.

The document still has its old structure here: what a name means depends on the step and the task around it.
"""

from __future__ import annotations

from noetl.playbook.dialects import parts, template_tokens
from noetl.playbook.dialects.arc_args import Inbox
from noetl.playbook.dialects.expressions import SCOPES, TemplatePlace, rewrite
from noetl.playbook.dialects.layout.scalars import Finder, replace
from noetl.playbook.dialects.layout.tree import Leaf, Map, Node, leaves
from noetl.playbook.dialects.notes import Findings
from noetl.playbook.dialects.parts import StepPart
from noetl.playbook.dialects.task_names import names_of


def rewrite_templates(root: Map, inboxes: dict[str, Inbox], findings: Findings) -> None:
    workload = {name: f"workload.{name}" for name in parts.workload_keys(root) if name not in SCOPES}
    for step in parts.steps(root):
        inbox = None if step.block else inboxes.get(step.name)
        _in_step(step, workload, inbox, findings)


def _in_step(step: StepPart, workload: dict[str, str], inbox: Inbox | None, findings: Findings) -> None:
    tasks = parts.tasks(step.body)
    iterators = {name: f"iter.{name}" for name in step.iterators if name not in SCOPES}
    outside = TemplatePlace(
        kind=tasks[-1].kind if tasks else None,
        labels=frozenset(names_of(step.body)),
        bare={**workload, **iterators},
        shared=_shared(step.body),
    )
    for entry in step.body.entries:
        place = outside
        if entry.name in ("step", "tool"):
            continue
        if entry.name == "loop":
            place = outside._replace(bare=workload)
        elif entry.name == "args" and inbox is not None:
            place = outside._replace(payload=inbox.path, sure=inbox.sure())
        _rewrite(entry.value, place, findings)
    for value in parts.not_tasks(step.body):
        _rewrite(value, outside, findings)
    before: str | None = None
    for task in tasks:
        _rewrite(task.body, outside._replace(kind=task.kind, before=before), findings)
        before = task.kind


def _shared(body: Map) -> frozenset[str]:
    """What the step writes by `set_shared` and not by `set_vars` too."""
    names: dict[str, set[str]] = {"set_shared": set(), "set_vars": set()}
    for holder in parts.holders(body):
        for key, found in names.items():
            inner = holder.map(key)
            found.update(entry.name for entry in inner.entries) if inner else None
    return frozenset(names["set_shared"] - names["set_vars"])


def _rewrite(value: Node, place: TemplatePlace, findings: Findings) -> None:
    code = parts.code_of(value) if isinstance(value, Map) else None
    for leaf in leaves(value):
        if leaf is not code:
            _rewrite_leaf(leaf, place, findings)
        elif template_tokens.free_readings(leaf.text):
            words = (
                "code of a python task is never rendered; bind the values under `input` and use their names"
            )
            findings.note(leaf.start, "template-in-code", words)


def _rewrite_leaf(leaf: Leaf, place: TemplatePlace, findings: Findings) -> None:
    changes, remarks = rewrite(leaf.text, place)
    finder = Finder(leaf)
    for remark in remarks:
        findings.note(finder.offset(remark.start), remark.code, remark.message)
    if changes:
        made = replace(leaf, changes)
        leaf.raw, leaf.text, leaf.style = made.raw, made.text, made.style
