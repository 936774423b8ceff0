"""`args` of arcs: the payload of a token becomes `set` on the arc and `input` on its target (004 §10).

The values are stored in `ctx.<step>_input`, which the target reads when the arc fires, so that every token
has its own.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

from noetl.playbook.dialects import parts, template_tokens
from noetl.playbook.dialects.layout.scalars import Finder
from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, Map, pair, quoted, rename, set_value
from noetl.playbook.dialects.notes import Findings
from noetl.playbook.dialects.parts import StepPart

_ODD = re.compile(r"[^A-Za-z0-9_]")
_BEFORE = ("loop", "tool", "set", *parts.SETS, "next")


class Inbox(Struct, kw_only=True):
    """The payload that tokens bring to one step, and the keys of it that the step reads."""

    path: str  # where it is stored: "ctx.fetch_input"
    arcs: int = 0
    delivered: dict[str, int] = field(default_factory=dict)  # key → number of arcs that provide it
    whole: bool = False  # an arc provides a single value instead of keys
    reads: dict[str, int] = field(default_factory=dict)  # key → offset of its first use
    starts: bool = False  # the request also creates a token for the step
    open: bool = False  # arcs with computed targets may lead here

    def guarantees(self, key: str) -> bool:
        """Does every token provide the key?"""
        return self.delivered.get(key, 0) == self.arcs and self.arcs > 0 and not (self.starts or self.open)

    def guaranteed_keys(self) -> frozenset[str]:
        return frozenset(key for key in self.delivered if self.guarantees(key))


def inboxes(root: Map) -> dict[str, Inbox]:
    """The inboxes by the name of the step, also for targets that are not steps."""
    by_step: dict[str, Inbox] = {}
    taken: dict[str, int] = {}
    steps = [step for step in parts.steps(root) if not step.block]
    computed = False
    for step in steps:
        _inbox(step.name, by_step, taken)
    for step in steps:
        for arc in parts.arcs(step.body):
            target = arc.text("step") or ""
            computed = computed or template_tokens.is_template(target)
            _deliver(_inbox(target, by_step, taken), arc)
        for target in _plain_targets(step.body):
            _inbox(target, by_step, taken).arcs += 1
        _read(step.body, by_step[step.name])
    for inbox in by_step.values():
        inbox.open = computed
    by_step[parts.entry_step(root)] = _inbox(parts.entry_step(root), by_step, taken)
    by_step[parts.entry_step(root)].starts = True
    return by_step


def check_targets(step: StepPart, names: frozenset[str], findings: Findings) -> None:
    """Reject `args` on arcs with a computed target, and add a note for targets that do not exist."""
    for arc in parts.arcs(step.body):
        entry = arc.entry("args")
        target = arc.text("step") or ""
        if entry is None or parts.is_null(entry.value):
            continue
        if template_tokens.is_template(target):
            message = "the target of the arc is computed, so the step that reads its `args` is unknown"
            fix = "write `set: {ctx.<name>: …}`, and read that value in the target step"
            findings.refuse(entry.start, message, fix=fix)
        elif target not in names:
            message = f'there is no step "{target}" that reads the `args` of this arc'
            findings.note(entry.start, "payload-unread", message)


def bind_input(step: StepPart, inbox: Inbox, workload: list[str], findings: Findings) -> None:
    """Rename step `args` to `input`, and bind the payload of the tokens there."""
    entry = step.body.entry("args")
    if entry is not None:
        rename(entry, "input")
    own = entry.value if entry is not None else None
    if isinstance(own, Leaf) and not own.null:
        return
    bound = {each.name for each in own.entries} if isinstance(own, Map) else set()
    fresh = [
        _bound(key, inbox, workload, step, findings) for key in {**inbox.delivered, **inbox.reads} if key not in bound
    ]
    if not fresh:
        return
    if isinstance(own, Map):
        own.entries += fresh
    elif entry is not None:
        set_value(entry, Map(entries=fresh))
    else:
        position = step.body.index(*_BEFORE)
        made = pair("input", Map(entries=fresh))
        step.body.entries.insert(len(step.body.entries) if position is None else position, made)
        _below(step.body, made)


def _bound(key: str, inbox: Inbox, workload: list[str], step: StepPart, findings: Findings) -> LayoutEntry:
    where = inbox.reads.get(key, step.body.start)
    path = inbox.path + template_tokens.attribute(key)
    if inbox.guarantees(key):
        return pair(key, quoted(f"{{{{ {path} }}}}"))
    if key not in inbox.delivered and not inbox.whole and key in workload:
        message = f'no arc provides "{key}" to "{step.name}"; it is bound to `workload.{key}`'
        findings.note(where, "payload-missing", message)
        return pair(key, quoted(f"{{{{ workload.{key} }}}}"))
    if key in inbox.delivered or inbox.whole:
        message = f'not every token of "{step.name}" provides "{key}"; a token without it reads an earlier value'
    else:
        message = f'no arc provides "{key}" to "{step.name}"; a request or an earlier arc may have provided it'
    findings.note(where, "payload-missing", message)
    return pair(key, quoted(f"{{{{ {path} | default(none) }}}}"))


def _below(body: Map, made: LayoutEntry) -> None:
    """Put a blank line before a new entry if the next entry has one."""
    position = body.entries.index(made) + 1
    following = body.entries[position] if position < len(body.entries) else None
    if following is not None and following.lead and not following.lead[0].strip():
        made.lead = [""]


def _inbox(name: str, by_step: dict[str, Inbox], taken: dict[str, int]) -> Inbox:
    """The inbox of a step, created if necessary. `taken` maps used identifiers to their last number."""
    if name not in by_step:
        base = chosen = identifier(name)
        while chosen in taken:
            taken[base] += 1
            chosen = f"{base}_{taken[base]}"
        taken[chosen] = 1
        by_step[name] = Inbox(path=f"ctx.{chosen}_input")
    return by_step[name]


def identifier(name: str) -> str:
    """The name of a step as part of a path."""
    made = _ODD.sub("_", name) or "step"
    return f"_{made}" if made[0].isdigit() else made


def _deliver(inbox: Inbox, arc: Map) -> None:
    inbox.arcs += 1
    args = arc.get("args")
    if isinstance(args, Map):
        for entry in args.entries:
            inbox.delivered[entry.name] = inbox.delivered.get(entry.name, 0) + 1
    elif not parts.is_null(args):
        inbox.whole = True


def _plain_targets(body: Map) -> list[str]:
    """The targets of arcs that are written as names."""
    following = body.get("next")
    if isinstance(following, Map):
        following = following.get("arcs")
    if isinstance(following, Leaf):
        return [] if following.null else [following.text]
    if following is None or isinstance(following, Map):
        return []
    return [each.value.text for each in following.entries if isinstance(each.value, Leaf)]


def _read(body: Map, inbox: Inbox) -> None:
    for entry, leaf in parts.texts(body):
        if entry.name != "args":
            finder = Finder(leaf)
            for reading in template_tokens.free_reads(leaf.text):
                path = reading.path[1:] if reading.path[:2] == ("token", "args") else reading.path
                if path[0] == "args" and len(path) > 1:
                    inbox.reads.setdefault(path[1], finder.offset(reading.start))
