"""Checks before routing: host, rate limit, token or session."""

from __future__ import annotations

from math import ceil
from typing import Any, Final
from urllib.parse import urlsplit

from litestar import Request
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send
from litestar.utils import normalize_path

from noetl.cache import BoundedCache
from noetl.clock import Clock
from noetl.errors import Unavailable
from noetl.server.auth import CALLER, LOCAL, Authenticator, Caller, bearer_token
from noetl.server.errors import ApiError, error_response
from noetl.server.services import ServerSettings, requester
from noetl.server.sessions import SAFE_METHODS, CookieJar, Sessions

CALLERS_MAX: Final = 10_000  # with a bucket; the least recently seen caller is dropped first


class RateLimiter:
    """The buckets of all callers."""

    def __init__(self, clock: Clock, per_s: float, burst: float) -> None:
        self._clock = clock
        self._per_s = per_s
        self._burst = burst
        self._buckets: BoundedCache[str, tuple[float, float]] = BoundedCache(CALLERS_MAX)  # content, time

    def take(self, caller: str) -> int:
        """Count one request. Returns 0 when it is allowed, otherwise the seconds to wait before a retry."""
        now = self._clock.monotonic()
        left, since = self._buckets.get(caller) or (self._burst, now)
        left = min(self._burst, left + (now - since) * self._per_s)
        wait_s = 0 if left >= 1 else max(1, ceil((1 - left) / self._per_s))
        self._buckets.put(caller, (left - 1 if not wait_s else left, now))
        return wait_s


_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
UI: Final = "/ui"  # the path of the web UI
HOOKS: Final = "/hooks/"
STARTING: Final = ("/run/", HOOKS)  # below these, a GET may start an execution
_YAML: Final = frozenset({b"text/yaml", b"application/yaml", b"application/x-yaml", b"text/x-yaml"})
_HEADERS: Final[dict[bytes, bytes]] = {
    b"x-content-type-options": b"nosniff",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}


class RequestMiddleware:
    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        sessions: Sessions,
        limiter: RateLimiter,
        settings: ServerSettings,
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._sessions = sessions
        self._limiter = limiter
        self._cookies = CookieJar(settings.public_url)
        self._open = settings.open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == ScopeType.HTTP, "the server handles HTTP only"
        send = _with_security_headers(send)
        scope["path"] = normalize_path(scope["path"])  # as the router reads it: "//run/x" is "/run/x"
        try:
            scope["state"][CALLER] = caller = await self._admit(scope)
        except (ApiError, Unavailable) as error:
            request: Request[Any, Any, Any] = Request(scope, receive, send)
            await error_response(error).to_asgi_response(app=None, request=request)(scope, receive, send)
            return
        requester.set(caller.id if isinstance(caller, Caller) else "")
        await self._app(scope, receive, send)

    async def _admit(self, scope: HTTPScope) -> Caller | ApiError | Unavailable | None:
        """The caller, or why it is unknown: the guard raises that error for routes that need a token."""
        headers = dict(scope["headers"])
        if not scope["path"].startswith(HOOKS):  # other services send what they like, and prove who they are
            _check_content_type(scope["method"], headers)
        address = (scope.get("client") or ("?", 0))[0]
        if self._open:
            _check_host(headers, is_navigation=_is_navigation(scope, headers))
            self._count(address)
            return LOCAL._replace(address=address)
        if b"authorization" not in headers and (secret := self._cookies.read_session(headers)):
            return await self._of_session(scope, headers, secret, address)
        try:
            header = headers.get(b"authorization")
            token = bearer_token(None if header is None else header.decode("latin-1"))
        except ApiError as error:
            self._count(address)
            return error
        # A caller that sends another unknown token each time is counted by its address.
        cached = self._authenticator.cached_token(token) if token is not None else None
        self._count(f"token {cached.id}" if cached is not None else address)
        if token is None:
            return None
        try:
            return await self._authenticator.authenticate(token, address)
        except (ApiError, Unavailable) as error:
            return error

    async def _of_session(
        self, scope: HTTPScope, headers: dict[bytes, bytes], secret: str, address: str
    ) -> Caller | ApiError | Unavailable:
        self._count(self._sessions.cached_user(secret) or address)
        try:
            self._cookies.check_origin(scope["method"], headers, starts=scope["path"].startswith(STARTING))
            return await self._sessions.authenticate(secret, address)
        except (ApiError, Unavailable) as error:
            return error

    def _count(self, caller: str) -> None:
        if wait_s := self._limiter.take(caller):
            detail = f"too many requests: try again in {wait_s} s"
            raise ApiError(429, "too-many-requests", detail, {"Retry-After": str(wait_s)})


def _is_navigation(scope: HTTPScope, headers: dict[bytes, bytes]) -> bool:
    """Whether a person follows a link to the UI. The page contains no data, so this is safe from any site."""
    return (
        scope["method"] == "GET"
        and (scope["path"] in ("/", UI) or scope["path"].startswith(UI + "/"))
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


def _check_host(headers: dict[bytes, bytes], *, is_navigation: bool) -> None:
    """Protect a server without tokens from pages of other sites in a browser on the same machine.

    Such a page may let its own name resolve to our address (DNS rebinding), which the Host header reveals;
    or it sends requests to our name, which the Origin and Sec-Fetch-Site headers reveal.
    """
    host = _hostname(f"//{headers.get(b'host', b'').decode('latin-1')}")
    if host not in _LOOPBACK:
        raise ApiError(403, "foreign-host", "without tokens this server accepts requests to localhost only")
    origin = headers.get(b"origin")
    # Another port is another site: a page of another server on this machine may not use this one.
    own = headers.get(b"host", b"").lower()
    foreign = origin is not None and origin.lower() not in (b"http://" + own, b"https://" + own)
    site = headers.get(b"sec-fetch-site", b"none")
    if foreign or (site not in (b"none", b"same-origin") and not is_navigation):
        raise ApiError(403, "foreign-origin", "this server rejects requests from pages of other sites")


def _hostname(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _check_content_type(method: str, headers: dict[bytes, bytes]) -> None:
    """Accept JSON and YAML only: an HTML form of another site cannot send these types."""
    has_body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
    if method in SAFE_METHODS or not has_body:
        return
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json" and kind not in _YAML:
        raise ApiError(415, "wrong-content-type", "send the body as application/json")


def _with_security_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            names = {name.lower() for name, _ in headers}
            headers += [each for each in _HEADERS.items() if each[0] not in names]
            message["headers"] = headers
        await send(message)

    return send_with_headers
