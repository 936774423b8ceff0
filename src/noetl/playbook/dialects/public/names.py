"""Names in templates: the one namespace of the public engine, read with our scopes (§2, §3).

The resolver says what a path means at its place; `results` stores what other steps read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from noetl.playbook import language
from noetl.playbook.dialects import parts
from noetl.playbook.dialects.arc_args import identifier
from noetl.playbook.dialects.layout.scalars import Finder, TextEdit, replace
from noetl.playbook.dialects.layout.tree import Leaf, List, Map, Node, leaves
from noetl.playbook.dialects.parts import StepPart, TaskPart
from noetl.playbook.dialects.public import shapes
from noetl.playbook.dialects.public.book import Book, is_template
from noetl.playbook.dialects.public.results import Source, assume, keys_of, result_kind, store
from noetl.playbook.dialects.public.shapes import SQL
from noetl.playbook.dialects.public.workload import WorkloadTemplates, constants
from noetl.playbook.dialects.public.writes import written_names
from noetl.playbook.dialects.rules import names_of
from noetl.playbook.dialects.template_tokens import (
    ParsedTemplate,
    PathRead,
    attribute,
    has_default,
    is_list,
    is_number,
    optional_names,
    parse,
)
from noetl.playbook.dialects.templates import compared_strings

_RESERVED = frozenset({*language.SCOPES, "outcome", "args", "token", "result_ref", "vars"})
_ERRORS = (("output", "error"), ("outcome", "error"))
_OWN = ("result", "response", "this")  # the step's own result, where it has ended
_ENGINE = frozenset(
    {"event", "error", "loop", "loop_results", "context", "results", "payload", "env", "job", "_all_collected_items"}
)
_COUNTERS = (("current_index",), ("index",), ("current_item",))  # of `_loop`
_OUTPUT = frozenset(
    {"status", "data", "ref", "error", "meta", "http", "pg", "py", "duckdb", "shell", "sqlite", "result", "result_ref"}
)


class Place(NamedTuple):
    """What the names of a template mean at its place."""

    step: StepPart
    kind: str = ""  # of the result that `output` is; "": there is none here
    keys: set[str] | None = None  # that the code of that result returns
    before: str = ""  # the kind of the result that `_prev` is
    previous: str = ""  # the name of the task before, in a list
    labels: tuple[TaskPart, ...] = ()
    loop: bool = True  # the iterator is in scope
    bound: bool = True  # the arguments of the step are in scope


class Resolver:
    """Resolves the paths of all templates of a document."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.workload = set(parts.workload_keys(book.root))
        self.written = written_names(book)
        self.sources = {step.name: self.source(step) for step in book.steps if step.name}
        self.payload = _payloads(book)
        keychain = book.root.get("keychain")
        self.secrets = {name: entry for entry in parts.maps(keychain) if (name := entry.text("name"))}
        self.assumed: dict[str, int] = {}
        self.optional: set[str] = set()  # names for which a template has a default, or asks whether they exist
        self.sent: set[str] = set()  # those of them that only a caller can provide
        self.templates: WorkloadTemplates | None = None  # of a public document

    def source(self, step: StepPart) -> Source:
        name = identifier(step.name)
        if name in self.written or name in self.workload:
            name = f"{name}_output"
        kind, keys = result_kind(self.book, step)
        return Source(step, name, kind, keys)

    def resolve(self, reading: PathRead, place: Place, template: ParsedTemplate) -> tuple[str, int] | None:
        """The new text of a path and how many of its parts it replaces; None: it stays."""
        path = reading.path[1:]
        meant = self._meant(reading, place, template, path) if self.book.public else path
        found = self._resolve(reading, place, template, meant)
        if found is None or meant == path:
            return found
        text, count = found
        return text + "".join(map(attribute, meant[count:])), len(path)

    def _meant(
        self, reading: PathRead, place: Place, template: ParsedTemplate, path: tuple[str, ...]
    ) -> tuple[str, ...]:
        """The path that the author means: rows before a filter for lists, the status of a response as a number."""
        kind = self._result_kind(reading.root, place)
        if is_list(template, reading) and shapes.is_counted(kind, path):
            note = f"`{'.'.join(reading.path)}` before a filter for lists is the list of rows"
            self.book.note(place.step.body.start, "rows-as-list", note)
            return (*path, "rows")
        if kind == "http" and path == ("status",) and (self.book.local or is_number(template, reading)):
            return ("status_code",)
        return path

    def _result_kind(self, root: str, place: Place) -> str:
        """The kind of the task whose result has this name; "": it is not a result."""
        label = next((task for task in place.labels if task.name == root), None)
        if label is not None:
            return label.kind or ""
        if root in self.sources:
            return self.sources[root].kind
        is_own = root in _OWN and place.kind and root not in self.workload and root not in self.written
        return place.kind if is_own else ""

    def _resolve(
        self, reading: PathRead, place: Place, template: ParsedTemplate, path: tuple[str, ...]
    ) -> tuple[str, int] | None:
        root = reading.root
        label = next((task for task in place.labels if task.name == root), None)
        if label is not None:
            asked = template.tokens[reading.after].text == "is" if reading.after < len(template.tokens) else False
            return self.label(label, path, asked=asked)
        if root in place.step.iterators and place.loop and root not in _RESERVED:
            return f"iter.{root}", 0
        if root == "iter":
            return self.iteration(place, path)
        if place.loop and place.step.iterators and (counted := self.counter(place.step, root, path)) is not None:
            return counted
        if root in ("ctx", "workload", "vars") and path:
            return self.scoped(reading, root, path[0], place, template)
        if root in ("output", "outcome") and place.kind and self.book.public:
            return self.output(place, path) if root == "output" else self.outcome(place, path)
        if root == "_prev" and place.before and self.book.public:
            return self.previous(place, path)
        if root == "keychain" and len(path) > 1:
            return self.secret(path[0], path[1])
        if root in _RESERVED:
            return None
        if root == "job" and path and path[0] in ("uuid", "id", "execution_id"):
            return "execution_id", 1
        if place.bound and root in self.payload.get((place.step.name, place.step.block), ()):
            scope = "input" if place.step.block or place.step.body.get("input") is not None else "args"
            return f"{scope}.{root}", 0
        if root == "payload" and path and root not in self.workload:
            return "workload", 0
        if root == "loop_results" and (before := self.loop_before(place.step)) is not None:
            found = self.result(before, None, ("results",))
            return (f"{found[0]}.results", 0) if found is not None else None
        if root == "results" and path and path[0] in self.sources:
            found = self.result(self.sources[path[0]], place, path[1:])
            return (found[0], found[1] + 1) if found is not None else None
        if root == "error" and place.kind and root not in self.workload and root not in self.written:
            status = place.kind == "http" and path[:1] in (("status",), ("status_code",), ("code",))
            return ("output.http.status", 1) if status else ("output.error", 0)
        if root in self.sources:
            source = self.sources[root]
            if source.kind == "playbook" and path[:1] == ("status",) and _own_status(template, reading):
                return self.child_status(source, place)
            return self.result(source, place, path)
        if root in _OWN and place.kind and root not in self.workload and root not in self.written:
            return self.own(place, path)
        return self.bare(reading, root, place, template)

    def counter(self, step: StepPart, root: str, path: tuple[str, ...]) -> tuple[str, int] | None:
        """The index and the item of an iteration by their public names."""
        if root == step.name and path[:1] == ("result_index",):
            return "iter.index", 1
        if root == "loop" and path[:1] in (("element",), ("item",)):
            return f"iter.{step.iterators[0]}", 1
        if root == "_loop" and path[:1] in _COUNTERS:
            return ("iter.index" if path[0] != "current_item" else f"iter.{step.iterators[0]}"), 1
        return None

    def caller_of(self, block: str) -> Source | None:
        """The only step that calls a block: the first public engine stored its result under both names."""
        callers = [
            step.name
            for step in self.book.steps
            if any(task.kind == "workbook" and task.body.text("block") == block for task in parts.tasks(step.body))
        ]
        return self.sources.get(callers[0]) if len(callers) == 1 else None

    def loop_before(self, step: StepPart) -> Source | None:
        """The looped step whose arc leads here, if there is one: its results are `loop_results`."""
        loops = [
            each
            for each in self.book.steps
            if each.body.get("loop") is not None
            and any(arc.text("step") == step.name for arc in parts.arcs(each.body))
            and each.name != step.name
        ]
        return self.sources.get(loops[0].name) if len(loops) == 1 else None

    def secret(self, name: str, part: str) -> tuple[str, int] | None:
        """A field of a keychain entry: an entry of its own, or the token of `oauth2_client`."""
        entry = self.secrets.get(name)
        if entry is None:
            return (f"keychain.{name}_{part}", 2) if f"{name}_{part}" in self.secrets else None
        is_token = entry.text("kind") == "oauth2_client" and part in ("access_token", "token")
        return (f"keychain.{name}", 2) if is_token else None

    def label(self, task: TaskPart, path: tuple[str, ...], *, asked: bool) -> tuple[str, int] | None:
        """A part of the result of a task; without a part all of it, unless a test asks whether there is one."""
        kind = task.kind or ""
        if not self.book.public or (asked and not path):
            return None
        if not path:
            return shapes.whole(kind, task.name or ""), 0
        keys = keys_of(task.body)
        if path[:1] == ("data",) and path[1:2] != ("data",) and keys is not None and "data" in keys:
            return f"{task.name}.data.data", 1  # the author's own key
        if path[0] in _OUTPUT and not (kind in SQL and path[:2] == ("data", "rows")):
            return None
        text, count, _ = shapes.read(kind, task.name or "", path, keys_of(task.body))
        return text, count

    def iteration(self, place: Place, path: tuple[str, ...]) -> tuple[str, int] | None:
        if path[:1] in (("_index",), ("_idx",)):
            return "iter.index", 1
        if path[:1] == ("_first",):
            return "(iter.index == 0)", 1
        if place.step.body.get("loop") is None and not place.step.block and path:
            return "step", 0
        return None

    def scoped(
        self, reading: PathRead, root: str, name: str, place: Place, template: ParsedTemplate
    ) -> tuple[str, int] | None:
        """`ctx.n`, `workload.n` and `vars.n` are the same mapping in the public engine."""
        written = self.written.get(name, set())
        if self.book.public and "ctx" in written and name in self.workload and not _is_default(template, reading):
            return self.shadowed(reading.path[1:], place, template, reading)
        if "ctx" not in written and len(reading.parts) == 1 and (made := self.computed(name)) is not None:
            return made, 1
        if root == "workload" and (name in self.workload or not (written or name in self.sources)):
            return None
        if root == "ctx" and ("ctx" in written or not self.book.public):
            return None
        if root == "vars" and not self.book.public and name not in self.workload:
            return None
        if "ctx" in written:
            return f"ctx.{name}", 1
        if name in self.workload:
            return f"workload.{name}", 1
        if name in self.sources and root != "vars":
            found = self.result(self.sources[name], None, reading.path[2:])
            return (found[0], found[1] + 1) if found is not None else None
        return None

    def computed(self, name: str) -> str | None:
        """The value of a workload key that was a template."""
        return self.templates.reading(name) if self.templates is not None else None

    def output(self, place: Place, path: tuple[str, ...]) -> tuple[str, int] | None:
        """`output` of the public engine has an envelope for http and SQL below `data`; as a whole it is the result."""
        if not path:
            return shapes.whole(place.kind, "output"), 0
        if path[0] in ("response", "body"):
            return "output.data", 1
        if path[0] not in _OUTPUT:
            return "output.data", 0
        if place.kind == "http" and path[0] == "error" and path[1:2] and path[1] in ("status", "status_code", "code"):
            return "output.http.status", 2
        if path[0] != "data" or len(path) < 2:
            return None
        if place.kind == "http" and path[1] in ("data", "status_code", "headers", "body"):
            return shapes.fields("http", "output")[path[1]], 2
        if place.kind in SQL and (path[1] in ("rows", "row_count") or path[1].startswith("command_")):
            found = shapes.read(place.kind, "output", path[1:], None)
            return found.text, found.parts + 1
        return None

    def outcome(self, place: Place, path: tuple[str, ...]) -> tuple[str, int] | None:
        """`outcome` is translated later, except where only the public engine has the part."""
        if path[:1] == ("response",):
            text, count, _ = shapes.read(place.kind, "output", path[1:], place.keys)
            return text, count + 1
        if (
            place.kind == "http"
            and path[:1] == ("error",)
            and path[1:2]
            and path[1] in ("status", "status_code", "code")
        ):
            return "output.http.status", 2
        return None

    def previous(self, place: Place, path: tuple[str, ...]) -> tuple[str, int] | None:
        kind = place.before
        if not path and place.previous and shapes.fields(kind, ""):
            return shapes.whole(kind, place.previous), 0
        if kind == "http" and path[:1] in (("data",), ("body",)):
            return "_prev", 1
        if kind in SQL and path[:1] == ("rows",):
            return "(_prev | default([], true))", 1
        if kind in SQL and path[:1] == ("row_count",):
            return "(_prev | default([], true) | length)", 1
        return None

    def own(self, place: Place, path: tuple[str, ...]) -> tuple[str, int]:
        own = place.keys is not None and path[:1] and path[0] in place.keys  # the author's own key
        if not own and (path[:1] == ("ok",) or (place.kind not in ("http", *SQL) and path[:1] == ("success",))):
            return "(output.status == 'ok')", 1
        text, count, _ = shapes.read(place.kind, "output", path, place.keys)
        return text, count

    def result(self, source: Source, place: Place | None, path: tuple[str, ...]) -> tuple[str, int] | None:
        if (of_task := self._of_task(source, path)) is not None:
            return of_task
        if place is not None and place.kind and place.step.name == source.step.name:
            if path[:1] == ("data",) and source.keys is None and not shapes.fields(source.kind, ""):
                return "(output.data.data | default(output.data))", 1
            text, count, _ = shapes.read(source.kind, "output", path, source.keys)
            return text, count
        if path[:1] == ("_ref",):
            source.ref = True
            return f"ctx.{source.name}_ref", 1
        secret = self.secret_of(source)
        if secret is not None and path[:1] in (("secret_value",), ("value",), ("data",)):
            return f"keychain.{secret}", 2 if path[:2] == ("data", "secret_value") else 1
        source.read = True
        lead, count, asked = shapes.stored(source.kind, path, source.keys)
        if asked == "":
            source.whole = True
        elif asked is not None:
            source.asked.add(asked)
        base = f"ctx.{source.name}"
        if path[:1] == ("data",) and source.keys is None and not shapes.fields(source.kind, ""):
            return f"({base}.data | default({base}))", 1
        return base + "".join(map(attribute, lead)), count

    def _of_task(self, source: Source, path: tuple[str, ...]) -> tuple[str, int] | None:
        """`step.results.task` and `step.task`: the result of one task of a pipeline, also in the step's own arcs."""
        offset = 1 if path[:1] == ("results",) else 0
        label = path[offset] if len(path) > offset else ""
        inner = next((task for task in parts.tasks(source.step.body) if task.name == label), None)
        if inner is None or source.kind == "loop" or not isinstance(source.step.body.get("tool"), List):
            return None
        source.tasks.setdefault(label, f"{source.name}_{identifier(label)}")
        read = shapes.stored(inner.kind or "", path[offset + 1 :], keys_of(inner.body))
        return f"ctx.{source.tasks[label]}" + "".join(map(attribute, read[0])), offset + 1 + read[1]

    def secret_of(self, source: Source) -> str | None:
        """The keychain entry that a `secrets` task checks: of the step, or of the block that it calls."""
        tasks = parts.tasks(source.step.body)
        if tasks and tasks[-1].kind == "workbook":
            blocks = self.book.root.map("workbook")
            block = blocks.map(tasks[-1].body.text("block") or "") if blocks is not None else None
            tasks = parts.tasks(block) if block is not None else []
        given = tasks[-1].body.map("input") if tasks and tasks[-1].kind == "secrets" else None
        return given.text("name") if given is not None else None

    def child_status(self, source: Source, place: Place) -> tuple[str, int]:
        """`status` of a child that is compared with a word of the author is part of its output."""
        if place.kind and place.step.name == source.step.name:
            return "output.data.status", 1
        source.read = True
        source.asked.add("result")
        return f"ctx.{source.name}.result.status", 1

    def shadowed(
        self, path: tuple[str, ...], place: Place, template: ParsedTemplate, reading: PathRead
    ) -> tuple[str, int]:
        """A name in `workload` that is also written: the written value, once there is one."""
        count = len(reading.parts)
        text = "".join(attribute(part) for part in path)
        if has_default(template, reading):
            return f"ctx{text}", count
        note = f"`{path[0]}` is in `workload` and written later; the written value is read once there is one"
        self.book.note(place.step.body.start, "shadowed-workload", note)
        return f"(ctx{text} | default(workload{text}))", count

    def bare(self, reading: PathRead, root: str, place: Place, template: ParsedTemplate) -> tuple[str, int] | None:
        written = self.written.get(root, set())
        if "iter" in written and place.step.body.get("loop") is not None:
            return f"iter.{root}", 0
        if "ctx" in written:
            if root in self.workload:
                return self.shadowed(reading.path, place, template, reading)
            return f"ctx.{root}", 0
        if not reading.parts and (made := self.computed(root)) is not None:
            return made, 0
        if root in self.workload:
            return f"workload.{root}", 0
        if "step" in written:
            return f"step.{root}", 0
        if root == "null":
            return "none", 0
        if root == "loop_index":
            return "iter.index", 0
        if root == "error":  # of a call of this step: there is none here, and `error is defined` is false
            return "ctx.error", 0
        if root in _ENGINE or root.startswith("_"):
            return None
        if (caller := self.caller_of(root)) is not None:
            return self.result(caller, place, reading.path[1:])
        if root not in self.optional:
            self.assumed.setdefault(root, reading.start)
            return f"workload.{root}", 0
        if root not in self.sent:
            self.sent.add(root)
            note = f'nothing provides "{root}"; it is `workload.{root}` if a caller sends it'
            self.book.note(place.step.body.start, "assumed-input", note)
        if root in optional_names(template):
            return f"workload.{root}", 0
        return f"(workload{''.join(map(attribute, reading.path))} | default(none))", len(reading.parts)


def _own_status(template: ParsedTemplate, reading: PathRead) -> bool:
    words = {token.text[1:-1].upper() for token in compared_strings(template.tokens, reading)}
    return bool(words) and not words & {"COMPLETED", "FAILED", "RUNNING", "PENDING", "CANCELLED"}


def _is_default(template: ParsedTemplate, reading: PathRead) -> bool:
    """Is it the argument of `default(…)` behind the same path of `ctx`, or does such a default follow?"""
    ahead = [token.text for token in template.tokens[max(reading.first - 2, 0) : reading.first]]
    return ahead == ["default", "("] or (reading.root == "ctx" and has_default(template, reading))


def _payloads(book: Book) -> dict[tuple[str, bool], set[str]]:
    """The keys that each step receives: its own `args`, and those of the arcs that lead to it."""
    made: dict[tuple[str, bool], set[str]] = {}
    for step in book.steps:
        own = step.body.map("args") or step.body.map("input")
        if own is not None:
            made.setdefault((step.name, False), set()).update(each.name for each in own.entries)
        for arc in parts.arcs(step.body):
            args = arc.map("args")
            if args is not None:
                made.setdefault((arc.text("step") or "", False), set()).update(each.name for each in args.entries)
    for _, task in book.tasks():
        given = task.body.map("input") if task.kind == "workbook" else None
        if given is not None:
            made.setdefault((task.body.text("block") or "", True), set()).update(each.name for each in given.entries)
    return made


def read_names(book: Book) -> None:
    """Give every name in a template its scope, and store the results that other steps read."""
    resolver = Resolver(book)
    if not book.public and not _reads_public(resolver):
        return
    book.public = True
    constants(book)
    resolver.templates = WorkloadTemplates(book)
    found = [(leaf, place) for place, node in places(book) for leaf in _templates(node)]
    resolver.optional = {name for leaf, _ in found if (parsed := parse(leaf.text)) for name in optional_names(parsed)}
    for leaf, place in found:
        _rewrite(resolver, leaf, place)
    resolver.templates.finish()
    for source in resolver.sources.values():
        store(book, source)
    assume(book, list(resolver.assumed))


def _templates(node: Node) -> list[Leaf]:
    """The templates of a part of a step; code is none."""
    skip = parts.code_of(node) if isinstance(node, Map) else None
    return [leaf for leaf in leaves(node) if leaf is not skip and leaf.style != "*" and is_template(leaf.text)]


def _reads_public(resolver: Resolver) -> bool:
    """Does a template read a step, or a name without its scope?"""
    for place, node in places(resolver.book):
        skip = parts.code_of(node) if isinstance(node, Map) else None
        for leaf in leaves(node):
            parsed = parse(leaf.text) if leaf is not skip and is_template(leaf.text) else None
            labels = {task.name for task in place.labels}
            if parsed is None:
                continue
            for reading in parsed.readings:
                if reading.root in parsed.bound or reading.root in _RESERVED or reading.root in labels:
                    continue
                known = (
                    resolver.sources.keys() | resolver.workload | resolver.written.keys() | set(place.step.iterators)
                )
                if reading.root in known or reading.root in ("job", "_loop"):
                    return True
            responses = (("output", "response"), ("outcome", "response"))
            if any(place.kind and reading.path[:2] in responses for reading in parsed.readings):
                return True
            if any(place.kind in SQL and part.startswith("command_") for read in parsed.readings for part in read.path):
                return True
            errors = [each.path[2:3] for each in parsed.readings if each.path[:2] in _ERRORS and place.kind == "http"]
            if ("status",) in errors or ("status_code",) in errors:
                return True
    return False


def places(book: Book) -> Iterator[tuple[Place, Node]]:
    """Every part of a step or block that has templates, with the meaning of names there."""
    for step in book.owners:
        tasks = parts.tasks(step.body)
        labels = tuple(task for task in tasks if task.name and isinstance(step.body.get("tool"), List))
        kind, keys = result_kind(book, step)
        after = Place(step, kind or "python", keys)
        for entry in step.body.entries:
            if entry.name in ("step", "tool", "desc"):
                continue
            if entry.name in ("loop", "args", "input", "when", "spec"):
                yield Place(step, loop=False, bound=entry.name not in ("args", "input")), entry.value
            else:
                yield after, entry.value
        before = name = ""
        names = names_of(step.body) if isinstance(step.body.get("tool"), List) else [""] * len(tasks)
        for index, task in enumerate(tasks):
            earlier = labels[:index] if labels else ()
            ahead = Place(step, before=before, previous=name, labels=earlier)
            behind = Place(step, task.kind or "python", keys_of(task.body), before, name, labels)
            for entry in task.body.entries:
                if entry.name in ("spec", "set", "eval", *parts.SETS):
                    yield behind, entry.value
                elif not (entry.name == "code" and task.kind == "python") and entry.name != "kind":
                    yield ahead, entry.value
            before, name = task.kind or "python", names[index]


def _rewrite(resolver: Resolver, leaf: Leaf, place: Place) -> None:
    parsed = parse(leaf.text)
    if parsed is None:
        resolver.book.note(leaf.start, "unread-template", "the template cannot be parsed, and has not been changed")
        return
    edits: list[TextEdit] = []
    for reading in parsed.readings:
        if reading.root in parsed.bound:
            continue
        if reading.root == "env" and reading.parts and "env" not in resolver.workload and "env" not in resolver.sources:
            name = reading.parts[0].name
            fix = f"declare {name} in `workload`, or as a keychain entry of kind `env`"
            resolver.book.refuse(
                Finder(leaf).offset(reading.start), f"`env.{name}` reads the environment of the worker", fix
            )
            continue
        if reading.root == "auth" and reading.parts and "auth" not in {*resolver.workload, *resolver.written}:
            message = f"`auth.{reading.parts[0].name}` reads a credential of the task"
            fix = "write `auth: <name>` on the task, or read `keychain.<name>`"
            resolver.book.refuse(Finder(leaf).offset(reading.start), message, fix)
            continue
        if (asked := _asked(resolver, parsed, reading, place)) is not None:
            edits.append(asked)
            continue
        found = resolver.resolve(reading, place, parsed)
        if found is not None and found[0] is not None:
            text, count = found
            end = reading.parts[count - 1].end if count else reading.start + len(reading.root)
            edits.append(TextEdit(reading.start, end, text))
    edits += _statuses(parsed, place)
    edits += _step_statuses(resolver, parsed, place)
    edits += _filters(parsed)
    if edits:
        made = replace(leaf, edits)
        leaf.raw, leaf.text, leaf.style = made.raw, made.text, made.style
        resolver.book.changed()


def _asked(resolver: Resolver, parsed: ParsedTemplate, reading: PathRead, place: Place) -> TextEdit | None:
    """`result.command_0 is defined` asks whether the statement of this step has succeeded."""
    own = reading.root in (*_OWN, place.step.name) and place.kind in SQL and resolver.book.public
    words = [token.text for token in parsed.tokens[reading.after : reading.after + 3]]
    length = 2 if words[:2] == ["is", "defined"] else 3 if words == ["is", "not", "defined"] else 0
    if not own or not length or not (reading.path[-1] == "rows" or reading.path[-1].startswith("command_")):
        return None
    sign = "==" if length == 2 else "!="
    return TextEdit(reading.start, parsed.tokens[reading.after + length - 1].end, f"(output.status {sign} 'ok')")


def _filters(parsed: ParsedTemplate) -> list[TextEdit]:
    """Filters of the public engine with another name here."""
    pairs = zip(parsed.tokens, parsed.tokens[1:], strict=False)
    return [
        TextEdit(word.start, word.end, "tojson") for bar, word in pairs if bar.text == "|" and word.text == "to_json"
    ]


def _step_statuses(resolver: Resolver, parsed: ParsedTemplate, place: Place) -> list[TextEdit]:
    """`fetch.status == 'ok'`: the status of a step is 'success' or 'error' in the shapes of its result."""
    made: list[TextEdit] = []
    for reading in parsed.readings:
        kind = resolver.sources[reading.root].kind if reading.root in resolver.sources else ""
        if kind in ("http", "shell", *SQL) and reading.path[1:] == ("status",) and reading.root not in parsed.bound:
            for token in compared_strings(parsed.tokens, reading):
                word = {"ok": "success", "completed": "success", "failed": "error"}.get(token.text[1:-1])
                if word is not None:
                    made.append(TextEdit(token.start + 1, token.end - 1, word))
    labels = {task.name for task in place.labels}
    return [] if any(reading.root in labels for reading in parsed.readings) else made


def _statuses(parsed: ParsedTemplate, place: Place) -> list[TextEdit]:
    """`output.status == 'success'` is `'ok'` in our engine."""
    made: list[TextEdit] = []
    labels = {task.name for task in place.labels}
    for reading in parsed.readings:
        if reading.path[1:] == ("status",) and (reading.root == "output" or reading.root in labels):
            for token in compared_strings(parsed.tokens, reading):
                word = {"success": "ok", "completed": "ok", "failed": "error"}.get(token.text[1:-1])
                if word is not None:
                    made.append(TextEdit(token.start + 1, token.end - 1, word))
    return made
