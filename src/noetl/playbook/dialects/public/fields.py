"""Fields of tools: those under `spec`, timeouts, and the old names of http, playbook and workbook tasks (§7, §9)."""

from __future__ import annotations

import re

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, Map, plain, quoted, rename
from noetl.playbook.dialects.parts import StepPart, TaskPart
from noetl.playbook.dialects.public.book import Book, child, discard, is_empty, is_template, move, new, put, text_of
from noetl.playbook.dialects.public.credentials import default_of
from noetl.playbook.dialects.public.retries import add_rule
from noetl.playbook.dialects.template_tokens import parse

_OWN = {
    "http": frozenset({"url", "endpoint", "method", "params", "headers", "json", "form", "body", "data", "payload"}),
    "python": frozenset({"code", "script", "args", "input", "libs"}),
    "postgres": frozenset({"query", "command", "commands", "auth", "params", "args", "input"}),
    "duckdb": frozenset({"query", "command", "commands", "database", "auth", "args", "input"}),
    "snowflake": frozenset({"query", "command", "commands", "auth", "params", "args", "input"}),
    "shell": frozenset({"cmds", "command", "cmd", "sh", "argv", "env"}),
    "playbook": frozenset({"path", "args", "input", "payload"}),
}
_UNREAD = {
    "http": ("output_select", "chunk", "output", "result", "description", "pool", "as"),
    "postgres": ("pool", "chunk", "output", "result", "description", "max_rows", "fetch"),
    "duckdb": ("output", "result", "description", "chunk"),
    "snowflake": ("output", "result", "description", "chunk", "fetch"),
    "python": ("output", "result", "description", "output_select", "chunk", "accepts", "returns"),
    "playbook": ("return_step", "return_result", "result_step", "task", "description", "wait", "output_select"),
    "shell": ("description", "output"),
    "noop": ("description", "output"),
    "workbook": ("description", "output"),
}
_SECONDS = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)?\s*\Z")
_FACTORS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def under_spec(book: Book) -> None:
    """Fields of the tool that are in `spec` of the task belong beside `kind`."""
    for _, task in book.tasks():
        spec = task.body.map("spec")
        for entry in list(spec.entries) if spec is not None else []:
            assert spec is not None
            if entry.name in _OWN.get(task.kind or "", frozenset()) and task.body.get(entry.name) is None:
                move(entry, spec, task.body)
                book.changed()
        holder = task.body.entry("spec")
        if spec is not None and not spec.entries and holder is not None:
            discard(task.body, holder)


def timeouts(book: Book) -> None:
    """`timeout` beside `kind` belongs under `spec`, in seconds."""
    for _, task in book.tasks():
        for key in ("timeout", "timeout_seconds", "timeout_ms"):
            entry = task.body.entry(key)
            if entry is None or (key == "timeout" and task.kind in ("wait",)):
                continue
            spec = child(task.body, "spec", entry.start)
            if spec is None or spec.get("timeout") is not None:
                discard(task.body, entry)
                book.note(entry.start, "dropped", f"`{key}` is also under `spec`; it was removed")
                continue
            move(entry, task.body, spec)
            rename(entry, "timeout")
            _in_seconds(book, entry, 0.001 if key == "timeout_ms" else 1.0)
            book.changed()


def _in_seconds(book: Book, entry: LayoutEntry, factor: float) -> None:
    text = text_of(entry.value)
    found = _SECONDS.match(text) if text is not None else None
    if found is not None and (found[2] or factor != 1.0 or (isinstance(entry.value, Leaf) and entry.value.style)):
        seconds = float(found[1]) * _FACTORS[found[2] or "s"] * factor
        put(entry, plain(f"{seconds:g}"))
    elif text is not None and is_template(text):
        given = default_of(book, text)
        fixed = _SECONDS.match(given) if given is not None else None
        if fixed is None:
            book.refuse(entry.start, "a timeout cannot be a template", "write the number of seconds")
            return
        seconds = float(fixed[1]) * _FACTORS[fixed[2] or "s"] * factor
        put(entry, plain(f"{seconds:g}"))
        message = f"the timeout is always {seconds:g} seconds; a caller can no longer choose it"
        book.note(entry.start, "timeout-fixed", message)


def unread_fields(book: Book) -> None:
    """Fields that no engine reads, or that concern its storage."""
    for _, task in book.tasks():
        typed = task.body.entry("type")
        if typed is not None and text_of(typed.value) == task.kind:
            discard(task.body, typed)
            book.note(typed.start, "dropped", "`type` beside `kind` says the same; it was removed")
        for key in _UNREAD.get(task.kind or "", ()):
            entry = task.body.entry(key)
            if entry is None or (key == "result" and task.kind == "noop"):
                continue
            if key == "description" and task.body.get("desc") is None:
                rename(entry, "desc")
                book.changed()
                continue
            discard(task.body, entry)
            words = "; the task now waits for the child and returns its output" if key == "return_step" else ""
            code = "child-result" if key in ("return_step", "return_result", "result_step") else "dropped"
            book.note(entry.start, code, f"`{key}` of a {task.kind} task was removed{words}")


def noop_results(book: Book) -> None:
    """`result: {…}` of a noop task is what it returns: its `input`."""
    for _, task in book.tasks():
        entry = task.body.entry("result")
        if task.kind == "noop" and entry is not None and isinstance(entry.value, Map) and not task.body.get("input"):
            rename(entry, "input")
            book.changed()


def error_words(book: Book) -> None:
    """`on_error: continue` of a task is a rule; `fail` and `stop` are what an error does anyway."""
    for _, task in book.tasks():
        entry = task.body.entry("on_error")
        word = text_of(entry.value) if entry is not None else None
        if entry is None or word is None:
            continue
        discard(task.body, entry)
        if word in ("continue", "ignore", "skip"):
            go_on = Map(entries=[new("do", plain("continue"), entry.start)])
            add_rule(book, task.body, "output.status == 'error'", go_on, entry.start)
            book.note(entry.start, "on-error", f"`on_error: {word}` is now a rule; later public engines ignored it")
        elif word in ("fail", "stop", "raise"):
            book.changed()
        else:
            fix = "write a rule under `spec.policy.rules`, or an arc for `event.name == 'step.failed'`"
            book.refuse(entry.start, f"`on_error: {word}` has no replacement", fix)


def http_fields(book: Book) -> None:
    """`endpoint`, `data`, `payload`, `verify_ssl` and `follow_redirects` of an http task."""
    for _, task in book.tasks():
        if task.kind != "http":
            continue
        body = task.body
        _rename(book, body, "endpoint", "url")
        _rename(book, body, "uri", "url")
        _method(book, body)
        _query(book, body)
        for key in ("payload", "data", "body"):
            entry = body.entry(key)
            if entry is not None:
                _content(book, body, entry)
        for old, name in (("verify_ssl", "verify"), ("verify", "verify"), ("follow_redirects", "redirects")):
            entry = body.entry(old)
            spec = child(body, "spec", entry.start) if entry is not None else None
            if entry is not None and spec is not None:
                move(entry, body, spec)
                rename(entry, name)
                if name == "redirects":
                    put(entry, plain("10" if (text_of(entry.value) or "").lower() == "true" else "0"))
                book.changed()


def _rename(book: Book, body: Map, old: str, name: str) -> None:
    entry = body.entry(old)
    if entry is None:
        return
    if body.get(name) is not None:
        book.refuse(entry.start, f"`{old}` and `{name}` are both present", f"keep `{name}`")
        return
    rename(entry, name)
    book.changed()


def _method(book: Book, body: Map) -> None:
    entry = body.entry("method")
    text = text_of(entry.value) if entry is not None else None
    if entry is not None and text is not None and text != text.upper() and not is_template(text):
        put(entry, plain(text.upper()))
        book.changed()


def _reads_only(body: Map) -> bool:
    return (body.text("method") or "GET").upper() in ("GET", "DELETE", "HEAD")


def _query(book: Book, body: Map) -> None:
    """`data: {query: …, body: …}` names both parts."""
    entry = body.entry("data")
    if entry is None or not isinstance(entry.value, Map):
        return
    names = {each.name for each in entry.value.entries}
    if not names or not names <= {"query", "body", "params", "json"}:
        return
    for each in list(entry.value.entries):
        name = "params" if each.name in ("query", "params") else "json"
        if body.get(name) is None and body.get("body" if name == "json" else "") is None:
            move(each, entry.value, body)
            rename(each, name)
    discard(body, entry)
    book.changed()


def _content(book: Book, body: Map, entry: LayoutEntry) -> None:
    """The body of a request: a form, JSON, or query parameters of a GET."""
    if is_empty(entry.value):
        discard(body, entry)
        book.note(entry.start, "dropped", f"an empty `{entry.name}` has no effect; it was removed")
        return
    text = text_of(entry.value)
    if entry.name == "body" and text is not None:
        parsed = parse(text) if is_template(text) else None
        if parsed is not None and parsed.typed and body.get("json") is None:
            rename(entry, "json")
            book.note(entry.start, "http-body", "`body` is one value, which is sent as `json`")
        return
    if _reads_only(body) and entry.name == "data":
        target = "params"
    elif _reads_only(body) and entry.name == "payload" and isinstance(entry.value, Map):
        discard(body, entry)
        book.note(entry.start, "dropped", "the public engine sends no `payload` with GET or DELETE; it was removed")
        return
    else:
        target = _encoding(body)
    if body.get(target) is not None:
        book.refuse(entry.start, f"`{entry.name}` and `{target}` are both present", "keep one of them")
        return
    rename(entry, target)
    book.changed()


def _encoding(body: Map) -> str:
    headers = body.map("headers")
    for each in headers.entries if headers is not None else []:
        if each.name.lower() == "content-type" and "x-www-form-urlencoded" in (text_of(each.value) or ""):
            return "form"
    return "json"


def child_playbooks(book: Book) -> None:
    """`args` and `payload` of a child are its `input`; a call without `return_step` did not wait."""
    for _, task in book.tasks():
        if task.kind != "playbook":
            continue
        for key in ("payload", "data", "workload"):
            entry = task.body.entry(key)
            if entry is not None and task.body.get("input") is None and isinstance(entry.value, Map):
                rename(entry, "input")
                book.changed()
        for key in ("playbook", "name", "catalog_path"):
            entry = task.body.entry(key)
            if entry is not None and task.body.get("path") is None and task.body.get("document") is None:
                rename(entry, "path")
                book.changed()


def waits(book: Book) -> None:
    """The public engine does not wait for a child without `return_step`; ours always does."""
    if book.local:
        return
    for _, task in book.tasks():
        if task.kind == "playbook" and task.body.get("return_step") is None and book.public:
            book.note(
                task.body.start, "now-waits", "the task waits for the child; the public engine did not wait for it"
            )


def workbook_calls(book: Book) -> None:
    """A call names its block with `block`."""
    for step in book.owners:
        for task in parts.tasks(step.body):
            if task.kind == "workbook":
                _workbook_call(book, step, task)


def _workbook_call(book: Book, step: StepPart, task: TaskPart) -> None:
    blocks = book.root.map("workbook")
    names = {entry.name for entry in blocks.entries} if blocks is not None else set()
    for key in ("task", "name", "workbook"):
        entry = task.body.entry(key)
        if entry is None or task.body.get("block") is not None:
            continue
        if key != "name" or text_of(entry.value) in names or task.body.get("task") is None:
            rename(entry, "block")
            book.changed()
    if task.body.get("block") is None and step.name in names:
        task.body.entries.append(new("block", quoted(step.name), task.body.start))
        book.changed()
    for key in ("data", "payload"):
        entry = task.body.entry(key)
        if entry is not None and task.body.get("input") is None and isinstance(entry.value, Map):
            rename(entry, "input")
            book.changed()
