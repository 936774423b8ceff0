"""Who may do what, and who did it: API tokens, roles, sessions of the web UI, the audit trail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, TypeAlias

from msgspec import Struct


class RoleGrant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A role, limited to paths and pools. A path is `orders/import`, `orders/*` or `*`."""

    role: str  # viewer, operator, author, admin
    paths: tuple[str, ...] = ("*",)
    pools: tuple[str, ...] = ("*",)  # names, or `*`


class ApiToken(NamedTuple):
    """A credential for the API. Only its bearer knows the secret."""

    id: str
    name: str  # appears in the log for everything the bearer does
    scopes: frozenset[str]  # of read, run, write, admin
    created_at: datetime
    expires_at: datetime | None
    roles: tuple[RoleGrant, ...] = ()  # the scopes follow from them; empty: a token of scopes, without limits


AllTokens: TypeAlias = list[ApiToken]


class ApiTokenStore(Protocol):
    """The API tokens by the sha256 of their secrets. Every method raises Unavailable."""

    async def add(self, token: ApiToken, digest: bytes) -> None:
        """Raises Rejected if the id exists or a text cannot be stored."""
        ...

    async def find(self, digest: bytes) -> ApiToken | None:
        """The token, even if it has expired: callers check that."""
        ...

    async def list(self) -> AllTokens:
        """All tokens in the order of creation."""
        ...

    async def remove(self, id: str) -> None:
        """Raises NotFound."""
        ...


class WebSession(NamedTuple):
    """The session of a person in a browser. Only its cookie contains the secret."""

    id: str
    user: str  # whose sessions are counted: `oidc:SUBJECT`, or `token:ID`
    name: str  # appears in the log for everything the person does
    created_at: datetime
    expires_at: datetime
    seen_at: datetime  # of the last recorded request
    roles: tuple[RoleGrant, ...] = ()  # of a person whom a provider has signed in
    token: bytes | None = None  # the digest of the API token whose rights it has; None: the roles


AllSessions: TypeAlias = list[WebSession]


class WebSessionStore(Protocol):
    """Sessions by the sha256 of their secrets. Every method raises Unavailable."""

    async def add(self, session: WebSession, digest: bytes, *, idle_since: datetime, keep: int) -> None:
        """Delete sessions that have expired or were last seen before `idle_since`, then all but the newest `keep` - 1
        of the same user, and add this one. Raises Rejected if a text cannot be stored.
        """
        ...

    async def find(self, digest: bytes) -> WebSession | None:
        """The session, even if it has expired: callers check that."""
        ...

    async def touch(self, id: str, at: datetime) -> None:
        """Record a request. Without effect if the session is gone, or a later request is recorded."""
        ...

    async def list(self) -> AllSessions:
        """All sessions in the order of creation."""
        ...

    async def remove(self, id: str) -> None:
        """Raises NotFound."""
        ...


class AuditTrailEntry(NamedTuple):
    """Who did what, when. It contains names and ids, never values."""

    at: datetime
    action: str  # start, command, register, secret, token, saved, sign-in, sign-out, denied, lost
    what: str  # the operation: `cancel`, `set`; of a denied one the request: `GET /executions/{execution_id}`
    target: str  # an execution, `path@version`, the name of a secret, the id of a token; "": none
    who: str  # the name of the token or the person; "": a caller without a token
    caller: str = ""  # the id of the token, or `oidc:SUBJECT`
    address: str = ""  # from which the request came: that of a proxy if there is one
    detail: str = ""
    times: int = 1  # of equal requests that one entry of denied ones stands for


class AuditRecord(NamedTuple):
    """An entry with its number, by which pages continue."""

    id: int
    entry: AuditTrailEntry


AuditRecords: TypeAlias = list[AuditRecord]


class AuditStore(Protocol):
    """The audit trail. Entries can be added and read; the database refuses to change or delete them.

    Every method raises Unavailable.
    """

    async def add(self, entries: Sequence[AuditTrailEntry]) -> None:
        """All or none of them. They are durable when the method returns."""
        ...

    async def read(
        self,
        limit: int = 100,
        *,
        before: int | None = None,
        since: datetime | None = None,
        action: str | None = None,
        who: str | None = None,
    ) -> AuditRecords:
        """The newest first. `before`: the id of the last one on the previous page."""
        ...
