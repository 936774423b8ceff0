"""Compiled playbooks in memory: the ProgramSource of the in-memory runtime and of the simulator."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.check.checker import check
from noetl.errors import NotFound, PlaybookError
from noetl.net.program import Program
from noetl.playbook.kinds import Kinds


class MemoryPrograms:
    """Playbooks by path. The digest of a playbook is its path, so that logs are easy to read."""

    def __init__(self, texts: Mapping[str, str], kinds: Kinds) -> None:
        self.programs: dict[str, Program] = {}
        self._kinds = kinds
        for path, text in texts.items():
            self.add(text, path)

    def add(self, text: str, path: str | None = None) -> str:
        """Check and compile a playbook, and return its path. Raises PlaybookError.

        `path` None: the path in the metadata of the playbook.
        """
        checked = check(text, self._kinds, path or "<playbook>")
        if checked.errors or checked.program is None:
            raise PlaybookError(checked.errors)
        path = path or checked.program.playbook.path
        self.programs[path] = checked.program._replace(digest=path)
        return path

    async def by_digest(self, digest: str) -> Program:
        return self.programs[await self.find(digest)]

    async def find(self, path: str, near: str | None = None, version: int | None = None) -> str:
        del near, version
        if path not in self.programs:
            raise NotFound(f'no playbook "{path}"')
        return path
