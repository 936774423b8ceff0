"""Results of several statements of one SQL task: `command_0`, `command_1`, … (§3, §8).

A task here returns the rows of its last statement that has rows. Where more than that is read, each statement is a task
of its own, as the public engine ran it, and a last task returns all results.
"""

from __future__ import annotations

import re

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import Leaf, List, Map, item, leaves, plain, quoted
from noetl.playbook.dialects.parts import StepPart, TaskPart
from noetl.playbook.dialects.public.book import Book, new, put, text_leaf, text_of
from noetl.playbook.dialects.public.shapes import rows
from noetl.playbook.dialects.public.sql_groups import split

_KINDS = ("postgres", "snowflake")
_READ = re.compile(r"\bcommand_(\d+)\b")
_COMMENT = re.compile(r"(?s)--[^\n]*|/\*.*?\*/")
_ROWS = re.compile(r"(?i)\s*\(?\s*(?:SELECT|WITH|VALUES|TABLE|SHOW|EXPLAIN)\b")
_ALONE = re.compile(  # statements that cannot run inside a transaction with others
    r"(?i)\s*(?:(?:CREATE|DROP)\s+DATABASE|VACUUM|ALTER\s+SYSTEM|CALL|REINDEX\s+\w+\s+CONCURRENTLY"
    r"|(?:CREATE\s+(?:UNIQUE\s+)?|DROP\s+)INDEX\s+CONCURRENTLY)\b"
)
_RETURNING = re.compile(r"(?i)\bRETURNING\b")
_SESSION = re.compile(  # statements whose effect ends with the connection
    r"(?i)\s*(?:USE|SET|ALTER\s+SESSION|CREATE\s+(?:OR\s+REPLACE\s+)?(?:LOCAL\s+)?TEMP(?:ORARY)?|PREPARE|BEGIN"
    r"|START\s+TRANSACTION|DECLARE)\b"
)


def statement_results(book: Book) -> None:
    """Split a task if the results of several statements are read, or a statement needs a transaction of its own."""
    asked = {int(found[1]) for step in book.owners for leaf in leaves(step.body) for found in _READ.finditer(leaf.text)}
    for step in book.steps:
        tasks = parts.tasks(step.body)
        if len(tasks) != 1 or tasks[0].kind not in _KINDS or step.body.get("loop") is not None:
            continue
        texts = statements(tasks[0].body.text("command") or "")
        with_rows = [index for index, text in enumerate(texts) if has_rows(text)]
        several = bool(asked & set(with_rows[:-1])) and _is_read(book, step)
        limited = book.public and tasks[0].kind == "postgres" and len(texts) > 1
        alone = limited and any(_ALONE.match(_COMMENT.sub(" ", text)) for text in texts)
        if several or alone:
            _split(book, step, tasks[0], texts, several=several)


def statements(text: str) -> list[str]:
    """The statements as the public engine counts them: between semicolons, without those that are only a comment."""
    found = [each.strip() for each in split(text, ";")]
    return [each for each in found if _COMMENT.sub("", each).strip()]


def has_rows(statement: str) -> bool:
    bare = _COMMENT.sub(" ", statement)
    return _ROWS.match(bare) is not None or _RETURNING.search(bare) is not None


def last_with_rows(command: str) -> int:
    """The number of the statement whose rows the task returns."""
    found = [index for index, text in enumerate(statements(command)) if has_rows(text)]
    return found[-1] if found else 0


def _is_read(book: Book, step: StepPart) -> bool:
    """Does a template name the step, or read `command_…` behind the step itself?"""
    name = re.compile(rf"\b{re.escape(step.name)}\b")
    texts = [leaf.text for each in book.owners for leaf in leaves(each.body) if "{{" in leaf.text]
    own = [leaf.text for leaf in leaves(step.body) if "{{" in leaf.text]
    return any(name.search(text) for text in texts) or any(_READ.search(text) for text in own)


def _split(book: Book, step: StepPart, task: TaskPart, texts: list[str], *, several: bool) -> None:
    command = task.body.entry("command")
    tool = step.body.entry("tool")
    assert command is not None
    assert tool is not None
    known = ("name", "kind", "auth", "command", "desc")
    bound = any(_SESSION.match(_COMMENT.sub(" ", text)) for text in texts)  # each task has a connection of its own
    if bound or "{%" in (text_of(command.value) or "") or any(each.name not in known for each in task.body.entries):
        message = "the results of several statements of this task are read; a task returns the rows of one"
        if not several:
            message = "a statement of this task cannot run in one transaction with the others"
        book.refuse(command.start, message, "write a task for each statement")
        return
    made: list[Map] = []
    for index, text in enumerate(texts):
        body = Map(start=task.body.start)
        body.entries.append(new("name", plain(f"cmd_{index}"), command.start))
        body.entries.append(new("kind", plain(task.kind or ""), command.start))
        auth = task.body.get("auth")
        if isinstance(auth, Leaf):
            copied = Leaf(raw=auth.raw, text=auth.text, style=auth.style, start=auth.start)
            body.entries.append(new("auth", copied, command.start))
        body.entries.append(new("command", text_leaf(text), command.start))
        made.append(body)
    if several:
        made.append(_collected(texts, command.start))
    items = [item(body) for body in made]
    for each in items:
        each.start = command.start
    put(tool, List(entries=items, start=command.start))
    why = "the results of several are read" if several else "one of them cannot run in a transaction with others"
    message = f"each statement is a task and a transaction of its own, because {why}"
    book.note(command.start, "statements-split", message)


def _collected(texts: list[str], start: int) -> Map:
    """A last task that returns the results of all statements, as the public engine did."""
    last = max(index for index, text in enumerate(texts) if has_rows(text))
    body = Map(entries=[new("status", plain("success"), start)])
    for key, index in [("", last), *((f"command_{index}", index) for index in range(len(texts)))]:
        found = rows(f"cmd_{index}")
        holder = body if not key else Map(entries=[new("status", plain("success"), start)])
        holder.entries.append(new("rows", quoted(f"{{{{ {found} }}}}"), start))
        holder.entries.append(new("row_count", quoted(f"{{{{ {found} | length }}}}"), start))
        if key:
            body.entries.append(new(key, holder, start))
    return Map(
        entries=[new("name", plain("results"), start), new("kind", plain("noop"), start), new("input", body, start)],
        start=start,
    )
