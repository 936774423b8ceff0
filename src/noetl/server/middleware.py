"""What every request passes before it is routed: its host, its rate, its token, and how slowly it may come.

What every answer carries is put on here as well, so that no route can forget it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import urlsplit

from litestar import Request
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from noetl.errors import Unavailable
from noetl.server.auth import CALLER, LOCAL, Authenticator, Caller, presented_by
from noetl.server.errors import Refused, answer
from noetl.server.rate_limit import RateLimiter
from noetl.server.services import ServerSettings

HEADERS_BYTES_MAX: Final = 16 << 10  # of a request line and all headers
_HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})
UI: Final = "/ui"  # below this lies the web UI
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_YAML: Final = frozenset({b"text/yaml", b"application/yaml", b"application/x-yaml", b"text/x-yaml"})
_HEADERS: Final[dict[bytes, bytes]] = {
    b"x-content-type-options": b"nosniff",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}


class RequestGuard:
    """Around the whole application."""

    def __init__(
        self, app: ASGIApp, keeper: Authenticator, rates: RateLimiter, settings: ServerSettings
    ) -> None:
        self._app = app
        self._keeper = keeper
        self._rates = rates
        self._open = settings.open
        self._body_s = settings.body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == ScopeType.HTTP, "the server speaks HTTP only"
        send = _dressed(send)
        try:
            scope["state"][CALLER] = await self._admit(scope)
        except (Refused, Unavailable) as error:
            request: Request[Any, Any, Any] = Request(scope, receive, send)
            await answer(error).to_asgi_response(app=None, request=request)(scope, receive, send)
            return
        await self._app(scope, _patient(receive, self._body_s), send)

    async def _admit(self, scope: HTTPScope) -> Caller | Refused | Unavailable | None:
        """Who it is; or why that is not known, which matters only to routes that ask for it."""
        _check_size(scope)
        headers = dict(scope["headers"])
        _check_content_type(scope["method"], headers)
        address = (scope.get("client") or ("?", 0))[0]
        if self._open:
            _check_host(headers, visit=_is_visit(scope, headers))
            self._count(address)
            return LOCAL
        try:
            said = headers.get(b"authorization")
            presented = presented_by(None if said is None else said.decode("latin-1"))
        except Refused as error:
            self._count(address)
            return error
        # Whoever shows another token each time is counted by the address.
        known = self._keeper.remembers(presented) if presented is not None else None
        self._count(f"token {known.id}" if known is not None else address)
        if presented is None:
            return None
        try:
            return await self._keeper.caller(presented)
        except (Refused, Unavailable) as error:
            return error

    def _count(self, caller: str) -> None:
        if late_s := self._rates.take(caller):
            words = f"too many requests: try again in {late_s} s"
            raise Refused(429, "too-many-requests", words, {"Retry-After": str(late_s)})


def headers_too_large() -> Refused:
    words = f"the headers are too large (limit HEADERS_BYTES_MAX: {HEADERS_BYTES_MAX:,} bytes)"
    return Refused(431, "headers-too-large", words)


def _check_size(scope: HTTPScope) -> None:
    """On their way they are measured roughly, and not at all behind another request."""
    size = sum(len(name) + len(value) for name, value in scope["headers"]) + len(scope["raw_path"])
    if size > HEADERS_BYTES_MAX:
        raise headers_too_large()


def _is_visit(scope: HTTPScope, headers: dict[bytes, bytes]) -> bool:
    """A person follows a link to the UI: its page holds nothing, and what it asks then it asks itself."""
    return (
        scope["method"] == "GET"
        and (scope["path"] in ("/", UI) or scope["path"].startswith(UI + "/"))
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


def _check_host(headers: dict[bytes, bytes], *, visit: bool) -> None:
    """A page of another site must not reach an open door through its reader's browser.

    Its name may lead to our address (DNS rebinding), which the host tells; or it asks us by our own name,
    which the browser tells.
    """
    host = _name(f"//{headers.get(b'host', b'').decode('latin-1')}")
    if host not in _HERE:
        raise Refused(403, "foreign-host", "without tokens this server answers to localhost only")
    origin = headers.get(b"origin")
    foreign = origin is not None and _name(origin.decode("latin-1")) not in _HERE
    site = headers.get(b"sec-fetch-site", b"none")
    if foreign or (site not in (b"none", b"same-origin") and not visit):
        raise Refused(403, "foreign-origin", "a page of another site may not ask this server")


def _name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _check_content_type(method: str, headers: dict[bytes, bytes]) -> None:
    """Bodies are JSON, or YAML where a playbook is sent: nothing that a form of a page could send."""
    has_body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
    if method in _SAFE or not has_body:
        return
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json" and kind not in _YAML:
        raise Refused(415, "wrong-content-type", "send the body as application/json")


def _patient(receive: Receive, body_s: float) -> Receive:
    """A body that never comes to its end holds nothing for ever."""
    whole = False

    async def received() -> Any:
        nonlocal whole
        if whole:
            return await receive()
        try:
            async with asyncio.timeout(body_s):
                message = await receive()
        except TimeoutError:
            raise Refused(408, "too-slow", f"nothing more of the body came for {body_s:g} s") from None
        whole = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    return received


def _dressed(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            names = {name.lower() for name, _ in headers}
            headers += [each for each in _HEADERS.items() if each[0] not in names]
            message["headers"] = headers
        await send(message)

    return sent
