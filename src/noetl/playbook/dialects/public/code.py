"""Code of python tasks: `libs`, `script`, `return` at the top, names that the public engine provides (§9)."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, Map, quoted, rename
from noetl.playbook.dialects.parts import StepPart, TaskPart
from noetl.playbook.dialects.public.book import Book, change_text, discard, is_template, new, put, text_of
from noetl.playbook.dialects.template_tokens import parse

MARK = "# by noetl migrate"
MODULES = ("json", "os", "datetime", "uuid", "re", "time", "math", "random", "base64", "hashlib", "asyncio")
_LITERAL = re.compile(
    r"""(?<![\w"'])(?P<quote>"{3}|'{3}|"|')(?P<body>\{\{.*?\}\})(?P=quote)|(?P<bare>\{\{.*?\}\})""", re.DOTALL
)


def python_tasks(book: Book) -> Iterator[tuple[StepPart, TaskPart]]:
    for step, task in book.tasks():
        if task.kind == "python":
            yield step, task


def libs(book: Book) -> None:
    """`libs` as a mapping are import lines."""
    for _, task in python_tasks(book):
        entry = task.body.entry("libs")
        code = task.body.entry("code")
        if entry is None or not isinstance(entry.value, Map):
            continue
        lines = []
        for each in entry.value.entries:
            if isinstance(each.value, Map):
                source, name = each.value.text("from"), each.value.text("import")
                lines.append(f"from {source} import {name} as {each.name}" if source and name else "")
            else:
                module = text_of(each.value) or each.name
                lines.append(f"import {module}" if module == each.name else f"import {module} as {each.name}")
        if code is None or not all(lines) or text_of(code.value) is None:
            book.refuse(entry.start, "`libs` as a mapping needs `code`", "write the imports into the script")
            continue
        text = text_of(code.value) or ""
        discard(task.body, entry)
        missing = [line for line in lines if line not in text]
        change_text(code, prepended(text, missing))
        book.changed()


def prepended(text: str, lines: list[str]) -> str:
    """The code with lines before it; `from __future__` and a docstring stay first in meaning, as they have none."""
    if not lines:
        return text
    marked = [f"{line}  {MARK}" for line in lines]
    return "\n".join([*marked, text.lstrip("\n")])


SqlFile: TypeAlias = Callable[[Book, StepPart, Map, LayoutEntry, str], bool]


def scripts(book: Book, sql_file: SqlFile, constant: Callable[[Book, str], str | None]) -> None:
    """`script: {uri, source: {type: file}}` names a file beside the playbook."""
    for step, task in book.tasks():
        entry = task.body.entry("script")
        if entry is None or not isinstance(entry.value, Map) or task.kind not in ("python", "postgres", "duckdb"):
            continue
        source = entry.value.get("source")
        kind = source.text("type") if isinstance(source, Map) else text_of(source)
        inline = (
            entry.value.get("content")
            or entry.value.get("code")
            or (source.get("content") or source.get("code") if isinstance(source, Map) else None)
        )
        target = "code" if task.kind == "python" else "command"
        uri = entry.value.text("uri") or entry.value.text("path") or ""
        uri = (constant(book, uri) or "") if is_template(uri) else uri
        if kind == "inline" and isinstance(inline, Leaf):
            rename(entry, target)
            change_text(entry, inline.text)
            book.changed()
        elif kind == "file" and task.kind == "python" and uri:
            put(entry, quoted(uri))
            book.changed()
        elif task.kind == "python" and uri:
            name = uri.rstrip("/").rsplit("/", 1)[-1]
            put(entry, quoted(name))
            message = f"the public engine loads the code from {kind or 'elsewhere'} ({uri}); copy it to `{name}`"
            book.note(entry.start, "script-beside", f"{message} beside the playbook")
        elif (
            kind != "file"
            or task.kind != "postgres"
            or not sql_file(book, step, task.body, entry, entry.value.text("uri") or "")
        ):
            where = "code" if task.kind == "python" else "SQL"
            message = f"the {where} of this task is stored elsewhere ({kind or 'unknown'})"
            fix = (
                "put the file beside the playbook, and write `script: <path>`"
                if task.kind == "python"
                else "put the SQL into the playbook: `command: |`"
            )
            book.refuse(entry.start, message, fix)


_OPERATORS = frozenset({"if", "else", "and", "or", "not", "in", "is", "~", "+", "-", "*", "/", "//", "%", "==", "!="})


def json_values(book: Book) -> None:
    """`{{ x | tojson }}` as an argument or a body is x: the public engine parses text that is JSON."""
    for _, task in book.tasks() if book.public else ():
        inputs = task.body.map("input") if task.kind in ("python", "playbook", "workbook") else None
        body = task.body.entry("json") if task.kind == "http" else None
        for entry in [*(inputs.entries if inputs is not None else []), *([body] if body is not None else [])]:
            text = text_of(entry.value) or ""
            parsed = parse(text) if is_template(text) else None
            words = [token.text for token in parsed.tokens] if parsed is not None and parsed.typed else []
            if parsed is None or words[-3:-1] != ["|", "tojson"] or _OPERATORS & set(words):
                continue
            bar = parsed.tokens[-3]
            change_text(entry, text[: bar.start].rstrip() + " " + text[parsed.tokens[-1].start :])
            message = f"the public engine parses the JSON text of `{entry.name}`, so the value is passed as it is"
            book.note(entry.start, "json-value", message)


def code_values(book: Book, constant: Callable[[Book, str], str | None]) -> None:
    """Code that is one template: a constant of `workload` is written in its place."""
    for _, task in python_tasks(book):
        entry = task.body.entry("code")
        if entry is not None and book.public:
            write_constant(book, entry, "code", constant)


def write_constant(book: Book, entry: LayoutEntry, key: str, constant: Callable[[Book, str], str | None]) -> None:
    """What a task runs is not a value: write the constant that a template reads, or refuse."""
    text = text_of(entry.value) or ""
    parsed = parse(text) if is_template(text) else None
    if parsed is None or not parsed.typed:
        return
    value = constant(book, text)
    if value is None:
        book.refuse(entry.start, "a value cannot be what a task runs", f"write the text under `{key}`")
        return
    change_text(entry, value)
    message = f"the text of `{text.strip()}` is written here; a caller can no longer change it"
    book.note(entry.start, "code-fixed", message)


def templates_in_code(book: Book) -> None:
    """A value that the public engine pasted into the code becomes an argument."""
    for _, task in python_tasks(book):
        entry = task.body.entry("code")
        text = text_of(entry.value) if entry is not None else None
        if entry is None or text is None or not is_template(text) or not book.public:
            continue
        names: dict[str, str] = {}
        made = ""
        position = 0
        for found in _LITERAL.finditer(text):
            inner = (found["body"] or found["bare"]).strip()
            parsed = parse(inner)
            if parsed is None or not parsed.typed or (found["bare"] and _inside_text(text, found.start())):
                made = ""
                break
            name = names.setdefault(inner, f"value_{len(names) + 1}")
            made += text[position : found.start()] + (f"str({name})" if found["quote"] else name)
            position = found.end()
        if not made or is_template(text[position:]):
            continue
        inputs = task.body.map("input")
        if inputs is None:
            inputs = Map()
            task.body.entries.insert(max(task.body.index("code") or 0, 0), new("input", inputs, entry.start))
        for inner, name in names.items():
            inputs.entries.append(new(name, quoted(inner), entry.start))
        change_text(entry, made + text[position:])
        book.note(
            entry.start,
            "pasted",
            "values that were pasted into the code are now arguments: " + ", ".join(names.values()),
        )


def _inside_text(text: str, position: int) -> bool:
    """Is the position inside of a string or a comment of its line?"""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return "#" in line or line.count("'") % 2 == 1 or line.count('"') % 2 == 1


def returns(book: Book) -> None:
    """`return` outside of a function: the code becomes `main`."""
    for _, task in python_tasks(book):
        entry = task.body.entry("code")
        text = text_of(entry.value) if entry is not None else None
        if entry is None or text is None or "return" not in text or (_tree(text) is not None and not _top_return(text)):
            continue
        if not _top_return(text):
            continue
        inputs = task.body.map("input")
        names = [each.name for each in inputs.entries if each.name.isidentifier()] if inputs is not None else []
        body = "\n".join("    " + line if line.strip() else line for line in text.strip("\n").split("\n"))
        change_text(entry, f"def main({', '.join(names)}):  {MARK}\n{body}\n")
        book.changed()


def _top_return(text: str) -> bool:
    tree = _tree(text)
    if tree is None:
        return False
    return any(isinstance(node, ast.Return) for statement in tree.body for node in _outside_functions(statement))


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        return
    yield node
    for inner in ast.iter_child_nodes(node):
        yield from _outside_functions(inner)


def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def free_names(text: str) -> set[str] | None:
    """The names that code reads and does not define; None if it cannot be parsed."""
    tree = _tree(text)
    if tree is None:
        return None
    stored: set[str] = set()
    read: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else stored).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            stored.add(node.name)
            if not isinstance(node, ast.ClassDef):
                stored |= {each.arg for each in _arguments(node)}
        elif isinstance(node, ast.Lambda):
            stored |= {each.arg for each in [*node.args.args, *node.args.kwonlyargs]}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            stored |= {(each.asname or each.name).split(".")[0] for each in node.names}
        elif isinstance(node, ast.ExceptHandler) and node.name:
            stored.add(node.name)
    return read - stored


def needed_names(text: str) -> set[str]:
    """The free names of code, and those that it reads before it assigns them: `if x: x = f(x)` needs x."""
    tree = _tree(text)
    read: dict[str, tuple[int, int]] = {}
    stored: dict[str, tuple[int, int]] = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):  # the value is evaluated first
            place = (node.end_lineno or node.lineno, node.end_col_offset or 0)
            for name in ast.walk(node):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    stored[name.id] = min(place, stored.get(name.id, place))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            place = (node.lineno, node.col_offset)
            read[node.id] = min(place, read.get(node.id, place))
    return (free_names(text) or set()) | {name for name in stored if name in read and read[name] < stored[name]}


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    made = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return made + [each for each in (node.args.vararg, node.args.kwarg) if each is not None]


def main_parameters(text: str) -> list[str] | None:
    """The parameters of `main` without a default; None if there is no `main`."""
    tree = _tree(text)
    for node in tree.body if tree is not None else []:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "main":
            required = node.args.args[: len(node.args.args) - len(node.args.defaults)]
            return [each.arg for each in required]
    return None


def returned_keys(text: str) -> set[str] | None:
    """The keys of the mappings that code returns or assigns to `result`; None if it is unknown."""
    tree = _tree(text)
    if tree is None:
        return None
    values = [value for node in ast.walk(tree) if (value := _returned(node)) is not None]
    keys: set[str] = set()
    for value in values:
        if not isinstance(value, ast.Dict):
            return None
        for key in value.keys:
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                return None
            keys.add(key.value)
    return keys if values else None


def _returned(node: ast.AST) -> ast.expr | None:
    """The value that a statement returns or assigns to `result`."""
    if isinstance(node, ast.Assign):
        named = any(isinstance(each, ast.Name) and each.id == "result" for each in node.targets)
        return node.value if named else None
    return node.value if isinstance(node, ast.Return) else None


def provided_names(book: Book) -> None:
    """Modules, `input_data`, `workload` and other names that the public engine puts into the code."""
    for step, task in python_tasks(book):
        entry = task.body.entry("code")
        text = text_of(entry.value) if entry is not None else None
        free = free_names(text) if text is not None else None
        if entry is None or text is None or free is None or not (free or main_parameters(text)):
            continue
        inputs = task.body.map("input")
        if inputs is None and task.body.get("input") is not None:
            continue
        given = [each.name for each in inputs.entries] if inputs is not None else []
        lines = [f"import {name}" for name in MODULES if name in free and name not in given]
        wanted = _wanted(book, step, text, free - set(given), given)
        whole = [name for name in ("input_data", "args", "_input", "kwargs") if name in free and name not in given]
        parameters = main_parameters(text) or []
        if parameters == ["input_data"] and "input_data" not in given:
            _wrap_input(book, task, inputs, entry.start)
            wanted = {}
        elif whole:
            bound = ", ".join(f'"{name}": {name}' for name in [*given, *wanted] if name.isidentifier())
            lines += [f"{name} = {{{bound}}}" for name in whole]
        if wanted:
            if inputs is None:
                inputs = Map()
                task.body.entries.insert(task.body.index("code") or 0, new("input", inputs, entry.start))
            for name, template in wanted.items():
                inputs.entries.append(new(name, quoted(template), entry.start))
            book.note(
                entry.start, "code-input", "the code reads these names, which are now arguments: " + ", ".join(wanted)
            )
        if lines:
            change_text(entry, prepended(text, lines))
            book.note(
                entry.start,
                "code-input",
                "the public engine provides these names; they are now defined at the top of the code",
            )


def _wanted(book: Book, step: StepPart, text: str, free: set[str], given: list[str]) -> dict[str, str]:
    """The arguments that the code needs: names of the public namespace that it reads without defining them."""
    names = sorted(free | {each for each in main_parameters(text) or [] if each not in given})
    workload = parts.workload_keys(book.root)
    made: dict[str, str] = {}
    for name in names:
        if name in given or name in ("input_data", "args", "_input"):
            continue
        if name in ("workload", "execution_id"):
            made[name] = f"{{{{ {name} }}}}"
        elif name in step.iterators:
            made[name] = f"{{{{ iter.{name} }}}}"
        elif name == "context":
            known = {"workload": "workload", "execution_id": "execution_id"} | _namespace(book, text, name)
            made[name] = "{{ {" + ", ".join(f"'{key}': {value}" for key, value in known.items()) + "} }}"
        elif name == "results" and name not in workload and (found := _namespace(book, text, name)):
            made[name] = "{{ {" + ", ".join(f"'{key}': {value}" for key, value in found.items()) + "} }}"
        elif name in workload:
            made[name] = f"{{{{ workload.{name} }}}}"
    return made


def _namespace(book: Book, text: str, name: str) -> dict[str, str]:
    """Steps and workload keys that code reads of the mapping `context` or `results`, and their expressions."""
    tree = _tree(text)
    keys = {key for node in ast.walk(tree) if (key := _key_of(node, name)) is not None} if tree is not None else set()
    workload = set(parts.workload_keys(book.root))
    steps = {each for each in book.step_names if each.isidentifier()}
    made = {key: f"({key} | default(none))" for key in sorted(keys & steps)}
    if name == "context":
        made |= {key: f"workload.{key}" for key in sorted((keys & workload) - steps)}
    return made


def _key_of(node: ast.AST, name: str) -> str | None:
    """The key of `name["key"]` and `name.get("key")`."""
    of = key = None
    if isinstance(node, ast.Subscript):
        of, key = node.value, node.slice
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        of, key = node.func.value, node.args[0]
    named = isinstance(of, ast.Name) and of.id == name
    return key.value if named and isinstance(key, ast.Constant) and isinstance(key.value, str) else None


def _wrap_input(book: Book, task: TaskPart, inputs: Map | None, start: int) -> None:
    """`main(input_data)` takes all arguments as one mapping."""
    if inputs is None:
        inner = Map()
        task.body.entries.append(new("input", Map(entries=[new("input_data", inner, start)], start=start), start))
        inner.style = "flow"
    else:
        inner = Map(entries=inputs.entries, start=inputs.start)
        inputs.entries = [new("input_data", inner, start)]
        inputs.style = "auto" if inputs.style == "flow" else inputs.style
    book.changed()
