"""Compiled playbooks: read from the catalog, checked and compiled once for each digest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from noetl.cache import BoundedCache
from noetl.checks.checker import Checked, check
from noetl.errors import NotFound, PlaybookError, Problem
from noetl.net.program import Program
from noetl.playbook.kinds import Kinds
from noetl.ports import Catalog, PlaybookText

PROGRAMS_MAX = 1_000  # in the cache; running executions keep their own


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

    async def by_digest(self, digest: str) -> Program:
        """Raises NotFound, or PlaybookError when it cannot run here."""
        program = self._programs.get(digest)
        if program is None:
            text = await self._texts.get(digest)
            checked = check(text.text, self._kinds, text.origin or "playbook")
            program = self._compiled(digest, checked, checked.blocking, text.origin)
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

    async def add(self, text: str, origin: str | None, checked: Checked | None = None) -> str:
        """Add a playbook that can run to the catalog, and return its digest. Raises PlaybookError.

        `checked`: the result of an earlier check of this text.
        """
        digest = hashlib.sha256(text.encode()).hexdigest()
        program = self._compiled.compile(digest, text, origin, checked)
        await self._catalog.put(PlaybookText(digest, program.playbook.path, text, origin))
        return digest

    async def find(self, path: str, near: str | None = None, version: int | None = None) -> str:
        if version is not None:  # only the catalog has versions
            return (await self._catalog.newest(path, version)).digest
        if self._read is not None and near is not None:
            origin = (await self._catalog.get(near)).origin
            beside = Path(origin).parent / path if origin else None
            if beside is not None and beside.is_file():
                return await self.add(self._read(beside), str(beside))
        try:
            return (await self._catalog.newest(path)).digest
        except NotFound:
            raise NotFound(f'no playbook "{path}": no such file beside the caller, and none registered') from None


def _folder(origin: str | None) -> str | None:
    """The folder of a playbook's file: relative paths in the playbook start there."""
    return str(Path(origin).parent) if origin else None
