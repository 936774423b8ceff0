"""Fake secret managers on loopback: they answer like the real services, and record the requests."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.Response]]


@asynccontextmanager
async def listening(handler: Handler) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class VaultService:
    """A key-value engine, version 2, mounted at `kv`."""

    TOKEN = "hvs.vault-token-of-ours"

    def __init__(self) -> None:
        self.versions: dict[str, list[dict[str, str]]] = {}

    async def handle(self, request: web.Request) -> web.Response:
        if request.headers.get("X-Vault-Token") != self.TOKEN:
            return web.json_response({"errors": ["permission denied"]}, status=403)
        held = self.versions.get(request.path.removeprefix("/v1/kv/data/"), [])
        number = int(request.query.get("version", len(held)))
        if not 0 < number <= len(held):
            return web.json_response({"errors": []}, status=404)
        data = {"data": held[number - 1], "metadata": {"version": number}}
        return web.json_response({"data": data})


class GoogleService:
    """Secret Manager of the project `p`."""

    TOKEN = "ya29.token-of-ours"

    def __init__(self) -> None:
        self.versions: dict[str, list[bytes]] = {}

    async def handle(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {self.TOKEN}":
            return web.json_response({"error": {"code": 401}}, status=401)
        name, _, version = request.path.removeprefix("/v1/projects/p/secrets/").partition("/versions/")
        held = self.versions.get(name, [])
        asked = version.removesuffix(":access")
        number = len(held) if asked == "latest" else int(asked)
        if not 0 < number <= len(held):
            return web.json_response({"error": {"code": 404}}, status=404)
        path = f"projects/1/secrets/{name}/versions/{number}"
        data = base64.b64encode(held[number - 1]).decode()
        return web.json_response({"name": path, "payload": {"data": data}})


class TokenService:
    """Grants a token to one client; `by` says where it expects the password of the client."""

    CLIENT, PASSWORD = "client-1", "p@ss/word of client"

    def __init__(self, *, by: str = "header") -> None:
        self.by = by
        self.granted = 0
        self.expires_in: object = 3600
        self.scopes: list[str] = []

    async def handle(self, request: web.Request) -> web.Response:
        form = await request.post()
        if not self._knows(request.headers.get("Authorization", ""), dict(form)):
            return web.json_response({"error": "invalid_client"}, status=401)
        self.granted += 1
        self.scopes.append(str(form.get("scope", "")))
        answer = {"access_token": f"token-{self.granted}-of-service", "token_type": "Bearer"}
        if self.expires_in is not None:
            answer["expires_in"] = self.expires_in  # type: ignore[assignment] # some services send it as text
        return web.json_response(answer)

    def _knows(self, header: str, form: dict[str, object]) -> bool:
        if form.get("grant_type") != "client_credentials":
            return False
        if self.by == "body":
            return (form.get("client_id"), form.get("client_secret")) == (self.CLIENT, self.PASSWORD)
        pair = f"{self.CLIENT}:p%40ss%2Fword%20of%20client"
        return header == f"Basic {base64.b64encode(pair.encode()).decode()}"
