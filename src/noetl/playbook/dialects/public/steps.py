"""Steps and blocks of the legacy generations: names, tools written on the step, workbooks as lists (§5, §7, §9)."""

from __future__ import annotations

import builtins

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, List, Map, item, leaves, plain, quoted, rename, table
from noetl.playbook.dialects.parts import StepPart
from noetl.playbook.dialects.public.book import (
    Book,
    child,
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
from noetl.playbook.dialects.public.code import MODULES, free_names, main_parameters, needed_names
from noetl.playbook.dialects.public.retries import add_rule
from noetl.playbook.dialects.template_tokens import free_reads, parse

# Keys that stay on the step. Everything else beside `type` or `tool: kind` is a field of the tool.
_STEP = frozenset(
    {
        "step", "name", "desc", "description", "next", "loop", "set", "vars", "case", "spec", "when", "tool", "type",
        "compensate", "call", "end_loop", "pass", "collection", "element", "iterator", "in", "concurrency", "where",
        "limit", "chunk", "order_by", "enumerate", *parts.SETS,
    }
)  # fmt: skip
_ITERATOR = ("collection", "element", "mode", "concurrency", "where", "limit", "chunk", "order_by", "enumerate")
_NO_TOOL = frozenset({"start", "end", "log", "plugin_type", "router"})
_PROVIDED = frozenset({"context", "results", "kwargs", *dir(builtins), *MODULES})  # no arguments of the author
_KINDS = {"playbooks": "playbook", "sql": "postgres", "requests": "http"}
_ARGUMENTS = frozenset({"python", "postgres", "duckdb", "snowflake", "shell", "playbook", "workbook"})  # fed by `data`
_TRUE = ("true", "1", "yes", "on", "pass", "ignore")


def step_names(book: Book) -> None:
    """`name: x` names a step of the legacy generation; a step needs a name."""
    for step in book.steps:
        body = step.body
        named = body.entry("name")
        if body.get("step") is None:
            if named is not None:
                rename(named, "step")
                book.changed()
            else:
                book.refuse(body.start, "this step has no name, so no arc can lead to it", "write `step: <name>` first")
        elif (
            named is not None
            and text_of(named.value) == step.name
            and "workbook"
            not in (
                body.text("type"),
                body.text("tool"),
            )
        ):
            discard(body, named)
            book.note(named.start, "dropped", "`name` repeats the name of the step; it was removed")
        described = body.entry("description")
        if described is not None:
            if body.get("desc") is None:
                rename(described, "desc")
                book.changed()
            else:
                discard(body, described)
                book.note(described.start, "dropped", "a step has one `desc`; `description` was removed")


def workbook_list(book: Book) -> None:
    """A workbook as a list of named entries becomes a mapping by name."""
    entry = book.root.entry("workbook")
    if entry is None:
        return
    if is_empty(entry.value):
        if not parts.is_null(entry.value):
            discard(book.root, entry)
            book.note(entry.start, "dropped", "an empty workbook has no effect; it was removed")
        return
    if not isinstance(entry.value, List):
        return
    made = Map()
    for each in entry.value.entries:
        body = each.value
        named = None if not isinstance(body, Map) else body.entry("name") or body.entry("task")
        name = text_of(named.value) if named is not None else None
        if not isinstance(body, Map) or named is None or not name:
            book.refuse(each.start, "this entry of the workbook has no name", "write `name: <name>` in it")
            continue
        discard(body, named)
        block = new(name, body, named.start)
        block.lead, block.base = each.lead, each.base
        body.style, body.rel = "block", None
        made.entries.append(block)
    put(entry, made)
    book.changed()


def flat_tools(book: Book) -> None:
    """`type: http` or `tool: http` with the fields on the step becomes `tool: {kind: http, …}`."""
    for step in book.owners:
        _type_to_tool(book, step)
        _kind_only(book, step)
        _stray_fields(book, step)


def _type_to_tool(book: Book, step: StepPart) -> None:
    body = step.body
    call = body.entry("call")
    if call is not None and isinstance(call.value, Map) and body.get("tool") is None and body.get("type") is None:
        if call.value.get("step") is not None:
            book.refuse(
                call.start, "`call` of another step has no replacement", "make that step a block under `workbook`"
            )
            return
        kind = call.value.entry("type")
        if kind is not None:
            rename(kind, "kind")
        else:
            call.value.entries.insert(0, new("kind", plain("workbook"), call.start))
        rename(call, "tool")
        book.changed()
    entry = body.entry("type")
    if entry is None or body.get("tool") is not None or text_of(entry.value) is None:
        return
    word = text_of(entry.value) or ""
    if word == "iterator":
        return
    if word in _NO_TOOL:
        discard(body, entry)
        book.note(entry.start, "dropped", f"`type: {word}` runs no tool; it was removed")
        return
    rename(entry, "tool")
    book.changed()


def _kind_only(book: Book, step: StepPart) -> None:
    """`tool: http` → `tool: {kind: http}`, with the fields that stand on the step."""
    body = step.body
    tool = body.entry("tool")
    kind = text_of(tool.value) if tool is not None else None
    if tool is None or kind is None or kind == "iterator" or is_template(kind):
        return
    if kind in _NO_TOOL:
        discard(body, tool)
        book.note(tool.start, "dropped", f"`tool: {kind}` runs no tool; it was removed")
        return
    assert isinstance(tool.value, Leaf)
    inner = Map(entries=[new("kind", Leaf(raw=tool.value.raw, text=kind, style=tool.value.style), tool.start)])
    inner.start = tool.value.start
    if kind in _KINDS:
        inner.entries[0].value = plain(_KINDS[kind])
    named = kind in ("workbook", "playbook")
    for entry in [each for each in body.entries if each.name not in _STEP or (each.name == "name" and named)]:
        move(entry, body, inner)
    tail, tool.tail = tool.tail, ""
    put(tool, inner)
    inner.entries[0].tail = tail
    book.changed()


def _stray_fields(book: Book, step: StepPart) -> None:
    """Fields of the tool beside `tool: {kind: …}` belong in it."""
    body = step.body
    tool = body.map("tool")
    for key in ("description",):
        described = body.entry(key)
        if step.block and described is not None and body.get("desc") is None:
            rename(described, "desc")
            book.changed()
    if tool is None:
        return
    typed = tool.entry("type")
    if typed is not None and tool.get("kind") is None:
        rename(typed, "kind")
        book.changed()
    if tool.get("kind") is None:
        return
    canonical = {"step", "desc", "input", "spec", "loop", "tool", "set", "next", "compensate", "args"}
    for entry in list(body.entries):
        if entry.name in canonical or entry.name in _STEP or entry.name in ("result", "output", "as", "run", "return"):
            continue
        if tool.get(entry.name) is None:
            move(entry, body, tool)
            book.changed()


def block_arguments(book: Book) -> None:
    """The entry of a public workbook sees the arguments of its callers as its own; its own are their defaults."""
    callers: dict[str, list[Map]] = {}
    for _, task in book.tasks():
        if task.kind == "workbook":
            callers.setdefault(task.body.text("block") or "", []).append(task.body)
    for block in [step for step in book.owners if step.block]:
        own = block.body.entry("with") or block.body.entry("args") or block.body.entry("input")
        if (
            own is not None
            and (book.public or own.name == "with")
            and isinstance(own.value, Map)
            and callers.get(block.name)
        ):
            for caller in callers[block.name]:
                _add_defaults(caller, own)
            discard(block.body, own)
            book.note(
                own.start, "block-defaults", f'the arguments of the block "{block.name}" are now given by its callers'
            )
        keys: dict[str, None] = {}
        for caller in callers.get(block.name, []):
            given = caller.map("input")
            keys |= {each.name: None for each in given.entries} if given is not None else {}
        for task in parts.tasks(block.body):
            _override(book, block.name, task.body, callers.get(block.name, []))
            _bind(book, task.body, task.kind or "", list(keys), "input")


def _override(book: Book, name: str, task: Map, callers: list[Map]) -> None:
    """A constant argument of a task in a block is a default: what a caller gives takes precedence."""
    inputs = task.map("input")
    given = [inner for caller in callers if (inner := caller.map("input")) is not None]
    for entry in inputs.entries if inputs is not None and book.public else []:
        count = sum(inner.get(entry.name) is not None for inner in given)
        if not count or not isinstance(entry.value, Leaf) or is_template(entry.value.text):
            continue
        if count < len(callers):
            message = f'only some callers of "{name}" give "{entry.name}", which is a default here'
            book.refuse(entry.start, message, "give the argument in every call, and read `{{ input.… }}` here")
            continue
        put(entry, quoted(f"{{{{ input.{entry.name} }}}}"))
        message = f'every caller of "{name}" gives "{entry.name}", so its default was removed'
        book.note(entry.start, "block-defaults", message)


def _add_defaults(caller: Map, own: LayoutEntry) -> None:
    inputs = caller.map("input")
    if inputs is None:
        inputs = Map()
        caller.entries.append(new("input", inputs, caller.start))
    assert isinstance(own.value, Map)
    for each in own.value.entries:
        if inputs.get(each.name) is None:
            inputs.entries.append(new(each.name, each.value, each.start))


def assertions(book: Book) -> None:
    """`assert: {expects, returns}` of a task: the keys that it returns are validated."""
    for _, task in book.tasks():
        entry = task.body.entry("assert")
        if entry is None or not isinstance(entry.value, Map):
            continue
        returns = entry.value.get("returns")
        names = [text for each in returns.entries if (text := text_of(each.value))] if isinstance(returns, List) else []
        discard(task.body, entry)
        words = "the code itself fails if an expected argument is missing"
        spec = child(task.body, "spec", entry.start) if names else None
        if spec is not None and spec.get("validate") is None:
            required = List(entries=[item(scalar(name)) for name in names], style="flow")
            spec.entries.append(new("validate", table(type=plain("object"), required=required), entry.start))
        book.note(entry.start, "assertion", f"`assert.returns` is now `spec.validate`; {words}")


def dead_keys(book: Book) -> None:
    """Keys of a step that no interpreter reads."""
    for step in book.steps:
        for key in ("end_loop", "as", "output"):
            entry = step.body.entry(key)
            if entry is not None:
                discard(step.body, entry)
                book.note(entry.start, "dropped", f"no engine reads `{key}` of a step beside its tool; it was removed")


def passed_steps(book: Book) -> None:
    """`pass` of a step: if it is true, the step runs no tool and continues. Later public engines ignore it."""
    for step in book.steps:
        entry = step.body.entry("pass")
        text = (text_of(entry.value) or "").strip() if entry is not None else ""
        if entry is None:
            continue
        parsed = parse(text) if is_template(text) else None
        tool = step.body.entry("tool")
        if parsed is not None and parsed.typed:
            words = ", ".join(f"'{word}'" for word in _TRUE)
            inner = text[parsed.tokens[0].end : parsed.tokens[-1].start].strip()
            for task in parts.tasks(step.body):
                skip = Map(entries=[new("do", plain("skip"), entry.start)])
                condition = f"(({inner}) | default(false) | string | lower) in [{words}]"
                add_rule(book, task.body, condition, skip, entry.start)
            book.note(entry.start, "pass-skips", "`pass` is now a rule that skips the tasks; later engines ignored it")
        elif is_template(text):
            book.refuse(entry.start, "this `pass` is not one template", 'write `pass: "{{ … }}"`')
            continue
        elif text.lower() in _TRUE and tool is not None:
            discard(step.body, tool)
            book.note(entry.start, "pass-skips", "`pass` is true, so the tool of the step was removed")
        else:
            book.changed()
        discard(step.body, entry)


def empty_mappings(book: Book) -> None:
    """`auth: {}`, `libs: {}` and the like are noise of a generator."""
    for _, task in book.tasks():
        for key in ("auth", "libs", "with", "data"):
            entry = task.body.entry(key)
            if entry is not None and isinstance(entry.value, Map | List) and not entry.value.entries:
                discard(task.body, entry)
                book.changed()
    for step in book.owners:
        for key in ("vars", "case", "with", "loop", "data"):
            entry = step.body.entry(key)
            if entry is not None and isinstance(entry.value, Map | List) and not entry.value.entries:
                discard(step.body, entry)
                book.changed()


def task_arguments(book: Book) -> None:
    """`with`, `args` and `data` of a task are its `input`."""
    for _, task in book.tasks():
        for key in ("args", "with", *(("data",) if task.kind in _ARGUMENTS else ())):
            entry = task.body.entry(key)
            inner = task.body.get("input")
            if entry is not None and isinstance(entry.value, Leaf) and task.kind == "python" and inner is None:
                _single_value(book, task.body, entry)
                continue
            if entry is None or not isinstance(entry.value, Map) or (key == "args" and inner is not None):
                continue
            if inner is None:
                rename(entry, "input")
            elif isinstance(inner, Map):
                for each in list(entry.value.entries):
                    if inner.get(each.name) is None:
                        move(each, entry.value, inner)
                discard(task.body, entry)
            if key != "args":  # `args` of tasks are also an idiom of v2 and v10
                book.changed()


def _single_value(book: Book, body: Map, entry: LayoutEntry) -> None:
    """`args: "{{ start }}"` passes the keys of a mapping: the code gets those that it reads."""
    text, code = text_of(entry.value) or "", body.text("code") or ""
    parsed = parse(text) if is_template(text) else None
    parameters = main_parameters(code)
    read = parameters if parameters is not None else sorted(free_names(code) or set())
    read = [name for name in read if name not in _PROVIDED]
    if parsed is None or not parsed.typed or "kwargs[" in code or "kwargs.get" in code:
        book.refuse(entry.start, f"`{entry.name}` is not a mapping", "write the arguments: `input: {name: …}`")
        return
    if not read:
        discard(body, entry)
        book.note(entry.start, "dropped", f"the code reads no argument; `{entry.name}` was removed")
        return
    value = text[parsed.tokens[0].end : parsed.tokens[-1].start].strip()
    given = {name: f"{{{{ ({value}).{name} | default(none) }}}}" for name in read}
    if "input_data" in read:
        given = {"input_data": f"{{{{ {value} }}}}"}
    put(entry, Map(entries=[new(name, quoted(made), entry.start) for name, made in given.items()]))
    rename(entry, "input")
    book.note(entry.start, "code-input", f"`{entry.name}` was one value; the code receives the keys {', '.join(given)}")


def hand_on(book: Book) -> None:
    """The arguments of a step, and those that arcs bring, are arguments of its tool in the public engine."""
    received: dict[str, set[str]] = {}
    for step in book.steps:
        for arc in parts.arcs(step.body):
            args = arc.map("args")
            received.setdefault(arc.text("step") or "", set()).update(
                each.name for each in args.entries if args
            ) if args else None
    for step in book.steps:
        own = step.body.entry("args") or step.body.entry("input")
        arguments = own.value if own is not None and isinstance(own.value, Map) else None
        # The step `input` of a canonical text is not for its tasks.
        public = book.public or bool(received.get(step.name)) or (own is not None and own.name == "args")
        if step.body.get("loop") is not None and own is not None and arguments is not None:
            _into_tasks(book, step, own, arguments, public=public)
            continue
        if not public:
            if arguments is not None:
                _read_by_code(book, step, [each.name for each in arguments.entries])
            continue
        keys = [each.name for each in arguments.entries] if arguments is not None else []
        keys += sorted(received.get(step.name, set()) - set(keys))
        scope = own.name if own is not None else "args"
        for task in parts.tasks(step.body):
            _overlay(book, task.body, task.kind or "", received.get(step.name, set()), scope)
            _bind(book, task.body, task.kind or "", keys, scope)


def _read_by_code(book: Book, step: StepPart, keys: list[str]) -> None:
    """Code that reads a key of the step's `input` as a name: no canonical text does, because the name is undefined."""
    for task in parts.tasks(step.body):
        text = task.body.text("code") or ""
        read = needed_names(text) | set(main_parameters(text) or []) if task.kind == "python" else set()
        given = task.body.map("input")
        missing = [key for key in keys if key in read and (given is None or given.get(key) is None)]
        if missing:
            _bind(book, task.body, "python", missing, "input")


def _overlay(book: Book, body: Map, kind: str, keys: set[str], scope: str) -> None:
    """What an arc brings takes precedence over an argument of the tool with the same name."""
    inputs = body.map("input") if kind in ("python", "playbook", "workbook") else None
    for entry in inputs.entries if inputs is not None else []:
        text = entry.value.text if isinstance(entry.value, Leaf) and entry.value.style != "*" else None
        if entry.name not in keys or text is None or not entry.name.isidentifier():
            continue
        parsed = parse(text) if is_template(text) else None
        if any(reading.path[:2] == (scope, entry.name) for reading in (parsed.readings if parsed is not None else [])):
            continue
        default = constant(entry.value)
        if parsed is not None and parsed.typed and [reading.path for reading in parsed.readings] == [(entry.name,)]:
            put(entry, quoted(text.replace(entry.name, f"{scope}.{entry.name}", 1)))
            book.changed()
            continue
        if parsed is not None and parsed.typed:
            default = f"({text[parsed.tokens[0].end : parsed.tokens[-1].start].strip()})"
        elif is_template(text):
            continue
        put(entry, quoted(f"{{{{ {scope}.{entry.name} | default({default}) }}}}"))
        book.changed()


def _bind(book: Book, body: Map, kind: str, keys: list[str], scope: str) -> None:
    """Let a task read arguments of its step."""
    if kind not in ("python", "playbook", "workbook") or not keys:
        return
    if kind == "python":
        text = body.text("code") or ""
        free = free_names(text)
        known = needed_names(text) | set(main_parameters(text) or [])
        if free is not None and not known & {"input_data", "args", "kwargs", "context"}:
            keys = [key for key in keys if key in known]
    inputs = body.map("input")
    if inputs is not None and inputs.get("input_data") is not None:
        return  # `main(input_data)` receives all arguments as one
    keys = [key for key in keys if inputs is None or inputs.get(key) is None]
    if not keys or (inputs is None and body.get("input") is not None):
        return
    if inputs is None:
        inputs = Map()
        insert(body, new("input", inputs, body.start), before=("code", "spec", "set"))
    for key in keys:
        if key.isidentifier():
            inputs.entries.append(new(key, quoted(f"{{{{ {scope}.{key} }}}}"), body.start))
    book.changed()


def _into_tasks(book: Book, step: StepPart, own: LayoutEntry, arguments: Map, *, public: bool) -> None:
    """The arguments of a looped step are bound in each iteration, so they belong to its tasks."""
    tasks = parts.tasks(step.body)
    reads = any(
        reading.root == "iter" or reading.root in step.iterators
        for leaf in leaves(arguments)
        for reading in free_reads(leaf.text)
    )
    takes = public and any(task.kind in ("python", "playbook", "workbook") for task in tasks)
    if not tasks or not (reads or takes):
        return
    for index, task in enumerate(tasks):
        inputs = task.body.map("input")
        if inputs is None:
            if task.body.get("input") is not None:
                return
            inputs = Map()
            insert(task.body, new("input", inputs, own.start), before=("code", "spec", "set"))
        for entry in list(arguments.entries):
            if inputs.get(entry.name) is None:
                value = entry.value
                if index + 1 < len(tasks) and isinstance(value, Leaf):
                    inputs.entries.append(new(entry.name, value, entry.start))
                elif index + 1 == len(tasks):
                    move(entry, arguments, inputs)
    discard(step.body, own)
    book.changed()
