"""What the catalog shows besides versions: description, labels, credentials, the last execution, the next firing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from noetl.api.executions import ExecutionSummary
from noetl.api.playbooks import CredentialUse, CredentialUses, PlaybookOverview
from noetl.cache import BoundedCache
from noetl.errors import NotFound
from noetl.labels import declared_labels
from noetl.playbook.kinds import Kinds
from noetl.playbook.reader import read
from noetl.ports import ExecutionFilter, PlaybookVersion
from noetl.server.auth import Caller
from noetl.server.services import CpuPool, Services
from noetl.views.log import instant

OVERVIEWS_MAX: Final = 100  # of one request
SEARCHED_MAX: Final = 1_000  # playbooks that are searched for a credential
CACHED_MAX: Final = 5_000
DESCRIPTION_CHARS_MAX: Final = 500
TRIGGERS_MAX: Final = 100  # of one playbook


class DeclaredInfo(NamedTuple):
    """What a text says about itself."""

    description: str = ""
    labels: dict[str, str] = {}
    credentials: tuple[str, ...] = ()  # names of keychain entries, and the stored names that these refer to


def declared_info(text: str, kinds: Kinds) -> DeclaredInfo:
    """Of a text that cannot be read: nothing."""
    playbook = read(text, kinds).playbook
    if playbook is None:
        return DeclaredInfo()
    described = playbook.metadata.get("description")
    names = {entry.name: None for entry in playbook.keychain}
    names |= {name: None for entry in playbook.keychain if isinstance(name := entry.fields.get("name"), str)}
    return DeclaredInfo(
        description=described[:DESCRIPTION_CHARS_MAX] if isinstance(described, str) else "",
        labels=declared_labels(playbook.metadata),
        credentials=tuple(names),
    )


class PlaybookOverviews:
    """Reads overviews. What a text says is read once."""

    def __init__(self, services: Services, cpu_pool: CpuPool) -> None:
        self._services = services
        self._cpu_pool = cpu_pool
        self._infos: BoundedCache[str, DeclaredInfo] = BoundedCache(CACHED_MAX)

    async def read(self, paths: Sequence[str]) -> tuple[PlaybookOverview, ...]:
        """Unknown paths are left out."""
        found = []
        for path in dict.fromkeys(paths[:OVERVIEWS_MAX]):
            with suppress(NotFound):
                found.append(await self._overview(path))
        return tuple(found)

    async def uses(self, credential: str, caller: Caller) -> CredentialUses:
        """The current versions that name a credential, within the caller's paths."""
        versions = await self._services.catalog.list(limit=SEARCHED_MAX)
        found = [
            CredentialUse(path=each.path, version=each.version)
            for each in versions
            if caller.may("read", each.path) and credential in (await self._info(each.digest)).credentials
        ]
        return CredentialUses(items=tuple(found), complete=len(versions) < SEARCHED_MAX)

    async def _overview(self, path: str) -> PlaybookOverview:
        services = self._services
        version = _current(await services.catalog.versions(path))
        info = await self._info(version.digest)
        last = await services.listing.executions(1, ExecutionFilter(path=path))
        triggers = await services.triggers.store.list(after=(path, ""), limit=TRIGGERS_MAX)
        due = [each.due_at for each in triggers if each.path == path and not each.paused and each.due_at is not None]
        return PlaybookOverview(
            path=path,
            description=info.description,
            labels=info.labels,
            credentials=info.credentials,
            last=ExecutionSummary.from_head(last[0]) if last else None,
            next_at=instant(min(due)) if due else None,
        )

    async def _info(self, digest: str) -> DeclaredInfo:
        known = self._infos.peek(digest)
        if known is None:
            text = (await self._services.catalog.get(digest)).text
            known = self._infos.put(digest, await self._cpu_pool.run(declared_info, text, self._services.kinds))
        return known


def _current(versions: Sequence[PlaybookVersion]) -> PlaybookVersion:
    return next(each for each in versions if each.current)
