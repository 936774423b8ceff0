"""A playbook from a file or the catalog: read, upgraded when asked for, checked against the tools of here."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from noetl.check.checker import Checked, check
from noetl.cli import files
from noetl.cli.choices import DialectChoice
from noetl.cli.exits import Usage
from noetl.errors import Mark, NotFound, PlaybookError, Problem
from noetl.playbook.kinds import Kinds
from noetl.tool import Tools

if TYPE_CHECKING:
    from noetl.ports import Catalog, PlaybookText

_NUMBERED = re.compile(r"(.+)@([1-9][0-9]{0,17})", re.DOTALL)  # `examples/hello@2`


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


def means_file(given: str) -> bool:
    """A file wins over a playbook that is registered under the same name."""
    return given == files.STDIN or os.path.exists(given)


def registered(given: str, db: str | None) -> PlaybookText | None:
    """What is registered under `path` or `path@version`, where no such file is; None: a file is meant.

    Raises NotFound when it has no such version or is archived, and Usage when it is neither of them.
    """
    if means_file(given):
        return None
    import asyncio  # a check of a file need not wait for these

    from noetl.runtime import open_local_store
    from noetl.runtime.settings import database_path

    place = database_path(db)
    if not place.exists():
        raise _neither(given)
    disk = open_local_store(place)
    try:
        return asyncio.run(found_in(disk.catalog, given))
    finally:
        disk.close()


async def found_in(catalog: Catalog, given: str) -> PlaybookText:
    """The same, of any catalog."""
    numbered = _NUMBERED.fullmatch(given)
    for path, version in ((given, None), (numbered[1], int(numbered[2])) if numbered else (given, None)):
        try:
            await catalog.versions(path)
        except NotFound:
            continue
        return await catalog.newest(path, version)
    raise _neither(given)


def _neither(given: str) -> Usage:
    return Usage(f"{given}: there is no such file, and no playbook is registered under this path")
