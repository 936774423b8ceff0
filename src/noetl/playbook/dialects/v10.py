"""v10 → canonical, repairs of rules, and what no migration can convert."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.errors import Related
from noetl.playbook.dialects import parts, template_tokens
from noetl.playbook.dialects.arc_args import Inbox, bind_input, check_targets, send_all
from noetl.playbook.dialects.detect import DetectedDialect
from noetl.playbook.dialects.layout.tree import Layout, LayoutEntry, Leaf, Map, leaves, pair, quoted, rename
from noetl.playbook.dialects.notes import Findings
from noetl.playbook.dialects.parts import StepPart
from noetl.playbook.dialects.rules import name_tasks, rewrite_rule
from noetl.playbook.dialects.set_keys import SetRewriter
from noetl.playbook.dialects.v2 import to_router

EXACT = "event.name in ['step.done','step.failed','loop.done']"  # a guard that is also true after a failure (D80)


def upgrade(layout: Layout, inboxes: dict[str, Inbox], findings: Findings, *, exact: bool) -> None:
    assert isinstance(layout.root, Map)
    root = layout.root
    workload = parts.workload_keys(root)
    steps = parts.steps(root)
    names = frozenset(step.name for step in steps if not step.block)
    for step in steps:
        repair(step, findings)
        writes = SetRewriter(findings, step.body.map("loop"))
        following = step.body.entry("next")
        if following is not None:
            to_router(following)
            check_targets(step, names, findings)
            for arc in parts.arcs(step.body):
                _guard(arc, findings, exact=exact)
                inbox = inboxes.get(arc.text("step") or "")
                if inbox is not None and not step.block:
                    send_all(arc, inboxes[step.name], inbox)
                writes.gather(arc, inbox.path if inbox else None, whole=inbox is not None and inbox.resets)
        for holder in parts.holders(step.body):
            writes.gather(holder)
        for task in parts.all_tasks(step.body):
            _take_args(task.body, findings)
        name_tasks(step, findings)
        if step.block:
            _take_args(step.body, findings)
        else:
            bind_input(step, inboxes[step.name], workload, findings)


def repair(step: StepPart, findings: Findings) -> None:
    """Repair rules whose action is beside `then` instead of inside it."""
    for task in parts.all_tasks(step.body):
        policy = parts.policy(task.body)
        for rule in policy.rules if policy and policy.entry.name == "rules" else []:
            rewrite_rule(rule, findings, v2=False)


def _take_args(body: Map, findings: Findings) -> None:
    """`args` of a task or block → `input`."""
    entry = body.entry("args")
    if entry is None:
        return
    if body.get("input") is not None:
        findings.refuse(entry.start, '"args" has been renamed to "input", but both are present', fix="keep one of them")
        return
    rename(entry, "input")


def _guard(arc: Map, findings: Findings, *, exact: bool) -> None:
    """In the older dialects, an arc that does not read the result was also taken after a failure (D80)."""
    when = arc.entry("when")
    text = when.value.text if when is not None and isinstance(when.value, Leaf) and not when.value.null else None
    if text is not None and _reads_result(text):
        return
    target = arc.text("step") or ""
    if not exact:
        message = f'the arc to "{target}" is taken only after success; it used to be taken after a failure too'
        findings.note(arc.start, "arc-on-failure", message)
        return
    parsed = template_tokens.parse(text) if text is not None and template_tokens.is_template(text) else None
    if when is None or text is None or text in ("true", "True", "TRUE"):
        made = pair("when", quoted(f"{{{{ {EXACT} }}}}"))
        if when is not None:
            arc.entries.remove(when)
        place = arc.index("step")
        arc.entries.insert(0 if place is None else place + 1, made)
    elif parsed is not None and parsed.typed:
        inner = text[parsed.tokens[0].end : parsed.tokens[-1].start].strip()
        when.value = quoted(f"{{{{ {EXACT} and ({inner}) }}}}")
    else:
        message = f'the guard of the arc to "{target}" cannot be extended, so the arc is taken only after success'
        findings.note(arc.start, "arc-on-failure", message)


def _reads_result(text: str) -> bool:
    """Does the guard read `event`, `output.status` or `output.error` (D37)?"""
    paths = [reading.path for reading in template_tokens.free_reads(text)]
    return any(path[0] == "event" or path[:2] in (("output", "status"), ("output", "error")) for path in paths)


ADVICE = {
    "case": "write rules under the task's `spec.policy.rules`, or guards on `next.arcs`",
    "pipe": "write the tasks as a list under `tool`, which is a pipeline",
    "sink": "add a task that stores the data and returns a reference",
    "retry": "write a rule with `do: retry` under the task's `spec.policy.rules`",
}
_AGES = {"v2": "v2", "old": "v2 and v10", "late": "v10 and the canonical form", "canonical": "the canonical form"}


def refuse_reserved(root: Map, findings: Findings) -> None:
    known = {each.at.line for each in findings.problems}
    for entry in _reserved(root):
        ends = [entry.start, *(leaf.start for leaf in leaves(entry.value))]
        if known & set(range(findings.layout.mark(entry.start).line, findings.layout.mark(max(ends)).line + 1)):
            continue  # a rule has said more about it
        word = entry.name if entry.name in ADVICE else "sink"
        message = f'"{word}" is no longer part of the language and has no automatic replacement'
        findings.refuse(entry.start, message, code="reserved-word", fix=ADVICE[word])


def note_mixed(detected: DetectedDialect, findings: Findings) -> None:
    """Each construct is translated by its own dialect; one note says that the document mixes them (D117)."""
    assert isinstance(findings.layout.root, Map)
    for step in parts.steps(findings.layout.root):
        args, binding = step.body.entry("args"), step.body.entry("input")
        if args is not None and binding is not None:
            there = findings.layout.mark(binding.start)
            message = (
                f'"args" has been renamed to "input", but the step also has "input" at {there.line}:{there.column}'
            )
            related = (Related(there, '"input" belongs to the canonical form'),)
            findings.refuse(args.start, message, code="mixed-dialects", fix="keep one of them", related=related)
    if detected.mixed is None:
        return
    old, new = detected.mixed
    there = findings.layout.mark(new.at)
    message = (
        f'"{old.what}" belongs to {_AGES[old.age]}, but "{new.what}" in line {there.line} belongs to {_AGES[new.age]}'
    )
    findings.note(old.at, "mixed-dialects", message)


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
        for task in parts.all_tasks(step.body):
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
