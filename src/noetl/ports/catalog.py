"""Playbook texts and their versions."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple, Protocol, TypeAlias


class PlaybookText(NamedTuple):
    """A playbook as its author wrote it. An execution refers to it by digest."""

    digest: str
    path: str  # metadata.path
    text: str
    origin: str | None = None  # the file it was read from; the `path` of a child is relative to it


class PlaybookVersion(NamedTuple):
    """One text of a path. The same text is the same version, however often it is registered."""

    path: str
    version: int  # numbers the texts of a path from 1, in the order of their first registration
    digest: str
    at: datetime  # of the first registration
    current: bool  # whether new executions of this path use it
    archived: bool  # of the whole path: no new execution starts from it


Versions: TypeAlias = list[PlaybookVersion]


class Catalog(Protocol):
    """The registered playbooks. A text stays available by its digest forever.

    A committed text survives a crash. Reads see all writes that were committed before. Every method raises
    Unavailable if the store does not answer; a write may have happened then, and may be repeated.
    """

    async def put(self, text: PlaybookText) -> None:
        """Register a text and make it the current version of its path.

        A known digest becomes current again and keeps its version number. An archived path is reopened.
        Raises Rejected if the path or the text cannot be stored.
        """
        ...

    async def get(self, digest: str) -> PlaybookText:
        """Raises NotFound."""
        ...

    async def newest(self, path: str, version: int | None = None) -> PlaybookText:
        """The current text of a path, or one of its versions. Raises NotFound, also for an archived path."""
        ...

    async def list(self, *, after: str = "", limit: int = 100, archived: bool = False) -> Versions:
        """The current version of each path greater than `after`, ordered by path."""
        ...

    async def versions(self, path: str) -> Versions:
        """All versions of a path, the newest first. Raises NotFound."""
        ...

    async def archive(self, path: str) -> None:
        """Prevent new executions of a path. Running ones continue. Raises NotFound."""
        ...
