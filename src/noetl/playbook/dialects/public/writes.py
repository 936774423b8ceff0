"""Writes of the public generations: step `vars`, and `set` of names without a scope (§2)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, Map, prefix_key, quoted, rename
from noetl.playbook.dialects.public.book import (
    Book,
    change_text,
    child,
    discard,
    insert,
    is_template,
    move,
    new,
    put,
    text_of,
)
from noetl.playbook.dialects.public.sql import inline
from noetl.playbook.dialects.template_tokens import free_reads, parse

_SCOPES = ("ctx.", "step.", "iter.", "output.", "keychain.")
_SAME = ("workload.", "vars.", "execution.", "context.")
_SETS = ("set", *parts.SETS)
_ERROR = re.compile(r"\{\{\s*(?:output|outcome)\.status\s*==\s*['\"]error['\"]\s*\}\}")


def step_vars(book: Book) -> None:
    """`vars` of a step are written to `ctx` after the step has ended."""
    for step in book.owners:
        entry = step.body.entry("vars")
        if entry is None:
            continue
        if not isinstance(entry.value, Map):
            book.refuse(entry.start, "`vars` of a step must be a mapping", "write `set: {ctx.<name>: …}`")
            continue
        _in_place(book, entry.value)
        for each in entry.value.entries:
            if not each.name.startswith(_SCOPES):
                prefix_key(each, "ctx.")
            _lenient(book, each)
        existing = step.body.map("set")
        if existing is None:
            rename(entry, "set")
        else:
            for each in list(entry.value.entries):
                if existing.get(each.name) is None:
                    move(each, entry.value, existing)
            discard(step.body, entry)
        book.changed()


def _in_place(book: Book, values: Map) -> None:
    """A value that reads an earlier one of the same `vars`, which nothing else provides, computes it again."""
    written = [name for step in book.owners for name in _written_keys(step.body)] + parts.workload_keys(book.root)
    earlier: dict[str, str] = {}
    for each in values.entries:
        text = text_of(each.value)
        made = inline(text, earlier, ("vars", "ctx")) if text is not None and earlier else text
        if made is not None and made != text:
            change_text(each, made)
            message = f"`{each.name}` reads another value of the same `vars`, which is computed in its place"
            book.note(each.start, "vars-order", message)
        if made is not None and written.count(each.name) == 1:
            earlier[each.name] = made


def _written_keys(step: Map) -> Iterator[str]:
    for holder in parts.holders(step):
        for key in ("vars", *_SETS):
            target = holder.map(key)
            yield from (each.name.rpartition(".")[2] for each in target.entries) if target is not None else ()


def _lenient(book: Book, entry: LayoutEntry) -> None:
    """The public engine skips a value that cannot be computed; ours is null."""
    text = text_of(entry.value)
    parsed = parse(text) if text is not None and is_template(text) else None
    if text is None or parsed is None or not parsed.typed or len(parsed.readings) != 1:
        return
    only = parsed.readings[0]
    if len(only.parts) < 1 or only.first != 1 or only.after != len(parsed.tokens) - 1:
        return
    inner = text[parsed.tokens[0].end : parsed.tokens[-1].start].strip()
    start = entry.value.start if isinstance(entry.value, Leaf) else entry.start
    put(entry, quoted(f"{{{{ {inner} | default(none) }}}}"))
    assert isinstance(entry.value, Leaf)
    entry.value.start = start
    book.note(entry.start, "lenient", f"`{entry.name}` is null if `{inner}` is missing; the public engine skipped it")


def bare_sets(book: Book) -> None:
    """`set: {x: …}` writes to `ctx.x`, and inside of a loop to `iter.x`."""
    for step in book.owners:
        looped = step.body.get("loop") is not None
        inside = [holder for task in parts.tasks(step.body) for holder in _task_holders(task.body)]
        for holder in [step.body, *parts.arcs(step.body), *inside]:
            target = holder.map("set")
            in_task = any(holder is each for each in inside)
            for entry in target.entries if target is not None else []:
                _scoped(book, entry, in_task=in_task, looped=looped)


def continued_sets(book: Book) -> None:
    """`set: {x: …}` of a task is also applied after an error that a rule continues: the rule writes it, too."""
    for _, task in book.tasks():
        own, policy = task.body.map("set"), parts.policy(task.body)
        values = [made for entry in own.entries if (made := _after_error(entry))] if own is not None else []
        for rule in policy.rules if policy is not None and values else []:
            then = rule.map("then")
            if then is None or then.text("do") != "continue" or not _ERROR.fullmatch(rule.text("when") or ""):
                continue
            target = child(then, "set", rule.start)
            for made in values if target is not None else []:
                if target is not None and target.get(made.name) is None:
                    target.entries.append(made)
                    message = f"`{made.name}` is also written after an error that the task continues, without a result"
                    book.note(made.start, "set-after-error", message)
            break


def _after_error(entry: LayoutEntry) -> LayoutEntry | None:
    """A write to a name without a scope, after an error: what it reads of the missing result is null."""
    text = text_of(entry.value)
    parsed = parse(text) if text is not None else None
    if "." in entry.name or text is None or parsed is None or not parsed.typed or len(parsed.readings) != 1:
        return None
    inner = text[parsed.tokens[0].end : parsed.tokens[-1].start].strip()
    whole = parsed.readings[0].path == ("output",)
    return new(entry.name, quoted(text if whole else f"{{{{ {inner} | default(none) }}}}"), entry.start)


def _scoped(book: Book, entry: LayoutEntry, *, in_task: bool, looped: bool) -> None:
    if entry.name.startswith("iter.") and not looped:
        rename(entry, "step." + entry.name[5:] if in_task else "ctx." + entry.name[5:])
        book.note(entry.start, "scope-chosen", f"there is no loop here, so `{entry.name}` is written")
        return
    if entry.name.startswith(_SCOPES):
        return
    name = entry.name
    for prefix in _SAME:
        if name.startswith(prefix):
            name = name[len(prefix) :]
    scope = "iter" if in_task and looped else "ctx"
    rename(entry, f"{scope}.{name}")
    book.note(entry.start, "scope-chosen", f"`{name}` is written to `{scope}.{name}`")


def _task_holders(body: Map) -> Iterator[Map]:
    yield body
    policy = parts.policy(body)
    for rule in policy.rules if policy is not None else []:
        yield from parts.thens(rule)


def iterations(book: Book) -> None:
    """`set_iter` without a loop writes to the step."""
    for step in book.owners:
        if step.body.get("loop") is not None:
            continue
        for holder in parts.holders(step.body):
            entry = holder.entry("set_iter")
            if entry is not None and holder.get("set_vars") is None:
                rename(entry, "set_vars")
                book.note(entry.start, "scope-chosen", "there is no loop here, so the values are written to `step`")


def shared_vars(book: Book) -> None:
    """`set_vars` that another step reads as `vars.x`, or that have a default at the root, belong to `ctx`."""
    defaults = set(parts.workload_keys(book.root))
    readers: dict[str, set[str]] = {}
    for step in book.steps:
        for _, leaf in parts.texts(step.body):
            for reading in free_reads(leaf.text):
                if reading.root == "vars" and reading.parts:
                    readers.setdefault(reading.parts[0].name, set()).add(step.name)
    for step in book.steps:
        for holder in parts.holders(step.body):
            entry = holder.entry("set_vars")
            if entry is None or not isinstance(entry.value, Map):
                continue
            shared = [
                each
                for each in entry.value.entries
                if each.name in defaults or readers.get(each.name, set()) - {step.name}
            ]
            if not shared:
                continue
            target = holder.map("set_ctx")
            if target is None:
                target = Map()
                insert(holder, new("set_ctx", target, entry.start), after=("set_vars",))
            for each in shared:
                move(each, entry.value, target)
                why = "`workload` has a default of" if each.name in defaults else "another step reads"
                book.note(each.start, "scope-chosen", f"{why} `vars.{each.name}`, so it is `ctx.{each.name}`")
            if not entry.value.entries:
                discard(holder, entry)


def written_names(book: Book) -> dict[str, set[str]]:
    """The names that the playbook writes, with the scopes in which they are."""
    found: dict[str, set[str]] = {}
    for step in book.owners:
        for holder in parts.holders(step.body):
            for key in _SETS:
                target = holder.map(key)
                for entry in target.entries if target is not None else []:
                    scope, _, name = entry.name.rpartition(".") if key == "set" else (key, "", entry.name)
                    path = entry.name.split(".") if key == "set" else [scope, name]
                    if len(path) > 1:
                        scope = {"set_ctx": "ctx", "set_iter": "iter", "set_vars": "step", "set_shared": "ctx"}.get(
                            path[0], path[0]
                        )
                        found.setdefault(path[1], set()).add(scope)
    return found


def join_sets(book: Book) -> None:
    """One `set` for each holder: older forms beside it are merged into it."""
    for step in book.owners:
        for holder in parts.holders(step.body):
            target = holder.map("set")
            for key, scope in (("set_ctx", "ctx."), ("set_iter", "iter."), ("set_vars", "step.")):
                entry = holder.entry(key)
                if target is None or entry is None or not isinstance(entry.value, Map):
                    continue
                for each in list(entry.value.entries):
                    move(each, entry.value, target)
                    prefix_key(each, scope)
                discard(holder, entry)
                book.changed()
