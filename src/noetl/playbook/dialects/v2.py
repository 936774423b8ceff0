"""v2 → v10: moves `eval`, `step.when`, `next_mode` and the list under `next` to where v10 has them.

Names and templates are rewritten by other modules. Parts that already have the new form stay unchanged.
"""

from __future__ import annotations

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import (
    LayoutEntry,
    Leaf,
    List,
    Map,
    comments,
    drop,
    item,
    pair,
    plain,
    rename,
    set_value,
    table,
)
from noetl.playbook.dialects.notes import Findings
from noetl.playbook.dialects.parts import StepPart
from noetl.playbook.dialects.rules import rewrite_rule
from noetl.playbook.dialects.set_keys import ensure_map


def upgrade(step: StepPart, findings: Findings) -> None:
    _move_when(step.body, findings)
    _move_mode(step, findings)
    for task in parts.all_tasks(step.body):
        _move_eval(task.body, findings)


def _move_eval(task: Map, findings: Findings) -> None:
    """`eval` → `spec.policy.rules`. Without `else` an unmatched error fails the task, as in v2 (D23)."""
    position = task.index("eval")
    if position is None:
        return
    entry = task.entries[position]
    rules = parts.policy(task)
    if isinstance(entry.value, Leaf) and entry.value.style != "*" and not entry.value.null:
        findings.refuse(entry.start, '"eval" must be a list of rules', fix='eval: [{expr: "{{ … }}", do: …}]')
        return
    if isinstance(entry.value, Map):
        findings.refuse(
            entry.start, '"eval" must be a list of rules, not a mapping', fix="write a dash before the rule"
        )
        return
    if parts.is_null(entry.value) or (isinstance(entry.value, List) and not entry.value.entries):
        drop(task, entry)
        findings.note(entry.start, "dropped", "an `eval` without rules has no effect")
        return
    for rule in rules.rules if rules else []:
        rewrite_rule(rule, findings, v2=True)
    policy = Map(entries=[entry])
    if isinstance(entry.value, List) and not any(rule.entry("else") for rule in parts.maps(entry.value)):
        policy.entries.insert(0, pair("on_unmatched", plain("fail")))
    _put_policy(task, position, policy, entry, findings)


def _put_policy(task: Map, position: int, policy: Map, entry: LayoutEntry, findings: Findings) -> None:
    """Put the policy under the task's `spec`, or a new `spec` in place of `eval`. Comments stay above."""
    task.entries.pop(position)
    lead, base = entry.lead, entry.base
    rename(entry, "rules")
    entry.lead = []
    spec = task.entry("spec")
    if spec is None:
        fresh = pair("spec", table(policy=policy), lead=lead, base=base)
        fresh.start = entry.start
        task.entries.insert(position, fresh)
        return
    made = pair("policy", policy, lead=_comments_of(lead), base=base)
    if parts.is_null(spec.value):
        set_value(spec, Map(entries=[made]))
        return
    if not isinstance(spec.value, Map):
        findings.refuse(spec.start, '"spec" is not a mapping, so the rules of `eval` cannot be moved into it')
        return
    inner = spec.value.entry("policy")
    if inner is not None and isinstance(inner.value, Map):
        inner.value.entries += policy.entries
        return
    made.start = entry.start
    spec.value.entries.append(made)


def _move_when(body: Map, findings: Findings) -> None:
    """`step.when` → `spec.policy.admit.rules`."""
    position = body.index("when")
    if position is None:
        return
    entry = body.entries[position]
    if parts.is_null(entry.value):
        drop(body, entry)
        return
    body.entries.pop(position)
    in_braces = body.style == "flow"
    lead, tail, start = entry.lead, entry.tail, entry.start
    guard = LayoutEntry(key=plain("when"), gap=entry.gap, value=entry.value, tail=tail, base=entry.base, start=start)
    guard.flow, guard.glue = entry.flow, entry.glue
    allow = Map(entries=[pair("allow", plain("true"))], style="flow")
    deny = Map(entries=[pair("allow", plain("false"))], style="flow")
    rules = List(entries=[item(Map(entries=[guard, pair("then", allow)])), item(table(**{"else": table(then=deny)}))])
    admit = table(rules=rules)
    if not in_braces:
        admit.style = "block"
    spec = body.entry("spec")
    if spec is None:
        fresh = pair("spec", table(policy=table(admit=admit)), lead=lead, base=entry.base)
        fresh.start = start
        body.entries.insert(position, fresh)
        return
    if parts.is_null(spec.value):
        set_value(spec, Map())
    policy = ensure_map(spec.value, "policy") if isinstance(spec.value, Map) else None
    if policy is None:
        findings.refuse(start, '"spec" or its "policy" is not a mapping, so `when` cannot be moved into it')
        return
    policy.entries.append(pair("admit", admit, lead=_comments_of(lead), base=entry.base))


def _move_mode(step: StepPart, findings: Findings) -> None:
    """`step.spec.next_mode` → `next.spec.mode`. If necessary, `next` becomes a mapping with `arcs`."""
    spec = step.body.entry("spec")
    if spec is None or not isinstance(spec.value, Map):
        return
    mode = spec.value.entry("next_mode")
    if mode is None:
        return
    following = step.body.entry("next")
    idle = following is None or parts.is_null(following.value)
    if idle and len(spec.value.entries) == 1:
        spec.after = [*mode.lead, *comments(mode.tail), *spec.after]
    drop(spec.value, mode) if idle else spec.value.entries.remove(mode)
    if not spec.value.entries:
        drop(step.body, spec)
    if following is None or idle:
        findings.note(mode.start, "dropped", "`next_mode` without `next` has no effect")
        return
    to_router(following)
    router = following.value
    inner = ensure_map(router, "spec") if isinstance(router, Map) else None
    if inner is None or not isinstance(router, Map):
        findings.refuse(mode.start, "`next` is not a list of arcs, so `next_mode` cannot be moved into it")
        return
    rename(mode, "mode")
    inner.entries.append(mode)
    made = router.entry("spec")
    if made is not None and router.entries[-1] is made:
        router.entries.insert(0, router.entries.pop())


def to_router(following: LayoutEntry) -> None:
    """Any form of `next` → `{arcs: [...]}`."""
    value = following.value
    if isinstance(value, Leaf):
        if value.null or value.style == "*":
            return
        name = Leaf(raw=value.raw, text=value.text, style=value.style, base=value.base, start=value.start)
        arc = table(step=name)
        arc.start = value.start
        set_value(following, table(arcs=List(entries=[item(arc)])))
    elif isinstance(value, List):
        for each in value.entries:
            if isinstance(each.value, Leaf) and each.value.style != "*" and not each.value.null:
                target = pair("step", each.value)
                target.tail, each.tail = each.tail, ""
                each.value = Map(entries=[target], start=each.value.start)
        # The comment after `next:` stays there, and the list keeps its indentation.
        following.value = Map(entries=[pair("arcs", value)])
        if value.style == "flow":
            following.value.style, following.value.base = "flow", value.base
    elif value.get("arcs") is None and value.get("step") is not None:
        arc = Map(entries=value.entries, style=value.style, open=value.open, close=value.close, base=value.base)
        arc.start = value.start
        following.value = table(arcs=List(entries=[item(arc)]))


def _comments_of(lines: list[str]) -> list[str]:
    """The lines without blank lines, because the part is now nested in another one."""
    return [line for line in lines if line.strip()]
