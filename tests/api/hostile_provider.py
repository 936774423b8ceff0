"""A provider on loopback that answers as a test tells it: with real RSA keys, and with forged tokens and documents."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from noetl.ports import RoleGrant
from noetl.secret import Secret
from noetl.server.oidc import OidcSettings

CLIENT_ID = "noetl-client"
CLIENT_SECRET = "the-secret-of-the-client-0123456789"
CODE = "the-code-of-the-provider-0123456789"
ACCESS_TOKEN = "the-access-token-of-the-provider"
MOVED = "/moved"  # below it, all addresses have valid answers too


def new_key(kid: str = "k1") -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig", "alg": "RS256"})


class HostileProvider:
    """Sends valid answers until a test changes an attribute."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.key = new_key()
        self.published: list[dict[str, Any]] = [dict(self.key.as_dict(private=False))]
        self.claims: dict[str, Any] = {}  # replace those of a valid ID token; None: leave it out
        self.userinfo: dict[str, Any] = {"sub": "ann"}
        self.discovery: dict[str, Any] = {}  # replace fields of the document
        self.nonce = ""
        self.forge: Callable[[dict[str, Any]], str] = self.sign
        self.responses: dict[str, web.Response] = {}  # by path, instead of the usual one
        self.stalled: dict[str, bytes] = {}  # by path, the part of the body that is sent before it stalls
        self.ended = asyncio.Event()
        self.requests: list[tuple[str, dict[str, list[str]], str]] = []  # path, form, Authorization

    def sign(self, claims: dict[str, Any], key: RSAKey | None = None, **header: Any) -> str:
        return jwt.encode({"alg": "RS256", "kid": "k1", **header}, claims, key or self.key, algorithms=["RS256"])

    def valid_claims(self) -> dict[str, Any]:
        now = int(time.time())  # noqa: TID251  # as a provider on another machine
        valid = {
            "iss": self.issuer, "aud": CLIENT_ID, "sub": "ann", "iat": now, "exp": now + 300, "nonce": self.nonce,
            "preferred_username": "Ann", "groups": ["orders-team"],
        }  # fmt: skip
        return {name: value for name, value in {**valid, **self.claims}.items() if value is not None}

    def settings(self, public_url: str, **changes: Any) -> OidcSettings:
        roles = {"orders-team": (RoleGrant(role="operator", paths=("orders/*",)),)}
        made = OidcSettings(self.issuer, CLIENT_ID, Secret(CLIENT_SECRET), public_url, roles)
        return made._replace(**changes)

    def follow(self, location: str) -> str:
        """What a user does on the pages of the provider; returns the address of the callback."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
        self.nonce = query["nonce"]
        return f"{query['redirect_uri']}?code={CODE}&state={query['state']}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        form = parse_qs((await request.read()).decode())
        self.requests.append((request.path, form, request.headers.get("Authorization", "")))
        if request.path in self.responses:
            return self.responses[request.path]
        if request.path in self.stalled:
            return await self._stall(request, self.stalled[request.path])
        path = request.path.removeprefix(MOVED)
        document: Any = {
            "/.well-known/openid-configuration": {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "userinfo_endpoint": f"{self.issuer}/userinfo",
                **self.discovery,
            },
            "/keys": {"keys": self.published},
            "/userinfo": self.userinfo,
        }.get(path)
        if path == "/token":
            document = {"id_token": self.forge(self.valid_claims()), "access_token": ACCESS_TOKEN}
        return web.Response(body=msgspec.json.encode(document), content_type="application/json")

    async def _stall(self, request: web.Request, part: bytes) -> web.StreamResponse:
        """Send a part of the body, or nothing at all, until the test ends."""
        response = web.StreamResponse(headers={"Content-Length": "1000", "Content-Type": "application/json"})
        if part:
            await response.prepare(request)
            await response.write(part)
        await self.ended.wait()
        return response

    @property
    def paths(self) -> list[str]:
        return [path for path, _, _ in self.requests]


@asynccontextmanager
async def hostile_provider() -> AsyncIterator[HostileProvider]:
    made: list[HostileProvider] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        return await made[0].answer(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    [address] = runner.addresses
    made.append(HostileProvider(f"http://127.0.0.1:{address[1]}"))
    try:
        yield made[0]
    finally:
        made[0].ended.set()
        await runner.cleanup()


def key_set(*keys: RSAKey) -> list[dict[str, Any]]:
    return [dict(each) for each in KeySet(list(keys)).as_dict()["keys"]]
