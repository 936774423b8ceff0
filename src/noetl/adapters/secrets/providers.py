"""One `SecretProvider` for all kinds of keychain entries. Every error names the entry (D57, D84)."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from noetl.adapters.secrets.aws_roles import AwsRoles
from noetl.adapters.secrets.services import Aws, Google, OauthTokens, SecretServiceClient, Vault
from noetl.adapters.secrets.sources import SourcePolicy, Sources, ValueVersions
from noetl.adapters.secrets.stored import StoredSecrets
from noetl.clock import Clock
from noetl.errors import Damaged, NotFound, Unavailable
from noetl.net.program import SECRET_INPUT
from noetl.output import JSON
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential
from noetl.secret import SECRET_BYTES_MAX, Secret

FIELDS: Final = {
    "postgres_credential": ("dsn", "host", "port", "user", "password", "database"),
    "nats_credential": ("url", "user", "password", "token", "creds", "nkey"),
    "basic": ("user", "password"),
    "oauth2_client": ("token_url", "client_id", "client_secret", "scope"),
    "aws_credential": ("access_key_id", "secret_access_key", "session_token", "region", "endpoint"),
    "azure_credential": ("account", "key", "sas_token", "endpoint"),
}
_TEXTS: Final = {"bearer": "token", "gcp_credential": "service_account"}  # kinds with one value, and its field


class _Needed(NamedTuple):
    """The fields that an entry of a kind needs, unless its value is stored."""

    first: str
    all: str


_NEEDED: Final = {
    "file": _Needed("path", "path"),
    "secret_manager": _Needed("provider", "provider and key"),
    "bearer": _Needed("token", "token"),
    "basic": _Needed("user", "user and password"),
    "postgres_credential": _Needed("dsn", "dsn (or host, port, user, password, database)"),
    "nats_credential": _Needed("url", "url (and user and password, token, creds or nkey)"),
    "oauth2_client": _Needed("token_url", "token_url, client_id, client_secret (and scope)"),
    "aws_credential": _Needed("access_key_id", "access_key_id and secret_access_key"),
    "gcp_credential": _Needed("service_account", "service_account"),
    "azure_credential": _Needed("account", "account and key (or sas_token)"),
}


class CredentialProviders:
    """The `SecretProvider` with one method for each kind of keychain entry."""

    def __init__(
        self,
        secrets: StoredSecrets,
        clock: Clock,
        environment: Mapping[str, str] = os.environ,
        policy: SourcePolicy | None = None,
    ) -> None:
        policy = policy or SourcePolicy()
        self._secrets = secrets
        self._sources, self._versions = Sources(environment, policy), ValueVersions(secrets.versions_key)
        self._client, self._restricted_client = SecretServiceClient(), SecretServiceClient(policy.addresses)
        self._tokens = OauthTokens(self._sources, self._restricted_client, self._versions, clock)
        self._managers: dict[str, Vault | Aws | Google] = {
            "vault": Vault(self._sources, self._client),
            "aws": Aws(self._sources, self._client, clock.now, AwsRoles(self._sources, self._client, clock.now)),
            "gcp": Google(self._sources, self._client),
        }
        self._kinds: dict[str, Callable[[Credential], Awaitable[FetchedCredential]]] = {
            "env": self._variable,
            "file": self._file,
            "stored": self._stored,
            SECRET_INPUT: self._input,
            "secret_manager": self._managed,
            "postgres_credential": self._inline,
            "nats_credential": self._inline,
            "bearer": self._inline,
            "basic": self._inline,
            "aws_credential": self._inline,
            "gcp_credential": self._inline,
            "azure_credential": self._inline,
        }

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        entry = f'keychain entry "{credential.name}"'
        by_name = credential.kind in _NEEDED and not credential.fields.keys() - {"desc"}
        hidden = ""
        try:
            if references := [field for field, value in credential.fields.items() if isinstance(value, dict)]:
                texts = {field: await self._sources.text(credential, field) for field in references}
                credential = replace(credential, fields=credential.fields | texts)
                if places := [field for field in references if _may_be_in_errors(credential.kind, field)]:
                    hidden = f"it cannot be read with the values of {', '.join(places)}, which are not shown"
            fetched = await (self._by_name if by_name else self._by_kind)(credential, fresh)
        except NotFound as error:
            raise NotFound(f"{entry}: {hidden or error}") from (None if hidden else error)
        except (Unavailable, Damaged) as error:
            raise Unavailable(f"{entry}: {hidden or error}") from (None if hidden else error)
        for secret in fetched.values.values():
            if len(secret.reveal().encode(errors="replace")) > SECRET_BYTES_MAX:
                raise Unavailable(f"{entry}: it is longer than SECRET_BYTES_MAX: {SECRET_BYTES_MAX:,} bytes")
        return fetched

    async def _by_kind(self, credential: Credential, fresh: bool) -> FetchedCredential:
        if credential.kind == "oauth2_client":  # the only kind with a cache
            return await self._tokens.fetch(credential, fresh=fresh)
        kind = self._kinds.get(credential.kind)
        if kind is None:
            raise NotFound(f'there is no kind "{credential.kind}"')
        return await kind(credential)

    async def _by_name(self, credential: Credential, fresh: bool) -> FetchedCredential:
        """An entry with only a name and a kind: the stored secret of that name, or the fields in it (D97)."""
        name, several = credential.name, credential.kind in FIELDS
        try:
            secret, number = await self._secrets.get(name)
        except NotFound as error:
            first, every = _NEEDED[credential.kind]
            store = "store a JSON object of them" if several else "store the value"
            message = f'it has no field "{first}", and no secret "{name}" is stored'
            raise NotFound(f"{message}: add {every} to the entry, or {store}: noetl secrets set {name}") from error
        version = f"stored-{number}"
        if not several:
            return FetchedCredential({"": secret}, version)
        try:
            fetched = await self._by_kind(replace(credential, fields=_stored_fields(credential, secret)), fresh)
        except NotFound as error:
            raise NotFound(f'the stored secret "{name}": {error}') from error
        return fetched if credential.kind == "oauth2_client" else fetched._replace(version=version)

    async def close(self) -> None:
        await self._client.close()
        await self._restricted_client.close()

    async def _variable(self, credential: Credential) -> FetchedCredential:
        """An environment variable, by default with the name of the entry."""
        name = await self._sources.text(credential, "variable", credential.name)
        return self._versioned({"": self._sources.variable(name)})

    async def _file(self, credential: Credential) -> FetchedCredential:
        return self._versioned({"": await self._sources.file(await self._sources.text(credential, "path"))})

    async def _stored(self, credential: Credential) -> FetchedCredential:
        """A secret that NoETL stores, by default with the name of the entry."""
        name = await self._sources.text(credential, "key", credential.name)
        value, version = await self._secrets.get(name)
        return FetchedCredential({"": value}, f"stored-{version}")

    async def _input(self, credential: Credential) -> FetchedCredential:
        """A secret input of the execution that the entry is bound to."""
        value = (await self._secrets.inputs(str(credential.fields["execution"]))).get(credential.name)
        if value is not None:
            return self._versioned({"": value})
        if credential.fields["required"]:
            raise NotFound("the execution has no value for this secret input: it must get one when it starts")
        return FetchedCredential({}, "none")

    async def _inline(self, credential: Credential) -> FetchedCredential:
        """Values in the fields of the entry, or references to them."""
        if (field := _TEXTS.get(credential.kind)) is not None:
            values = {"": Secret(await self._sources.text(credential, field))}
        else:
            values = await self._sources.fields(credential, FIELDS[credential.kind])
        missing = _missing(credential.kind, values)
        if missing is not None:
            raise NotFound(f'it has no field "{missing}"')
        return self._versioned(values)

    async def _managed(self, credential: Credential) -> FetchedCredential:
        """A value from the service that `provider` names."""
        provider = await self._sources.text(credential, "provider")
        key = await self._sources.text(credential, "key", credential.name)
        if provider == "env":
            return self._versioned({"": self._sources.variable(key)})
        if provider not in self._managers:
            raise NotFound(f'there is no provider "{provider}"')
        version = await self._sources.text(credential, "version", "") or None
        return await self._managers[provider].read(key, version)

    def _versioned(self, values: Mapping[str, Secret]) -> FetchedCredential:
        return FetchedCredential(values, self._versions.of(values))


def _may_be_in_errors(kind: str, field: str) -> bool:
    """Errors name places, as `key` and `path` and addresses. They never name the other fields."""
    return field not in {*FIELDS.get(kind, ()), _TEXTS.get(kind)} - {"token_url", "endpoint"}


def _missing(kind: str, values: Mapping[str, Secret]) -> str | None:
    match kind:
        case "basic":
            return next((field for field in FIELDS[kind] if field not in values), None)
        case "postgres_credential":
            return None if "dsn" in values or "host" in values else "dsn"
        case "nats_credential":
            return None if "url" in values else "url"
        case "aws_credential":
            return next((field for field in FIELDS[kind][:2] if field not in values), None)
        case "azure_credential":
            if "account" not in values:
                return "account"
            return None if "key" in values or "sas_token" in values else "key"
    return None


def _stored_fields(credential: Credential, secret: Secret) -> dict[str, JSON]:
    """The fields of a stored secret. A connection URL is accepted for PostgreSQL and NATS. Raises NotFound."""
    text = secret.reveal().strip()
    if credential.kind == "postgres_credential" and text.startswith(("postgres://", "postgresql://")):
        return {"dsn": text}
    if credential.kind == "nats_credential" and text.startswith(("nats://", "tls://")):
        return {"url": text}
    names = FIELDS[credential.kind]
    try:
        fields = msgspec.json.decode(text, type=dict[str, str | int])
    except (ValueError, RecursionError):
        fields = {}
    if not fields or not fields.keys() <= set(names):
        # An unknown name is not shown, because it may be a value.
        raise NotFound(f"it must be a JSON object of text and whole numbers, with fields of: {', '.join(names)}")
    return dict(fields)
