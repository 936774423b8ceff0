"""What a verb needs: a session, the installed tools, and what its caller may do."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from noetl.checks.checker import Checked, check
from noetl.errors import PlaybookError
from noetl.mcp.trials import ServerTrials
from noetl.output import JSON
from noetl.playbook.kinds import Kinds
from noetl.replay.suite import SUITE
from noetl.session.errors import UsageError
from noetl.session.protocol import Session
from noetl.session.sources import STDIN, PlaybookFile, RegisteredPath, find_registered, find_source
from noetl.tool import Tools
from noetl.views.language_topics import language_topics

TEXT_NAME: Final = "playbook"  # the file in the positions of problems of a text


class Installed(NamedTuple):
    """The tools of this environment."""

    tools: Tools
    kinds: Kinds
    topics: dict[str, str]  # of the language


@cache
def installed() -> Installed:
    tools = Tools.installed()
    kinds = tools.kinds()
    return Installed(tools, kinds, language_topics(kinds, {"tests": SUITE}))


class VerbContext(NamedTuple):
    """One caller's view of a deployment."""

    session: Session
    installed: Installed
    files: bool = False  # paths may name files of this machine, too
    read_only: bool = False  # verbs with an effect are switched off
    # Other requests share this event loop: verbs that read run in threads, so many at a time. None: they run here.
    threads: asyncio.Semaphore | None = None
    trials: ServerTrials | None = None  # None: tests and what-ifs run in this process

    @property
    def kinds(self) -> Kinds:
        return self.installed.kinds

    def source(self, path: str | None, text: str | None) -> PlaybookFile | str:
        """The playbook that a caller names. Raises UsageError."""
        if (path is None) == (text is None):
            raise UsageError("give either `text`, the playbook itself, or `path`, under which it is registered")
        if text is not None:
            return PlaybookFile(TEXT_NAME, text.encode())
        assert path is not None
        return self.named(path)

    def named(self, path: str) -> PlaybookFile | str:
        """A file of this machine if that is allowed, else the path of a registered playbook. Raises UsageError."""
        if self.files and path != STDIN:  # standard input belongs to the protocol
            return find_source(path)
        return RegisteredPath(path)

    async def checked(self, path: str | None, text: str | None) -> Checked:
        """Raises PlaybookError when the text is not even a mapping."""
        source = self.source(path, text)
        if isinstance(source, PlaybookFile):
            name, data = source.name, source.data
        else:
            found = await find_registered(self.session.catalog, source)
            name, data = found.path, found.text.encode()
        checked = await asyncio.to_thread(check, data, self.kinds, name)
        if checked.program is None:
            raise PlaybookError(checked.problems)
        return checked

    async def require_runnable(self, source: PlaybookFile | str) -> None:
        """Raises PlaybookError when the playbook has errors: then nothing of it may be stored."""
        problems = await self.session.check(source)
        if any(each.severity == "error" for each in problems):
            raise PlaybookError(problems)


Answer: TypeAlias = dict[str, JSON]
