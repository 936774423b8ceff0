"""Compiled playbooks: read from the catalog, checked and compiled once for each digest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from noetl.check.checker import Checked, check
from noetl.errors import NotFound, PlaybookError
from noetl.net.program import Program
from noetl.playbook.kinds import Kinds
from noetl.ports import Catalog, PlaybookText

PROGRAMS_MAX = 1_000  # that are kept; what runs has its own


class PlaybookSource(Protocol):
    """The part of a catalog that whoever runs playbooks needs."""

    async def get(self, digest: str) -> PlaybookText:
        """Raises NotFound."""
        ...


class Compiled:
    """Playbooks by digest, for the tools that are installed here: all that a worker needs."""

    def __init__(self, texts: PlaybookSource, kinds: Kinds) -> None:
        self._texts = texts
        self._kinds = kinds
        self._programs: dict[str, Program] = {}

    async def by_digest(self, digest: str) -> Program:
        """Raises NotFound, or PlaybookError when it can not run here."""
        if digest not in self._programs:
            text = await self._texts.get(digest)
            return self._compile(digest, text.text, text.origin)
        return self._programs[digest]

    def _compile(self, digest: str, text: str, origin: str | None, checked: Checked | None = None) -> Program:
        checked = checked or check(text, self._kinds, origin or "playbook")
        if checked.errors or checked.program is None:
            raise PlaybookError(checked.errors)
        while len(self._programs) >= PROGRAMS_MAX:
            del self._programs[next(iter(self._programs))]
        made = self._programs[digest] = checked.program._replace(digest=digest, folder=_folder(origin))
        return made


class Playbooks(Compiled):
    """Keeps the contract of Programs."""

    def __init__(self, catalog: Catalog, kinds: Kinds, read: Callable[[Path], str] | None = None) -> None:
        """`read`: how a child's file is read that lies beside its caller's; None: only the catalog counts."""
        super().__init__(catalog, kinds)
        self._catalog = catalog
        self._read = read

    async def add(self, text: str, origin: str | None, checked: Checked | None = None) -> str:
        """Into the catalog with it, when it can run: its digest. Raises PlaybookError.

        `checked`: what a check of this text has found, by whoever needed that first.
        """
        digest = hashlib.sha256(text.encode()).hexdigest()
        program = self._programs.get(digest)
        if program is None or program.folder != _folder(origin):
            program = self._compile(digest, text, origin, checked)
        await self._catalog.put(PlaybookText(digest, program.playbook.path, text, origin))
        return digest

    async def find(self, path: str, near: str | None = None, version: int | None = None) -> str:
        if version is not None:  # of the catalog: files have none
            return (await self._catalog.newest(path, version)).digest
        if self._read is not None and near is not None:
            origin = (await self._catalog.get(near)).origin
            beside = Path(origin).parent / path if origin else None
            if beside is not None and beside.is_file():
                return await self.add(self._read(beside), str(beside))
        try:
            return (await self._catalog.newest(path)).digest
        except NotFound:
            raise NotFound(f'no playbook "{path}": neither a file beside its caller nor registered') from None


def _folder(origin: str | None) -> str | None:
    """Where a playbook's file lies: what it names without a folder lies there, too."""
    return str(Path(origin).parent) if origin else None
