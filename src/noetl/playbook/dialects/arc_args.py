"""`args` of arcs: the payload of a token becomes `set` on the arc and `input` on its target (004 §10, D96).

The values are stored in `ctx.<step>_input`, which the target reads when the arc fires, so that every token
has its own. A key that an arc does not send stays undefined. In v10 the payload of an arc is merged
over that of the token before it: an arc then passes on what its step has received.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

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
    delivered: dict[str, None] = field(default_factory=dict)  # the keys that arcs send or pass on
    whole: bool = False  # an arc provides a single value instead of keys
    reads: dict[str, int] = field(default_factory=dict)  # key → offset of its first use
    own: frozenset[str] = frozenset()  # keys that the step binds itself
    needs: dict[str, None] = field(default_factory=dict)  # the keys that it reads or passes on
    received: dict[str, None] = field(default_factory=dict)  # the keys that it can pass on
    sure: frozenset[str] = frozenset()  # the keys that every token provides
    starts: bool = False  # the request also creates a token for the step
    open: bool = False  # arcs with computed targets may lead here

    @property
    def resets(self) -> bool:
        """Must every arc write all of it, so that no key of an earlier token remains?"""
        return any(key not in self.sure for key in self.delivered)


class _ArcPart(NamedTuple):
    source: str
    target: str
    keys: frozenset[str]  # that its `args` provide
    whole: bool  # its `args` are a single value


def inboxes(root: Map, *, merges: bool = False) -> dict[str, Inbox]:
    """The inboxes by the name of the step, also for targets that are not steps.

    `merges`: a token keeps the payload of the one before it, and the arc only overwrites keys (v10).
    """
    by_step: dict[str, Inbox] = {}
    taken: dict[str, int] = {}
    steps = [step for step in parts.steps(root) if not step.block]
    for step in steps:
        _inbox(step.name, by_step, taken)
    found: list[_ArcPart] = []
    for step in steps:
        found += [_arc_part(step.name, arc) for arc in parts.arcs(step.body)]
        found += [_ArcPart(step.name, target, frozenset(), False) for target in _plain_targets(step.body)]
        _read(step.body, by_step[step.name])
    for arc in found:
        inbox = _inbox(arc.target, by_step, taken)
        inbox.delivered |= dict.fromkeys(sorted(arc.keys))
        inbox.whole = inbox.whole or arc.whole
    by_step[parts.entry_step(root)] = _inbox(parts.entry_step(root), by_step, taken)
    by_step[parts.entry_step(root)].starts = True
    computed = any(template_tokens.is_template(arc.target) for arc in found)
    for inbox in by_step.values():
        inbox.open = computed
        inbox.needs = dict.fromkeys(inbox.reads)
    if merges:
        _pass_on(by_step, found)
    _settle_sure(by_step, found, merges=merges)
    return by_step


def passed_on(source: Inbox, target: Inbox, given: frozenset[str]) -> list[str]:
    """The keys of its own payload that an arc passes on."""
    return [key for key in target.needs if key in source.received and key not in given]


def _pass_on(by_step: dict[str, Inbox], found: list[_ArcPart]) -> None:
    """What each step can have received, and what it must pass on: both grow until nothing changes."""
    changed = True
    while changed:
        changed = False
        for arc in found:
            source, target = by_step[arc.source], by_step[arc.target]
            received = {**dict.fromkeys(sorted(arc.keys)), **({} if arc.whole else source.received)}
            passed = [] if arc.whole else passed_on(source, target, arc.keys)
            before = len(target.received), len(source.needs), len(target.delivered)
            target.received |= received
            source.needs |= dict.fromkeys(passed)
            target.delivered |= dict.fromkeys(passed)
            changed = changed or before != (len(target.received), len(source.needs), len(target.delivered))


def _settle_sure(by_step: dict[str, Inbox], found: list[_ArcPart], *, merges: bool) -> None:
    """The keys that every token of a step provides: they shrink until nothing changes."""
    reached = {arc.target for arc in found}
    for name, inbox in by_step.items():
        closed = name in reached and not (inbox.starts or inbox.open)
        inbox.sure = frozenset(inbox.delivered) if closed else frozenset()
    changed = True
    while changed:
        changed = False
        for arc in found:
            source, target = by_step[arc.source], by_step[arc.target]
            kept = target.sure & (arc.keys | (source.sure | source.own if merges and not arc.whole else frozenset()))
            changed = changed or kept != target.sure
            target.sure = kept


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
    keys = {**inbox.delivered, **inbox.reads, **inbox.needs}
    fresh = [_bound(key, inbox, workload, step, findings) for key in keys if key not in bound]
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
    if key in inbox.sure:
        return pair(key, quoted(f"{{{{ {path} }}}}"))
    if is_from_workload(key, inbox, workload):
        message = f'no arc provides "{key}" to "{step.name}"; it is bound to `workload.{key}`'
        findings.note(where, "payload-missing", message)
        return pair(key, quoted(f"{{{{ workload.{key} }}}}"))
    if key in inbox.delivered or inbox.whole:
        message = f'not every token of "{step.name}" provides "{key}"; without it, `input.{key}` is undefined'
    else:
        message = f'no arc provides "{key}" to "{step.name}"; a request or an earlier arc may have provided it'
    findings.note(where, "payload-missing", message)
    return pair(key, quoted(f"{{{{ {path} | default(omit()) }}}}"))


def is_from_workload(key: str, inbox: Inbox, workload: Iterable[str]) -> bool:
    """No arc provides the key, but the workload has one of this name."""
    return key not in inbox.delivered and not inbox.whole and key in workload


def send_all(arc: Map, source: Inbox, target: Inbox) -> None:
    """Add to the `args` of an arc what it passes on. If the target needs it, `args` are written even if empty."""
    entry = arc.entry("args")
    value = None if entry is None or parts.is_null(entry.value) else entry.value
    if value is not None and not isinstance(value, Map):
        return
    given = frozenset(each.name for each in value.entries) if value is not None else frozenset()
    fresh = [_passed(key, source) for key in passed_on(source, target, given)]
    if isinstance(value, Map):
        value.entries += fresh
    elif fresh or target.resets:
        made = Map(entries=fresh, style="block" if fresh and arc.style != "flow" else "flow")
        if entry is not None:
            set_value(entry, made)
        else:
            arc.entries.append(pair("args", made))


def _passed(key: str, source: Inbox) -> LayoutEntry:
    path = "input" + template_tokens.attribute(key)
    sure = key in source.sure or key in source.own
    return pair(key, quoted(f"{{{{ {path} }}}}" if sure else f"{{{{ {path} | default(omit()) }}}}"))


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


def _arc_part(source: str, arc: Map) -> _ArcPart:
    args = arc.get("args")
    keys = frozenset(entry.name for entry in args.entries) if isinstance(args, Map) else frozenset()
    return _ArcPart(source, arc.text("step") or "", keys, not isinstance(args, Map) and not parts.is_null(args))


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
    own = body.get("args")
    inbox.own = frozenset(entry.name for entry in own.entries) if isinstance(own, Map) else frozenset()
    for entry, leaf in parts.texts(body):
        if entry.name != "args":
            finder = Finder(leaf)
            for reading in template_tokens.free_reads(leaf.text):
                path = reading.path[1:] if reading.path[:2] == ("token", "args") else reading.path
                if path[0] == "args" and len(path) > 1:
                    inbox.reads.setdefault(path[1], finder.offset(reading.start))
