"""Task names: labelled tasks `- label: {…}` and tasks without a name become tasks with `name:` (D8, D73)."""

from __future__ import annotations

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, List, Map, comments, name_leaf, pair
from noetl.playbook.dialects.notes import Findings
from noetl.playbook.dialects.parts import StepPart, TaskPart


def names_of(body: Map) -> list[str]:
    """The names of the tasks of a pipeline. Tasks without a name are numbered as in the older dialect."""
    first = numbering(body)
    return [task.name or f"task_{position + first}" for position, task in enumerate(parts.tasks(body))]


def numbering(body: Map) -> int:
    """The first number: 1 if the jumps are valid only when numbering starts at 1, else 0 (D73)."""
    tasks = parts.tasks(body)
    named = {task.name for task in tasks if task.name}
    targets = {to for task in tasks for to in _targets(task.body)} - named
    fits = [targets <= {f"task_{position + first}" for position in range(len(tasks))} for first in (0, 1)]
    return 1 if targets and fits == [False, True] else 0


def name_tasks(step: StepPart, findings: Findings) -> None:
    tasks = parts.tasks(step.body)
    first = numbering(step.body)
    in_list = isinstance(step.body.get("tool"), List)
    for position, task in enumerate(tasks):
        if task.label is not None:
            _unlabel(task, task.label, findings)
        elif task.body.get("name") is None and in_list:
            name = f"task_{position + first}"
            task.body.entries.insert(0, pair("name", name_leaf(name)))
            where = "from 1, because of the targets of its jumps" if first else "from 0"
            findings.note(
                task.body.start,
                "task-names",
                f'a task without a name has been named "{name}"; tasks are numbered {where}',
            )


def _unlabel(task: TaskPart, label: LayoutEntry, findings: Findings) -> None:
    """`- fetch: {kind: http}` → `- {name: fetch, kind: http}`."""
    if task.body.anchored:
        message = f'the task "{label.name}" has an anchor, so its aliases would receive the same name'
        findings.refuse(label.start, message, fix="write the task out in place of each alias")
        return
    named = task.body.take("name")
    if named is not None and not (isinstance(named.value, Leaf) and named.value.text == label.name):
        findings.refuse(
            named.start, f'the task has the label "{label.name}" and a different name', fix="keep one"
        )
        return
    assert label.key is not None
    tail = "".join("   " + text for text in comments(label.gap))
    name = LayoutEntry(
        key=Leaf(raw="name", text="name"),
        gap=": ",
        value=label.key if label.key.style in ("'", '"') else name_leaf(label.name),
        lead=label.lead,
        base=label.base,
        tail=tail,
        start=label.start,
    )
    task.body.entries.insert(0, name)
    outer = task.holder.value
    task.body.rel = outer.rel if isinstance(outer, Map) else None
    task.holder.tail = task.holder.tail or label.tail
    task.holder.after = [*label.after, *task.holder.after]
    task.holder.value = task.body


def _targets(body: Map) -> list[str]:
    policy = parts.policy(body)
    targets = [then.text("to") for rule in (policy.rules if policy else []) for then in parts.thens(rule)]
    return [to for to in targets if to]
