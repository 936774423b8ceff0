"""`shell` tasks: `cmds`, `command`, `cmd` and `exports` (§9)."""

from __future__ import annotations

import re

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, List, Map, item, plain, quoted, rename
from noetl.playbook.dialects.parts import StepPart, TaskPart
from noetl.playbook.dialects.public.book import Book, discard, new, put, text_leaf, text_of
from noetl.playbook.dialects.public.code import write_constant
from noetl.playbook.dialects.public.credentials import default_of

_BASH = re.compile(
    r"\[\[ |pipefail|<<<|&>|\bsource |\$'|\bdeclare |\blocal -|=\(|\[@\]|\$\{\w+\^|\$\{\w+,,|\bmapfile |\bread -[a-z]*p"
)
_GO = re.compile(
    r"(?<!\{\{ ')\{\{`[^`]*`\}\}"
    r"|(?<!\{\{ ')(?<!`)\{\{-?\s*(?:\.|range\b|end\b|json\b|printf\b|index\s+\.|\$|if\s+\.|else\b)[^{}]*\}\}"
)
_KEYS = ("cmds", "command", "cmd", "commands", "script")


def commands(book: Book) -> None:
    """Each item of `cmds` was a shell of its own: one item is `sh`, several are a pipeline."""
    for step in book.owners:
        for task in parts.tasks(step.body):
            if task.kind == "shell":
                _convert(book, step, task)


def go_templates(book: Book) -> None:
    """`{{.Names}}` belongs to docker or kubectl, and is written as text."""
    for _, task in book.tasks():
        for key in ("sh", "argv"):
            value = task.body.get(key) if task.kind == "shell" else None
            holders = value.entries if isinstance(value, List) else [task.body.entry(key)]
            for holder in holders:
                text = text_of(holder.value) if holder is not None else None
                if holder is None or text is None or not _GO.search(text):
                    continue
                behind = " | raw_shell }}" if key == "sh" else " }}"
                made = _as_text(text, behind)
                put(holder, text_leaf(made, holder.value if isinstance(holder.value, Leaf) else None))
                book.changed()


def _as_text(text: str, behind: str) -> str:
    return _GO.sub(lambda found: "{{ " + _literal(found.group()) + behind, text)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _convert(book: Book, step: StepPart, task: TaskPart) -> None:
    body = task.body
    exports = body.entry("exports")
    if exports is not None:
        discard(body, exports)
        book.note(exports.start, "dropped", "no engine reads `exports` of a shell task; it was removed")
    entry = next((found for key in _KEYS if (found := body.entry(key)) is not None), None)
    if entry is None or body.get("sh") is not None or body.get("argv") is not None:
        return
    items = entry.value.entries if isinstance(entry.value, List) else [entry]
    texts = [text_of(each.value) for each in items]
    mapping = next((each for each in items if isinstance(each.value, Map)), None)
    if mapping is not None:
        message = "this command is a mapping, because YAML splits it at `: `"
        book.refuse(mapping.start, message, "put the whole command in single quotes, or write it below `- |`")
        return
    if not texts or any(text is None for text in texts):
        book.refuse(entry.start, f"`{entry.name}` must be text or a list of texts", "write the script under `sh`")
        return
    for each in items:
        write_constant(book, each, "sh", default_of)
    if len(items) > 1:
        _pipeline(book, step, task, entry, items)
        return
    _script(book, entry, items[0])


def _script(book: Book, entry: LayoutEntry, source: LayoutEntry) -> None:
    """One command: `sh`, or `argv` with bash if it uses words of bash."""
    assert isinstance(source.value, Leaf)
    leaf = source.value
    text = leaf.text
    if source is not entry:
        source.lead, lead = [], source.lead
        entry.lead = [*entry.lead, *(" " * (entry.base or 0) + line.strip() for line in lead if line.strip())]
        tail = source.tail
    else:
        tail = ""
    if _BASH.search(text):
        script = text_leaf(text, leaf)
        if "{{" in text:
            message = "the script is for bash, which receives its values as pasted text"
            book.note(entry.start, "pasted", message + "; a value with quotes or `$` is interpreted")
        put(entry, List(entries=[item(plain("bash")), item(plain("-c")), item(script)]))
        rename(entry, "argv")
    else:
        put(entry, text_leaf(text, leaf) if leaf.base is not None or source is not entry else leaf)
        rename(entry, "sh")
        if tail.strip():
            entry.lead = [*entry.lead, " " * (entry.base or 0) + tail.strip()]
    book.changed()


def _pipeline(book: Book, step: StepPart, task: TaskPart, entry: LayoutEntry, items: list[LayoutEntry]) -> None:
    """Several commands: one task each, in order. No state carries over in either engine."""
    tool = step.body.entry("tool")
    assert tool is not None
    shared = [each for each in task.body.entries if each is not entry and each.name not in ("kind", "name")]
    base = task.name or "cmd"
    if task.label is not None or any(each.name in ("spec", "set", "eval") for each in shared):
        message = "the commands of this task run one by one, but its rules apply to the whole task"
        book.refuse(entry.start, message, "join the commands to one text under `sh`, with `set -e` as its first line")
        return
    made: list[LayoutEntry] = []
    for index, each in enumerate(items):
        assert isinstance(each.value, Leaf)
        body = Map(entries=[new("name", plain(f"{base}_{index}"), each.start), new("kind", plain("shell"), each.start)])
        body.entries += [LayoutEntry(key=copy.key, value=copy.value, gap=copy.gap, base=copy.base) for copy in shared]
        command = new("sh", text_leaf(each.value.text, each.value), each.start)
        if "\n" not in each.value.text.strip() and not _BASH.search(each.value.text):
            command.value = quoted(each.value.text)
            command.value.start = each.value.start
        body.entries.append(command)
        body.start = each.start
        if _BASH.search(each.value.text):
            put(
                command,
                List(entries=[item(plain("bash")), item(plain("-c")), item(text_leaf(each.value.text, each.value))]),
            )
            rename(command, "argv")
        holder = item(body)
        holder.lead = [line.strip() for line in each.lead] + ([each.tail.strip()] if each.tail.strip() else [])
        holder.start = each.start
        made.append(holder)
    if isinstance(tool.value, List):
        position = next(index for index, held in enumerate(tool.value.entries) if held is task.holder)
        tool.value.entries[position : position + 1] = made
    else:
        put(tool, List(entries=made))
    book.changed()
