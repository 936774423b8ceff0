"""`save` and `sink` blocks: a further task that stores the result (§11)."""

from __future__ import annotations

import re

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, List, Map, item, leaves, plain
from noetl.playbook.dialects.parts import StepPart
from noetl.playbook.dialects.public.book import Book, discard, is_template, new, text_leaf, text_of
from noetl.playbook.dialects.public.outcomes import as_pipeline, pass_on, point, put_tool
from noetl.playbook.dialects.template_tokens import parse

_NAME = re.compile(r"[A-Za-z_][\w$]*(\.[A-Za-z_][\w$]*)?\Z")
_EVENTS = ("event_log", "event", "events", "log")
_RESULT = ("result", "data", "this", "response")
_FIX = "add a task to the pipeline that stores the data, with `INSERT INTO … VALUES ({{ <task>.data.… }})`"


def save_blocks(book: Book) -> None:
    """`save: {storage: postgres, table, data}` is a task with an INSERT."""
    for step in book.owners:
        tasks = parts.tasks(step.body)
        for task in tasks:
            if task.kind == "save":
                _save_task(book, task.body, task.body)
        for holder in [step.body, *(task.body for task in tasks)]:
            for key in ("save", "sink"):
                entry = holder.entry(key)
                if entry is not None:
                    _block(book, step, holder, entry)


def _block(book: Book, step: StepPart, holder: Map, entry: LayoutEntry) -> None:
    tool = step.body.entry("tool")
    tasks = parts.tasks(step.body)
    if isinstance(entry.value, Map) and tool is None and holder is step.body:
        _alone(book, entry, entry.value)
        return
    if not isinstance(entry.value, Map) or tool is None or not tasks:
        book.refuse(entry.start, f"this `{entry.name}` is not a mapping beside a tool", _FIX)
        return
    owner = next((task for task in tasks if task.body is holder), tasks[-1])
    name = owner.name or "main"
    made = Map(start=entry.start)
    if not _fill(book, made, entry.value, entry, name):
        return
    discard(holder, entry)
    pipeline = as_pipeline(step, owner, name)
    holder_item = item(made)
    holder_item.start = entry.start
    position = next((index for index, each in enumerate(pipeline.entries) if each.value is owner.holder.value), 0)
    pipeline.entries.insert(position + 1, holder_item)
    pass_on(book, step, name, owner.kind or "")
    message = f'`{entry.name}` is now the task "{made.text("name")}" of the pipeline'
    book.note(entry.start, "save-task", message)


def _alone(book: Book, entry: LayoutEntry, save: Map) -> None:
    """A `save` without a tool is the tool of its step."""
    made = Map(start=entry.start)
    if _fill(book, made, save, entry, "result"):
        made.entries = [each for each in made.entries if each.name != "name"]
        put_tool(entry, made)
        book.changed()


def _fill(book: Book, made: Map, save: Map, entry: LayoutEntry, name: str) -> bool:
    """The task of a `save`; False: refused."""
    inner = save.map("tool") or save.map("storage") or save
    words = [inner.text("kind"), inner.text("type"), save.text("storage"), save.text("tool"), save.text("kind")]
    kind = next((word for word in words if word and word != "save"), None)
    if kind in _EVENTS:
        return _recorded(book, made, save, entry)
    if kind not in ("postgres", "duckdb"):
        book.refuse(entry.start, f'a {entry.name} to "{kind}" has no replacement', _FIX)
        return False
    sql = _statement(book, save, inner, entry, name)
    if sql is None:
        return False
    made.entries += [new("name", plain(f"{entry.name}_result"), entry.start), new("kind", plain(kind), entry.start)]
    auth = inner.entry("auth") or save.entry("auth") or inner.entry("credential") or save.entry("credential")
    if auth is not None:
        made.entries.append(new("auth", auth.value, auth.start))
    made.entries.append(new("command", text_leaf(sql), entry.start))
    return True


def _recorded(book: Book, made: Map, save: Map, entry: LayoutEntry) -> bool:
    """Data for the event log is the result of a task, which the log contains."""
    data = save.get("data") or save.get("args")
    if not isinstance(data, Map):
        book.refuse(entry.start, f"this `{entry.name}` has no data", "write a task `{kind: noop, input: {…}}`")
        return False
    made.entries += [
        new("name", plain(f"{entry.name}_result"), entry.start),
        new("kind", plain("noop"), entry.start),
        new("input", data, entry.start),
    ]
    return True


def _statement(book: Book, save: Map, inner: Map, entry: LayoutEntry, name: str) -> str | None:
    table = inner.text("table") or save.text("table")
    data = next(
        (
            found
            for key in ("data", "args", "values", "params")
            for holder in (save, inner)
            if (found := holder.get(key)) is not None
        ),
        None,
    )
    command = next(
        (text for key in ("statement", "command", "query") for holder in (inner, save) if (text := holder.text(key))),
        None,
    )
    if isinstance(data, Map):
        for leaf in leaves(data):
            point(leaf, _RESULT, name)
    if command is not None:
        return _parameters(command, data) if isinstance(data, Map) or data is None else None
    if table is None or not _NAME.match(table) or not isinstance(data, Map) or not data.entries:
        book.refuse(entry.start, f"this `{entry.name}` does not say which columns it writes", _FIX)
        return None
    columns: list[str] = []
    values: list[str] = []
    for each in data.entries:
        text = each.value.text if isinstance(each.value, Leaf) else None
        if text is None or not _NAME.match(each.name):
            book.refuse(each.start, f'the value of "{each.name}" is not a single value', _FIX)
            return None
        columns.append(each.name)
        values.append(_value(each.value))
    sql = f"INSERT INTO {table} ({', '.join(columns)})\nVALUES ({', '.join(values)})"
    mode = inner.text("mode") or save.text("mode") or "append"
    key = inner.get("key") or save.get("key")
    keys = [text_of(each.value) or "" for each in key.entries] if isinstance(key, List) else [text_of(key) or ""]
    if mode == "upsert":
        if not all(keys):
            book.refuse(entry.start, "an upsert needs `key`", "name the column that is unique: `key: id`")
            return None
        rest = [column for column in columns if column not in keys]
        update = ", ".join(f"{column} = EXCLUDED.{column}" for column in rest)
        sql += f"\nON CONFLICT ({', '.join(keys)}) DO " + (f"UPDATE SET {update}" if update else "NOTHING")
    elif mode not in ("append", "insert"):
        book.refuse(entry.start, f'the mode "{mode}" has no replacement', _FIX)
        return None
    return sql + "\n"


def _value(node: object) -> str:
    assert isinstance(node, Leaf)
    if is_template(node.text):
        parsed = parse(node.text)
        if parsed is not None and parsed.typed:
            return node.text.strip()
        return "'" + node.text + "'"
    if node.null and not node.style:
        return "NULL"
    if not node.style and re.fullmatch(r"-?\d+(\.\d+)?|true|false", node.text):
        return node.text
    return "'" + node.text.replace("'", "''") + "'"


def _parameters(command: str, data: Map | None) -> str:
    """`:name` in a statement stands for a value of `data`."""
    for each in data.entries if data is not None else []:
        if isinstance(each.value, Leaf):
            value = _value(each.value)
            pieces = re.split(rf"(?<![:\w]):{re.escape(each.name)}\b", command)
            command = value.join(pieces)
    return command


def _save_task(book: Book, body: Map, save: Map) -> None:
    """`type: save` is a step of its own."""
    kind = body.entry("kind")
    assert kind is not None
    made = Map(start=body.start)
    inner = body.map("save")
    if not _fill(book, made, inner if inner is not None else save, kind, "result"):
        return
    body.entries = [each for each in made.entries if each.name != "name"]
    book.changed()
