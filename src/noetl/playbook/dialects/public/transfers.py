"""`transfer` tasks: sides with `type` or `tool`, and a service as the source of rows (§12)."""

from __future__ import annotations

import re

from noetl.playbook.dialects.layout.tree import Map, item, plain, rename
from noetl.playbook.dialects.parts import StepPart, TaskPart
from noetl.playbook.dialects.public.book import Book, discard, new, scalar, text_leaf, text_of
from noetl.playbook.dialects.public.credentials import side_auth
from noetl.playbook.dialects.public.outcomes import as_pipeline

_TABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?\Z")
_FIELD = re.compile(r"[\w-]+(\.[\w-]+)*\Z")


def transfer_tasks(book: Book) -> None:
    """The kind of a side is `kind`; rows of a service are fetched by a task of their own."""
    for step, task in list(book.tasks()):
        source, target = task.body.map("source"), task.body.map("target")
        if task.kind != "transfer" or source is None or target is None:
            continue
        for side in (source, target):
            named = side.entry("tool") or side.entry("type")
            if named is not None and side.get("kind") is None:
                rename(named, "kind")
                book.changed()
            side_auth(book, task, side)
        size = task.body.entry("chunk_size")
        if size is not None:
            discard(task.body, size)
            book.note(size.start, "dropped", "`chunk_size` of a transfer was removed: the rows are one transaction")
        if source.text("kind") == "http" and target.text("kind") == "postgres":
            _from_service(book, step, task, source, target)


def _from_service(book: Book, step: StepPart, task: TaskPart, source: Map, target: Map) -> None:
    """A task fetches the rows, and this one inserts the fields that `mapping` names."""
    start = task.body.start
    table, mapping, auth = target.text("table") or "", target.map("mapping"), target.entry("auth")
    columns = {each.name: text_of(each.value) or "" for each in mapping.entries} if mapping is not None else {}
    fits = all(_FIELD.match(name) and _FIELD.match(field) for name, field in columns.items())
    if not _TABLE.match(table) or not columns or not fits or auth is None or source.get("url") is None:
        message = "this transfer from a service does not say which fields it writes"
        book.refuse(start, message, "write a task of kind `http`, and one of kind `postgres` with INSERT")
        return
    base = task.name or "transfer"
    fetch = Map(entries=[new("name", scalar(f"{base}_fetch"), start), new("kind", plain("http"), start)], start=start)
    for entry in source.entries:
        if entry.name in ("url", "method", "headers", "params", "auth"):
            fetch.entries.append(new(entry.name, entry.value, entry.start))
    path = source.text("data_path")
    found = f"{base}_fetch.data.{path}" if path else f"{base}_fetch.data"
    found = f"({found} | default([]))" if path else found
    rows = f"{found} if {found} is sequence and {found} is not mapping and {found} is not string else [{found}]"
    names = ", ".join(columns)
    built = ", ".join(f"'{name}', item #> '{{{field.replace('.', ',')}}}'" for name, field in columns.items())
    sql = (
        f"INSERT INTO {table} ({names})\nSELECT {names} FROM jsonb_populate_recordset(NULL::{table}, (\n"
        f"  SELECT jsonb_agg(jsonb_build_object({built}))\n"
        f"  FROM jsonb_array_elements({{{{ {rows} }}}}::jsonb) AS item))\n"
    )
    pipeline = as_pipeline(step, task, base)
    first = item(fetch)
    first.start = start
    position = next(
        index for index, each in enumerate(pipeline.entries) if each is task.holder or each.value is task.body
    )
    pipeline.entries.insert(position, first)
    kept = [each for each in task.body.entries if each.name in ("name", "desc", "spec", "set")]
    made = [new("kind", plain("postgres"), start), new("auth", auth.value, auth.start)]
    task.body.entries = [*kept, *made, new("command", text_leaf(sql), start)]
    book.note(start, "transfer-tasks", "the transfer is two tasks: one fetches the rows, one inserts them")
