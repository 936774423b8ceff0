"""Sessions of the web UI: a secret in a cookie, its digest in the store, and protection from pages of other sites.

A session has the rights of the API token that was exchanged for it, or the roles that a provider's groups gave.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

from litestar.datastructures import Cookie

from noetl.cache import BoundedCache
from noetl.clock import Clock
from noetl.control.api_tokens import digest_of
from noetl.control.roles import scopes_of
from noetl.defaults import SESSION_HOURS, SESSION_IDLE_HOURS
from noetl.errors import NotFound, Unavailable
from noetl.ports import ApiToken, RoleGrant, WebSession, WebSessionStore
from noetl.server.auth import CACHED_MAX, CACHED_S, CHALLENGE, Authenticator, Caller
from noetl.server.errors import ApiError

SESSIONS_MAX: Final = 20  # of one user; a further one ends the oldest
TOUCH_S: Final = 60.0  # between two records of the last request of a session
SECRET_BYTES: Final = 32
SECRET_CHARS_MAX: Final = 64
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

SESSION_COOKIE: Final = "noetl-session"
SECURE_PREFIX: Final = "__Host-"  # browsers accept such a cookie only from this host, over https
CSRF_HEADER: Final = "X-NoETL-CSRF"  # a page of another site cannot send it: no site is allowed by CORS
_CSRF_NAME: Final = CSRF_HEADER.lower().encode()


class SessionLimits(NamedTuple):
    lifetime_s: float = SESSION_HOURS * 3_600  # from the sign-in
    idle_s: float = SESSION_IDLE_HOURS * 3_600  # without a request
    per_user: int = SESSIONS_MAX


class _Lookup(NamedTuple):
    session: WebSession | None  # None: there is no such session
    until: float


class Sessions:
    """Begins, finds and ends sessions. Lookups are cached for a few seconds, as those of tokens are."""

    def __init__(
        self, store: WebSessionStore, authenticator: Authenticator, clock: Clock, limits: SessionLimits | None = None
    ) -> None:
        self._store = store
        self._authenticator = authenticator
        self._clock = clock
        self.limits = limits or SessionLimits()
        self._cache: BoundedCache[bytes, _Lookup] = BoundedCache(CACHED_MAX)
        self._ended: BoundedCache[str, bool] = BoundedCache(CACHED_MAX)  # ids: a lookup may be under way when one ends

    async def begin_for_token(self, token: ApiToken, digest: bytes) -> tuple[WebSession, str]:
        """The session ends with the token, and has its rights at any time."""
        session = self._new(f"token:{token.id}", token.name, token.expires_at)._replace(token=digest)
        return session, await self._add(session)

    async def begin_for_person(self, user: str, name: str, roles: tuple[RoleGrant, ...]) -> tuple[WebSession, str]:
        session = self._new(user, name)._replace(roles=roles)
        return session, await self._add(session)

    def _new(self, user: str, name: str, expires_at: datetime | None = None) -> WebSession:
        now = self._clock.now()
        ends_at = now + timedelta(seconds=self.limits.lifetime_s)
        return WebSession(self._clock.new_id(), user, name, now, min(ends_at, expires_at or ends_at), now)

    async def _add(self, session: WebSession) -> str:
        """Returns the secret, which is always a new one: a secret that the browser already had is never adopted."""
        secret = base64.urlsafe_b64encode(os.urandom(SECRET_BYTES)).decode().rstrip("=")
        idle_since = session.created_at - timedelta(seconds=self.limits.idle_s)
        await self._store.add(session, digest_of(secret), idle_since=idle_since, keep=self.limits.per_user)
        return secret

    def cached_user(self, secret: str) -> str | None:
        """The user of a session that was found a moment ago. It does not access the store."""
        found = self._cache.peek(digest_of(secret))
        known = found is not None and self._clock.monotonic() < found.until
        return found.session.user if known and found is not None and found.session is not None else None

    async def authenticate(self, secret: str, address: str = "") -> Caller:
        """Raises ApiError, or Unavailable."""
        session = await self._find(digest_of(secret))
        if session is None:
            raise ApiError(401, "no-session", "the session has ended: sign in again", CHALLENGE)
        await self._touch(session, digest_of(secret))
        if session.token is None:
            scopes = scopes_of(session.roles)
            return Caller(session.user, session.name, scopes, session.roles, address, session.id)
        caller = await self._authenticator.authenticate_digest(session.token, address)
        return caller._replace(session=session.id)

    async def _find(self, digest: bytes) -> WebSession | None:
        """A session that has not ended."""
        found = self._cache.peek(digest)
        if found is None or self._clock.monotonic() >= found.until:
            found = _Lookup(await self._store.find(digest), self._clock.monotonic() + CACHED_S)
            self._cache.put(digest, found)
        session, now = found.session, self._clock.now()
        if session is None or session.expires_at <= now or session.id in self._ended:
            return None
        return session if (now - session.seen_at).total_seconds() < self.limits.idle_s else None

    async def _touch(self, session: WebSession, digest: bytes) -> None:
        now = self._clock.now()
        if (now - session.seen_at).total_seconds() < min(TOUCH_S, self.limits.idle_s / 10):
            return
        seen = session._replace(seen_at=now)
        self._cache.put(digest, _Lookup(seen, self._clock.monotonic() + CACHED_S))  # first: other requests wait for it
        with suppress(Unavailable):  # a full disk does not sign people out
            await self._store.touch(session.id, now)

    async def end(self, secret: str) -> WebSession | None:
        """End the session of a cookie. None: it had ended before. Raises Unavailable."""
        session = await self._store.find(digest_of(secret))
        if session is not None:
            try:
                await self.remove(session.id)
            except NotFound:
                return None
        return session

    async def remove(self, id: str) -> None:
        """End a session by its id. Raises NotFound or Unavailable."""
        await self._store.remove(id)
        self._ended.put(id, True)


# Cookies


class CookieJar:
    """The cookies of the sign-in: their names and attributes follow from the address of the server."""

    def __init__(self, public_url: str) -> None:
        self.public_url = public_url  # "": unknown; then the address that the browser states counts

    def is_secure(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether the browser uses https. NoETL itself has no TLS: a proxy in front of it has."""
        return (self.public_url or headers.get(b"origin", b"").decode("latin-1")).lower().startswith("https://")

    def read(self, headers: Mapping[bytes, bytes], name: str) -> str | None:
        """The value of a cookie; the secure one counts first."""
        sent: dict[str, str] = {}
        for each in headers.get(b"cookie", b"").decode("latin-1").split(";"):
            key, _, value = each.strip().partition("=")
            sent.setdefault(key, value)
        names = [SECURE_PREFIX + name]
        if not self.public_url.startswith("https://"):
            names.append(name)
        return next((sent[each] for each in names if sent.get(each)), None)

    def read_session(self, headers: Mapping[bytes, bytes]) -> str | None:
        secret = self.read(headers, SESSION_COOKIE)
        return secret if secret is not None and len(secret) <= SECRET_CHARS_MAX and secret.isascii() else None

    def make(
        self, name: str, value: str, max_age_s: float, *, secure: bool, same_site: Literal["strict", "lax"] = "strict"
    ) -> Cookie:
        key = SECURE_PREFIX + name if secure else name
        return Cookie(
            key=key, value=value, path="/", httponly=True, samesite=same_site, secure=secure, max_age=int(max_age_s)
        )

    def clear(self, name: str, *, secure: bool) -> Cookie:
        return self.make(name, "", 0, secure=secure)

    def check_origin(self, method: str, headers: Mapping[bytes, bytes], *, starts: bool = False) -> None:
        """Protect a session from pages of other sites, which can make the browser send its cookie.

        Another port is another site. A request that changes something proves with a header of its own that a page of
        this server sent it. `starts`: a GET, too, starts an execution. Raises ApiError.
        """
        host = headers.get(b"host", b"").lower()
        own = [self.public_url.encode()] if self.public_url else [b"http://" + host, b"https://" + host]
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site", b"same-origin")
        if (origin is not None and origin.lower() not in own) or site not in (b"none", b"same-origin"):
            detail = "this server rejects requests from pages of other sites"
            if self.public_url:
                detail += f"; its own address is {self.public_url}"
            raise ApiError(403, "foreign-origin", detail)
        if method not in SAFE_METHODS and (origin is None or headers.get(_CSRF_NAME) != b"1"):
            detail = f"a session needs the headers Origin and {CSRF_HEADER}: 1 here; programs use an API token instead"
            raise ApiError(403, "no-csrf-header", detail)
        # Over http, browsers state neither Origin nor Sec-Fetch-Site for an image, and another port gets the cookie.
        if starts and b"sec-fetch-site" not in headers and headers.get(_CSRF_NAME) != b"1":
            detail = f"a session needs the header {CSRF_HEADER}: 1 here; programs use an API token instead"
            raise ApiError(403, "no-csrf-header", detail)
