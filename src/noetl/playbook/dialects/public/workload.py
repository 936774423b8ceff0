"""Templates in `workload` (§1, §2). The public engine evaluated them where they were read; here they are plain data.

Defaults become constants. Other templates become expressions at their readings, and a caller can still send the value.
"""

from __future__ import annotations

import re

from noetl.playbook.dialects.layout.scalars import TextEdit, replace
from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, Map, plain, quoted
from noetl.playbook.dialects.public.book import Book, is_template, put, text_of
from noetl.playbook.dialects.public.sql import concatenated
from noetl.playbook.dialects.template_tokens import PathRead, attribute, parse

_DEFAULTED = re.compile(
    r"\{\{-?\s*(?P<path>[A-Za-z_][\w.]*)\s*"
    r"(?:\|\s*(?:default|d)\(\s*(?P<value>'[^']*'|\"[^\"]*\"|-?\d+(?:\.\d+)?|[Tt]rue|[Ff]alse|[Nn]one)\s*"
    r"(?:,\s*[Tt]rue\s*)?\)\s*)?-?\}\}"
)
_SCOPES = ("workload", "ctx", "vars")
_SENT = ("payload", "args", "input")  # names of what a caller sends
_JOB = ("uuid", "id", "execution_id")


def constants(book: Book) -> None:
    """`x: "{{ x | default(1) }}"` and `x: "{{ env.X | default('a') }}"` have a constant as default."""
    workload = book.root.map("workload")
    for entry in workload.entries if workload is not None else []:
        _constant(book, entry)


def _constant(book: Book, entry: LayoutEntry) -> None:
    if isinstance(entry.value, Map):
        for each in entry.value.entries:
            _constant(book, each)
        return
    found = _DEFAULTED.fullmatch((text_of(entry.value) or "").strip())
    if found is None:
        return
    path = tuple(found["path"].split("."))
    own = path[1:] if path[0] in (*_SCOPES, *_SENT) and len(path) > 1 else path
    value = found["value"]
    if path[0] == "env" and len(path) > 1 and value is not None:
        words = f"the environment variable {path[1]} is not read"
    elif own == (entry.name,):
        words = f"a caller sends `{entry.name}`"
    else:
        return
    put(entry, _leaf(value or "none"))
    book.note(entry.start, "workload-template", f"{words}; without a value from a caller it is {value or 'null'}")


def _leaf(value: str) -> Leaf:
    if value[0] in "'\"":
        return quoted(value[1:-1])
    return plain("null" if value.lower() == "none" else value.lower())


class WorkloadTemplates:
    """Templates that are left in `workload`, as expressions that take their place where they are read."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.workload = book.root.map("workload") or Map()
        self.names = {each.name for each in self.workload.entries}
        self.read: set[str] = set()
        self.open: list[str] = []  # names whose expressions are being made

    def reading(self, name: str) -> str | None:
        """The expression in place of `workload.<name>`; None if its value is no such template."""
        entry = self.workload.entry(name)
        if entry is None or name in self.open:
            return None
        self.open.append(name)
        made = self._expression(entry)
        self.open.pop()
        if made is None:
            return None
        self.read.add(name)
        return f"(workload.{name} | default({made}, true))"

    def finish(self) -> None:
        """The values that were replaced at their readings are null, unless a caller sends them."""
        for entry in self.workload.entries:
            if entry.name in self.read:
                text = (text_of(entry.value) or "").strip()
                put(entry, plain("null"))
                message = f"`{text}` is computed where `{entry.name}` is read, unless a caller sends a value"
                self.book.note(entry.start, "workload-template", message)

    def _expression(self, entry: LayoutEntry) -> str | None:
        text = text_of(entry.value)
        parsed = parse(text) if text is not None and is_template(text) else None
        if text is None or parsed is None or "{%" in text or not parsed.readings:
            return None
        edits: list[TextEdit] = []
        for reading in parsed.readings:
            made = reading.root if reading.root in parsed.bound else self._name(reading)
            if made is None:
                return None
            edits.append(TextEdit(reading.start, reading.end, made))
        changed = replace(quoted(text), edits).text
        return changed.strip()[2:-2].strip("- \n") if parsed.typed else concatenated(changed)

    def _name(self, reading: PathRead) -> str | None:
        path = reading.path
        if path == ("execution_id",):
            return "execution_id"
        if path[0] == "job" and path[1:2] and path[1] in _JOB and len(path) == 2:
            return "execution_id"
        if path[0] in _SCOPES and len(path) > 1:
            path = path[1:]
        value = self.workload.get(path[0]) if path[0] in self.names else None
        if value is None or (isinstance(value, Leaf) and is_template(value.text)):
            return self.reading(path[0]) if value is not None and len(path) == 1 else None
        return "workload" + "".join(map(attribute, path))
