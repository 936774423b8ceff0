"""v10 → canonical: `set`, `input`, `name`, arcs (004 §10), and repairs of rules (D11, D89).

Templates have already been rewritten, and `noetl.playbook.dialects.v2` has already converted v2 to v10.
"""

from __future__ import annotations

from noetl.playbook.dialects import parts, template_tokens
from noetl.playbook.dialects.arc_args import Inbox, bind_input, check_targets
from noetl.playbook.dialects.layout.tree import Layout, Leaf, Map, pair, quoted, rename
from noetl.playbook.dialects.notes import Findings
from noetl.playbook.dialects.parts import StepPart
from noetl.playbook.dialects.rules import rewrite_rule
from noetl.playbook.dialects.set_keys import SetRewriter
from noetl.playbook.dialects.task_names import name_tasks
from noetl.playbook.dialects.v2 import to_router

EXACT = (
    "event.name in ['step.done','step.failed','loop.done']"  # a guard that is also true after a failure (D80)
)


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
                writes.gather(arc, inbox.path if inbox else None)
        for holder in parts.holders(step.body):
            writes.gather(holder)
        for task in parts.tasks(step.body):
            _take_args(task.body, findings)
        name_tasks(step, findings)
        if step.block:
            _take_args(step.body, findings)
        else:
            bind_input(step, inboxes[step.name], workload, findings)


def repair(step: StepPart, findings: Findings) -> None:
    """Repair rules whose action is beside `then` instead of inside it."""
    for task in parts.tasks(step.body):
        policy = parts.policy(task.body)
        for rule in policy.rules if policy and policy.entry.name == "rules" else []:
            rewrite_rule(rule, findings, v2=False)


def _take_args(body: Map, findings: Findings) -> None:
    """`args` of a task or block → `input`."""
    entry = body.entry("args")
    if entry is None:
        return
    if body.get("input") is not None:
        findings.refuse(
            entry.start, '"args" has been renamed to "input", but both are present', fix="keep one of them"
        )
        return
    rename(entry, "input")


def _guard(arc: Map, findings: Findings, *, exact: bool) -> None:
    """In the older dialects, an arc that does not read the result was also taken after a failure (D80)."""
    when = arc.entry("when")
    text = (
        when.value.text if when is not None and isinstance(when.value, Leaf) and not when.value.null else None
    )
    if text is not None and _reads_result(text):
        return
    target = arc.text("step") or ""
    if not exact:
        message = (
            f'the arc to "{target}" is taken only after success; it used to be taken after a failure too'
        )
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
        message = (
            f'the guard of the arc to "{target}" cannot be extended, so the arc is taken only after success'
        )
        findings.note(arc.start, "arc-on-failure", message)


def _reads_result(text: str) -> bool:
    """Does the guard read `event`, `output.status` or `output.error` (D37)?"""
    paths = [reading.path for reading in template_tokens.free_reads(text)]
    return any(
        path[0] == "event" or path[:2] in (("output", "status"), ("output", "error")) for path in paths
    )
