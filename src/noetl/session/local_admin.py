"""Administration of a database file: API tokens, secrets and saved values. The audit trail records changes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from noetl.clock import Clock
from noetl.errors import NotFound
from noetl.session.protocol import NewToken

if TYPE_CHECKING:
    from noetl.ports import (
        ApiToken,
        ApiTokenStore,
        AuditStore,
        AuditTrailEntry,
        RoleGrant,
        SavedStore,
        SavedValue,
        SecretInfo,
    )
    from noetl.session.protocol import SecretAdmin


class StoredTokens:
    """API tokens in a database of ours. The audit trail records changes under the name of the local user."""

    def __init__(self, tokens: ApiTokenStore, clock: Clock, audit: AuditStore) -> None:
        self._tokens = tokens
        self._clock = clock
        self._audit = audit

    async def create(
        self, name: str, scopes: frozenset[str], lasts_s: float | None, roles: Sequence[RoleGrant] = ()
    ) -> NewToken:
        from noetl.control.api_tokens import digest_of, new_token, rights_of

        expires_at = None if lasts_s is None else self._clock.now() + timedelta(seconds=lasts_s)
        token, text = new_token(name, scopes, expires_at, self._clock, os.urandom, roles=roles)
        await self._tokens.add(token, digest_of(text))
        await self._audit.add(
            [local_entry(self._clock, "token", "create", token.id, f"{token.name}: {rights_of(token)}")]
        )
        return NewToken(token, text)

    async def list(self) -> list[ApiToken]:
        return await self._tokens.list()

    async def remove(self, id: str) -> None:
        await self._tokens.remove(id)
        await self._audit.add([local_entry(self._clock, "token", "revoke", id)])


class AuditedSecrets:
    """Stored secrets in a database of ours. The audit trail records changes, without values."""

    def __init__(self, secrets: SecretAdmin, clock: Clock, audit: AuditStore) -> None:
        self._secrets = secrets
        self._clock = clock
        self._audit = audit

    async def set(self, name: str, value: str) -> int:
        version = await self._secrets.set(name, value)
        await self._audit.add([local_entry(self._clock, "secret", "set", name, f"version {version}")])
        return version

    async def remove(self, name: str) -> None:
        await self._secrets.remove(name)
        await self._audit.add([local_entry(self._clock, "secret", "remove", name)])

    async def rotate(self) -> int:
        count = await self._secrets.rotate()
        await self._audit.add([local_entry(self._clock, "secret", "rotate", "", f"{count} secrets")])
        return count

    async def list(self) -> Sequence[SecretInfo]:
        return await self._secrets.list()


class AuditedSaved:
    """Saved values in a database of ours. The audit trail records changes, without values."""

    def __init__(self, saved: SavedStore, clock: Clock, audit: AuditStore) -> None:
        self._saved = saved
        self._clock = clock
        self._audit = audit

    async def current(self, path: str) -> list[SavedValue]:
        return await self._saved.current(path)

    async def history(self, path: str, key: str) -> list[SavedValue]:
        return await self._saved.history(path, key)

    async def put(self, path: str, value: SavedValue) -> None:
        """Raises Rejected, or NotFound when there is nothing to remove."""
        from noetl.control.saved import check_saved

        if value.removed:
            if all(each.key != value.key for each in await self._saved.current(path)):
                raise NotFound(f'"{path}" has no saved value "{value.key}"')
        else:
            check_saved(value.key, value.value)
        entry = local_entry(self._clock, "saved", "unset" if value.removed else "set", path, value.key)
        await self._saved.put(path, value._replace(at=entry.at, execution_id=None, by=entry.who))
        await self._audit.add([entry])


def local_user() -> str:
    """Who gives commands on this machine."""
    import getpass

    try:
        return f"local user {getpass.getuser()}"
    except (KeyError, OSError):  # a container may have no name for its user
        return f"local user {os.getuid()}"


def local_entry(clock: Clock, action: str, what: str, target: str, detail: str = "") -> AuditTrailEntry:
    """An entry about a command on this machine that used the database itself."""
    from noetl.ports import AuditTrailEntry

    return AuditTrailEntry(clock.now(), action, what, target, local_user(), "local", "", detail)
