"""The registered playbooks: listed, read, compared, registered and archived, over any Catalog."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from noetl.errors import NotFound
from noetl.ports import Catalog, PlaybookText, PlaybookVersion
from noetl.session.errors import UsageError

PAGE: Final = 100
Change: TypeAlias = Literal["new", "known", "current again"]
Versions: TypeAlias = list[PlaybookVersion]  # in a class that has a method `list`


class Registration(NamedTuple):
    """A playbook that was registered, and whether its text is a new version."""

    name: str  # of its file
    version: PlaybookVersion
    change: Change
    libs: tuple[str, ...] = ()  # the modules beside the file that were added to the text


class VersionDiff(NamedTuple):
    """The difference between two versions in the form of `diff -u`; empty when there is none."""

    path: str
    old: int
    new: int
    diff: str


class PlaybookCatalog:
    """The verbs on registered playbooks."""

    def __init__(
        self,
        catalog: Callable[[], Catalog],
        declare: Callable[[str], Awaitable[None]] | None = None,
        to_send: Callable[[PlaybookText], tuple[PlaybookText, tuple[str, ...]]] | None = None,
    ) -> None:
        """`declare`: called with the digest of each text that is registered. None: the server does what is needed.

        `to_send`: adds the modules that the playbook imports. None: it finds them beside its file.
        """
        self._catalog = catalog  # called at each use: a file is opened late
        self._declare = declare
        self._to_send = to_send

    async def list(self, *, limit: int = 1_000, archived: bool = False) -> Versions:
        """The current version of each path, by path."""
        found: Versions = []
        while len(found) < limit:
            size = min(PAGE, limit - len(found))
            after = found[-1].path if found else ""
            page = await self._catalog().list(after=after, limit=size, archived=archived)
            found += page
            if len(page) < size:
                break
        return found

    async def versions(self, path: str) -> Versions:
        """The newest first. Raises NotFound."""
        return await self._catalog().versions(path)

    async def text(self, path: str, version: int | None = None) -> tuple[PlaybookVersion, str]:
        """The text of a version, by default the current one; also of an archived playbook."""
        found = _choose(await self.versions(path), version)
        return found, (await self._catalog().get(found.digest)).text

    async def diff(self, path: str, old: int | None = None, new: int | None = None) -> VersionDiff:
        """By default between the current version and the one before it."""
        versions = await self.versions(path)
        later = _choose(versions, new)
        if old is None and later.version == 1:
            reason = "it is the only version" if len(versions) == 1 else "name another version with --from"
            raise UsageError(f'"{path}" has no version before version 1: {reason}')
        earlier = _choose(versions, later.version - 1 if old is None else old)
        catalog = self._catalog()
        before, after = [(await catalog.get(each.digest)).text.splitlines() for each in (earlier, later)]
        names = f"{path}@{earlier.version}", f"{path}@{later.version}"
        from difflib import unified_diff

        lines = unified_diff(before, after, names[0], names[1], lineterm="")
        return VersionDiff(path, earlier.version, later.version, "".join(f"{line}\n" for line in lines))

    async def archive(self, path: str) -> None:
        """Raises NotFound."""
        await self._catalog().archive(path)

    async def register(self, texts: Mapping[str, PlaybookText]) -> Sequence[Registration]:
        """Store them, by the names of their files. Raises UsageError when two differ and share a path."""
        seen: dict[str, tuple[str, str]] = {}
        sent = {name: (text, ()) if self._to_send is None else self._to_send(text) for name, text in texts.items()}
        for name, (text, _) in sent.items():
            other, digest = seen.setdefault(text.path, (name, text.digest))
            if digest != text.digest:
                raise UsageError(f'{other} and {name} are different playbooks with the path "{text.path}"')
        return [await self._register(name, *each) for name, each in sent.items()]

    async def _register(self, name: str, text: PlaybookText, libs: tuple[str, ...]) -> Registration:
        before = await self._known(text)
        await self._catalog().put(text)
        if self._declare is not None:
            await self._declare(text.digest)
        after = await self._known(text)
        assert after is not None, "it was just registered"
        change: Change = "new" if before is None else "known" if before.current else "current again"
        return Registration(name, after, change, libs)

    async def _known(self, text: PlaybookText) -> PlaybookVersion | None:
        try:
            versions = await self.versions(text.path)
        except NotFound:
            return None
        return next((each for each in versions if each.digest == text.digest), None)


def _choose(versions: Sequence[PlaybookVersion], number: int | None) -> PlaybookVersion:
    """None: the current one. Raises NotFound."""
    for each in versions:
        if each.current if number is None else each.version == number:
            return each
    highest = max(each.version for each in versions)
    raise NotFound(f'"{versions[0].path}" has no version {number}: its versions are 1 to {highest}')
