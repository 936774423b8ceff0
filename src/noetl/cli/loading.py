"""A playbook from a file: read, upgraded when asked for, checked against the tools that are installed."""

from __future__ import annotations

from typing import NamedTuple

from noetl.cli import files
from noetl.cli.choices import DialectChoice
from noetl.errors import Mark, PlaybookError, Problem
from noetl.net.check import Checked, check
from noetl.playbook.kinds import Kinds
from noetl.tool import Tools


class Said(NamedTuple):
    """A note of a migration, about the original text."""

    at: Mark
    code: str
    message: str


class Loaded(NamedTuple):
    """`checked` is what was upgraded when that was asked for and needed."""

    checked: Checked
    notes: tuple[Said, ...] = ()


class Refused(NamedTuple):
    """It could not be upgraded; the problems are those of the original text."""

    file: str
    text: str
    problems: tuple[Problem, ...]


def installed() -> Kinds:
    return Tools.installed().kinds()


def load(file: str, dialect: DialectChoice, kinds: Kinds) -> Loaded | Refused:
    """Raises Usage when there is nothing to read."""
    source = files.read(file)
    if dialect == "canonical":
        return Loaded(check(source.data, kinds, source.name))
    try:
        text = source.data.decode("utf-8")
    except UnicodeDecodeError:
        return Loaded(check(source.data, kinds, source.name))
    from noetl.playbook.migrate import migrate

    try:
        migration = migrate(text, source.name)
    except PlaybookError as error:
        return Refused(source.name, text, error.problems)
    if not migration.changed:
        return Loaded(check(source.data, kinds, source.name))
    notes = tuple(Said(note.at, note.code, note.message) for note in migration.notes)
    return Loaded(check(migration.text, kinds, f"{source.name} (migrated)"), notes)
