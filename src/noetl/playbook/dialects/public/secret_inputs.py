"""Secrets that are passed on as arguments: the task that needs one reads it from the keychain (§10, §12).

An argument is recorded in the log, and a field of a task is not.
"""

from __future__ import annotations

import re

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.scalars import TextEdit, replace
from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, Map, leaves, quoted
from noetl.playbook.dialects.public.book import Book, change_text, child, discard, is_template, new, text_of
from noetl.playbook.dialects.public.code import MARK, main_parameters, prepended
from noetl.playbook.dialects.template_tokens import parse

_SECRET = re.compile(r"\{\{\s*(keychain(?:\.\w+){1,2})\s*\}\}\Z")


def passed_secrets(book: Book) -> None:
    """`input: {token: "{{ keychain.x }}"}` of a step or a call is removed, and its readers read the keychain."""
    callers: dict[str, list[Map]] = {}
    for _, task in book.tasks():
        given = task.body.map("input") if task.kind == "workbook" else None
        if task.kind == "workbook":
            callers.setdefault(task.body.text("block") or "", []).append(given if given is not None else Map())
    for step in book.owners:
        own = step.body.map("args") or step.body.map("input")
        holders = callers.get(step.name, []) if step.block else [own] if own is not None else []
        _take(book, holders, [task.body for task in parts.tasks(step.body)])
    for _, task in book.tasks():
        inputs = task.body.map("input") if task.kind == "python" else None
        for entry in list(inputs.entries) if inputs is not None else []:
            found = _SECRET.match((text_of(entry.value) or "").strip())
            if inputs is not None and found is not None:
                _variable(book, task.body, inputs, entry, found[1])


def _take(book: Book, holders: list[Map], tasks: list[Map]) -> None:
    """Remove the secrets that all holders give, and let the tasks read them."""
    shared: dict[str, str] = {}
    for entry in holders[0].entries if holders else []:
        texts = {(text_of(holder.get(entry.name)) or "").strip() for holder in holders}
        found = _SECRET.match(texts.pop()) if len(texts) == 1 else None
        if found is not None:
            shared[entry.name] = found[1]
    for key, path in shared.items():
        for leaf in [leaf for task in tasks for leaf in leaves(task)]:
            _point(leaf, key, path)
        for holder in holders:
            given = holder.entry(key)
            assert given is not None
            discard(holder, given)
            _drop_empty(book, holder)
            book.note(given.start, "secret-input", f"the tasks that need `{key}` read `{path}`")


def _point(leaf: Leaf, key: str, path: str) -> None:
    parsed = parse(leaf.text) if is_template(leaf.text) else None
    edits = [
        TextEdit(reading.start, reading.parts[0].end, path)
        for reading in (parsed.readings if parsed is not None else [])
        if reading.path[:2] in (("input", key), ("args", key))
    ]
    if edits:
        made = replace(leaf, edits)
        leaf.raw, leaf.text, leaf.style = made.raw, made.text, made.style


def _variable(book: Book, body: Map, inputs: Map, entry: LayoutEntry, path: str) -> None:
    """Code receives a secret as an environment variable."""
    code = body.entry("code")
    text = text_of(code.value) if code is not None else None
    existing = body.map("env")
    taken = existing is not None and existing.get(entry.name.upper()) is not None
    if code is None or text is None or taken or not entry.name.isidentifier():
        return
    read = f'os.environ["{entry.name.upper()}"]'
    parameters = main_parameters(text)
    if parameters is None:
        change_text(code, prepended(text, ["import os", f"{entry.name} = {read}"]))
    elif entry.name in parameters and "async def main" not in text:
        rest = [name for name in parameters if name != entry.name]
        given = ", ".join([*(f"{name}={name}" for name in rest), f"{entry.name}={read}"])
        head = f"def main({', '.join([*rest, '_main=main'])}):  {MARK}"
        change_text(code, f"{text.rstrip()}\n\n{head}\n    import os\n    return _main({given})\n")
    else:
        return
    discard(inputs, entry)
    _drop_empty(book, inputs)
    env = child(body, "env", entry.start)
    assert env is not None
    env.entries.append(new(entry.name.upper(), quoted(f"{{{{ {path} }}}}"), entry.start))
    book.note(entry.start, "secret-input", f"the code reads `{path}` from the variable {entry.name.upper()}")


def _drop_empty(book: Book, inputs: Map) -> None:
    """Remove the entry of arguments of which none is left."""
    for step in book.owners if not inputs.entries else []:
        for holder in [step.body, *(task.body for task in parts.tasks(step.body))]:
            entry = next((each for each in holder.entries if each.value is inputs), None)
            if entry is not None:
                discard(holder, entry)
