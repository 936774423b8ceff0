"""What can be written at the cursor: keys, values, names of the playbook, and what templates can read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from noetl.editor.analysis import Analysis
from noetl.editor.cursor import Cursor, cursor_at
from noetl.editor.lookup import Lookup, key_text
from noetl.net.scopes import EVENT_FIELDS
from noetl.output import ERROR_FIELDS, META_FIELDS, OUTPUT_FIELDS
from noetl.playbook.kinds import Kinds
from noetl.playbook.language import REDUCERS, SCOPES
from noetl.playbook.model import END
from noetl.playbook.shapes import (
    BooleanShape,
    ChoiceShape,
    KeyShape,
    ListShape,
    MapShape,
    RecordShape,
    Shape,
)
from noetl.template.compile import FILTERS, FUNCTIONS, TESTS
from noetl.template.registry import Builtin, BuiltinTable

OptionKind: TypeAlias = Literal["key", "value", "name", "scope", "filter", "function"]

_FILTER: Final = re.compile(r"\|\s*\w*\Z")
_TEST: Final = re.compile(r"\bis\s+(?:not\s+)?\w*\Z")
_SETS: Final = ("ctx", "step", "iter", "saved")


class Option(NamedTuple):
    """One completion."""

    label: str
    kind: OptionKind
    detail: str = ""
    doc: str = ""  # Markdown
    insert: str | None = None  # None: the label


class CompletionList(NamedTuple):
    """The completions, and the word that they replace."""

    start: int
    end: int
    options: tuple[Option, ...]


def complete(text: str, offset: int, known: Analysis | None, lookup: Lookup) -> CompletionList:
    """`known` is an analysis of this text, or of the text as it was some keystrokes ago."""
    cursor = cursor_at(text, offset)
    match cursor.place:
        case "template":
            found = _in_template(cursor, known, lookup)
        case "key":
            found = [*_keys(cursor, known, lookup), *_values(cursor, known, lookup)]
        case "value":
            found = list(_values(cursor, known, lookup))
        case "text":
            found = []
    options = {each.label: each for each in found if each.label.startswith(cursor.word)}
    return CompletionList(cursor.start, cursor.end, tuple(options.values()))


def _keys(cursor: Cursor, known: Analysis | None, lookup: Lookup) -> Iterator[Option]:
    taken = cursor.keys_at(len(cursor.path)).keys() - {cursor.word}
    for name, key in lookup.keys(cursor.path, cursor).items():
        if name not in taken:
            detail = "required" if key.required else ""
            yield Option(name, "key", detail, key_text(name, key), f"{name}:{'' if _is_nested(key) else ' '}")
    if cursor.path and cursor.path[-1] in ("set", "reduce") and known is not None:
        for scope in _SETS:
            for name in known.written.get(scope, ()):
                yield Option(f"{scope}.{name}", "name", insert=f"{scope}.{name}: ")


def _is_nested(key: KeyShape) -> bool:
    return isinstance(key.shape, RecordShape | ListShape | MapShape)


def _values(cursor: Cursor, known: Analysis | None, lookup: Lookup) -> Iterator[Option]:
    for shape in lookup.shapes(cursor.path, cursor):
        yield from _of_shape(shape)
    path = cursor.path
    last = next((part for part in reversed(path) if isinstance(part, str)), "")
    if last == "kind" and (kinds := lookup.kind_shape(path[:-1], cursor)) is not None:
        yield from (Option(name, "value", doc=record.doc) for name, record in kinds.kinds.items())
    if "reduce" in path:
        yield from (Option(name, "value", "reducer") for name in REDUCERS)
    if known is None:
        return
    if (last in ("step", "to") and "arcs" in path) or last == "entry_step":
        yield from (Option(name, "name", "step") for name in (*known.steps, END))
    elif last == "to" and "then" in path:
        yield from (Option(name, "name", "task") for name in _tasks(cursor, known))
    elif last in ("auth", "auth_reference"):
        yield from (Option(name, "name", "keychain entry") for name in known.credentials)
    elif last == "block":
        yield from (Option(name, "name", "block") for name in known.blocks)


def _of_shape(shape: Shape) -> Iterator[Option]:
    if isinstance(shape, ChoiceShape):
        yield from (Option(value, "value") for value in shape.values)
    elif isinstance(shape, BooleanShape):
        yield from (Option(value, "value") for value in ("true", "false"))


def _tasks(cursor: Cursor, known: Analysis) -> list[str]:
    """The tasks of the step that the cursor is in."""
    owner = known.owner(cursor.keys_at(2).get("step", ""))
    return [task.name for task in owner.tasks] if owner is not None else []


def _in_template(cursor: Cursor, known: Analysis | None, lookup: Lookup) -> list[Option]:
    if _FILTER.search(cursor.expression):
        return list(_builtins(FILTERS, "filter"))
    if _TEST.search(cursor.expression):
        return list(_builtins(TESTS, "filter"))
    found = list(_builtins(FUNCTIONS, "function"))
    found += [Option(name, "scope", doc=doc) for name, doc in SCOPES.items()]
    found += [Option(name, "name") for name in fixed_paths(lookup.kinds)]
    if known is None:
        return found
    tasks = _tasks(cursor, known)
    own = cursor.keys_at(len(cursor.path) - 1)
    found += [Option(name, "name", "task") for name in tasks]
    found += [Option(f"{task}.{field}", "name") for task in tasks for field in OUTPUT_FIELDS]
    found += [
        Option(f"{scope}.{name}", "name", "written by set") for scope in _SETS for name in known.written.get(scope, ())
    ]
    found += [Option(f"workload.{name}", "name", "input") for name in known.workload]
    found += [Option(f"keychain.{name}", "name", "credential") for name in known.credentials]
    owner = known.owner(cursor.keys_at(2).get("step", ""))
    if owner is not None:
        found += [Option(f"iter.{loop.iterator}", "name", "loop item") for loop in owner.loops]
        inputs = [*owner.input, *(name for task in owner.tasks if task.name == own.get("name") for name in task.input)]
        found += [Option(f"input.{name}", "name", "input") for name in dict.fromkeys(inputs)]
    return found


def fixed_paths(kinds: Kinds) -> Iterable[str]:
    """The paths that scopes have in every playbook."""
    yield from (f"output.{name}" for name in OUTPUT_FIELDS)
    yield from (f"output.error.{name}" for name in ERROR_FIELDS)
    yield from (f"output.meta.{name}" for name in META_FIELDS)
    yield from (f"event.{name}" for name in EVENT_FIELDS)
    yield from ("iter.index", "iter.parent")
    for kind in kinds.values():
        for name in kind.output_fields.keys if kind.output_fields is not None else ():
            yield f"output.{kind.output}.{name}"


def _builtins(table: BuiltinTable, kind: OptionKind) -> Iterator[Option]:
    for name, entry in table.items():
        if name.isidentifier():
            yield Option(name, kind, entry.signature, builtin_text(entry))


def builtin_text(entry: Builtin) -> str:
    written, gives = entry.example
    return f"`{entry.signature}`\n\n{entry.doc}\n\n`{written}` gives `{gives}`"
