"""Playbooks from files, folders, standard input and the catalog: read, upgraded on request, and checked."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from noetl.checks.checker import Checked, check
from noetl.errors import Mark, NotFound, PlaybookError, Problem
from noetl.playbook.kinds import Kinds
from noetl.playbook.problems import with_advice
from noetl.playbook.source import TEXT_BYTES_MAX, Document, Scalar, parse
from noetl.session.errors import UsageError

if TYPE_CHECKING:
    from noetl.playbook.migrate import Migration
    from noetl.ports import Catalog, PlaybookText

Dialect: TypeAlias = Literal["canonical", "auto"]

STDIN: Final = "-"
READ_BYTES_MAX: Final = 16 * TEXT_BYTES_MAX  # more cannot be a playbook
SUFFIXES: Final = (".yaml", ".yml")
FILES_MAX: Final = 10_000  # in one folder and its subfolders
_NUMBERED: Final = re.compile(r"(.+)@([1-9][0-9]{0,17})", re.DOTALL)  # `examples/hello@2`
# How the root of a playbook identifies itself, for texts that are not valid YAML.
_MARKS: Final = re.compile(r"^(apiVersion\s*:\s*[\"']?noetl\.io/|kind\s*:\s*[\"']?Playbook\b)", re.MULTILINE)


class PlaybookFile(NamedTuple):
    """The bytes of a playbook."""

    name: str  # as messages show it
    data: bytes
    origin: str | None = None  # the absolute path of its file, whose neighbours it may call


class RegisteredPath(str):
    """The path of a registered playbook, even if a file has this name."""

    __slots__ = ()


class MigrationNote(NamedTuple):
    """A remark of the migration about the original text."""

    at: Mark
    code: str
    message: str


class LoadedPlaybook(NamedTuple):
    """A playbook that was read and checked. Without `checked` it could not be upgraded."""

    name: str
    text: str  # that the problems are about, as its author wrote it
    problems: tuple[Problem, ...]
    checked: Checked | None
    notes: tuple[MigrationNote, ...] = ()

    @property
    def canonical(self) -> str:
        """The text that runs: it differs from `text` if it was migrated."""
        return self.text if self.checked is None else self.checked.document.text

    @property
    def runnable(self) -> Checked | None:
        """What can run; None: there are errors."""
        if self.checked is None or self.checked.errors or self.checked.playbook is None:
            return None
        return self.checked

    @property
    def is_playbook(self) -> bool:
        """Whether the text claims to be a playbook; if so, its author wants to know every error."""
        document = self.checked.document if self.checked is not None else None
        if document is not None and (
            _value(document, "kind") == "Playbook" or _value(document, "apiVersion").startswith("noetl.io/")
        ):
            return True
        return _MARKS.search(self.text) is not None

    def registered_text(self, origin: str | None) -> PlaybookText | None:
        """What the catalog stores; None: there are errors."""
        from noetl.ports import PlaybookText

        checked = self.runnable
        if checked is None or checked.playbook is None:
            return None
        text = checked.document.text
        return PlaybookText(digest_of(text), checked.playbook.path, text, origin)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def read_source(file: str) -> PlaybookFile:
    """The bytes of a file, or of standard input for `-`. Raises UsageError."""
    if file == STDIN:
        if not sys.stdin:  # None when it was closed before the process started
            raise UsageError("standard input is closed")
        return PlaybookFile("<stdin>", sys.stdin.buffer.read(READ_BYTES_MAX))
    try:
        with open(file, "rb") as stream:
            return PlaybookFile(file, stream.read(READ_BYTES_MAX), os.path.abspath(file))
    except OSError as error:
        raise UsageError(f"{file}: {reason_of(error)}") from error


def find_source(playbook: str | Path | PlaybookFile) -> PlaybookFile | str:
    """The file that is meant; a text: the path of a registered playbook. An existing file wins."""
    if isinstance(playbook, PlaybookFile | RegisteredPath):
        return playbook
    if isinstance(playbook, Path) or playbook == STDIN or os.path.exists(playbook):
        return read_source(str(playbook))
    return playbook


def load(source: PlaybookFile, dialect: Dialect, kinds: Kinds) -> LoadedPlaybook:
    """Read and check it; with the dialect `auto` an older one is upgraded in memory first."""
    if dialect == "canonical":
        return _checked(source.data, source.name, kinds)
    try:
        text = source.data.decode("utf-8")
    except UnicodeDecodeError:
        return _checked(source.data, source.name, kinds)
    from noetl.playbook.migrate import migrate

    try:
        migration = migrate(text, source.name)
    except PlaybookError as error:
        return LoadedPlaybook(source.name, text, error.problems, None)
    if not migration.changed:
        return _checked(source.data, source.name, kinds)
    notes = tuple(MigrationNote(note.at, note.code, note.message) for note in migration.notes)
    made = _checked(migration.text, source.name, kinds)
    problems = tuple(in_source(problem, migration) for problem in made.problems)
    return LoadedPlaybook(source.name, text, problems, made.checked, notes)


def remaining_problems(migration: Migration, name: str, kinds: Kinds) -> list[Problem]:
    """The errors that a migrated text still has, at their places in the author's text."""
    found = check(migration.text, kinds, name)
    return [with_advice(in_source(problem, migration)) for problem in found.errors]


def in_source(problem: Problem, migration: Migration) -> Problem:
    """A problem of a migrated text, at its place in the text that the author wrote."""
    related = tuple(each._replace(at=migration.author_mark(each.at)) for each in problem.related)
    return problem._replace(at=migration.author_mark(problem.at), related=related)


def load_text(text: PlaybookText, kinds: Kinds) -> LoadedPlaybook:
    return _checked(text.text, text.path, kinds)


def _checked(text: str | bytes, name: str, kinds: Kinds) -> LoadedPlaybook:
    checked = check(text, kinds, name)
    return LoadedPlaybook(name, checked.document.text, checked.problems, checked)


def document_of(loaded: LoadedPlaybook) -> Document:
    return loaded.checked.document if loaded.checked is not None else parse(loaded.text, loaded.name).document


async def find_registered(catalog: Catalog, name: str, version: int | None = None) -> PlaybookText:
    """The playbook under `path` or `path@version`.

    Raises NotFound when it has no such version or is archived, UsageError when the path is unknown.
    """
    numbered = _NUMBERED.fullmatch(name) if version is None else None
    for path, number in ((name, version), (numbered[1], int(numbered[2])) if numbered else (name, version)):
        try:
            await catalog.versions(path)
        except NotFound:
            continue
        return await catalog.newest(path, number)
    raise unknown_playbook(name)


def unknown_playbook(name: str) -> UsageError:
    return UsageError(f"{name}: there is no such file, and no playbook is registered under this path")


def files_in(folder: str) -> list[str]:
    """All YAML files, also in subfolders; hidden ones are skipped, links to folders are not followed.

    Raises UsageError when there are too many.
    """
    names: list[str] = []
    for place, folders, inside in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        names += [
            os.path.join(place, name) for name in inside if name.lower().endswith(SUFFIXES) and not name.startswith(".")
        ]
        if len(names) > FILES_MAX:
            raise UsageError(f"{folder}: more than {FILES_MAX:,} files: name subfolders instead")
    return sorted(names)


def reason_of(error: OSError) -> str:
    """Why a file could not be read or written, for people."""
    match error:
        case FileNotFoundError():
            return "there is no such file"
        case FileExistsError():
            return "the file already exists: name another file"
        case IsADirectoryError():
            return "this is a folder, not a file"
        case PermissionError():
            return "permission denied"
    return error.strerror or str(error)


def _value(document: Document, key: str) -> str:
    found = document.find((key,))
    return found.value if isinstance(found, Scalar) and isinstance(found.value, str) else ""
