"""Loops of the public generations: `collection`/`element`, `type: iterator`, modes, cursors (§6)."""

from __future__ import annotations

import re

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import LayoutEntry, List, Map, item, leaves, plain, quoted, rename
from noetl.playbook.dialects.parts import StepPart
from noetl.playbook.dialects.public.book import PAGES, Book, child, discard, insert, move, new, put, scalar, text_of
from noetl.playbook.dialects.public.outcomes import point
from noetl.playbook.dialects.template_tokens import free_reads, parse

_NAMES = {"collection": "in", "element": "iterator", "items": "in", "var": "iterator", "item": "iterator"}
_FIELDS = (
    "collection",
    "element",
    "in",
    "iterator",
    "mode",
    "concurrency",
    "where",
    "limit",
    "chunk",
    "order_by",
    "enumerate",
)
_COMPARISON = re.compile(
    r"\{\{\s*(?P<item>\w+)\.(?P<part>\w+)\s*(?P<test>==|!=|>=|<=|>|<)\s*"
    r"(?P<value>'[^']*'|\"[^\"]*\"|-?\d+(?:\.\d+)?|[Tt]rue|[Ff]alse)\s*\}\}"
)
_MODES = {"async": "parallel", "concurrent": "parallel", "sync": "sequential", "serial": "sequential"}


def step_loops(book: Book) -> None:
    """A loop without a tool, whose arcs pass the item on: each item went through the steps until `end_loop`."""
    for step in book.steps:
        loop = step.body.entry("loop")
        if loop is None or not step.iterators or any(step.body.get(key) is not None for key in ("tool", "type")):
            continue
        following = step.body.get("next")
        reads = [reading for leaf in leaves(following) for reading in free_reads(leaf.text)] if following else []
        if any(reading.root in (*step.iterators, "iter") for reading in reads):
            fix = "write the tasks of an item as a list under `tool` of this step, or as a playbook that it calls"
            book.refuse(loop.start, "this loop has no tool; its items go through other steps, which no loop does", fix)


def iterator_steps(book: Book) -> None:
    """`type: iterator` with `collection`, `element` and a `task` becomes a loop over that tool."""
    for step in book.steps:
        kind = step.body.entry("type") or step.body.entry("tool")
        if kind is None or text_of(kind.value) != "iterator":
            continue
        task = step.body.entry("task")
        loop = Map()
        for entry in [each for each in step.body.entries if each.name in _FIELDS]:
            move(entry, step.body, loop)
        if loop.get("collection") is None and loop.get("in") is None:
            data = step.body.entry("data")
            if data is not None:
                move(data, step.body, loop)
                rename(data, "in")
        if task is None or not isinstance(task.value, Map):
            book.refuse(
                kind.start, "this iterator has no `task` that runs for each item", "write the tool under `task`"
            )
            continue
        discard(step.body, kind)
        insert(step.body, new("loop", loop, kind.start), before=("task",))
        for key in ("task", "name"):
            named = task.value.entry(key)
            if named is not None and task.value.get("tool") is None and key == "task" and task.value.get("type"):
                discard(task.value, named)
        _unfold_task(book, step, task)
        save = step.body.entry("save")
        if save is not None:
            _save_after(book, step, save)
        book.changed()


def _save_after(book: Book, step: StepPart, save: LayoutEntry) -> None:
    """`save` of an iterator stores all results: a step after the loop."""
    workflow = book.root.get("workflow")
    assert isinstance(workflow, List)
    name = f"{step.name}_save"
    while name in book.step_names:
        name += "_2"
    for leaf in leaves(save.value):
        point(leaf, ("results",), f"{step.name}.results")
        point(leaf, ("count",), f"({step.name}.results | length)")
        point(leaf, ("result", "this", "data"), step.name)
    body = Map(entries=[new("step", scalar(name), save.start)], start=save.start)
    move(save, step.body, body)
    following = step.body.entry("next")
    if following is not None:
        move(following, step.body, body)
    target = Map(entries=[new("step", scalar(name), save.start)])
    step.body.entries.append(new("next", List(entries=[item(target)]), save.start))
    holder = item(body)
    holder.start = save.start
    position = next(index for index, each in enumerate(workflow.entries) if each.value is step.body)
    workflow.entries.insert(position + 1, holder)
    book.note(save.start, "step-made", f'`save` of the iterator is now the step "{name}" after the loop')


def _unfold_task(book: Book, step: StepPart, task: LayoutEntry) -> None:
    """The task of an iterator: its tool becomes the tool of the step."""
    assert isinstance(task.value, Map)
    body = task.value
    kind = body.entry("type") or body.entry("tool")
    described = body.entry("desc")
    if described is not None and step.body.get("desc") is not None:
        discard(body, described)
    if kind is not None and text_of(kind.value) is not None:
        rename(kind, "kind")
        rename(task, "tool")
    elif kind is not None and isinstance(kind.value, Map | List):
        put(task, kind.value)
        rename(task, "tool")
    else:
        book.refuse(task.start, "the task of this iterator has no tool", "write `tool: {kind: …}`")


def loop_keys(book: Book) -> None:
    """The keys of a loop: `in`, `iterator` and `spec`."""
    for step in book.owners:
        entry = step.body.entry("loop")
        loops = (
            [entry.value]
            if entry is not None and isinstance(entry.value, Map)
            else parts.maps(entry.value if entry else None)
        )
        for loop in loops:
            _rename_keys(book, loop)
            _modes(book, loop)
            _filters(book, loop)
            _storage(book, loop)
            source = loop.get("in")
            if loop.get("cursor") is not None or (isinstance(source, Map) and source.get("cursor") is not None):
                _refuse_cursor(book, loop)
            if loop.get("iterator") is None and loop.get("in") is not None:
                loop.entries.append(new("iterator", plain("item"), loop.start))
                book.note(loop.start, "default-changed", "the loop names no item; it is read as `iter.item`")


def _refuse_cursor(book: Book, loop: Map) -> None:
    entry = loop.entry("cursor") or loop.entry("in")
    assert entry is not None
    message = "a loop over a cursor claims rows with its own lease and retry, which no loop does"
    fix = 'read the rows with a task before the loop, and write `in: "{{ … }}"`'
    book.refuse(entry.start, message, fix)


def _rename_keys(book: Book, loop: Map) -> None:
    for old, name in _NAMES.items():
        entry = loop.entry(old)
        if entry is not None and loop.get(name) is None:
            rename(entry, name)
            book.changed()


def _modes(book: Book, loop: Map) -> None:
    """`mode` and `concurrency` of the loop go under `spec`; `async` is `parallel`."""
    for key, name in (("mode", "mode"), ("concurrency", "max_in_flight"), ("max_in_flight", "max_in_flight")):
        entry = loop.entry(key)
        if entry is None:
            continue
        spec = child(loop, "spec", entry.start)
        if spec is None:
            continue
        if spec.get(name) is not None:
            discard(loop, entry)
            book.note(entry.start, "dropped", f"`{key}` is also under `spec`; it was removed")
            continue
        move(entry, loop, spec)
        rename(entry, name)
        book.changed()
    spec = loop.map("spec")
    mode = spec.entry("mode") if spec is not None else None
    word = text_of(mode.value) if mode is not None else None
    if mode is not None and word in _MODES:
        put(mode, plain(_MODES[word]))
        book.changed()
    if (
        mode is not None
        and text_of(mode.value) == "parallel"
        and spec is not None
        and spec.get("max_in_flight") is None
    ):
        policy = spec.map("policy")
        if policy is None or policy.get("max_in_flight") is None:
            message = "without `max_in_flight` a parallel loop runs 10 iterations at a time; the public engine ran 1"
            if book.public:
                book.note(mode.start, "default-changed", message)


def _filters(book: Book, loop: Map) -> None:
    """`limit` is part of the collection; the other filters of the old iterator are refused."""
    source = loop.entry("in")
    for key in ("filter", "enumerate", "pagination", "call"):
        entry = loop.entry(key)
        if (
            entry is not None
            and key in ("filter", "enumerate")
            and (text_of(entry.value) or "").strip() in ("", "{{}}", "false")
        ):
            discard(loop, entry)
            book.note(entry.start, "dropped", f"an empty `{key}` of a loop has no effect; it was removed")
    for key in ("where", "filter"):
        entry = loop.entry(key)
        if entry is not None and source is not None and text_of(source.value) is not None:
            _selection(book, loop, source, entry)
    limit = loop.entry("limit")  # of the items that were selected
    text = text_of(source.value) if source is not None else None
    parsed = parse(text) if text is not None else None
    if limit is not None and source is not None and parsed is not None and parsed.typed and text is not None:
        bound = (text_of(limit.value) or "").strip()
        inner = text[parsed.tokens[0].end : parsed.tokens[-1].start].strip()
        if bound.isdigit():
            discard(loop, limit)
            put(source, quoted(f"{{{{ ({inner})[:{bound}] }}}}"))
            book.changed()
    for key in ("distribution", "distributed"):
        entry = loop.entry(key)
        if entry is not None:
            discard(loop, entry)
            book.note(entry.start, "dropped", f"`{key}` of a loop has no effect; it was removed")
    for key in ("where", "limit", "chunk", "order_by", "filter", "pagination"):
        entry = loop.entry(key)
        if entry is not None:
            fix = "write it as a filter in `in`, for example `| selectattr(…)`, `| sort`, `[:10]`"
            book.refuse(entry.start, f'"{key}" of a loop has no replacement', PAGES if key == "pagination" else fix)


def _selection(book: Book, loop: Map, source: LayoutEntry, entry: LayoutEntry) -> None:
    """`filter: "{{ city.name != 'x' }}"` selects items of the collection, if it compares one part of an item."""
    found = _COMPARISON.fullmatch((text_of(entry.value) or "").strip())
    text = text_of(source.value) or ""
    parsed = parse(text)
    if found is None or found["item"] != loop.text("iterator") or parsed is None or not parsed.typed:
        return
    inner = text[parsed.tokens[0].end : parsed.tokens[-1].start].strip()
    put(source, quoted(f"{{{{ ({inner}) | selectattr('{found['part']}', '{found['test']}', {found['value']}) }}}}"))
    discard(loop, entry)
    book.note(
        entry.start, "condition-read", f"`{entry.name}` of the loop selects items; later public engines ignored it"
    )


def _storage(book: Book, loop: Map) -> None:
    """`spec.frame` and `spec.policy.results` are about storage and leases of the public engine."""
    spec = loop.map("spec")
    if spec is None:
        return
    frame = spec.entry("frame")
    if frame is not None:
        discard(spec, frame)
        book.note(frame.start, "dropped", "`loop.spec.frame` sets leases of the public engine; it was removed")
    policy = spec.map("policy")
    results = policy.entry("results") if policy is not None else None
    if policy is not None and results is not None:
        discard(policy, results)
        book.note(results.start, "dropped", "`loop.spec.policy.results` chooses a public storage; it was removed")
        holder = spec.entry("policy")
        if not policy.entries and holder is not None:
            discard(spec, holder)
    holder = loop.entry("spec")
    if not spec.entries and holder is not None:
        discard(loop, holder)
