"""Credentials and tokens: where their values come from, how they lie on disk, who may ask for what."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, Protocol, TypeAlias

from noetl.playbook.model import Credential
from noetl.secret import Secret


class FetchedCredential(NamedTuple):
    """A credential as it is now."""

    values: Mapping[str, Secret]  # by field; the only one of a single value stands under ""
    version: str  # another one when the values are others; it tells nothing of them
    expires_s: float | None = None  # None: it does not say


class SecretProvider(Protocol):
    """Where credentials come from. No error of it shows a value."""

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        """`fresh`: what was given last did not work. Raises NotFound (with the name), or Unavailable."""
        ...


class SecretRow(NamedTuple):
    """A stored secret as it lies on disk: encrypted, bound to its name and version."""

    name: str
    version: int  # never given twice to a name
    nonce: bytes
    body: bytes  # empty: it was removed
    key_id: str
    at: datetime


AllRows: TypeAlias = list[SecretRow]


class SecretRows(Protocol):
    """Where stored secrets lie. It sees no value."""

    async def get(self, name: str) -> SecretRow | None: ...

    async def put(self, row: SecretRow, before: SecretRow | None) -> bool:
        """In the place of `before`; False: another stands there by now, and nothing was written."""
        ...

    async def list(self) -> AllRows:
        """All that have a value, by name."""
        ...


class ApiToken(NamedTuple):
    """Who may ask the server for what. The secret itself is known to its bearer alone."""

    id: str
    name: str  # as it stands in the log for what its bearer did
    scopes: frozenset[str]  # of read, run, write, admin
    created_at: datetime
    expires_at: datetime | None


AllTokens: TypeAlias = list[ApiToken]


class ApiTokenStore(Protocol):
    """The tokens that are valid, by the sha256 of their secrets."""

    async def add(self, token: ApiToken, digest: bytes) -> None: ...

    async def find(self, digest: bytes) -> ApiToken | None:
        """Also one that has expired: whoever asks looks at that."""
        ...

    async def list(self) -> AllTokens: ...

    async def remove(self, id: str) -> None:
        """Raises NotFound."""
        ...
