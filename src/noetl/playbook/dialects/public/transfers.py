"""`transfer` tasks: sides with `type` or `tool`, and a service as the source of rows (§12)."""

from __future__ import annotations

import re

from noetl.playbook.dialects.layout.tree import Map, plain, quoted, rename
from noetl.playbook.dialects.parts import StepPart, TaskPart
from noetl.playbook.dialects.public.book import Book, discard, is_template, new, put, scalar, text_leaf, text_of
from noetl.playbook.dialects.public.credentials import side_auth
from noetl.playbook.dialects.public.outcomes import insert_before

_TABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?\Z")
_COLUMNS = re.compile(r"(?is)\s*SELECT\s+(\w+(?:\s*,\s*\w+)*)\s+FROM\b")
_INSERT = re.compile(
    r"(?is)INSERT\s+INTO\s+([\w.\"]+|\{\{[^{}]*\}\})\s*\(([\w\s,]+)\)\s*VALUES\s*\(((?:\s*%s\s*,?)+)\)(.*)\Z"
)
_FIELD = re.compile(r"[\w-]+(\.[\w-]+)*\Z")


def transfer_tasks(book: Book) -> None:
    """The kind of a side is `kind`; rows of a service are fetched by a task of their own."""
    for step, task in list(book.tasks()):
        if task.kind == "snowflake_transfer":
            _named_sides(book, task)
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
        elif "snowflake" in (source.text("kind"), target.text("kind")):
            _with_snowflake(book, step, task, source, target)


def _named_sides(book: Book, task: TaskPart) -> None:
    """`snowflake_transfer` is a transfer whose `direction` names the sides, with credentials beside them."""
    body = task.body
    kind, direction, auth = body.entry("kind"), body.entry("direction"), body.entry("auth") or body.entry("credentials")
    kinds = ("postgres", "snowflake") if body.text("direction") == "pg_to_sf" else ("snowflake", "postgres")
    sides = (body.map("source"), body.map("target"))
    given = auth.value if auth is not None and isinstance(auth.value, Map) else Map()
    for name, side, of in zip(("source", "target"), sides, kinds, strict=True):
        if side is None:
            return
        side.entries.append(new("kind", plain(of), side.start))
        short = "sf" if of == "snowflake" else "pg"
        found = next((each for key in (short, of, name) if (each := given.entry(key)) is not None), None)
        if found is None and of == "snowflake":
            found = body.entry("credential")
        if side.get("auth") is None and found is not None:
            side.entries.append(new("auth", found.value, found.start))
    for entry in (direction, body.entry("auth"), body.entry("credentials"), body.entry("credential")):
        if entry is not None:
            discard(body, entry)
    assert kind is not None
    put(kind, plain("transfer"))
    book.changed()


def _with_snowflake(book: Book, step: StepPart, task: TaskPart, source: Map, target: Map) -> None:
    """A task reads the rows, and this one writes them: the statement of the target, or an INSERT of the columns."""
    start = task.body.start
    query, table = source.text("query"), target.text("table")
    statement = target.text("query")
    selected = _COLUMNS.match(query or "")
    columns = [each.strip() for each in selected[1].split(",")] if selected is not None else []
    if statement is None and table is not None and columns and target.text("mode") in (None, "append", "insert"):
        marks = ", ".join(["%s"] * len(columns))
        statement = f"INSERT INTO {table} ({', '.join(columns)})\nVALUES ({marks})"
    auths = (source.entry("auth"), target.entry("auth"))
    if query is not None and statement is not None and target.text("kind") == "postgres":
        statement = _inserted(statement, f"{task.name or 'transfer'}_read")
    if query is None or statement is None or auths[0] is None or auths[1] is None:
        message = "this transfer does not say which columns it writes"
        fix = "write a task that reads the rows, and one that writes them: `rows` of `snowflake`, INSERT of `postgres`"
        book.refuse(start, message, fix)
        return
    base = task.name or "transfer"
    read = Map(
        entries=[
            new("name", scalar(f"{base}_read"), start),
            new("kind", plain(source.text("kind") or ""), start),
            new("auth", auths[0].value, auths[0].start),
            new("query", text_leaf(query), start),
        ],
        start=start,
    )
    insert_before(step, task, read, base)
    kept = [each for each in task.body.entries if each.name in ("name", "desc", "spec", "set")]
    made = [
        new("kind", plain(target.text("kind") or ""), start),
        new("auth", auths[1].value, auths[1].start),
    ]
    if target.text("kind") == "snowflake":
        made.append(new("command", text_leaf(statement.replace("%s", "?")), start))
        made.append(new("rows", quoted(f"{{{{ {base}_read.data }}}}"), start))
    else:
        read.entries.append(new("row_format", plain("lists"), start))
        made.append(new("command", text_leaf(statement), start))
    task.body.entries = [*kept, *made]
    book.note(
        start, "transfer-tasks", "the transfer is two tasks: one reads the rows, one writes them in one transaction"
    )


def _inserted(statement: str, read: str) -> str | None:
    """An INSERT for one row as an INSERT of all rows, which are lists of values."""
    found = _INSERT.match(statement.strip())
    columns = [each.strip() for each in found[2].split(",")] if found is not None else []
    if found is None or found[3].count("%s") != len(columns):
        return None
    table = found[1] if not is_template(found[1]) else f"{found[1][:-2].rstrip()} | sql_ident }}}}"
    names = ", ".join(columns)
    built = ", ".join(f"'{name}', item -> {index}" for index, name in enumerate(columns))
    return (
        f"INSERT INTO {table} ({names})\nSELECT {names} FROM jsonb_populate_recordset(NULL::{table}, (\n"
        f"  SELECT jsonb_agg(jsonb_build_object({built}))\n"
        f"  FROM jsonb_array_elements({{{{ {read}.data }}}}::jsonb) AS item))\n{found[4].strip().rstrip(';')}\n"
    )


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
    insert_before(step, task, fetch, base)
    kept = [each for each in task.body.entries if each.name in ("name", "desc", "spec", "set")]
    made = [new("kind", plain("postgres"), start), new("auth", auth.value, auth.start)]
    task.body.entries = [*kept, *made, new("command", text_leaf(sql), start)]
    book.note(start, "transfer-tasks", "the transfer is two tasks: one fetches the rows, one inserts them")
