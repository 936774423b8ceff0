"""Requests to a server: one session, limits on all that comes back, and errors that are our own.

What may be asked twice is asked again when a connection is lost. A token is sent to its own server only:
no redirect is followed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import msgspec

from noetl import __version__
from noetl.client.answers import refusal
from noetl.clock import Clock, SystemClock
from noetl.errors import Rejected, Unavailable
from noetl.output import JSON
from noetl.secret import Secret

CONNECT_S: Final = 10.0
ANSWER_S: Final = 60.0  # for a whole answer, besides the time that was asked to be waited
ANSWER_BYTES_MAX: Final = 256 << 20
CHUNK_BYTES: Final = 1 << 18
TRIES: Final = 4  # of what may be asked twice
AGAIN_S: Final = 0.2  # before the second try; twice that before the third
AGAIN_MAX_S: Final = 5.0  # however long a server wants us to wait
_LATER: Final = frozenset({429, 502, 503, 504})


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str]


class _Later(Unavailable):
    """It may work in a moment."""

    def __init__(self, words: str, after_s: float = 0.0) -> None:
        super().__init__(words)
        self.after_s = after_s


def address(url: str) -> str:
    """The address of a server, as it is kept and shown. Raises Rejected."""
    try:
        parts = urlsplit(url.strip())
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise Rejected("bad-address", f'"{url}" is no address of a server: {error}') from error
    if parts.scheme not in ("http", "https") or not host:
        raise Rejected("bad-address", f'"{url}" is no address of a server: write it as https://host:port')
    if parts.username is not None or parts.password is not None:
        raise Rejected("bad-address", "an address holds no user and no password: servers ask for a token")
    if parts.query or parts.fragment or not url.strip().isprintable() or " " in url.strip():
        raise Rejected("bad-address", f'"{url}" is no address of a server: leave out what is behind its path')
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def is_private(url: str) -> bool:
    """Can nobody on the way read what is sent? Over TLS, or to this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def token_value(token: str | Secret | None) -> Secret | None:
    """Raises Rejected for what can be no token, and does not repeat it."""
    if token is None:
        return None
    value = (token.reveal() if isinstance(token, Secret) else token).strip()
    if not value or not value.isascii() or not value.isprintable() or " " in value:
        raise Rejected("bad-token", "a token is one word of ASCII, as `noetl token create` gives it")
    return Secret(value)


class Wire:
    """The session belongs to the loop that runs, and is closed with it at the latest."""

    def __init__(self, url: str, token: str | Secret | None = None, clock: Clock | None = None) -> None:
        self.url = address(url)
        self.clock = clock or SystemClock()
        self._token = token_value(token)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._keeper: AsyncGenerator[aiohttp.ClientSession, None] | None = None
        self._session: aiohttp.ClientSession | None = None

    async def session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop or self._session.closed:
            # A loop that ends closes its generators: that is how a session never outlives it.
            self._keeper = _kept(self._headers())
            self._loop, self._session = loop, await anext(self._keeper)
        return self._session

    async def close(self) -> None:
        if self._keeper is not None and self._loop is asyncio.get_running_loop():
            await self._keeper.aclose()
        self._keeper = self._session = None

    def _headers(self) -> dict[str, str]:
        headers = {"User-Agent": f"noetl/{__version__}"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.reveal()}"
        return headers

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, JSON] | None = None,
        body: JSON = None,
        headers: Mapping[str, str] | None = None,
        twice: bool | None = None,
        wait_s: float = 0.0,
        file: str = "playbook",
    ) -> Answer:
        """The answer when it is a success. `twice`: it may be asked again; None: by its method.

        Raises Unavailable, NotFound, Rejected, or PlaybookError whose marks are in `file`.
        """
        request = _Request(
            method, path, _plain(params), None if body is None else msgspec.json.encode(body), headers or {}
        )
        tries = TRIES if (method == "GET" if twice is None else twice) else 1
        for number in range(1, tries + 1):
            try:
                return await self._once(request, ANSWER_S + wait_s, file)
            except _Later as error:
                if number == tries:
                    raise Unavailable(str(error)) from error
                pause = max(AGAIN_S * 2 ** (number - 1), min(error.after_s, AGAIN_MAX_S))
                await self.clock.sleep(pause)
        raise AssertionError("there is at least one try")

    async def tell(self, method: str, path: str, *, params: Mapping[str, JSON] | None = None) -> None:
        """What is answered with nothing. Raises as `ask` does."""
        answer = await self.ask(method, path, params=params)
        if answer.status != 204:
            raise Unavailable(f"{self.url} answers as no NoETL server does (HTTP {answer.status})")

    async def _once(self, request: _Request, timeout_s: float, file: str) -> Answer:
        async with self.opened(request, timeout_s, file) as response:
            chunks, size = [], 0
            async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                chunks.append(chunk)
                size += len(chunk)
                if size > ANSWER_BYTES_MAX:
                    raise Unavailable(f"{self.url} answers with more than {ANSWER_BYTES_MAX >> 20} MiB")
            return Answer(response.status, b"".join(chunks), dict(response.headers))

    @asynccontextmanager
    async def opened(
        self, request: _Request, timeout_s: float | None, file: str = "playbook", quiet_s: float | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A response that is a success, whose body is still to come. `quiet_s`: silence that is too long."""
        session = await self.session()
        headers = dict(request.headers)
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        times = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S, sock_read=quiet_s)
        with self._translated():
            async with session.request(
                request.method,
                self.url + request.path,
                params=request.params,
                data=request.body,
                headers=headers,
                timeout=times,
                allow_redirects=False,
            ) as response:
                if not 200 <= response.status < 300:
                    await self._refuse(response, file)
                yield response

    async def _refuse(self, response: aiohttp.ClientResponse, file: str) -> None:
        body = await response.content.read(1 << 20)
        while not response.content.at_eof() and len(body) < 1 << 22:
            body += await response.content.read(1 << 20)
        error = refusal(response.status, body, self.url, file)
        if response.status in _LATER and isinstance(error, Unavailable):
            raise _Later(str(error), _seconds(response.headers.get("Retry-After", "")))
        raise error

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except aiohttp.ClientConnectorCertificateError as error:
            words = f"the certificate of {self.url} is not trusted here"
            raise Unavailable(f"{words}: {error.certificate_error}") from error
        except aiohttp.ClientConnectorError as error:
            raise Unavailable(f"no server answers at {self.url}: {_reason(error.os_error)}") from error
        except aiohttp.ClientError as error:
            raise _Later(f"the connection to {self.url} was lost: {error or type(error).__name__}") from error
        except TimeoutError as error:
            raise _Later(f"{self.url} has not answered in time") from error


class _Request(NamedTuple):
    method: str
    path: str
    params: dict[str, str]
    body: bytes | None
    headers: Mapping[str, str]


def getting(path: str, params: Mapping[str, JSON] | None, headers: Mapping[str, str]) -> _Request:
    return _Request("GET", path, _plain(params), None, headers)


def _plain(params: Mapping[str, JSON] | None) -> dict[str, str]:
    """As a query has them; what is None is not said."""
    said = {} if params is None else params
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in said.items()
        if value is not None
    }


def _reason(error: OSError) -> str:
    """asyncio puts words of its own in the place of the system's; a name that is not found has none there."""
    number = error.errno or 0
    return (os.strerror(number) if number > 0 else error.strerror or str(error)).lower()


def _seconds(text: str) -> float:
    return float(text) if text.isdecimal() and len(text) < 6 else 0.0


async def _kept(headers: dict[str, str]) -> AsyncGenerator[aiohttp.ClientSession, None]:
    async with aiohttp.ClientSession(headers=headers, cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield session
