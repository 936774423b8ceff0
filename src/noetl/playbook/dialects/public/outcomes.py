"""What a step returns besides the result of its tool: `result`, `data` without a tool (§7), secrets tasks (§12)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.scalars import TextEdit, replace
from noetl.playbook.dialects.layout.tree import (
    LayoutEntry,
    Leaf,
    List,
    Map,
    item,
    leaves,
    name_leaf,
    plain,
    quoted,
    rename,
    table,
)
from noetl.playbook.dialects.parts import StepPart, TaskPart
from noetl.playbook.dialects.public import shapes
from noetl.playbook.dialects.public.book import Book, discard, insert, is_template, new, put, scalar, text_of
from noetl.playbook.dialects.public.credentials import declare, default_of
from noetl.playbook.dialects.template_tokens import free_reads, parse

_PROVIDERS = {"google": "gcp", "gcp": "gcp", "aws": "aws", "vault": "vault", "env": "env", "environment": "env"}
_NEEDED = {
    "http": ("url",),
    "playbook": ("path", "document"),
    "postgres": ("query", "command", "copy"),
    "snowflake": ("query", "command"),
    "python": ("code", "script"),
    "shell": ("sh", "argv"),
}
_ERROR_KIND = re.compile(
    r"\b(?P<root>outcome|output)\.error\.kind\s*==\s*(?P<quote>['\"])(?P<kind>rate_limit|server_error|auth)(?P=quote)"
)
_STATUSES = {
    "rate_limit": "{0}.http.status == 429",
    "server_error": "({0}.http.status | default(0, true)) >= 500",
    "auth": "{0}.http.status in [401, 403]",
}


def step_results(book: Book) -> None:
    """`result: {…}` of a step is what it returns; so are `data` and `with` of a step without a tool."""
    for step in book.steps:
        _last_result(book, step)
        if step.body.get("tool") is not None or step.body.get("type") is not None:
            continue
        for key in ("return", "result", "data", "with"):
            entry = step.body.entry(key)
            if entry is None or step.body.get("tool") is not None or step.body.get("loop") is not None:
                continue
            named = text_of(entry.value) if key == "return" else None
            if named is not None and named in book.step_names and named.isidentifier():
                put(entry, quoted(f"{{{{ {named} }}}}"))
            if isinstance(entry.value, Map):
                put_tool(entry, table(kind=plain("noop"), input=entry.value))
            elif isinstance(entry.value, Leaf) and is_template(entry.value.text):
                value = Map(entries=[new("value", entry.value, entry.start)])
                put_tool(entry, table(kind=plain("python"), input=value, code=quoted("result = value")))
            else:
                continue
            book.note(entry.start, "step-made", f"`{key}` is what the step returns, so it is now the input of a tool")


def _last_result(book: Book, step: StepPart) -> None:
    """`result: {…}` beside a tool: a last task returns it."""
    entry = step.body.entry("result")
    tasks = parts.tasks(step.body)
    if entry is None or not tasks or not isinstance(entry.value, Map) or step.body.get("loop") is not None:
        return
    if entry.value.get("output_select") is not None:
        discard(step.body, entry)
        book.note(entry.start, "dropped", "`output_select` chooses a public storage; it was removed")
        return
    name = tasks[-1].name or "main"
    pipeline = as_pipeline(step, tasks[-1], name)
    for leaf in leaves(entry.value):
        point(leaf, ("result", "response", "this", step.name), name)
    made = table(name=plain("result"), kind=plain("noop"))
    made.entries.append(new("input", entry.value, entry.start))
    holder = item(made)
    holder.start = entry.start
    pipeline.entries.append(holder)
    step.body.entries.remove(entry)
    book.note(entry.start, "step-made", "`result` is what the step returns, so it is now the input of a last task")


def put_tool(entry: LayoutEntry, tool: Map) -> None:
    """Write a tool in place of an entry of the step."""
    tool.start = entry.start
    for each in tool.entries:
        each.start = entry.start
    rename(entry, "tool")
    put(entry, tool)


def as_pipeline(step: StepPart, owner: TaskPart, name: str) -> List:
    """The tool of a step as a list of tasks, in which the task `owner` has a name."""
    tool = step.body.entry("tool")
    assert tool is not None
    if owner.name is None and owner.body.get("name") is None:
        owner.body.entries.insert(0, new("name", name_leaf(name), owner.body.start))
    if not isinstance(tool.value, List):
        first = item(tool.value)
        first.start = tool.start
        put(tool, List(entries=[first]))
    assert isinstance(tool.value, List)
    return tool.value


def error_kinds(book: Book) -> None:
    """`error.kind == 'rate_limit'` of a request is its status: the kind of all failed requests is `http`."""
    for _, task in book.tasks():
        policy = parts.policy(task.body) if task.kind == "http" else None
        for rule in policy.rules if policy is not None else []:
            entry = rule.entry("when") or rule.entry("expr")
            leaf = entry.value if entry is not None else None
            if not isinstance(leaf, Leaf):
                continue
            edits = [
                TextEdit(found.start(), found.end(), _STATUSES[found["kind"]].format(found["root"]))
                for found in _ERROR_KIND.finditer(leaf.text)
            ]
            if edits:
                made = replace(leaf, edits)
                leaf.raw, leaf.text, leaf.style = made.raw, made.text, made.style
                book.note(
                    leaf.start, "error-kind", "the kind of a failed request is read from the status of its response"
                )


def insert_before(step: StepPart, owner: TaskPart, made: Map, name: str) -> None:
    """Insert a task before another one, which gets a name if it has none."""
    pipeline = as_pipeline(step, owner, name)
    first = item(made)
    first.start = owner.body.start
    places = [each is owner.holder or each.value is owner.body for each in pipeline.entries]
    pipeline.entries.insert(places.index(True), first)


def point(leaf: Leaf, roots: tuple[str, ...], name: str) -> None:
    """Let a template read the task `name` where it reads one of `roots`."""
    parsed = parse(leaf.text) if is_template(leaf.text) else None
    edits = [
        TextEdit(reading.start, reading.start + len(reading.root), name)
        for reading in (parsed.readings if parsed is not None else [])
        if reading.root in roots and reading.root not in (parsed.bound if parsed is not None else ())
    ]
    if edits:
        made = replace(leaf, edits)
        leaf.raw, leaf.text, leaf.style = made.raw, made.text, made.style


def pass_on(book: Book, step: StepPart, owner: str, kind: str) -> None:
    """The result of the step stays that of its tool: a last task returns it, if a template reads it."""
    tool = step.body.get("tool")
    if not isinstance(tool, List) or any(task.name == "result" for task in parts.tasks(step.body)):
        return
    own = any(
        reading.root in ("result", "response", "this", "output", step.name)
        for entry, leaf in parts.texts(step.body)
        if entry.name not in ("tool", "loop", "args", "input", "desc")
        for reading in free_reads(leaf.text)
    )
    if not own and not read_elsewhere(book, step.name):
        return
    value = quoted(f"{{{{ {shapes.whole(kind, owner)} }}}}")
    made = table(name=plain("result"), kind=plain("python"), input=Map(), code=quoted("result = value"))
    made.entries[2].value = Map(entries=[new("value", value, step.body.start)])
    holder = item(made)
    holder.start = step.body.start
    tool.entries.append(holder)


def paths_elsewhere(book: Book, name: str) -> Iterator[tuple[str, ...]]:
    """The paths, from the name of a step on, by which templates of other steps read its result."""
    for step in book.owners:
        for _, leaf in parts.texts(step.body) if step.name != name or step.block else ():
            for reading in free_reads(leaf.text):
                skip = 1 if reading.path[:2] in (("results", name), ("ctx", name), ("workload", name)) else 0
                if reading.path[skip] == name:
                    yield reading.path[skip:]


def read_elsewhere(book: Book, name: str) -> bool:
    """Does a template of another step read the result of this one?"""
    return any(paths_elsewhere(book, name))


def dead_blocks(book: Book) -> None:
    """A block that no task calls, and that lacks what its tool needs, never ran."""
    workbook = book.root.entry("workbook")
    if workbook is None or not isinstance(workbook.value, Map):
        return
    called = {task.body.text("block") for _, task in book.tasks() if task.kind == "workbook"}
    for block in [step for step in book.owners if step.block and step.name not in called]:
        lacks = [
            task.kind
            for task in parts.tasks(block.body)
            if not any(task.body.get(key) is not None for key in _NEEDED.get(task.kind or "", ("kind",)))
        ]
        entry = workbook.value.entry(block.name)
        if lacks and entry is not None:
            discard(workbook.value, entry)
            message = f'no task calls the block "{block.name}", whose {lacks[0]} task is incomplete; it was removed'
            book.note(entry.start, "dropped", message)
    if not workbook.value.entries:
        discard(book.root, workbook)


def secret_tasks(book: Book) -> None:
    """A public `secrets` task reads a secret; ours checks the keychain entry that templates read."""
    for step in book.owners:
        for task in parts.tasks(step.body):
            provider = _PROVIDERS.get((task.body.text("provider") or "").lower())
            if task.kind == "secrets" and task.body.get("provider") is not None:
                _secret_task(book, step, task, provider)


def _secret_task(book: Book, step: StepPart, task: TaskPart, provider: str | None) -> None:
    body = task.body
    entry = body.entry("secret_name") or body.entry("secret") or body.entry("key") or body.entry("name")
    key = text_of(entry.value) if entry is not None else None
    if key is not None and is_template(key):
        key = default_of(book, key)
    if entry is None or not key or provider is None:
        message = "this task does not say which secret it reads, or from where"
        book.refuse(body.start, message, "declare it under `keychain`, and write `{kind: secrets, input: {name: …}}`")
        return
    name = re.sub(r"\W+", "_", key).strip("_").lower()
    name = name if name[:1].isalpha() else f"secret_{name}"
    made = table(name=scalar(name), kind=plain("env" if provider == "env" else "secret_manager"))
    if provider == "env":
        made.entries.append(new("variable", scalar(key), entry.start))
    else:
        made.entries.append(new("provider", plain(provider), entry.start))
        made.entries.append(new("key", scalar(_path(body, key) if provider == "gcp" else key), entry.start))
    declare(book, name, entry.start, made=made)
    labelled = task.label is not None
    for each in list(body.entries):
        if each.name not in ("kind", "desc", "spec", "set") and (each.name != "name" or labelled or each is entry):
            discard(body, each)
    if not labelled and entry.name == "name" and isinstance(step.body.get("tool"), Map) is False:
        body.entries.insert(0, new("name", scalar(name), entry.start))
    insert(body, new("input", Map(entries=[new("name", scalar(name), entry.start)]), entry.start), after=("kind",))
    message = f'the secret is the keychain entry "{name}"; the task checks it, and templates read `keychain.{name}`'
    book.note(entry.start, "keychain-stored", message)


def _path(body: Map, key: str) -> str:
    """The path of a secret of Google: `projects/p/secrets/s/versions/v`."""
    project = body.text("project_id") or body.text("project")
    if key.startswith("projects/") or not project or is_template(project):
        return key
    version = body.text("version") or "latest"
    return f"projects/{project}/secrets/{key}/versions/{version}"
