"""The fields of a database connection on a task: `db_host`, `db_user`, `db_password` (§10)."""

from __future__ import annotations

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import LayoutEntry, Map
from noetl.playbook.dialects.parts import TaskPart
from noetl.playbook.dialects.public.book import Book, discard, insert, new, scalar, text_of
from noetl.playbook.dialects.public.credentials import declare

_FIELDS = frozenset({"db_host", "db_port", "db_user", "db_password", "db_name", "db_conn_string", "connection_string"})
_ADDRESS = ("db_host", "db_conn_string", "connection_string")


def connection_fields(book: Book) -> None:
    """The connection is a credential: the fields of a task, or of the call of a block, are not copied to the text."""
    names: dict[tuple[str, ...], str] = {}
    for _, task in book.tasks():
        targets = [each for each in _targets(book, task) if each.body.get("auth") is None]
        found = [pair for pair in _fields(task) if targets]
        if not any(entry.name in _ADDRESS for _, entry in found):
            continue
        values = tuple(sorted(f"{entry.name}={text_of(entry.value)}" for _, entry in found))
        name = names.setdefault(values, f"postgres_connection{f'_{len(names) + 1}' if names else ''}")
        start = found[0][1].start
        for holder, entry in found:
            discard(holder, entry)
        inputs = task.body.entry("input")
        if inputs is not None and isinstance(inputs.value, Map) and not inputs.value.entries:
            discard(task.body, inputs)
        for target in targets:
            insert(target.body, new("auth", scalar(name), start), after=("name", "kind"))
        declare(book, name, start)
        words = f"store its connection string with `noetl secrets set {name}`"
        book.note(start, "auth-fixed", f'the fields of the connection are now the credential "{name}"; {words}')


def _targets(book: Book, task: TaskPart) -> list[TaskPart]:
    """The tasks that connect: the task itself, or those of the block that it calls."""
    if task.kind == "postgres":
        return [task]
    blocks = book.root.map("workbook") if task.kind == "workbook" else None
    block = blocks.map(task.body.text("block") or "") if blocks is not None else None
    return [each for each in parts.tasks(block) if each.kind == "postgres"] if block is not None else []


def _fields(task: TaskPart) -> list[tuple[Map, LayoutEntry]]:
    holders = [each for each in (task.body, task.body.map("input")) if each is not None]
    return [(holder, entry) for holder in holders for entry in holder.entries if entry.name in _FIELDS]
