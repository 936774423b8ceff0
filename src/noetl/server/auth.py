"""Callers and their tokens: authentication, and what the scopes or roles of a caller permit.

`run` and `write` include `read`; `admin` includes all. Roles are scopes with limits: see `noetl.control.roles`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hmac import compare_digest
from typing import Final, NamedTuple

from noetl.cache import BoundedCache
from noetl.clock import Clock
from noetl.control.api_tokens import digest_of
from noetl.control.roles import ALL, ROLES, covers, matches_any, permits
from noetl.ports import ApiToken, ApiTokenStore, RoleGrant
from noetl.server.errors import ApiError

PUBLIC: Final = "public"  # the scope of a route that needs no token
SCOPE: Final = "scope"  # the key of the required scope in the options of a route
UNVERIFIED_SCOPE: Final = "unverified-scope"  # of a public route: the scope for requests that it cannot verify
CALLER: Final = "caller"  # the key of the caller in the state of a request

PERSON: Final = "oidc:"  # the ids of persons begin with this

CACHED_S: Final = 5.0  # how long a token that another server has revoked may still be accepted
CACHED_MAX: Final = 10_000  # cached lookups, including those of unknown tokens
TOKEN_CHARS_MAX: Final = 256

CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="noetl"'}


class Caller(NamedTuple):
    """Who makes a request."""

    id: str  # of the token; of a person `oidc:SUBJECT`
    name: str  # as the log records it
    scopes: frozenset[str]
    roles: tuple[RoleGrant, ...] = ()  # empty: the scopes hold for all paths and pools
    address: str = ""  # from which the request came
    session: str = ""  # the id of the session of a browser; "": an API token

    @property
    def title(self) -> str:
        """How messages name it."""
        return f'the user "{self.name}"' if self.id.startswith(PERSON) else f'the token "{self.name}"'

    def may(self, scope: str, path: str | None = None) -> bool:
        """Whether a role permits the scope for this path. None: for any path at all."""
        if not self.roles:
            return permits(self.scopes, scope)
        return any(path is None or matches_any(each.paths, path) for each in self._roles(scope))

    def may_everywhere(self, scope: str) -> bool:
        """Whether neither paths nor pools limit the scope."""
        if not self.roles:
            return permits(self.scopes, scope)
        return any(ALL in each.paths and ALL in each.pools for each in self._roles(scope))

    def paths(self, scope: str) -> tuple[str, ...] | None:
        """The paths for which it has the scope; None: all."""
        if not self.roles:
            return None
        paths = tuple(path for each in self._roles(scope) for path in each.paths)
        return None if ALL in paths else paths

    def pools(self, scope: str, path: str | None = None) -> frozenset[str] | None:
        """The pools that it may use for playbooks of this path; None: all."""
        if not self.roles:
            return None
        fitting = [each for each in self._roles(scope) if path is None or matches_any(each.paths, path)]
        pools = frozenset(pool for each in fitting for pool in each.pools)
        return None if ALL in pools else pools

    def may_grant(self, roles: Sequence[RoleGrant]) -> bool:
        """Whether it may create or revoke a token with these roles: an admin grants at most what it has."""
        if self.may_everywhere("admin"):
            return True
        own = self._roles("admin")
        return bool(roles) and all(any(_includes(each, grant) for each in own) for grant in roles)

    def _roles(self, scope: str) -> list[RoleGrant]:
        return [each for each in self.roles if permits(ROLES.get(each.role, ()), scope)]


def _includes(own: RoleGrant, other: RoleGrant) -> bool:
    return all(covers(own.paths, path) for path in other.paths) and all(covers(own.pools, pool) for pool in other.pools)


LOCAL: Final = Caller("local", "local", frozenset({"admin"}))  # every caller of a server without tokens


class _Lookup(NamedTuple):
    token: ApiToken | None  # None: there is no such token
    until: float


class Authenticator:
    """Identifies callers by their tokens. Lookups are cached for a few seconds, and concurrent ones are one."""

    def __init__(self, tokens: ApiTokenStore, clock: Clock) -> None:
        self._tokens = tokens
        self._clock = clock
        self._cache: BoundedCache[bytes, _Lookup] = BoundedCache(CACHED_MAX)
        self._running: dict[bytes, asyncio.Task[ApiToken | None]] = {}

    def clear_cache(self) -> None:
        """To be called when tokens have changed."""
        self._cache.clear()
        self._running.clear()  # their results may be older than the change

    def cached_token(self, text: str) -> ApiToken | None:
        """A token that was found a moment ago. It does not access the store."""
        found = self._cache.peek(digest_of(text))
        return found.token if found is not None and self._clock.monotonic() < found.until else None

    async def authenticate(self, text: str, address: str = "") -> Caller:
        """Raises ApiError, or Unavailable."""
        token = await self.find_token(digest_of(text))
        if token is None or not compare_digest(f"noetl_{token.id}_", text[: len(token.id) + 7]):
            raise _unknown_token()
        return self._caller(token, address)

    async def authenticate_digest(self, digest: bytes, address: str) -> Caller:
        """As `authenticate`, for a session that was made for this token."""
        token = await self.find_token(digest)
        if token is None:
            raise _unknown_token()
        return self._caller(token, address)

    async def find_token(self, digest: bytes) -> ApiToken | None:
        """The token, even if it has expired. Raises Unavailable."""
        found = self._cache.peek(digest)
        if found is not None and self._clock.monotonic() < found.until:
            return found.token
        if (task := self._running.get(digest)) is None:
            task = self._running[digest] = asyncio.ensure_future(self._look_up(digest))
        return await asyncio.shield(task)  # a caller that is cancelled does not cancel the others

    async def _look_up(self, digest: bytes) -> ApiToken | None:
        try:
            token = await self._tokens.find(digest)
            if self._is_current(digest):
                self._cache.put(digest, _Lookup(token, self._clock.monotonic() + CACHED_S))
            return token
        finally:
            if self._is_current(digest):
                del self._running[digest]

    def _is_current(self, digest: bytes) -> bool:
        """Whether tokens have not changed since this task began to look one up."""
        return self._running.get(digest) is asyncio.current_task()

    def _caller(self, token: ApiToken, address: str) -> Caller:
        if token.expires_at is not None and token.expires_at <= self._clock.now():
            detail = f'the token "{token.name}" has expired: create a new one'
            raise ApiError(401, "expired-token", detail, CHALLENGE)
        return Caller(token.id, token.name, token.scopes, token.roles, address)


def _unknown_token() -> ApiError:
    return ApiError(401, "bad-token", "the token is unknown to this server; it may have been revoked", CHALLENGE)


def bearer_token(header: str | None) -> str | None:
    """The token in an Authorization header; None: there is no header. Raises ApiError."""
    if header is None:
        return None
    scheme, _, value = header.partition(" ")
    value = value.strip()
    is_token = scheme.lower() == "bearer" and value.startswith("noetl_") and len(value) <= TOKEN_CHARS_MAX
    if not is_token or not value.isascii():
        detail = "this is not a NoETL token: a token begins with noetl_ and has no spaces, copy all of it"
        detail += " (programs send `Authorization: Bearer noetl_…`)"
        raise ApiError(401, "bad-token", detail, CHALLENGE)
    return value
