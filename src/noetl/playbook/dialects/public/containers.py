"""Tasks that run a container: `container` and `script` of the public engine are Kubernetes jobs (§12)."""

from __future__ import annotations

from typing import NamedTuple

from noetl.playbook.dialects.layout.tree import (
    Leaf,
    List,
    Map,
    item,
    name_leaf,
    plain,
    quoted,
    rename,
    table,
)
from noetl.playbook.dialects.parts import maps
from noetl.playbook.dialects.public.book import (
    Book,
    constant,
    discard,
    insert,
    is_empty,
    is_template,
    move,
    new,
    put,
    scalar,
    text_of,
)
from noetl.playbook.dialects.public.credentials import cloud_kind, declare, default_of
from noetl.playbook.dialects.public.outcomes import insert_before
from noetl.playbook.dialects.template_tokens import parse

_NAMES = {
    "serviceAccountName": "service_account",
    "serviceAccount": "service_account",
    "backoffLimit": "backoff_limit",
    "nodeSelector": "node_selector",
    "activeDeadlineSeconds": "timeout",
    "active_deadline_seconds": "timeout",
    "timeoutSeconds": "timeout",
}
_UNREAD = (
    "provider", "cleanup", "restart_policy", "restartPolicy", "ttl_seconds_after_finished", "ttlSecondsAfterFinished",
    "poll_interval", "image_pull_policy", "imagePullPolicy", "jobName", "annotations", "labels",
)  # fmt: skip
_NO_COUNTERPART = ("volumes", "volume_mounts", "tolerations", "files", "script")
_SCRIPT = "/scripts/script.py"


def container_tasks(book: Book) -> None:
    """A container of the public engine is a Kubernetes job, with `command` and `args` in the words of Kubernetes."""
    for _, task in book.tasks():
        body = task.body
        own = ("engine", "entrypoint", "arguments")
        if task.kind != "container" or any(body.get(key) is not None for key in own):
            continue
        if not book.public and not any(body.entry(key) is not None for key in ("runtime", "command", "args")):
            continue
        _flatten(book, body)
        for key in _UNREAD:
            entry = body.entry(key)
            if entry is not None:
                discard(body, entry)
                book.note(entry.start, "dropped", f"`{key}` of a container was removed; the job is deleted at its end")
        for old, name in _NAMES.items():
            entry = body.entry(old)
            if entry is not None and body.get(name) is None:
                rename(entry, name)
        for key in _NO_COUNTERPART:
            entry = body.entry(key)
            if entry is not None and is_empty(entry.value):
                discard(body, entry)
            elif entry is not None:
                message = f"`{key}` of a container has no replacement"
                book.refuse(entry.start, message, "build it into the image, or write text `files: {/path: …}`")
        _words(book, body, "command", "entrypoint")
        _words(book, body, "args", "arguments")
        _environment(book, body)
        kind = body.entry("kind")
        assert kind is not None
        insert(body, new("engine", plain("kubernetes"), kind.start), after=("kind",))
        book.note(
            kind.start, "container-job", "the step waits until the Kubernetes job has ended, and fails if it fails"
        )


def _flatten(book: Book, body: Map) -> None:
    """The fields under `runtime` belong beside `kind`."""
    runtime = body.entry("runtime")
    if runtime is None or not isinstance(runtime.value, Map):
        return
    for each in list(runtime.value.entries):
        if body.get(each.name) is None:
            move(each, runtime.value, body)
        elif each.name == "env" and isinstance(each.value, Map) and (own := body.map("env")) is not None:
            for variable in list(each.value.entries):
                if own.get(variable.name) is None:
                    move(variable, each.value, own)
    discard(body, runtime)
    book.changed()


def _words(book: Book, body: Map, key: str, name: str) -> None:
    """`command` and `args` are lists; text is a script for the shell, and an empty list says nothing."""
    entry = body.entry(key)
    if entry is None:
        return
    if is_empty(entry.value) or (isinstance(entry.value, Map) and not entry.value.entries):
        discard(body, entry)
        return
    if isinstance(entry.value, Leaf):
        script = entry.value
        made = [plain("sh"), plain("-c"), script] if name == "entrypoint" else [script]
        put(entry, List(entries=[item(each) for each in made]))
    elif isinstance(entry.value, Map):
        book.refuse(entry.start, f"`{key}` of a container is a mapping", "write a list of texts")
        return
    rename(entry, name)


def _environment(book: Book, body: Map) -> None:
    """`env: [{name: A, value: x}]` is a mapping."""
    entry = body.entry("env")
    if entry is None or not isinstance(entry.value, List):
        return
    variables = maps(entry.value)
    if any(each.text("name") is None or not isinstance(each.get("value"), Leaf) for each in variables):
        message = "a variable of this container does not have a value here"
        book.refuse(entry.start, message, 'write `NAME: "{{ keychain.<name> }}"` for a secret')
        return
    made = []
    for each in variables:
        value = each.entry("value")
        assert value is not None
        one = new(each.text("name") or "", value.value, value.start)
        made.append(one)
    put(entry, Map(entries=made))


class RemoteScript(NamedTuple):
    """A script that the public engine fetches for a job."""

    where: str  # gcs, s3, http or file
    uri: str
    auth: str | None  # name of the credential
    arguments: str  # an expression
    job: Map


def script_tasks(book: Book) -> None:
    """`kind: script` fetches a script and runs it in a Kubernetes job: a task fetches it, a container gets the file."""
    for step, task in list(book.tasks()):
        if task.kind != "script":
            continue
        script = _script(book, task.body)
        if script is None:
            message = "this script does not say what it runs, or its arguments are nested"
            fix = "fetch it with an `object` task, and run it with `files` of a `container`"
            book.refuse(task.body.start, message, fix)
            continue
        base = task.name or step.name.replace("-", "_")
        insert_before(step, task, _fetching(book, script, base, task.body.start), base)
        _running(task.body, script, base)
        message = "one task fetches the script, and a container runs it as a Kubernetes job"
        book.note(task.body.start, "script-container", message)


def _script(book: Book, body: Map) -> RemoteScript | None:
    """None: it is not one that a rule can translate."""
    script = body.map("script")
    source = script.get("source") if script is not None else None
    where = _constant(book, source.text("type") if isinstance(source, Map) else text_of(source)) or "file"
    uri = (script.text("uri") or script.text("path")) if script is not None else None
    arguments = _arguments(body)
    if uri is None or arguments is None or where not in ("gcs", "s3", "http", "https", "file"):
        return None
    auth = _constant(book, source.text("auth")) if isinstance(source, Map) else None
    return RemoteScript(where, uri, auth, arguments, body.map("job") or Map())


def _constant(book: Book, text: str | None) -> str | None:
    return default_of(book, text) if text is not None and is_template(text) else text


def _arguments(body: Map) -> str | None:
    """The arguments as an expression; None: they cannot be written as one."""
    entry = body.entry("args") or body.entry("input")
    if entry is None or is_empty(entry.value):
        return "{}"
    made = []
    for each in entry.value.entries if isinstance(entry.value, Map) else []:
        text = text_of(each.value)
        parsed = parse(text) if text is not None and is_template(text) else None
        is_whole = parsed is not None and parsed.typed
        if not isinstance(each.value, Leaf) or (text is not None and is_template(text) and not is_whole):
            return None
        value = constant(each.value)
        if parsed is not None and text is not None:
            value = text[parsed.tokens[0].end : parsed.tokens[-1].start].strip()
        made.append(f"'{each.name}': {value}")
    return "{" + ", ".join(made) + "}" if made else None


def _fetching(book: Book, script: RemoteScript, base: str, start: int) -> Map:
    is_http = script.where in ("http", "https")
    entries = [
        new("name", name_leaf(f"{base}_fetch"), start),
        new("kind", plain("http" if is_http else "object"), start),
        new("url" if is_http else "get", quoted(script.uri), start),
    ]
    if script.auth:
        kind = "stored" if is_http else cloud_kind(script.where)
        declare(book, script.auth, start, made=table(name=scalar(script.auth), kind=plain(kind)))
        entries.append(new("auth", name_leaf(script.auth), start))
    return Map(entries=entries, start=start)


def _running(body: Map, script: RemoteScript, base: str) -> None:
    """The defaults are those of the public engine."""
    start, job = body.start, script.job
    needed = job.get("install_dependencies")
    packages = [text for each in needed.entries if (text := text_of(each.value))] if isinstance(needed, List) else []
    install = f"pip3 install --quiet {' '.join(packages)} && " if packages else ""
    words = [f'{install}python3 -u {_SCRIPT} "$0"', f"{{{{ {script.arguments} | tojson }}}}"]
    kept = [each for each in body.entries if each.name in ("name", "desc", "spec", "set")]
    made = [
        new("kind", plain("container"), start),
        new("engine", plain("kubernetes"), start),
        new("image", job.get("image") or scalar("python:3.11-slim"), start),
        new("entrypoint", List(entries=[item(plain("sh")), item(plain("-c"))]), start),
        new("arguments", List(entries=[item(quoted(word)) for word in words]), start),
        new("files", Map(entries=[new(_SCRIPT, quoted(f"{{{{ {base}_fetch.data }}}}"), start)]), start),
        new("namespace", job.get("namespace") or scalar("noetl"), start),
        new("backoff_limit", job.get("backoffLimit") or plain("3"), start),
        new("timeout", job.get("timeout") or plain("600"), start),
    ]
    made += [new(key, value, start) for key in ("resources", "env") if (value := job.get(key)) is not None]
    body.entries = [*kept[:1], *made, *kept[1:]]
