"""The playbooks of a replayed execution: files, the files beside them, and registered texts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from noetl.checks.checker import Checked, check
from noetl.control.playbooks import digest_of, document_problems
from noetl.control.refusals import path_in
from noetl.errors import NotFound, PlaybookError
from noetl.net.program import CompiledTask, Program
from noetl.playbook.kinds import Kinds
from noetl.playbook.model import SAFE, Credential
from noetl.playbook.source import TEXT_BYTES_MAX, parse
from noetl.ports import FetchedCredential, PlaybookText, SecretProvider
from noetl.secret import Secret
from noetl.worker.keychain import KNOWN_FIELDS

SUFFIXES: Final = (".yaml", ".yml")
FILES_MAX: Final = 1_000  # of a folder that are searched for the path of a child


class CompiledText(NamedTuple):
    """A playbook that runs here, with its positions."""

    checked: Checked
    program: Program


class ReplayPrograms:
    """Compiled once for all executions that share it. Implements ProgramSource."""

    def __init__(self, kinds: Kinds, credentials: SecretProvider | None = None) -> None:
        """`credentials`: of tasks that may be called (`spec.safe`); None: there are only placeholders."""
        self._kinds = kinds
        self._credentials = credentials
        self._safe: set[str] = set()  # keychain entries of tasks that may be called
        self._texts: dict[str, CompiledText] = {}  # by digest
        self._registered: dict[str, str] = {}  # path → digest
        self._owners: dict[int, str] = {}  # id of a model.Task → the step or block that has it
        self._fields: dict[str, set[str]] = {}  # keychain entry → the fields that templates read
        self._folders: dict[str, dict[str, Path]] = {}  # folder → path of a playbook → its file

    def add(self, text: str | bytes, file: str, folder: str | None = None, *, lenient: bool = False) -> CompiledText:
        """Check and compile a text. Raises PlaybookError. `lenient`: an earlier release may have accepted it."""
        checked = check(text, self._kinds, file)
        errors = checked.blocking if lenient else checked.errors
        if errors or checked.program is None:
            raise PlaybookError(checked.problems)
        return self._put(checked, checked.program._replace(digest=digest_of(checked.document.text), folder=folder))

    def add_file(self, file: Path) -> CompiledText:
        """Raises PlaybookError, or OSError when it cannot be read."""
        with file.open("rb") as stream:
            return self.add(stream.read(TEXT_BYTES_MAX + 1), str(file), str(file.absolute().parent))

    def register(self, found: PlaybookText, called_as: str | None = None) -> CompiledText:
        """A text of the catalog: children find it by its path, or as their callers do. Raises PlaybookError."""
        folder = str(Path(found.origin).parent) if found.origin else None
        compiled = self._texts.get(found.digest) or self.add(found.text, found.path, folder, lenient=True)
        self._registered |= {path: found.digest for path in (found.path, called_as) if path is not None}
        return compiled

    def _put(self, checked: Checked, program: Program) -> CompiledText:
        compiled = self._texts[program.digest] = CompiledText(checked, program)
        for pipeline in program.playbook.pipelines:
            self._owners.update((id(task), pipeline.name) for task in pipeline.tasks)
        for use in program.templates:
            for read in use.template.reads:
                if read.path[0] == "keychain" and len(read.path) > 2:
                    self._fields.setdefault(str(read.path[1]), set()).add(str(read.path[2]))
        for compiled_pipeline in program.pipelines:
            for task in compiled_pipeline.source_tasks:
                self._safe |= _entries_of(task) if task.spec.get(SAFE) is True else set()
        return compiled

    def has_credentials(self, task: CompiledTask) -> bool:
        """Are its credentials here, or does it need none?"""
        return self._credentials is not None or not _entries_of(task)

    def owner_of(self, task: object) -> str:
        """The step or block of a model.Task."""
        return self._owners.get(id(task), "")

    def texts(self) -> Mapping[str, CompiledText]:
        return self._texts

    # The protocol ProgramSource

    async def by_digest(self, digest: str) -> Program:
        if digest not in self._texts:
            raise NotFound(f"no playbook with the digest {digest}")
        return self._texts[digest].program

    async def add_document(self, text: str, caller: str) -> Program:
        checked = check(text, self._kinds, "document")
        if problems := document_problems(checked, await self.by_digest(caller)):
            raise PlaybookError(problems)
        assert checked.program is not None
        return self._put(checked, checked.program._replace(digest=digest_of(text))).program

    async def find(self, path: str, near: str | None = None, version: int | None = None) -> str:
        del version  # a test has the current text only
        folder = (await self.by_digest(near)).folder if near is not None else None
        if folder is not None and (file := self.beside(Path(folder), path)) is not None:
            return self.add_file(file).program.digest
        if path in self._registered:
            return self._registered[path]
        raise NotFound(f'no playbook "{path}": no such file beside the caller, and none registered')

    def beside(self, folder: Path, path: str) -> Path | None:
        """The file of this name, or the file in the folder whose `metadata.path` it is."""
        if (file := folder / path).is_file():
            return file
        if str(folder) not in self._folders:
            files = [each for each in sorted(folder.iterdir()) if each.suffix in SUFFIXES and each.is_file()]
            known = self._folders[str(folder)] = {}
            for each in files[:FILES_MAX]:
                if each.stat().st_size <= TEXT_BYTES_MAX and (found := path_in(parse(each.read_bytes()).document)):
                    known.setdefault(found, each)
        return self._folders[str(folder)].get(path)

    # The protocol SecretProvider

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        """Placeholders, except for tasks that may be called."""
        if self._credentials is not None and credential.name in self._safe:
            return await self._credentials.fetch(credential, fresh=fresh)
        fields = self._fields.get(credential.name, set())
        fields = fields | set(KNOWN_FIELDS.get(credential.kind, ()))
        values = {field: Secret(f"placeholder-{credential.name}-{field}") for field in sorted(fields)}
        return FetchedCredential(values or {"": Secret(f"placeholder-{credential.name}")}, "placeholder")


def _entries_of(task: CompiledTask) -> set[str]:
    """The keychain entries that it uses."""
    reads = (read.path for value in (task.fields, task.input) for read in value.reads)
    found = {str(path[1]) for path in reads if path[0] == "keychain" and len(path) > 1}
    return found if task.auth is None else found | {task.auth}
