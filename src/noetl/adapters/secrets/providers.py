"""One `SecretProvider` for all kinds of keychain entries. Every error names the entry (D57, D84)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, Protocol

from noetl.adapters.secrets.services import Aws, Google, OauthTokens, SecretServiceClient, Vault
from noetl.adapters.secrets.sources import SECRET_BYTES_MAX, SourcePolicy, Sources, ValueVersions
from noetl.adapters.secrets.stored import StoredSecrets
from noetl.clock import Clock
from noetl.errors import Damaged, NotFound, Unavailable
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential, SecretProvider
from noetl.secret import Secret

FIELDS: Final = {
    "postgres_credential": ("dsn", "host", "port", "user", "password", "database"),
    "basic": ("user", "password"),
}


class EnvironmentProvider:
    """`env`: an environment variable, by default with the name of the entry."""

    def __init__(self, sources: Sources, versions: ValueVersions) -> None:
        self._sources = sources
        self._versions = versions

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:  # noqa: ARG002
        name = await self._sources.text(credential, "variable", credential.name)
        values = {"": self._sources.variable(name)}
        return FetchedCredential(values, self._versions.of(values))


class FileProvider:
    """`file`: the content of a file."""

    def __init__(self, sources: Sources, versions: ValueVersions) -> None:
        self._sources = sources
        self._versions = versions

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:  # noqa: ARG002
        values = {"": await self._sources.file(await self._sources.text(credential, "path"))}
        return FetchedCredential(values, self._versions.of(values))


class StoredProvider:
    """`stored`: a secret that NoETL stores, by default with the name of the entry."""

    def __init__(self, sources: Sources, secrets: StoredSecrets) -> None:
        self._sources = sources
        self._secrets = secrets

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:  # noqa: ARG002
        name = await self._sources.text(credential, "key", credential.name)
        value, version = await self._secrets.get(name)
        return FetchedCredential({"": value}, f"stored-{version}")


class InlineProvider:
    """`bearer`, `basic`, `postgres_credential`: values in the fields of the entry, or references to them."""

    def __init__(self, sources: Sources, versions: ValueVersions) -> None:
        self._sources = sources
        self._versions = versions

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:  # noqa: ARG002
        if credential.kind == "bearer":
            values = {"": Secret(await self._sources.text(credential, "token"))}
        else:
            values = await self._sources.fields(credential, FIELDS[credential.kind])
        missing = _missing(credential.kind, values)
        if missing is not None:
            raise NotFound(f'it has no field "{missing}"')
        return FetchedCredential(values, self._versions.of(values))


def _missing(kind: str, values: Mapping[str, Secret]) -> str | None:
    match kind:
        case "basic":
            return next((field for field in FIELDS[kind] if field not in values), None)
        case "postgres_credential":
            return None if "dsn" in values or "host" in values else "dsn"
    return None


class _SecretManager(Protocol):
    async def read(self, key: str, version: str | None) -> FetchedCredential: ...


class SecretManagerProvider:
    """`secret_manager`: a value from the service that `provider` names."""

    def __init__(self, sources: Sources, client: SecretServiceClient, versions: ValueVersions, clock: Clock) -> None:
        self._sources = sources
        self._versions = versions
        self._managers: dict[str, _SecretManager] = {
            "vault": Vault(sources, client),
            "aws": Aws(sources, client, clock.now),
            "gcp": Google(sources, client),
        }

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:  # noqa: ARG002
        provider = await self._sources.text(credential, "provider")
        key = await self._sources.text(credential, "key", credential.name)
        if provider == "env":
            values = {"": self._sources.variable(key)}
            return FetchedCredential(values, self._versions.of(values))
        if provider not in self._managers:
            raise NotFound(f'there is no provider "{provider}"')
        version = await self._sources.text(credential, "version", "") or None
        return await self._managers[provider].read(key, version)


class CredentialProviders:
    """The `SecretProvider` that handles every kind of keychain entry."""

    def __init__(
        self,
        secrets: StoredSecrets,
        clock: Clock,
        environment: Mapping[str, str] = os.environ,
        policy: SourcePolicy | None = None,
    ) -> None:
        policy = policy or SourcePolicy()
        self._client, self._restricted_client = SecretServiceClient(), SecretServiceClient(policy.addresses)
        sources, versions = Sources(environment, policy), ValueVersions(secrets.versions_key)
        inline = InlineProvider(sources, versions)
        self._kinds: dict[str, SecretProvider] = {
            "env": EnvironmentProvider(sources, versions),
            "file": FileProvider(sources, versions),
            "stored": StoredProvider(sources, secrets),
            "secret_manager": SecretManagerProvider(sources, self._client, versions, clock),
            "postgres_credential": inline,
            "bearer": inline,
            "basic": inline,
            "oauth2_client": OauthTokens(sources, self._restricted_client, versions, clock),
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
        await self._client.close()
        await self._restricted_client.close()
