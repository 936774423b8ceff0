"""Rules and task names of old dialects in canonical form."""

from __future__ import annotations

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import (
    LayoutEntry,
    Leaf,
    List,
    Map,
    comments,
    name_leaf,
    pair,
    plain,
    rename,
    set_value,
    table,
)
from noetl.playbook.dialects.notes import Findings
from noetl.playbook.dialects.parts import StepPart, TaskPart

_THEN = frozenset({"do", "attempts", "backoff", "delay", "max_delay", "jitter", "to", "set", *parts.SETS})


def rewrite_rule(rule: Map, findings: Findings, *, v2: bool) -> None:
    """Convert one rule to the canonical form. Outside v2 this is a repair, and a note says so."""
    expr = rule.entry("expr")
    if expr is not None:
        if rule.get("when") is not None:
            findings.refuse(expr.start, '"expr" has been renamed to "when", but both are present', fix="keep one")
            return
        rename(expr, "when")
    otherwise = rule.entry("else")
    if otherwise is not None:
        repaired = _rewrite_else(rule, otherwise, findings)
    else:
        repaired = _move_under_then(rule)
        if repaired and rule.get("when") is None:
            rule.entries.insert(0, pair("when", plain("true")))
            findings.note(
                rule.start, "constant-rule", "a rule without a condition always matches; `when: true` has been added"
            )
    if repaired and not v2:
        message = "the action belongs under `then`" if otherwise is None else "the action belongs under `else.then`"
        findings.note(rule.start, "else-repaired", f"{message} and has been moved there")


def _rewrite_else(rule: Map, otherwise: LayoutEntry, findings: Findings) -> bool:
    inner = otherwise.value
    if parts.is_null(inner):
        return rule.entry("when") is None and _fill_null_else(rule, otherwise)
    if not isinstance(inner, Map) or inner.get("then") is not None or inner.get("do") is None:
        return False
    if inner.anchored:
        message = "this `else` has an anchor, so its aliases would change too"
        findings.refuse(otherwise.start, message, fix="write `else: {then: {do: …}}` in place of each alias")
        return False
    otherwise.value = _wrapped(inner)
    otherwise.gap = otherwise.gap if inner.style == "flow" else otherwise.gap.rstrip()
    return True


def _fill_null_else(rule: Map, otherwise: LayoutEntry) -> bool:
    """Repair `- else:` with `then` or `do` beside it instead of inside it."""
    beside = [entry for entry in rule.entries if entry is not otherwise]
    if not beside:
        return False
    rule.entries = [otherwise]
    if any(entry.name == "then" for entry in beside):
        set_value(otherwise, Map(entries=beside))
    else:
        set_value(otherwise, table(then=Map(entries=beside)))
    return True


def _move_under_then(rule: Map) -> bool:
    then = rule.entry("then")
    inner = Map() if then is None else then.value
    if not isinstance(inner, Map):
        return False
    # Keys that `then` already has are not moved; the check reports the remaining ones.
    loose = [entry for entry in rule.entries if entry.name in _THEN and inner.get(entry.name) is None]
    if not loose:
        return False
    rule.entries = [entry for entry in rule.entries if entry not in loose]
    inner.entries += loose
    if then is None:
        rule.entries.append(pair("then", inner))
    return True


def _wrapped(inner: Map) -> Map:
    """`{do: …}` → `{then: {do: …}}`, in the same style, flow or block."""
    wrapper = Map(entries=[pair("then", inner)], start=inner.start)
    if inner.style == "flow":
        wrapper.style, wrapper.base = "flow", inner.base
        glue = inner.entries[0].glue
        wrapper.entries[0].flow, wrapper.entries[0].gap = True, ": "
        wrapper.entries[0].glue = "" if glue.strip() else glue
    return wrapper


def names_of(body: Map) -> list[str]:
    """The names of the tasks of a pipeline. Tasks without a name are numbered as in the older dialect."""
    first = numbering(body)
    tasks = parts.tasks(body)
    names = [task.name or f"task_{position + first}" for position, task in enumerate(tasks)]
    return names + [inner.name for task in tasks for inner in parts.inner_tasks(task) if inner.name]


def numbering(body: Map) -> int:
    """The first number: 1 if the jumps are valid only when numbering starts at 1, else 0 (D73)."""
    tasks = parts.tasks(body)
    named = {task.name for task in parts.all_tasks(body) if task.name}
    targets = {to for task in parts.all_tasks(body) for to in _targets(task.body)} - named
    fits = [targets <= {f"task_{position + first}" for position in range(len(tasks))} for first in (0, 1)]
    return 1 if targets and fits == [False, True] else 0


def name_tasks(step: StepPart, findings: Findings) -> None:
    tasks = parts.tasks(step.body)
    first = numbering(step.body)
    in_list = isinstance(step.body.get("tool"), List)
    for inner in [each for task in tasks for each in parts.inner_tasks(task)]:
        if inner.label is not None:
            _unlabel(inner, inner.label, findings)
    for position, task in enumerate(tasks):
        if task.label is not None:
            _unlabel(task, task.label, findings)
        elif task.body.get("name") is None and in_list and not parts.is_decision(task.body):
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
        findings.refuse(named.start, f'the task has the label "{label.name}" and a different name', fix="keep one")
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
