"""A browser without a screen for tests of sign-in: it keeps cookies, and follows redirects one at a time."""

from __future__ import annotations

import html
import re
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp
import msgspec

from tests.api.servers import Answer
from tests.identity_provider import PASSWORD

CSRF = {"X-NoETL-CSRF": "1"}


class Browser:
    """`jar`: the cookies by host and port. Real browsers send them to all ports of a host; tests do that explicitly."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url
        self.jar: dict[str, dict[str, str]] = {}
        self.set_cookies: list[str] = []  # all headers, for tests of their attributes

    @property
    def cookies(self) -> dict[str, str]:
        """Of the server."""
        return self.jar.setdefault(urlsplit(self.url).netloc, {})

    def address(self, url: str) -> str:
        """Where a request is sent."""
        return url

    async def ask(
        self, method: str, path: str, *, json: Any = None, form: dict[str, str] | None = None, **headers: str
    ) -> Answer:
        """Headers are named with underscores. A page of the server sends requests that are not GET."""
        url = urljoin(self.url, path)
        host = urlsplit(url).netloc
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        cookies = self.jar.setdefault(host, {})
        if cookies and "Cookie" not in sent:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
        data: Any = form
        if json is not None:
            data, sent["Content-Type"] = msgspec.json.encode(json), "application/json"
        sent = {name: value for name, value in sent.items() if value}
        async with self.session.request(
            method, self.address(url), data=data, headers=sent, allow_redirects=False
        ) as response:
            body = await response.read()
            for header in response.headers.getall("Set-Cookie", []):
                self.set_cookies.append(header)
                for name, morsel in SimpleCookie(header).items():
                    cookies[name] = morsel.value
                    if morsel["max-age"] == "0" or not morsel.value:
                        del cookies[name]
            got = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, got, body)

    async def change(self, method: str, path: str, json: Any = None, **headers: str) -> Answer:
        """A request of a page of the server itself that changes something."""
        sent: dict[str, Any] = {"Origin": self.url, **CSRF, **headers}
        return await self.ask(method, path, json=json, **sent)

    async def sign_in(self, token: str) -> Answer:
        return await self.change("POST", "/session", {"token": token})

    async def begin(self, path: str = "/session/oidc") -> str:
        """Start a sign-in with the provider; returns the address to which the server sends the browser."""
        answer = await self.ask("GET", path)
        assert answer.status == 303, answer.body
        return answer.headers["location"]

    async def authenticate(self, url: str, user: str) -> str:
        """Sign in at the provider; returns the address to which the provider sends the browser back."""
        for _ in range(12):
            if url.startswith(self.url):
                return url
            answer = await self.ask("GET", url)
            if answer.status in (301, 302, 303):
                url = urljoin(url, answer.headers["location"])
                continue
            page = answer.body.decode()
            field = {"login": user} if 'name="login"' in page else {"password": PASSWORD}
            assert f'name="{next(iter(field))}"' in page, page
            token = re.search(r'name="csrf_token" value="([^"]+)"', page)
            form = field | ({"csrf_token": html.unescape(token[1])} if token else {})
            answer = await self.ask("POST", url, form=form)
            assert answer.status in (302, 303), answer.body.decode()
            url = urljoin(url, answer.headers["location"])
        raise AssertionError(f"the provider does not send the browser back: {url}")

    async def sign_in_as(self, user: str, path: str = "/session/oidc") -> Answer:
        """The whole flow; returns the answer of the server to the callback."""
        return await self.ask("GET", await self.authenticate(await self.begin(path), user))
