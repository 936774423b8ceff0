"""The results of steps that other steps read: what they are, and how they are stored in `ctx` (§3, §13)."""

from __future__ import annotations

from msgspec import Struct, field

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import Leaf, Map
from noetl.playbook.dialects.parts import StepPart
from noetl.playbook.dialects.public import shapes
from noetl.playbook.dialects.public.book import Book, new
from noetl.playbook.dialects.public.code import returned_keys
from noetl.playbook.dialects.public.sql_results import last_with_rows


class Source(Struct):
    """What other steps read of one step."""

    step: StepPart
    name: str  # the key in `ctx`
    kind: str
    keys: set[str] | None
    asked: set[str] = field(default_factory=set)
    whole: bool = False
    read: bool = False
    ref: bool = False  # another step reads the reference to the result
    tasks: dict[str, str] = field(default_factory=dict)  # label of a task → key in `ctx`


def keys_of(task: Map) -> set[str] | None:
    """The keys of the mapping that a task returns; None if they are unknown."""
    given = task.map("input") if task.text("kind") == "noop" else None
    if given is not None:
        return {each.name for each in given.entries}
    code = task.text("code") if task.text("kind") == "python" else None
    return returned_keys(code) if code is not None else None


def result_kind(book: Book, step: StepPart) -> tuple[str, set[str] | None]:
    """The kind of result of a step, and the keys that its code returns."""
    if step.body.get("loop") is not None:
        return "loop", None
    tasks = parts.tasks(step.body)
    if not tasks:
        return "noop", set()
    last = tasks[-1]
    if last.kind == "workbook":
        blocks = book.root.map("workbook")
        block = blocks.map(last.body.text("block") or "") if blocks is not None else None
        inner = parts.tasks(block) if block is not None else []
        if inner and inner[-1].kind in shapes.SQL:
            return inner[-1].kind or "", set()
        return "", (keys_of(inner[-1].body) if inner[-1].kind == "python" else set()) if inner else None
    return last.kind or "", keys_of(last.body)


def store(book: Book, source: Source) -> None:
    """Write what other steps read of a step to `ctx`."""
    start = source.step.body.start
    if source.read:
        asked = frozenset() if source.whole else frozenset(source.asked)
        text = shapes.whole(source.kind, "output", asked, _last(source))
        _put_set(source.step.body, f"ctx.{source.name}", f"{{{{ {text} }}}}", start)
        message = f'other steps read the result of "{source.step.name}", which is now in `ctx.{source.name}`'
        book.note(start, "step-result", message)
    if source.ref:
        _put_set(source.step.body, f"ctx.{source.name}_ref", "{{ output.ref }}", start)
        message = f'other steps read the reference to the result of "{source.step.name}": `ctx.{source.name}_ref`'
        book.note(start, "step-result", message)
    for task in parts.tasks(source.step.body):
        key = source.tasks.get(task.name or "")
        if key is not None:
            last = last_with_rows(task.body.text("command") or "") if task.kind in shapes.SQL else 0
            text = shapes.whole(task.kind or "", "output", last=last)
            _put_set(task.body, f"ctx.{key}", f"{{{{ {text} }}}}", task.body.start)
            book.note(start, "step-result", f'other steps read the task "{task.name}", which is now in `ctx.{key}`')


def _last(source: Source) -> int:
    """The number of the statement whose rows a SQL task returns."""
    tasks = parts.tasks(source.step.body)
    return last_with_rows(tasks[-1].body.text("command") or "") if tasks and source.kind in shapes.SQL else 0


def _put_set(body: Map, key: str, text: str, start: int) -> None:
    value = Leaf(raw='"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"', text=text, style='"')
    target = body.map("set")
    if target is None:
        position = body.index("next", "compensate")
        body.entries.insert(
            len(body.entries) if position is None else position,
            new("set", Map(entries=[new(key, value, start)]), start),
        )
    elif target.get(key) is None:
        target.entries.append(new(key, value, start))


def assume(book: Book, names: list[str]) -> None:
    """Names that nothing provides are inputs of a caller."""
    if not names:
        return
    workload = book.root.entry("workload")
    if workload is None:
        workload = new("workload", Map(), book.root.start)
        position = book.root.index("workflow", "workbook")
        book.root.entries.insert(len(book.root.entries) if position is None else position, workload)
    if parts.is_null(workload.value):
        workload.value = Map()
        workload.gap = ":"
    for name in names if isinstance(workload.value, Map) else ():
        assert isinstance(workload.value, Map)
        workload.value.entries.append(new(name, Leaf(raw="null", text="null"), workload.start))
        message = f'nothing provides "{name}"; it is `workload.{name}`, which is null unless a caller sends it'
        book.note(workload.start, "assumed-input", message)
