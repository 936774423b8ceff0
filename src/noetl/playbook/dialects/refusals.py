"""Rejects constructs that cannot be migrated: reserved words (D61), root `vars` (D3), mixed dialects (D1).

All of them are reported at once, with their positions and replacements.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl.errors import Related
from noetl.playbook.dialects import parts
from noetl.playbook.dialects.detect import DetectedDialect
from noetl.playbook.dialects.layout.tree import LayoutEntry, Map
from noetl.playbook.dialects.notes import Findings

ADVICE = {
    "case": "write rules under the task's `spec.policy.rules`, or guards on `next.arcs`",
    "pipe": "write the tasks as a list under `tool`, which is a pipeline",
    "sink": "add a task that stores the data and returns a reference",
    "retry": "write a rule with `do: retry` under the task's `spec.policy.rules`",
}
_AGES = {
    "v2": "v2",
    "old": "v2 and v10",
    "late": "v10 and the canonical form",
    "canonical": "the canonical form",
}


def refuse_reserved(root: Map, findings: Findings) -> None:
    for entry in _reserved(root):
        word = entry.name if entry.name in ADVICE else "sink"
        message = f'"{word}" is no longer part of the language and has no automatic replacement'
        findings.refuse(entry.start, message, code="reserved-word", fix=ADVICE[word])


def refuse_root_vars(root: Map, findings: Findings) -> None:
    entry = root.entry("vars")
    if entry is not None:
        message = 'no dialect has "vars" at the root, and the migration cannot know whether its values change'
        fix = "move constant values to `workload`, and write values that change to `ctx` with `set`"
        findings.refuse(entry.start, message, fix=fix)


def refuse_mixed(detected: DetectedDialect, findings: Findings) -> None:
    if detected.mixed is None:
        return
    old, new = detected.mixed
    there = findings.layout.mark(new.at)
    newer = f"belongs to {_AGES[new.age]}"
    message = (
        f'"{old.what}" belongs to {_AGES[old.age]}, but "{new.what}" at {there.line}:{there.column} {newer}'
    )
    related = (Related(there, f'"{new.what}" {newer}'),)
    fix = "write the whole document in one dialect, and migrate it then"
    findings.refuse(old.at, message, code="mixed-dialects", fix=fix, related=related)


def _reserved(root: Map) -> Iterator[LayoutEntry]:
    for step in parts.steps(root):
        loop = step.body.map("loop")
        yield from _words(step.body)
        yield from _words(loop)
        for arc in parts.arcs(step.body):
            yield from _words(arc)
        tool = step.body.map("tool")
        if tool is not None and tool.get("kind") is None:
            yield from _words(tool)
        for task in parts.tasks(step.body):
            if task.label is not None and task.label.name in ADVICE and task.kind is None:
                yield task.label
            elif task.body is not tool or task.kind is not None:
                yield from _words(task.body)
                kind = task.body.entry("kind")
                if kind is not None and task.kind == "sink":
                    yield kind


def _words(body: Map | None) -> Iterator[LayoutEntry]:
    for entry in body.entries if body is not None else []:
        if entry.name in ADVICE:
            yield entry
