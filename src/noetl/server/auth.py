"""Authentication by token and authorization by scope.

`run` and `write` include `read`; `admin` includes all. A route that names no scope accepts no caller.
"""

from __future__ import annotations

from hmac import compare_digest
from typing import Any, Final, NamedTuple

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from noetl.cache import BoundedCache
from noetl.clock import Clock
from noetl.control.api_tokens import digest_of
from noetl.errors import Unavailable
from noetl.ports import ApiToken, ApiTokenStore
from noetl.server.errors import ApiError

PUBLIC: Final = "public"  # the scope of a route that needs no token
SCOPE: Final = "scope"  # the key of the required scope in the options of a route
CALLER: Final = "caller"  # the key of the caller in the state of a request

CACHED_S: Final = 5.0  # how long a token that another server has revoked may still be accepted
CACHED_MAX: Final = 10_000  # cached lookups, including those of unknown tokens
TOKEN_CHARS_MAX: Final = 256

_INCLUDES: Final[dict[str, frozenset[str]]] = {
    "read": frozenset({"read"}),
    "run": frozenset({"run", "read"}),
    "write": frozenset({"write", "read"}),
    "admin": frozenset({"admin", "write", "run", "read"}),
}
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="noetl"'}


class Caller(NamedTuple):
    """Who makes a request."""

    id: str  # of the token
    name: str  # as the log records it
    scopes: frozenset[str]

    def may(self, scope: str) -> bool:
        return any(scope in _INCLUDES.get(each, ()) for each in self.scopes)


LOCAL: Final = Caller("local", "local", frozenset({"admin"}))  # every caller of a server without tokens


class _Lookup(NamedTuple):
    token: ApiToken | None  # None: there is no such token
    until: float


class Authenticator:
    """Identifies callers by their tokens. Lookups are cached for a few seconds."""

    def __init__(self, tokens: ApiTokenStore, clock: Clock) -> None:
        self._tokens = tokens
        self._clock = clock
        self._cache: BoundedCache[bytes, _Lookup] = BoundedCache(CACHED_MAX)

    def clear_cache(self) -> None:
        """To be called when tokens have changed."""
        self._cache.clear()

    def cached_token(self, text: str) -> ApiToken | None:
        """A token that was found a moment ago. It does not access the store."""
        found = self._cache.peek(digest_of(text))
        return found.token if found is not None and self._clock.monotonic() < found.until else None

    async def authenticate(self, text: str) -> Caller:
        """Raises ApiError, or Unavailable."""
        digest = digest_of(text)
        found = self._cache.peek(digest)
        if found is None or self._clock.monotonic() >= found.until:
            found = _Lookup(await self._tokens.find(digest), self._clock.monotonic() + CACHED_S)
            self._cache.put(digest, found)
        token = found.token
        if token is None or not compare_digest(f"noetl_{token.id}_", text[: len(token.id) + 7]):
            raise ApiError(
                401, "bad-token", "the token is unknown to this server; it may have been revoked", _CHALLENGE
            )
        if token.expires_at is not None and token.expires_at <= self._clock.now():
            detail = f'the token "{token.name}" has expired: create a new one'
            raise ApiError(401, "expired-token", detail, _CHALLENGE)
        return Caller(token.id, token.name, token.scopes)


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
        raise ApiError(401, "bad-token", detail, _CHALLENGE)
    return value


def guard(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Runs before every route. Raises ApiError, or the error that occurred when the token was looked up."""
    scope = handler.opt.get(SCOPE)
    if scope == PUBLIC or connection.scope.get("method") == "OPTIONS":
        return
    caller = connection.scope["state"].get(CALLER)
    if isinstance(caller, ApiError | Unavailable):
        raise caller
    if caller is None:
        detail = "this request needs a token: `noetl token create` creates one"
        raise ApiError(401, "no-token", detail, _CHALLENGE)
    assert isinstance(caller, Caller)
    if scope is None or not caller.may(scope):
        raise ApiError(403, "low-scope", f'the token "{caller.name}" lacks the scope "{scope}"')
