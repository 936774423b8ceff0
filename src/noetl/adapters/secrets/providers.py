"""All kinds of keychain entries behind one SecretProvider; every error names the entry (D57, D84)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, Protocol

from noetl.adapters.secrets.oauth import OauthTokens
from noetl.adapters.secrets.requests import Asking
from noetl.adapters.secrets.secret_managers import Aws, Google, Vault
from noetl.adapters.secrets.sources import SECRET_BYTES_MAX, SourcePolicy, Sources
from noetl.adapters.secrets.stored import StoredSecrets
from noetl.adapters.secrets.versions import Versions
from noetl.clock import Clock
from noetl.errors import Damaged, NotFound, Unavailable
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential, SecretProvider
from noetl.secret import Secret

FIELDS: Final = {
    "postgres_credential": ("dsn", "host", "port", "user", "password", "database"),
    "basic": ("user", "password"),
}


class Variables:
    """`env`: a variable of the environment, by its own name or that of the entry."""

    def __init__(self, sources: Sources, versions: Versions) -> None:
        self._sources = sources
        self._versions = versions

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:  # noqa: ARG002
        name = await self._sources.text(credential, "variable", credential.name)
        values = {"": self._sources.variable(name)}
        return FetchedCredential(values, self._versions.of(values))


class Files:
    """`file`: what stands in a file."""

    def __init__(self, sources: Sources, versions: Versions) -> None:
        self._sources = sources
        self._versions = versions

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:  # noqa: ARG002
        values = {"": await self._sources.file(await self._sources.text(credential, "path"))}
        return FetchedCredential(values, self._versions.of(values))


class Stored:
    """`stored`: a value of our own, by its key or the name of the entry."""

    def __init__(self, sources: Sources, secrets: StoredSecrets) -> None:
        self._sources = sources
        self._secrets = secrets

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:  # noqa: ARG002
        name = await self._sources.text(credential, "key", credential.name)
        value, version = await self._secrets.get(name)
        return FetchedCredential({"": value}, f"stored-{version}")


class Given:
    """`bearer`, `basic`, `postgres_credential`: values that the entry gives, or says where they are."""

    def __init__(self, sources: Sources, versions: Versions) -> None:
        self._sources = sources
        self._versions = versions

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:  # noqa: ARG002
        if credential.kind == "bearer":
            values = {"": Secret(await self._sources.text(credential, "token"))}
        else:
            values = await self._sources.fields(credential, FIELDS[credential.kind])
        lacks = _lacking(credential.kind, values)
        if lacks is not None:
            raise NotFound(f'it has no field "{lacks}"')
        return FetchedCredential(values, self._versions.of(values))


def _lacking(kind: str, values: Mapping[str, Secret]) -> str | None:
    match kind:
        case "basic":
            return next((field for field in FIELDS[kind] if field not in values), None)
        case "postgres_credential":
            return None if "dsn" in values or "host" in values else "dsn"
    return None


class _Place(Protocol):
    async def read(self, key: str, version: str | None) -> FetchedCredential: ...


class Elsewhere:
    """`secret_manager`: whoever its `provider` names."""

    def __init__(self, sources: Sources, asking: Asking, versions: Versions, clock: Clock) -> None:
        self._sources = sources
        self._versions = versions
        self._places: dict[str, _Place] = {
            "vault": Vault(sources, asking),
            "aws": Aws(sources, asking, clock.now),
            "gcp": Google(sources, asking),
        }

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:  # noqa: ARG002
        provider = await self._sources.text(credential, "provider")
        key = await self._sources.text(credential, "key", credential.name)
        if provider == "env":
            values = {"": self._sources.variable(key)}
            return FetchedCredential(values, self._versions.of(values))
        if provider not in self._places:
            raise NotFound(f'there is no provider "{provider}"')
        version = await self._sources.text(credential, "version", "") or None
        return await self._places[provider].read(key, version)


class Providers:
    """Keeps the contract of SecretProvider, for every kind that there is."""

    def __init__(
        self,
        secrets: StoredSecrets,
        clock: Clock,
        environment: Mapping[str, str] = os.environ,
        policy: SourcePolicy | None = None,
    ) -> None:
        policy = policy or SourcePolicy()
        self._asking, self._asking_for_authors = Asking(), Asking(policy.addresses)
        sources, versions = Sources(environment, policy), Versions(secrets.versions_key)
        given = Given(sources, versions)
        self._kinds: dict[str, SecretProvider] = {
            "env": Variables(sources, versions),
            "file": Files(sources, versions),
            "stored": Stored(sources, secrets),
            "secret_manager": Elsewhere(sources, self._asking, versions, clock),
            "postgres_credential": given,
            "bearer": given,
            "basic": given,
            "oauth2_client": OauthTokens(sources, self._asking_for_authors, versions, clock),
        }

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        entry = f'keychain entry "{credential.name}"'
        kind = self._kinds.get(credential.kind)
        if kind is None:
            raise NotFound(f'{entry}: there is no kind "{credential.kind}"')
        try:
            fetched = await kind.fetch(credential, fresh=fresh)
        except NotFound as error:
            raise NotFound(f"{entry}: {error}") from error
        except (Unavailable, Damaged) as error:
            raise Unavailable(f"{entry}: {error}") from error
        for secret in fetched.values.values():
            if len(secret.reveal().encode(errors="replace")) > SECRET_BYTES_MAX:
                raise Unavailable(f"{entry}: it is longer than SECRET_BYTES_MAX: {SECRET_BYTES_MAX:,} bytes")
        return fetched

    async def close(self) -> None:
        await self._asking.close()
        await self._asking_for_authors.close()
