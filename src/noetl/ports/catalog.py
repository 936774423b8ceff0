"""The texts of playbooks, and their versions: what an execution pins and what starts now."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple, Protocol, TypeAlias


class PlaybookText(NamedTuple):
    """A playbook as its author wrote it; an execution pins its digest."""

    digest: str
    path: str  # metadata.path
    text: str
    origin: str | None = None  # the file it came from: what `path` of a child is relative to


class PlaybookVersion(NamedTuple):
    """One text of a path. The same text is the same version, however often it is registered."""

    path: str
    version: int  # counts the texts of a path from 1, as they came
    digest: str
    at: datetime  # when it came first
    current: bool  # what starts now under this path
    archived: bool  # of the whole path: nothing new starts


Versions: TypeAlias = list[PlaybookVersion]


class Catalog(Protocol):
    """The texts of playbooks: by digest for ever, by path for what starts now."""

    async def put(self, text: PlaybookText) -> None:
        """The same digest is the same text: putting it twice is one. It is the current one of its path.

        A path that was archived is open again.
        """
        ...

    async def get(self, digest: str) -> PlaybookText:
        """Raises NotFound."""
        ...

    async def newest(self, path: str, version: int | None = None) -> PlaybookText:
        """What was put last under a path, or a version of it. Raises NotFound, also when it is archived."""
        ...

    async def list(self, *, after: str = "", limit: int = 100, archived: bool = False) -> Versions:
        """The current version of each path behind `after`, in the order of paths."""
        ...

    async def versions(self, path: str) -> Versions:
        """All of a path, the newest first. Raises NotFound."""
        ...

    async def archive(self, path: str) -> None:
        """Nothing new starts from it; what runs goes on. Raises NotFound."""
        ...
