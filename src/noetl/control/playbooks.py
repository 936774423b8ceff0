"""Compiled playbooks: read from the catalog, checked and compiled once for each digest."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from noetl.cache import BoundedCache
from noetl.checks.checker import Checked, check
from noetl.errors import NotFound, PlaybookError, Problem
from noetl.net.notify import notification_program, split_digest
from noetl.net.program import Program
from noetl.playbook.kinds import Kinds
from noetl.playbook.validation import ProblemReport
from noetl.ports import Catalog, PlaybookText

PROGRAMS_MAX = 1_000  # in the cache; running executions keep their own
DOCUMENT = "document"  # the file name in the positions of the problems of a playbook that a task has made
CHECKED_HERE_MAX = 16_384  # characters of a document that is checked in the event loop: about 40 ms


class PlaybookSource(Protocol):
    """The part of a catalog that a process needs to run playbooks."""

    async def get(self, digest: str) -> PlaybookText:
        """Raises NotFound."""
        ...


class CompiledPlaybooks:
    """Programs by digest, for the tools that are installed here. A worker needs no more."""

    def __init__(self, texts: PlaybookSource, kinds: Kinds) -> None:
        self._texts = texts
        self._kinds = kinds
        self._programs: BoundedCache[str, Program] = BoundedCache(PROGRAMS_MAX)
        # Those that cannot run here: their open executions ask for them in each sweep.
        self._refused: BoundedCache[str, tuple[Problem, ...]] = BoundedCache(PROGRAMS_MAX)

    async def by_digest(self, digest: str) -> Program:
        """Raises NotFound, or PlaybookError when it cannot run here."""
        program = self._programs.get(digest)
        base, index = split_digest(digest)
        if program is None and index is not None:
            return self._programs.put(digest, _notification(await self.by_digest(base), index))
        if program is None:
            if (problems := self._refused.get(digest)) is not None:
                raise PlaybookError(problems)
            text = await self._texts.get(digest)
            checked = check(text.text, self._kinds, text.origin or "playbook")
            try:
                program = self._compiled(digest, checked, checked.blocking, text.origin)
            except PlaybookError as error:
                self._refused.put(digest, error.problems)
                raise
        return program

    def compile(self, digest: str, text: str, origin: str | None, checked: Checked | None = None) -> Program:
        """`checked`: the result of an earlier check of this text. Raises PlaybookError."""
        program = self._programs.get(digest)
        if program is not None and program.folder == _folder(origin):
            return program
        checked = checked or check(text, self._kinds, origin or "playbook")
        return self._compiled(digest, checked, checked.errors, origin)

    def _compiled(self, digest: str, checked: Checked, errors: tuple[Problem, ...], origin: str | None) -> Program:
        if errors or checked.program is None:
            raise PlaybookError(errors)
        program = checked.program._replace(digest=digest, folder=_folder(origin))
        return self._programs.put(digest, program)

    async def compile_document(self, text: str, origin: str | None, caller: Program) -> Program:
        """A playbook that a task has made. Raises PlaybookError when it cannot run under its caller (D103)."""
        checked = await _in_thread(text, self._kinds)
        if problems := document_problems(checked, caller):
            raise PlaybookError(problems)
        return self.compile(digest_of(text), text, origin, checked)


class Playbooks:
    """Implements ProgramSource on a catalog."""

    def __init__(self, catalog: Catalog, kinds: Kinds, read: Callable[[Path], str] | None = None) -> None:
        """`read`: reads the file of a child beside the file of its parent; None: only the catalog is used."""
        self._compiled = CompiledPlaybooks(catalog, kinds)
        self._catalog = catalog
        self._read = read

    async def by_digest(self, digest: str) -> Program:
        """Raises NotFound, or PlaybookError when it cannot run here."""
        return await self._compiled.by_digest(digest)

    async def add(self, text: str, origin: str | None, checked: Checked | None = None, *, listed: bool = True) -> str:
        """Add a playbook that can run to the catalog, and return its digest. Raises PlaybookError.

        `checked`: the result of an earlier check of this text. `listed` False: it is not a version of its path.
        """
        digest = digest_of(text)
        program = self._compiled.compile(digest, text, origin, checked)
        await self._catalog.put(PlaybookText(digest, program.playbook.path, text, origin), listed=listed)
        return digest

    async def add_document(self, text: str, caller: str) -> Program:
        origin = (await self._catalog.get(split_digest(caller)[0])).origin
        program = await self._compiled.compile_document(text, origin, await self.by_digest(caller))
        await self._catalog.put(PlaybookText(program.digest, program.playbook.path, text, origin), listed=False)
        return program

    async def find(self, path: str, near: str | None = None, version: int | None = None) -> str:
        if version is not None:  # only the catalog has versions
            return (await self._catalog.newest(path, version)).digest
        if self._read is not None and near is not None:
            origin = (await self._catalog.get(split_digest(near)[0])).origin
            beside = Path(origin).parent / path if origin else None
            if beside is not None and beside.is_file():
                return await self.add(self._read(beside), str(beside))
        try:
            return (await self._catalog.newest(path)).digest
        except NotFound:
            raise NotFound(f'no playbook "{path}": no such file beside the caller, and none registered') from None


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def _in_thread(text: str, kinds: Kinds) -> Checked:
    """A large text would keep the event loop from all other executions for too long."""
    if len(text) <= CHECKED_HERE_MAX:
        return check(text, kinds, DOCUMENT)
    return await asyncio.to_thread(check, text, kinds, DOCUMENT)


def document_problems(checked: Checked, caller: Program) -> tuple[Problem, ...]:
    """The errors of a playbook that a task has made, and the credentials that its caller does not declare.

    Its text may come from anywhere, also from a language model: it gets no secrets but those of its caller.
    """
    report = ProblemReport(checked.document)
    known = {entry.name: entry for entry in caller.playbook.keychain}
    for entry in checked.playbook.keychain if checked.playbook is not None else ():
        theirs = known.get(entry.name)
        if theirs is None or (theirs.kind, theirs.fields) != (entry.kind, entry.fields):
            message = f'the caller does not declare the keychain entry "{entry.name}" with these values'
            report.add("unknown-credential", entry.at, message)
    return (*checked.errors, *report.problems)


def _notification(program: Program, index: int) -> Program:
    if index >= len(program.notifications):
        raise NotFound(f"{program.playbook.path} has no notification {index}")
    return notification_program(program, index)


def _folder(origin: str | None) -> str | None:
    """The folder of a playbook's file: relative paths in the playbook start there."""
    return str(Path(origin).parent) if origin else None
