"""`noetl register`: playbooks from files and folders into a catalog, all of them or none."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from noetl.cli import files, problems
from noetl.cli.answering import Voice, answered
from noetl.cli.checking import show_notes, show_problems
from noetl.cli.choices import DialectChoice, FormatChoice
from noetl.cli.contexts import server_at
from noetl.cli.exits import OK, WRONG, Usage
from noetl.cli.folders import files_in, is_playbook
from noetl.cli.loading import Loaded, Refused, installed, load
from noetl.cli.looking import opened
from noetl.errors import NotFound, Problem
from noetl.escape import visible
from noetl.net.describe import count
from noetl.output import JSON
from noetl.ports import Catalog, PlaybookText, PlaybookVersion
from noetl.runtime import open_local_store
from noetl.runtime.settings import database_path
from noetl.views.styled_text import Styled, table

State: TypeAlias = Literal["new", "known", "current again"]


class RegisterAsked(NamedTuple):
    """The arguments of `noetl register`."""

    files: tuple[str, ...]  # and folders
    db: str | None
    dialect: DialectChoice
    form: FormatChoice


class Found(NamedTuple):
    """A file, and what came of reading and checking it."""

    file: str
    loaded: Loaded | Refused

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self.loaded.checked.problems if isinstance(self.loaded, Loaded) else self.loaded.problems

    @property
    def source(self) -> str:
        """The text that the problems are about."""
        return self.loaded.checked.document.text if isinstance(self.loaded, Loaded) else self.loaded.text

    @property
    def text(self) -> PlaybookText | None:
        """What can be registered; None: it has errors."""
        if isinstance(self.loaded, Refused) or self.loaded.checked.errors:
            return None
        document, playbook = self.loaded.checked.document, self.loaded.checked.playbook
        if playbook is None:
            return None
        origin = None if self.file == files.STDIN else str(Path(self.file).absolute())
        digest = hashlib.sha256(document.text.encode()).hexdigest()
        return PlaybookText(digest, playbook.path, document.text, origin)


class Registered(NamedTuple):
    file: str
    version: PlaybookVersion
    state: State


def run_register(asked: RegisterAsked) -> int:
    return answered(asked.form, lambda voice: _register(voice, asked))


def _register(voice: Voice, asked: RegisterAsked) -> int:
    found = _read(voice, asked)
    if any(each.text is None for each in found):
        return _refuse(voice, found)
    wanted = {each.file: each.text for each in found if each.text is not None}
    _be_sure_of_paths(wanted)
    with catalog_at(asked.db, make=True) as catalog:
        done = asyncio.run(register(catalog, wanted))
    for each in found:
        warnings = sum(problem.severity == "warning" for problem in each.problems)
        if warnings:
            voice.warn(f"{count(warnings, 'warning')}; see noetl check {each.file}")
    _tell(voice, done)
    return OK


async def register(catalog: Catalog, texts: dict[str, PlaybookText]) -> list[Registered]:
    """Put them, by their files; and say what each of them is now."""
    done = []
    for file, text in texts.items():
        before = await _known(catalog, text)
        await catalog.put(text)
        after = await _known(catalog, text)
        assert after is not None
        state: State = "new" if before is None else "known" if before.current else "current again"
        done.append(Registered(file, after, state))
    return done


async def _known(catalog: Catalog, text: PlaybookText) -> PlaybookVersion | None:
    try:
        versions = await catalog.versions(text.path)
    except NotFound:
        return None
    return next((each for each in versions if each.digest == text.digest), None)


@contextmanager
def catalog_at(db: str | None, *, make: bool = False) -> Iterator[Catalog]:
    """That of a server, or of a file, which is made when that is asked for. Raises Usage: there is none."""
    if not make or server_at(db) is not None:
        with opened(db) as disk:
            yield disk.catalog
        return
    disk = open_local_store(database_path(db))
    try:
        yield disk.catalog
    finally:
        disk.close()


# What is read


def _read(voice: Voice, asked: RegisterAsked) -> list[Found]:
    """Files as they were named; of folders all that are playbooks, in the order of their names."""
    if asked.files.count(files.STDIN) > 1:
        raise Usage("standard input can be read only once")
    kinds, found = installed(), []
    for given in asked.files:
        is_folder = os.path.isdir(given)
        inside = []
        for file in files_in(given) if is_folder else [given]:
            each = Found(file, load(file, asked.dialect, kinds))
            if is_folder and not is_playbook(each.loaded):
                voice.warn(f"{file}: skipped: it is no playbook")
                continue
            inside.append(each)
        if not inside:
            raise Usage(f"{given}: there is no playbook in this folder")
        found += inside
    for each in found:
        if isinstance(each.loaded, Loaded):
            show_notes(each.loaded.notes, voice.errors)
    return found


def _be_sure_of_paths(texts: dict[str, PlaybookText]) -> None:
    """Two texts of one path in one breath: nobody could say which is meant to start now. Raises Usage."""
    seen: dict[str, tuple[str, str]] = {}
    for file, text in texts.items():
        other, digest = seen.setdefault(text.path, (file, text.digest))
        if digest != text.digest:
            raise Usage(f'{other} and {file} are different playbooks with the path "{text.path}"')


# What is said


def _refuse(voice: Voice, found: Sequence[Found]) -> int:
    for each in found:
        show_problems(each.problems, each.source, voice.errors, rich=voice.errors.colour)
    wrong = sum(each.text is None for each in found)
    message = f"nothing is registered: {count(wrong, 'playbook')} of {len(found):,} can not run"
    voice.warn(message)
    every = json.loads(problems.as_json(problem for each in found for problem in each.problems))
    error = {"kind": "problems", "message": message}
    voice.document({"execution_id": None, "status": "error", "error": error, "problems": every})
    return WRONG


def _tell(voice: Voice, done: Sequence[Registered]) -> None:
    voice.document([_document(each) for each in done])
    if not voice.json:
        rows = [
            [
                Styled(visible(each.version.path), "name"),
                Styled(f"version {each.version.version}"),
                Styled(each.state, "good" if each.state == "new" else "faint"),
            ]
            for each in done
        ]
        voice.screen.lines(table(rows, indent=""))


def _document(done: Registered) -> dict[str, JSON]:
    return {
        "file": done.file,
        "path": done.version.path,
        "version": done.version.version,
        "digest": done.version.digest,
        "created": done.state == "new",
    }
