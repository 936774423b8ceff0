"""`next` of the public generations: `then`/`else`, `data`/`with`, `condition`, several targets (§5)."""

from __future__ import annotations

import re
from typing import NamedTuple

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, List, Map, Node, item, plain, quoted, rename, table
from noetl.playbook.dialects.public.book import (
    Book,
    all_comments,
    child,
    discard,
    is_template,
    new,
    put,
    scalar,
    text_of,
)
from noetl.playbook.dialects.public.guards import inner_of
from noetl.playbook.dialects.template_tokens import parse

_VALID = re.compile(r"[A-Za-z_][\w-]*")
_PAYLOAD = ("data", "with", "input", "payload")
_ARC = frozenset({"step", "when", "set", "to", "spec", "args", "expr", "set_ctx", "set_vars", "set_iter", "set_shared"})


class Branch(NamedTuple):
    """A condition and the arcs that it takes. No condition: `else`, or always."""

    when: LayoutEntry | None
    arcs: list[Map]
    otherwise: bool = False  # it is `else`


def arc_forms(book: Book) -> None:
    """Every form of `next` becomes a list of arcs, or a router with a mode."""
    for step in book.steps:
        following = step.body.entry("next")
        if following is None:
            continue
        router = following.value if isinstance(following.value, Map) else None
        if router is not None:
            _router_keys(book, router)
        holder = router.entry("arcs") if router is not None and router.get("arcs") is not None else following
        assert holder is not None
        if isinstance(holder.value, List) and any(_is_branch(each.value) for each in holder.value.entries):
            _unfold(book, following, holder, first=book.local and not _inclusive(step.body))
        for arc in _arcs(following.value):
            _arc_keys(book, arc, {task.kind for task in parts.tasks(step.body)})


def _router_keys(book: Book, router: Map) -> None:
    spec = router.map("spec")
    entry = spec.entry("on_no_match") if spec is not None else None
    if spec is not None and entry is not None:
        discard(spec, entry)
        book.note(
            entry.start, "dropped", "`on_no_match` was removed: a step without a matching arc ends its token (D39)"
        )
        holder = router.entry("spec")
        if not spec.entries and holder is not None:
            discard(router, holder)


def _is_branch(node: Node) -> bool:
    return isinstance(node, Map) and (node.get("then") is not None or node.get("else") is not None)


def _arcs(node: Node | None) -> list[Map]:
    if isinstance(node, Map):
        inner = node.get("arcs")
        return _arcs(inner) if inner is not None else [node] if node.get("step") is not None else []
    if isinstance(node, List):
        return [each.value for each in node.entries if isinstance(each.value, Map)]
    return []


def _condition(entry: LayoutEntry, kinds: set[str | None]) -> None:
    """A condition without braces is an expression; `exit_code` is that of the shell task."""
    text = (text_of(entry.value) or "").strip()
    if is_template(text) or text.lower() in ("", "true", "false"):
        return
    made = re.sub(r"(?<![\w.])exit_code\b", "output.shell.exit_code", text) if kinds == {"shell"} else text
    parsed = parse(f"{{{{ {made} }}}}")
    if parsed is not None and parsed.typed:
        put(entry, quoted(f"{{{{ {made} }}}}"))


def _arc_keys(book: Book, arc: Map, kinds: set[str | None]) -> None:
    for key in ("condition", "cond"):
        entry = arc.entry(key)
        if entry is not None and arc.get("when") is None:
            rename(entry, "when")
            _condition(entry, kinds)
            message = f"the public engine does not read `{key}` of an arc, so it took the arc always; it is now `when`"
            book.note(entry.start, "condition-read", message)
    for key in _PAYLOAD:
        entry = arc.entry(key)
        if entry is not None and arc.get("args") is None:
            rename(entry, "args")
            book.changed()
    for entry in list(arc.entries):
        if entry.name not in _ARC and arc.get("step") is not None:
            discard(arc, entry)
            book.note(entry.start, "dropped", f"no engine reads `{entry.name}` of an arc; it was removed")


def targets(book: Book, node: Node | None, start: int) -> list[Map]:
    """The arcs that a `then`, `else` or `next` names: a name, a mapping, or a list of both."""
    if node is None:
        return []
    if isinstance(node, Leaf):
        made = Map(entries=[new("step", scalar(node.text), node.start)], start=node.start if node.start >= 0 else start)
        return [] if node.null else [made]
    if isinstance(node, Map):
        inner = node.entry("next")
        if inner is not None and node.get("step") is None:
            return targets(book, inner.value, inner.start)
        return [node] if node.get("step") is not None else []
    return [arc for each in node.entries for arc in targets(book, each.value, each.start)]


def _inclusive(step: Map) -> bool:
    spec = step.map("spec")
    return spec is not None and spec.text("next_mode") == "inclusive"


def _unfold(book: Book, following: LayoutEntry, holder: LayoutEntry, *, first: bool) -> None:
    assert isinstance(holder.value, List)
    branches: list[Branch] = []
    for each in holder.value.entries:
        body = each.value
        if not isinstance(body, Map) or not _is_branch(body):
            found = targets(book, body, each.start)
            guard = found[0].entry("when") if found and isinstance(body, Map) else None
            branches.append(Branch(guard, found))
            continue
        ignored = body.entry("step")
        if ignored is not None and body.get("then") is not None:
            book.note(ignored.start, "dropped", "`then` names the targets, and `step` beside it is not read")
        then = body.entry("then")
        if then is not None:
            branches.append(Branch(body.entry("when"), targets(book, then.value, then.start)))
        otherwise = body.entry("else")
        if otherwise is not None:
            branches.append(Branch(None, targets(book, otherwise.value, otherwise.start), True))
    write_branches(book, following, branches, exclusive=False, first=first)


def write_branches(
    book: Book, following: LayoutEntry, branches: list[Branch], *, exclusive: bool, first: bool = False
) -> None:
    """Write branches as arcs. `exclusive`: only the first branch that holds is taken; `first`: only its first target.

    The public command line, which runs playbooks with the profile `local`, takes the first target.
    """
    guarded = [branch for branch in branches if branch.when is not None]
    several = any(len(branch.arcs) > 1 for branch in branches)
    one_way = len(guarded) <= 1 and all(branch.otherwise or branch.when is not None for branch in branches)
    inclusive = not first and (several or not (exclusive or one_way))
    made: list[LayoutEntry] = []
    before: list[str] = []
    for branch in sorted(branches, key=lambda each: each.when is None and each.otherwise):
        guard = _guard(book, branch, before if inclusive and (exclusive or branch.otherwise) else [])
        made += [_arc(arc, guard, branch) for arc in branch.arcs]
        own = inner_of(text_of(branch.when.value)) if branch.when is not None else None
        if own is not None:
            before.append(own)
    kept = all_comments(following.value)
    arcs = List(entries=made)
    if inclusive and len(made) > 1:
        put(following, table(spec=table(mode=plain("inclusive")), arcs=arcs))
    else:
        put(following, table(arcs=arcs))
    _keep(following, kept, arcs)
    book.changed()


def _keep(entry: LayoutEntry, before: list[str], now: Node) -> None:
    """Comments of the old form that the new one does not contain go above the entry."""
    have = all_comments(now)
    for line in before:
        if line in have:
            have.remove(line)
        else:
            entry.lead = [*entry.lead, " " * (entry.base or 0) + line]


def _guard(book: Book, branch: Branch, before: list[str]) -> str | None:
    """The text of the guard; with `before`, none of the earlier guards may hold."""
    text = text_of(branch.when.value) if branch.when is not None else None
    if not before:
        return text
    negated = " and ".join(f"not ({each})" for each in before)
    own = inner_of(text)
    if text is not None and own is None and branch.when is not None:
        book.refuse(branch.when.start, "this guard is not one expression", 'write `"{{ … }}"` around all of it')
    return f"{{{{ {negated}{f' and ({own})' if own not in (None, 'true') else ''} }}}}"


def _arc(arc: Map, guard: str | None, branch: Branch) -> LayoutEntry:
    entries = [each for each in arc.entries if each.name != "when"]
    made = Map(entries=entries, start=arc.start)
    if guard is not None:
        when = branch.when
        if when is not None and isinstance(when.value, Leaf) and when.value.text == guard and not branch.otherwise:
            tail = when.tail if arc is branch.arcs[0] else ""
            copied = LayoutEntry(key=plain("when"), value=when.value, gap=": ", tail=tail, base=when.base)
            copied.start = when.start
            if isinstance(when.value, Leaf) and when.value.style in ("|", ">"):
                copied.value = quoted(guard.strip())
        else:
            copied = new("when", quoted(guard), arc.start)
        position = next((index + 1 for index, each in enumerate(entries) if each.name == "step"), 0)
        made.entries.insert(position, copied)
    holder = item(made)
    holder.start = arc.start
    return holder


def all_targets(book: Book) -> None:
    """A legacy `next` with several targets without guards starts all of them."""
    for step in book.steps if book.legacy and not book.local else []:
        following = step.body.entry("next")
        if following is None or not isinstance(following.value, List):
            continue
        free = [
            each
            for each in following.value.entries
            if not isinstance(each.value, Map) or each.value.get("when") is None
        ]
        if len(free) > 1 and len(following.value.entries) == len(free):
            arcs = [item(arc) for each in free for arc in targets(book, each.value, each.start)]
            for old, arc in zip(free, arcs, strict=False):
                arc.lead, arc.tail, arc.start, arc.base = old.lead, old.tail, old.start, old.base
            put(following, table(spec=table(mode=plain("inclusive")), arcs=List(entries=arcs)))
            book.note(following.start, "all-targets", "all targets start, as in the public engine: `mode: inclusive`")


def joins(book: Book) -> None:
    """Where branches of an inclusive fork meet, the step runs once: `join: all`. Steps of a cycle stay as they are."""
    if not book.public:
        return
    leads = {step.name: [arc.text("step") or "" for arc in parts.arcs(step.body)] for step in book.steps}
    behind = {name: _reachable(leads, name) for name in leads}
    for fork in book.steps:
        branches = {name for name in leads[fork.name] if name in leads}
        if len(branches) < 2 or not (_inclusive(fork.body) or _is_inclusive_router(fork.body)):
            continue
        inside = branches | {name for branch in branches for name in behind[branch]}
        for step in book.steps:
            ways = [name for name, targets in leads.items() if step.name in targets and name in inside | {fork.name}]
            met = sum(step.name == branch or step.name in behind[branch] for branch in branches)
            if met < 2 or len(ways) < 2 or step.body.get("tool") is None or step.name in behind[step.name]:
                continue
            _join(book, step.body)


def _reachable(leads: dict[str, list[str]], name: str) -> set[str]:
    """The steps that can follow a step."""
    found: set[str] = set()
    waiting = list(leads.get(name, ()))
    while waiting:
        each = waiting.pop()
        if each not in found and each in leads:
            found.add(each)
            waiting += leads[each]
    return found


def _is_inclusive_router(step: Map) -> bool:
    router = step.map("next")
    spec = router.map("spec") if router is not None else None
    return spec is not None and spec.text("mode") == "inclusive"


def _join(book: Book, step: Map) -> None:
    spec = child(step, "spec", step.start)
    policy = child(spec, "policy", step.start) if spec is not None else None
    admit = child(policy, "admit", step.start) if policy is not None else None
    if admit is not None and admit.get("join") is None:
        admit.entries.append(new("join", plain("all"), step.start))
        message = f'branches meet in "{step.text("step")}", which runs once, when none of them can still arrive'
        book.note(step.start, "join-made", message)


def valid_names(book: Book) -> None:
    """A step is named with letters, digits, `_` and `-`; other characters become `_`, also where arcs name it."""
    names = book.step_names
    renamed: dict[str, str] = {}
    for step in book.steps:
        if step.name and not _VALID.fullmatch(step.name) and not is_template(step.name):
            made = re.sub(r"[^A-Za-z0-9_-]+", "_", step.name).strip("_") or "step"
            made = made if made[0].isalpha() else f"step_{made}"
            while made in names:
                made += "_2"
            names.add(made)
            renamed[step.name] = made
            entry = step.body.entry("step")
            assert entry is not None
            put(entry, scalar(made))
            book.note(entry.start, "step-renamed", f'the step "{step.name}" is now "{made}"')
    if not renamed:
        return
    for step in book.steps:
        following = step.body.entry("next")
        for entry in _target_entries(following) if following is not None else []:
            name = renamed.get(text_of(entry.value) or "")
            if name is not None:
                put(entry, scalar(name))


def _target_entries(entry: LayoutEntry) -> list[LayoutEntry]:
    """The entries whose values name targets: `next: a`, items of a list, `step` of an arc."""
    value = entry.value
    if isinstance(value, Leaf):
        return [entry]
    if isinstance(value, List):
        return [found for each in value.entries for found in _target_entries(each)]
    return [found for each in value.entries if each.name in ("step", "arcs") for found in _target_entries(each)]
