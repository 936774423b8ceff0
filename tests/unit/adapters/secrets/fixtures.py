"""What the tests of secrets share: providers on a file of their own, with an environment of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from noetl.adapters.secrets.providers import CredentialProviders
from noetl.adapters.secrets.sources import SourcePolicy
from noetl.adapters.secrets.stored import StoredSecrets
from noetl.adapters.sqlite.database import Database, open_sqlite
from noetl.adapters.sqlite.secrets import stored_secrets
from noetl.clock import Clock, SystemClock
from noetl.errors import NoetlError
from noetl.playbook.model import Credential


class ProviderSetup(NamedTuple):
    providers: CredentialProviders
    secrets: StoredSecrets
    database: Database

    async def values(self, credential: Credential, *, fresh: bool = False) -> dict[str, str]:
        fetched = await self.providers.fetch(credential, fresh=fresh)
        return {field: secret.reveal() for field, secret in fetched.values.items()}

    async def told(self, credential: Credential) -> str:
        """The kind and the words of the error."""
        try:
            await self.providers.fetch(credential)
        except NoetlError as error:
            return f"{type(error).__name__}: {error}"
        return "it was there"


@asynccontextmanager
async def opened(
    folder: Path,
    environment: dict[str, str] | None = None,
    clock: Clock | None = None,
    policy: SourcePolicy | None = None,
) -> AsyncIterator[ProviderSetup]:
    clock = clock or SystemClock()
    database = open_sqlite(folder / "noetl.db", clock)
    secrets = stored_secrets(database, environment or {})
    providers = CredentialProviders(secrets, clock, environment or {}, policy)
    try:
        yield ProviderSetup(providers, secrets, database)
    finally:
        await providers.close()
        database.close()


def entry(kind: str, /, **fields: Any) -> Credential:
    return Credential(name="api", kind=kind, fields=fields, at=())
