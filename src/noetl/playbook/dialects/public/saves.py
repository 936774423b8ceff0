"""`save` and `sink` blocks: a further task that stores the result (§11)."""

from __future__ import annotations

import re
from typing import NamedTuple

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, List, Map, Node, item, leaves, plain, quoted, table
from noetl.playbook.dialects.parts import StepPart
from noetl.playbook.dialects.public.book import Book, constant, discard, is_template, new, text_leaf, text_of
from noetl.playbook.dialects.public.code import free_names, main_parameters
from noetl.playbook.dialects.public.outcomes import as_pipeline, pass_on, paths_elsewhere, point, put_tool
from noetl.playbook.dialects.public.sql import inline
from noetl.playbook.dialects.template_tokens import parse

_NAME = re.compile(r"[A-Za-z_][\w$]*(\.[A-Za-z_][\w$]*)?\Z")
_EVENTS = ("event_log", "event", "events", "log")
_RESULT = ("result", "data", "this", "response")
_DATA = ("data", "args", "values", "params", "payload")
_COMMANDS = ("statement", "command", "query", "commands", "sql")
_FIX = "add a task to the pipeline that stores the data, with `INSERT INTO … VALUES ({{ <task>.data.… }})`"


def save_blocks(book: Book) -> None:
    """`save: {storage: postgres, table, data}` is a task with an INSERT."""
    for step in book.owners:
        tasks = parts.tasks(step.body)
        for task in tasks:
            if task.kind == "save":
                _save_task(book, step, task.body)
        for holder in [step.body, *(task.body for task in tasks)]:
            for key in ("save", "sink"):
                entry = holder.entry(key)
                if entry is not None:
                    _block(book, step, holder, entry)


def _records(value: Node) -> bool:
    """Does it only write an event?"""
    return isinstance(value, Map) and (value.text("tool") or value.text("storage")) in ("event_log", "event")


def _block(book: Book, step: StepPart, holder: Map, entry: LayoutEntry) -> None:
    tool = step.body.entry("tool")
    tasks = parts.tasks(step.body)
    if isinstance(entry.value, Map) and tool is None and holder is step.body:
        _alone(book, step, entry, entry.value)
        return
    if isinstance(entry.value, List) and all(_records(each.value) for each in entry.value.entries):
        discard(holder, entry)
        book.note(entry.start, "dropped", f"the event log contains the results anyway; `{entry.name}` was removed")
        return
    if (text_of(entry.value) or "") in ("true", "false"):
        discard(holder, entry)
        words = "an effect happens at least once, with an idempotency key"
        book.note(entry.start, "dropped", f"`{entry.name}` marks a task that writes; it was removed: {words}")
        return
    if not isinstance(entry.value, Map) or tool is None or not tasks:
        book.refuse(entry.start, f"this `{entry.name}` is not a mapping beside a tool", _FIX)
        return
    if is_recorded(entry.value):
        discard(holder, entry)
        book.note(entry.start, "dropped", f"the event log contains the result anyway; `{entry.name}` was removed")
        return
    owner = next((task for task in tasks if task.body is holder), tasks[-1])
    name = owner.name or "main"
    made = Map(start=entry.start)
    if not fill(book, made, entry.value, entry, ResultNames(name, _RESULT)):
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


def _alone(book: Book, step: StepPart, entry: LayoutEntry, save: Map) -> None:
    """A `save` without a tool is the tool of its step."""
    made = Map(start=entry.start)
    if fill(book, made, save, entry):
        made.entries = [each for each in made.entries if each.name != "name"]
        put_tool(entry, made)
        book.changed()
        _return_place(book, step, save)


def _return_place(book: Book, step: StepPart, save: Map) -> None:
    """A step that is a `save` returns where it has stored the data, if another step reads it."""
    reads = [path[1:] for path in paths_elsewhere(book, step.name)]
    if storage_kind(save) != "postgres" or not any("saved" in path[:2] or "table" in path[:2] for path in reads):
        return
    owner = parts.tasks(step.body)[-1]
    table_entry = _found(save, ("table",))
    where = text_of(table_entry.value) if table_entry is not None else None
    value = table(saved=plain("postgres"), table=quoted(where) if where is not None else plain("null"))
    made = table(name=plain("stored"), kind=plain("noop"), input=value)
    as_pipeline(step, owner, "save").entries.append(item(made))
    book.note(step.body.start, "save-task", "other steps read where `save` stores the data; a last task returns it")


def _settings(save: Map) -> Map:
    """The mapping with the settings of the storage: `tool`, `storage`, or the block itself."""
    return save.map("tool") or save.map("storage") or save


def _found(save: Map, keys: tuple[str, ...]) -> LayoutEntry | None:
    """The first of some settings, in the block or in its storage."""
    holders = (save, _settings(save))
    return next((found for key in keys for holder in holders if (found := holder.entry(key)) is not None), None)


def storage_kind(save: Map) -> str | None:
    """Where a block stores its data; without a word about it, in the event log."""
    inner = _settings(save)
    words = [inner.text(key) for key in ("kind", "type", "tool")]
    words += [save.text(key) for key in ("storage", "tool", "kind", "type")]
    named = next((word for word in words if word and word != "save"), None)
    return named if named is not None or _found(save, ("table", *_COMMANDS)) is not None else "event_log"


def is_recorded(save: Map) -> bool:
    """Does the block only record the result of its own step?"""
    data = _found(save, _DATA)
    text = text_of(data.value) if data is not None else ""
    whole = re.fullmatch(r"\{\{\s*(result|data|this|response)(\.data)?\s*\}\}", text.strip()) if text else None
    return storage_kind(save) in _EVENTS and (data is None or whole is not None)


class ResultNames(NamedTuple):
    """The names by which a block reads the result of a task."""

    task: str = ""  # "": the block reads none
    roots: tuple[str, ...] = ()


NO_RESULT = ResultNames()


def fill(book: Book, made: Map, save: Map, entry: LayoutEntry, result: ResultNames = NO_RESULT) -> bool:
    """Write the task of a block. False: refused."""
    name, roots = result
    kind = storage_kind(save)
    data = _found(save, _DATA)
    for leaf in leaves(data.value) if data is not None and name else ():
        point(leaf, roots, name)
    made.entries.append(new("name", plain(f"{entry.name}_result"), entry.start))
    if kind in _EVENTS:
        return _recorded(book, made, data, entry)
    if kind == "http":
        return _request(book, made, save, data, entry)
    if kind == "python":
        return _code(book, made, save, data, entry)
    if kind not in ("postgres", "duckdb"):
        book.refuse(entry.start, f'a {entry.name} to "{kind}" has no replacement', _FIX)
        return False
    sql = _statement(book, save, data, entry)
    if sql is None:
        return False
    made.entries.append(new("kind", plain(kind), entry.start))
    _login(made, save)
    command = text_leaf(sql)
    if name:
        point(command, roots, name)
    made.entries.append(new("command", command, entry.start))
    return True


def _login(made: Map, save: Map) -> None:
    auth = _found(save, ("auth", "credential", "credentialRef", "credential_ref"))
    if auth is not None:
        made.entries.append(new("auth", auth.value, auth.start))


def _recorded(book: Book, made: Map, data: LayoutEntry | None, entry: LayoutEntry) -> bool:
    """Data for the event log is the input of a task, which the log contains."""
    if data is None:
        book.refuse(entry.start, f"this `{entry.name}` has no data", "write a task `{kind: noop, input: {…}}`")
        return False
    value = data.value if isinstance(data.value, Map) else Map(entries=[new("data", data.value, data.start)])
    made.entries += [new("kind", plain("noop"), entry.start), new("input", value, data.start)]
    return True


def _request(book: Book, made: Map, save: Map, data: LayoutEntry | None, entry: LayoutEntry) -> bool:
    """A storage that is a service: the data is sent as JSON."""
    url = _found(save, ("endpoint", "url"))
    if url is None:
        book.refuse(entry.start, f"this `{entry.name}` has no `url`", "write a task `{kind: http, url: …, json: {…}}`")
        return False
    method = _found(save, ("method",))
    made.entries.append(new("kind", plain("http"), entry.start))
    made.entries.append(new("method", plain((text_of(method.value) if method else None) or "POST"), entry.start))
    made.entries.append(new("url", url.value, url.start))
    headers = _found(save, ("headers",))
    if headers is not None:
        made.entries.append(new("headers", headers.value, headers.start))
    _login(made, save)
    if data is not None:
        made.entries.append(new("json", data.value, data.start))
    return True


def _code(book: Book, made: Map, save: Map, data: LayoutEntry | None, entry: LayoutEntry) -> bool:
    """A storage that is code: it receives the data as `data`."""
    code = _found(save, ("code", "script"))
    text = text_of(code.value) if code is not None else None
    if code is None or text is None:
        book.refuse(entry.start, f"this `{entry.name}` has no `code`", "write a task `{kind: python, code: …}`")
        return False
    made.entries.append(new("kind", plain("python"), entry.start))
    if "data" in (free_names(text) or set()) | set(main_parameters(text) or []):
        value = data.value if data is not None else Map(style="flow")
        made.entries.append(new("input", Map(entries=[new("data", value, entry.start)]), entry.start))
    made.entries.append(new("code", code.value, code.start))
    return True


def _statement(book: Book, save: Map, data: LayoutEntry | None, entry: LayoutEntry) -> str | None:
    values = data.value if data is not None else None
    given = _found(save, _COMMANDS)
    command = _joined(given)
    if given is not None and command is not None:
        return _parameters(command, values if isinstance(values, Map) else None)
    where = _found(save, ("table",))
    table = text_of(where.value) if where is not None else None
    if table is None or not _NAME.match(table) or not isinstance(values, Map) or not values.entries:
        book.refuse(entry.start, f"this `{entry.name}` does not say which columns it writes", _FIX)
        return None
    return _insert(book, save, table, values, entry)


def _joined(entry: LayoutEntry | None) -> str | None:
    """The statements of a setting: text, or a list of texts."""
    if entry is None or not isinstance(entry.value, List):
        return text_of(entry.value) if entry is not None else None
    texts = [text for each in entry.value.entries if (text := text_of(each.value)) is not None]
    return "".join(text.strip().rstrip(";") + ";\n" for text in texts)


def _insert(book: Book, save: Map, table: str, values: Map, entry: LayoutEntry) -> str | None:
    columns: list[str] = []
    expressions: list[str] = []
    for each in values.entries:
        if not _NAME.match(each.name):
            book.refuse(each.start, f'"{each.name}" is not the name of a column', _FIX)
            return None
        columns.append(each.name)
        expression = _value(each.value) if isinstance(each.value, Leaf) else _object(each.value)
        if expression is None:
            book.refuse(each.start, f'the value of "{each.name}" is not a single value', _FIX)
            return None
        expressions.append(expression)
    sql = f"INSERT INTO {table} ({', '.join(columns)})\nVALUES ({', '.join(expressions)})"
    given = _found(save, ("mode",))
    mode = (text_of(given.value) if given is not None else None) or "append"
    key = _found(save, ("key",))
    named = key.value if key is not None else None
    keys = [text_of(each.value) or "" for each in named.entries] if isinstance(named, List) else [text_of(named) or ""]
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


def _object(node: Node) -> str | None:
    """A mapping or list as one expression; None if a text in it is more than a template or a constant."""
    made = _expression(node)
    return f"{{{{ {made} }}}}" if made is not None else None


def _expression(node: Node) -> str | None:
    if isinstance(node, Leaf):
        parsed = parse(node.text) if is_template(node.text) else None
        if is_template(node.text):
            whole = parsed is not None and parsed.typed
            return f"({node.text.strip()[2:-2].strip()})" if whole else None
        return constant(node)
    inner = [(each.name if isinstance(node, Map) else "", _expression(each.value)) for each in node.entries]
    if any(text is None or "'" in name for name, text in inner):
        return None
    if isinstance(node, Map):
        return "{" + ", ".join(f"'{name}': {text}" for name, text in inner) + "}"
    return "[" + ", ".join(str(text) for _, text in inner) + "]"


def _value(node: Leaf) -> str:
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
    """`:name` and `{{ data.name }}` in a statement stand for a value of `data`."""
    own: dict[str, str] = {}
    for each in data.entries if data is not None else []:
        if isinstance(each.value, Leaf):
            own[each.name] = each.value.text
            pieces = re.split(rf"(?<![:\w]):{re.escape(each.name)}\b", command)
            command = _value(each.value).join(pieces)
    return inline(command, own, ("data", "args", "params")) if own else command


def _save_task(book: Book, step: StepPart, body: Map) -> None:
    """`type: save` is a step of its own."""
    kind = body.entry("kind")
    assert kind is not None
    made = Map(start=body.start)
    save = body.map("save") or Map(entries=list(body.entries))
    if not fill(book, made, save, kind):
        return
    body.entries = [each for each in made.entries if each.name != "name"]
    book.changed()
    _return_place(book, step, save)
