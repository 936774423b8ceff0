"""Who asks, and what they may: tokens by their digests, scopes, and the guard that every route stands behind.

`run` and `write` hold `read`; `admin` holds all. A route without a scope of its own is open to nobody.
"""

from __future__ import annotations

from collections import OrderedDict
from hmac import compare_digest
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from noetl.clock import Clock
from noetl.control.api_tokens import digest_of
from noetl.errors import Unavailable
from noetl.ports import ApiToken, ApiTokenStore
from noetl.server.errors import Refused

Scope: TypeAlias = Literal["read", "run", "write", "admin"]
PUBLIC: Final = "public"  # of a route that asks for no token
SCOPE: Final = "scope"  # under this a route says which one it asks for
CALLER: Final = "caller"  # under this a request says who makes it

KNOWN_S: Final = 5.0  # so long a token that was removed elsewhere may still open
KNOWN_MAX: Final = 10_000  # tokens that are remembered, and what only looks like one
TOKEN_CHARS_MAX: Final = 256

_HOLDS: Final[dict[str, frozenset[str]]] = {
    "read": frozenset({"read"}),
    "run": frozenset({"run", "read"}),
    "write": frozenset({"write", "read"}),
    "admin": frozenset({"admin", "write", "run", "read"}),
}
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="noetl"'}


class Caller(NamedTuple):
    """Whoever makes a request."""

    id: str  # of the token
    name: str  # as it stands in the log
    scopes: frozenset[str]

    def may(self, scope: str) -> bool:
        return any(scope in _HOLDS.get(each, ()) for each in self.scopes)


LOCAL: Final = Caller("local", "local", frozenset({"admin"}))  # whoever reaches a door that is open


class _Known(NamedTuple):
    token: ApiToken | None  # None: there is no such token
    until: float


class Authenticator:
    """Knows callers by their tokens, and remembers them for a few seconds."""

    def __init__(self, tokens: ApiTokenStore, clock: Clock) -> None:
        self._tokens = tokens
        self._clock = clock
        self._known: OrderedDict[bytes, _Known] = OrderedDict()

    def forget(self) -> None:
        """Tokens have changed."""
        self._known.clear()

    def remembers(self, presented: str) -> ApiToken | None:
        """A token that was found valid a moment ago, without a look into the store."""
        known = self._known.get(digest_of(presented))
        return known.token if known is not None and self._clock.monotonic() < known.until else None

    async def caller(self, presented: str) -> Caller:
        """Raises Refused, or Unavailable."""
        digest = digest_of(presented)
        known = self._known.get(digest)
        if known is None or self._clock.monotonic() >= known.until:
            known = _Known(await self._tokens.find(digest), self._clock.monotonic() + KNOWN_S)
            self._known[digest] = known
            self._known.move_to_end(digest)
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        token = known.token
        if token is None or not compare_digest(f"noetl_{token.id}_", presented[: len(token.id) + 7]):
            raise Refused(
                401, "bad-token", "the token is not known here: it may have been revoked", _CHALLENGE
            )
        if token.expires_at is not None and token.expires_at <= self._clock.now():
            words = f'the token "{token.name}" has expired: ask for a new one'
            raise Refused(401, "expired-token", words, _CHALLENGE)
        return Caller(token.id, token.name, token.scopes)


def presented_by(header: str | None) -> str | None:
    """The token in an Authorization header; None: there is no header. Raises Refused."""
    if header is None:
        return None
    scheme, _, value = header.partition(" ")
    value = value.strip()
    is_token = scheme.lower() == "bearer" and value.startswith("noetl_") and len(value) <= TOKEN_CHARS_MAX
    if not is_token or not value.isascii():
        words = "this is no token of NoETL: one begins with noetl_ and has no spaces, copy all of it"
        words += " (programs send `Authorization: Bearer noetl_…`)"
        raise Refused(401, "bad-token", words, _CHALLENGE)
    return value


def guard(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Stands before every route. Raises Refused, or whatever went wrong when the token was looked up."""
    needed = handler.opt.get(SCOPE)
    if needed == PUBLIC or connection.scope.get("method") == "OPTIONS":
        return
    caller = connection.scope["state"].get(CALLER)
    if isinstance(caller, Refused | Unavailable):
        raise caller
    if caller is None:
        words = "this asks for a token: `noetl token create` makes one"
        raise Refused(401, "no-token", words, _CHALLENGE)
    assert isinstance(caller, Caller)
    if needed is None or not caller.may(needed):
        raise Refused(403, "low-scope", f'the token "{caller.name}" lacks the scope "{needed}"')
