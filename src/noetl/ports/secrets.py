"""Credentials, stored secrets and API tokens."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, Protocol, TypeAlias

from noetl.playbook.model import Credential
from noetl.secret import Secret


class FetchedCredential(NamedTuple):
    """The current values of a credential."""

    values: Mapping[str, Secret]  # by field; a credential with a single value has the field ""
    version: str  # changes with the values and reveals nothing about them
    expires_s: float | None = None  # None: unknown


class SecretProvider(Protocol):
    """A source of credentials. No error contains a value."""

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        """`fresh`: bypass caches, because the last values did not work.

        Raises NotFound, which names the keychain entry, or Unavailable.
        """
        ...


class SecretRow(NamedTuple):
    """A stored secret: encrypted, and bound to its name and version."""

    name: str
    version: int  # never reused for a name
    nonce: bytes
    body: bytes  # empty: the secret was removed
    key_id: str
    at: datetime


AllRows: TypeAlias = list[SecretRow]


class SecretRows(Protocol):
    """The table of stored secrets. It never sees a plain value. Every method raises Unavailable."""

    async def get(self, name: str) -> SecretRow | None:
        """The row, also of a removed secret."""
        ...

    async def put(self, row: SecretRow, before: SecretRow | None) -> bool:
        """Replace `before`, or insert if it is None. The row is durable when the method returns True.

        False: another writer was first, and nothing was written. Raises Rejected for an invalid name.
        """
        ...

    async def list(self) -> AllRows:
        """All rows with a value, by name."""
        ...


class ApiToken(NamedTuple):
    """A credential for the API. Only its bearer knows the secret."""

    id: str
    name: str  # appears in the log for everything the bearer does
    scopes: frozenset[str]  # of read, run, write, admin
    created_at: datetime
    expires_at: datetime | None


AllTokens: TypeAlias = list[ApiToken]


class ApiTokenStore(Protocol):
    """The API tokens by the sha256 of their secrets. Every method raises Unavailable."""

    async def add(self, token: ApiToken, digest: bytes) -> None:
        """Raises Rejected if the id exists or a text cannot be stored."""
        ...

    async def find(self, digest: bytes) -> ApiToken | None:
        """The token, also if it has expired: callers check that."""
        ...

    async def list(self) -> AllTokens:
        """All tokens in the order of creation."""
        ...

    async def remove(self, id: str) -> None:
        """Raises NotFound."""
        ...
