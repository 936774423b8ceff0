"""Finds the parts of a playbook in a Layout, in any dialect: steps, blocks, tasks, rules, arcs.

Parts of an unexpected form are ignored here. The check reports them later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, List, Map, Node, leaves
from noetl.playbook.model import DECISIONS

SETS = ("set_ctx", "set_iter", "set_vars", "set_shared", "set_prev")
TASK_KEYS = frozenset({"name", "kind", "desc", "auth", "input", "set", "spec", "eval", "args", "tool"})


class TaskPart(NamedTuple):
    """One task. `holder` is the list item or the entry `tool` that contains it."""

    body: Map
    holder: LayoutEntry
    label: LayoutEntry | None  # the entry of `- label: {…}`

    @property
    def name(self) -> str | None:
        return self.body.text("name") if self.label is None else self.label.name

    @property
    def kind(self) -> str | None:
        return self.body.text("kind")


class StepPart(NamedTuple):
    """A step, or a block of the workbook."""

    name: str
    body: Map
    block: bool = False

    @property
    def iterators(self) -> tuple[str, ...]:
        loop = self.body.get("loop")
        loops = maps(loop) if isinstance(loop, List) else [loop] if isinstance(loop, Map) else []
        return tuple(name for each in loops if (name := each.text("iterator")))


class PolicyPart(NamedTuple):
    """The rules of a task, old or new."""

    entry: LayoutEntry  # `eval` or `rules`
    rules: list[Map]


def steps(root: Map) -> list[StepPart]:
    """All steps, then all blocks."""
    workflow, workbook = root.get("workflow"), root.map("workbook")
    result = [StepPart(each.text("step") or "", each) for each in maps(workflow)]
    blocks = workbook.entries if workbook else []
    return result + [StepPart(each.name, each.value, block=True) for each in blocks if isinstance(each.value, Map)]


def maps(value: Node | None) -> list[Map]:
    """The mappings of a list."""
    if not isinstance(value, List):
        return []
    return [entry.value for entry in value.entries if isinstance(entry.value, Map)]


def tasks(step: Map) -> list[TaskPart]:
    """The items of the pipeline, without those inside `choose`, `while` and `until`."""
    tool = step.entry("tool")
    return [] if tool is None else _items(tool)


def all_tasks(step: Map) -> list[TaskPart]:
    """The items of the pipeline, each followed by those inside it."""
    return [each for task in tasks(step) for each in (task, *inner_tasks(task))]


def inner_tasks(task: TaskPart) -> list[TaskPart]:
    """The items inside a `choose`, `while` or `until`, at any depth; of a task: none."""
    found = []
    for pipeline in _pipelines(task.body) if is_decision(task.body) else ():
        for item in _items(pipeline):
            found += [item, *inner_tasks(item)]
    return found


def is_decision(body: Map) -> bool:
    """Is it a `choose`, `while` or `until` in the place of a task?"""
    return body.get("kind") is None and any(isinstance(body.get(form), Map | List) for form in DECISIONS)


def _pipelines(decision: Map) -> Iterator[LayoutEntry]:
    for form in DECISIONS:
        value = decision.get(form)
        for branch in [value] if isinstance(value, Map) else maps(value):
            for holder in (branch, branch.map("else")):
                for key in ("then", "tool"):
                    if holder is not None and (entry := holder.entry(key)) is not None:
                        yield entry


def _items(pipeline: LayoutEntry) -> list[TaskPart]:
    holders = pipeline.value.entries if isinstance(pipeline.value, List) else [pipeline]
    return [_task(holder.value, holder) for holder in holders if isinstance(holder.value, Map)]


def not_tasks(step: Map) -> list[Node]:
    """The values under `tool` that are not tasks."""
    tool = step.get("tool")
    if isinstance(tool, List):
        return [entry.value for entry in tool.entries if not isinstance(entry.value, Map)]
    return [] if tool is None or isinstance(tool, Map) else [tool]


def _task(body: Map, holder: LayoutEntry) -> TaskPart:
    if len(body.entries) == 1 and body.entries[0].name not in TASK_KEYS:
        label = body.entries[0]
        decides = label.name in DECISIONS and isinstance(label.value, Map) and label.value.get("kind") is None
        if isinstance(label.value, Map) and not decides:
            return TaskPart(label.value, holder, label)
    return TaskPart(body, holder, None)


def policy(task: Map) -> PolicyPart | None:
    """`eval` of v2, or `spec.policy.rules`."""
    entry = task.entry("eval")
    if entry is None:
        spec = task.map("spec")
        inner = spec.map("policy") if spec else None
        entry = inner.entry("rules") if inner else None
    return None if entry is None else PolicyPart(entry, maps(entry.value))


def thens(rule: Map) -> Iterator[Map]:
    """The mappings that may contain the action of a rule: the rule (v2), `then`, `else`, `else.then`."""
    for holder in (rule, rule.map("else")):
        if holder is not None:
            yield holder
            if (then := holder.map("then")) is not None:
                yield then


def admit(step: Map) -> LayoutEntry | None:
    spec = step.map("spec")
    inner = spec.map("policy") if spec else None
    return inner.entry("admit") if inner else None


def arcs(step: Map) -> list[Map]:
    """The arcs that are written as mappings."""
    following = step.get("next")
    if isinstance(following, Map):
        inner = following.get("arcs")
        return maps(inner) if inner is not None else [following] if following.get("step") is not None else []
    return maps(following)


def entry_step(root: Map) -> str:
    executor = root.map("executor")
    spec = executor.map("spec") if executor else None
    return (spec.text("entry_step") if spec else None) or "start"


def workload_keys(root: Map) -> list[str]:
    workload = root.map("workload")
    return [entry.name for entry in workload.entries] if workload else []


def holders(step: Map) -> Iterator[Map]:
    """All mappings of a step that may contain `set` or one of its older forms."""
    yield step
    yield from arcs(step)
    for task in all_tasks(step):
        yield task.body
        rules = policy(task.body)
        for rule in rules.rules if rules else []:
            yield from thens(rule)


def texts(step: Map) -> Iterator[tuple[LayoutEntry, Leaf]]:
    """Every text of a step that may be a template, with the entry of the step that contains it."""
    raw = {id(code) for task in all_tasks(step) if (code := code_of(task.body)) is not None}
    for entry in step.entries:
        if entry.name not in ("step", "desc"):
            yield from ((entry, leaf) for leaf in leaves(entry.value) if id(leaf) not in raw)


def code_of(task: Map) -> Leaf | None:
    """The code of a python task, in which templates are not evaluated (D83)."""
    code = task.get("code")
    return code if isinstance(code, Leaf) and task.text("kind") == "python" else None


def is_null(value: Node | None) -> bool:
    return value is None or (isinstance(value, Leaf) and value.null)
