"""`noetl migrate`: old text in, canonical text out, and words about it on standard error (D79)."""

from __future__ import annotations

import difflib
import sys

from noetl.cli import files
from noetl.cli.checking import show_notes, show_problems
from noetl.cli.exits import OK, WRONG, Usage
from noetl.cli.loading import Said
from noetl.cli.screen import Screen
from noetl.errors import PlaybookError
from noetl.playbook.source import parse
from noetl.views.styled_text import Style, Styled


def run_migrate(file: str, out: str | None, *, write: bool, diff: bool, exact: bool, annotate: bool) -> int:
    if sum((out is not None, write, diff)) > 1:
        raise Usage("--output, --write and --diff exclude each other")
    if write and file == files.STDIN:
        raise Usage("--write needs a file; standard input can not be written back")
    from noetl.playbook.migrate import migrate

    source = files.read(file)
    errors = Screen(sys.stderr)
    text = _decoded(source)
    try:
        migration = migrate(text, source.name, exact=exact, annotate=annotate)
    except PlaybookError as error:
        show_problems(error.problems, text, errors, rich=errors.colour)
        return WRONG
    show_notes([Said(note.at, note.code, note.message) for note in migration.notes], errors)
    if diff:
        _show_difference(text, migration.text, source.name)
    elif not write:
        files.put(migration.text.encode("utf-8"), out)
    elif migration.changed:
        files.write(file, migration.text.encode("utf-8"))
    return OK


def _decoded(source: files.Source) -> str:
    try:
        return source.data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PlaybookError(parse(source.data, source.name).problems) from error


def _show_difference(old: str, new: str, name: str) -> None:
    styles: dict[str, Style] = {"+": "added", "-": "removed", "@": "kind"}
    screen = Screen(sys.stdout)
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), name, name, lineterm="")
    for place, line in enumerate(lines):
        screen.line(Styled(line, "strong" if place < 2 else styles.get(line[:1], "")))
