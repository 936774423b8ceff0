"""Tasks of other services: messages and keys of NATS, artifacts, SQL files (§8, §12)."""

from __future__ import annotations

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, Map, plain, quoted, rename, table
from noetl.playbook.dialects.parts import StepPart
from noetl.playbook.dialects.public.book import (
    Book,
    discard,
    insert,
    is_template,
    move,
    new,
    put,
    scalar,
    text_leaf,
    text_of,
)
from noetl.playbook.dialects.public.credentials import declare, default_of
from noetl.playbook.dialects.public.outcomes import read_elsewhere
from noetl.playbook.dialects.public.results import assume
from noetl.playbook.dialects.public.retries import add_rule
from noetl.playbook.dialects.template_tokens import parse

_KV = {"kv_put": "put", "kv_get": "get", "kv_delete": "delete", "kv_keys": "keys", "kv_list": "keys"}
_SEND = {"publish": "publish", "js_publish": "publish", "request": "request"}
_VALUES = ("value", "payload", "message", "data", "body")


def nats_tasks(book: Book) -> None:
    """`operation: kv_put` of nats is `kv: put`, and `js_publish` is `publish` with `ack`."""
    for _, task in book.tasks():
        operation = task.body.entry("operation")
        if task.kind != "nats" or operation is None:
            continue
        word = (text_of(operation.value) or "").lower()
        subject = task.body.entry("subject")
        if word in _KV:
            put(operation, plain(_KV[word]))
            rename(operation, "kv")
        elif word in _SEND and subject is not None:
            discard(task.body, operation)
            rename(subject, _SEND[word])
            if word == "js_publish":
                task.body.entries.append(new("ack", plain("true"), operation.start))
        else:
            message = f'the operation "{word}" of nats has no replacement'
            book.refuse(operation.start, message, "use `publish`, `request` or `kv: get | put | delete | keys`")
            continue
        stream = task.body.entry("stream")
        if stream is not None:
            discard(task.body, stream)
            book.note(stream.start, "dropped", "the subject chooses the stream; `stream` was removed")
        value = next((found for key in _VALUES if (found := task.body.entry(key)) is not None), None)
        if value is not None:
            _content(value)
        _login(book, task.body)
        book.changed()


def gateway_tasks(book: Book) -> None:
    """A callback of `gateway` publishes the data to the subject that the caller sends; without one it does nothing."""
    for step, task in book.tasks():
        kind, data = task.body.entry("kind"), task.body.entry("data") or task.body.entry("input")
        if task.kind != "gateway" or kind is None:
            continue
        if (task.body.text("action") or "callback") != "callback":
            message = f'the action "{task.body.text("action")}" of gateway has no replacement'
            book.refuse(kind.start, message, "use a task of kind `nats` or `http`")
            continue
        content = Map(
            entries=[
                new("request_id", quoted("{{ workload.request_id | default('') }}"), kind.start),
                new("execution_id", quoted("{{ execution_id }}"), kind.start),
                new("step", scalar(step.name), kind.start),
                new("status", plain("success"), kind.start),
            ]
        )
        if data is not None:
            content.entries.append(new("data", data.value, data.start))
        kept = ("name", "kind", "desc", "spec", "set")
        task.body.entries = [each for each in task.body.entries if each.name in kept]
        put(kind, plain("nats"))
        for made in (
            new("auth", scalar("gateway_nats"), kind.start),
            new("publish", quoted("{{ workload.callback_subject }}"), kind.start),
            new("json", content, kind.start),
        ):
            insert(task.body, made, before=("spec", "set"))
        skip = Map(entries=[new("do", plain("skip"), kind.start)])
        add_rule(book, task.body, "not workload.callback_subject", skip, kind.start)
        declare(
            book, "gateway_nats", kind.start, made=table(name=scalar("gateway_nats"), kind=plain("nats_credential"))
        )
        words = "a gateway that expects it with http at `callback_url` gets nothing"
        book.note(kind.start, "gateway-nats", f"the callback is published to `workload.callback_subject`; {words}")
        assume(book, [key for key in ("callback_subject", "request_id") if key not in parts.workload_keys(book.root)])


def _content(entry: LayoutEntry) -> None:
    """Mappings and lists are sent as JSON, text as it is."""
    text = text_of(entry.value)
    if isinstance(entry.value, Leaf) and text is not None and is_template(text) and text.strip().count("{{") == 1:
        inner = text.strip()
        if inner.startswith("{{") and inner.endswith("}}"):
            inner = inner[2:-2].strip()
            put(entry, quoted(f"{{{{ ({inner}) if ({inner}) is string else ({inner}) | tojson }}}}"))
        rename(entry, "text")
        return
    rename(entry, "text" if isinstance(entry.value, Leaf) else "json")


def _login(book: Book, body: Map) -> None:
    auth = body.entry("auth")
    text = text_of(auth.value) if auth is not None else None
    name = default_of(book, text) if text is not None and is_template(text) else text
    if auth is not None and name:
        declare(book, name, auth.start, made=table(name=scalar(name), kind=plain("nats_credential")))


def artifacts(book: Book) -> None:
    """`artifact` with `action: get` and a reference is `resolve`."""
    for _, task in book.tasks():
        kind = task.body.entry("kind")
        inputs = task.body.map("input")
        given = task.body.entry("result_ref") or task.body.entry("ref")
        if given is None and inputs is not None and task.kind in ("artifact", "result_fetch"):
            given = inputs.entry("result_ref") or inputs.entry("ref")
            if given is not None:
                move(given, inputs, task.body)
        action = task.body.text("action") or task.body.text("operation") or "get"
        if kind is None or task.kind not in ("artifact", "result_fetch") or given is None or action != "get":
            continue
        for each in list(task.body.entries):
            if each.name not in ("name", "kind", "desc", "spec", "set") and each is not given:
                discard(task.body, each)
        put(kind, plain("resolve"))
        rename(given, "ref")
        book.changed()


def _database(body: Map) -> str | None:
    """The expression of the only argument `db_name`, which chooses a different database from that of the credential."""
    inputs = body.map("input")
    text = inputs.text("db_name") if inputs is not None and len(inputs.entries) == 1 else None
    if text is None:
        return None
    parsed = parse(text) if is_template(text) else None
    if parsed is None:
        return None if is_template(text) or not text.isidentifier() else f"'{text}'"
    return f"({text[parsed.tokens[0].end : parsed.tokens[-1].start].strip()})" if parsed.typed else None


def sql_file(book: Book, step: StepPart, body: Map, script: LayoutEntry, uri: str) -> bool:
    """An SQL file runs with psql, which commits each statement like the public engine. False: not possible."""
    auth = body.entry("auth")
    text = text_of(auth.value) if auth is not None else None
    name = default_of(book, text) if text is not None and is_template(text) else text
    others = [each.name for each in body.entries if each.name not in ("name", "kind", "desc", "auth", "script")]
    database = _database(body) if others == ["input"] else None
    if database is not None:
        others = []
    kind = body.entry("kind")
    if not name or auth is None or kind is None or others or read_elsewhere(book, step.name):
        return False
    declare(book, name, auth.start)
    put(kind, plain("shell"))
    discard(body, auth)
    file = uri if is_template(uri) else "{{ '" + uri.replace("'", "\\'") + "' }}"
    given = body.entry("input")
    if given is not None:
        discard(body, given)
    chosen = f"-c {{{{ '\\\\connect ' ~ {database} }}}} " if database is not None else ""
    put(script, text_leaf(f'psql "$DATABASE_URL" -q {chosen}-f {file}'))
    rename(script, "sh")
    env = Map(entries=[new("DATABASE_URL", quoted(f"{{{{ keychain.{name} }}}}"), auth.start)])
    body.entries.append(new("env", env, auth.start))
    words = "the worker needs psql, the stored credential is a connection string"
    book.note(script.start, "sql-file", f"psql runs the SQL file; {words}, and the output is text")
    return True
