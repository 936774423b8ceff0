"""Requests to a server: one HTTP session, limits on response sizes, and errors as exceptions of noetl.errors.

Idempotent requests are retried when a connection is lost. Redirects are not followed, so that the token is
sent to its own server only.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Final, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec
from msgspec import Struct

from noetl import __version__
from noetl.api.playbooks import ProblemDetails, to_problem
from noetl.clock import Clock, SystemClock
from noetl.errors import (
    Damaged,
    InputError,
    InputProblem,
    NoetlError,
    NotFound,
    PlaybookError,
    Problem,
    Rejected,
    Unavailable,
)
from noetl.output import JSON
from noetl.secret import Secret

T = TypeVar("T")
R = TypeVar("R")
CONNECT_S: Final = 10.0
RESPONSE_S: Final = 60.0  # for a whole response, besides the time that the request asks the server to wait
RESPONSE_BYTES_MAX: Final = 256 << 20
CHUNK_BYTES: Final = 1 << 18
TRIES: Final = 4  # of a request that may be repeated
RETRY_S: Final = 0.2  # before the second try; doubled before each further one
RETRY_MAX_S: Final = 5.0  # even when the server asks for a longer delay
DETAIL_CHARS_MAX: Final = 2_000  # of an error message from the server; the rest is cut off
_RETRYABLE: Final = frozenset({429, 502, 503, 504})
_TEMPORARY: Final = frozenset({429, 500, 502, 503, 504, 507})
_TOKEN_HINT: Final = "a token comes from NOETL_TOKEN, or from `noetl context set NAME URL --token-file FILE`"


class PlaybookRefused(PlaybookError):
    """A playbook that cannot run. The log records the request as an execution that never began (D65)."""

    def __init__(self, problems: Iterable[Problem], execution_id: str) -> None:
        super().__init__(problems)
        self.execution_id = execution_id


class _RetryLater(Unavailable):
    """A failure that a retry may resolve."""

    def __init__(self, message: str, after_s: float = 0.0) -> None:
        super().__init__(message)
        self.after_s = after_s


class ServerResponse(NamedTuple):
    """A successful response, read to its end."""

    status: int
    body: bytes
    url: str  # of the server

    def read(self, kind: type[T]) -> T:
        """Raises Unavailable when the body is not what this version of NoETL expects."""
        return decode(self.body, kind, self.url)

    def read_as(self, kind: type[T], convert: Callable[[T], R]) -> R:
        """The same, converted; `convert` may raise msgspec.ValidationError."""
        with _decoding(self.url):
            return convert(msgspec.json.decode(self.body, type=kind))


def decode(body: bytes, kind: type[T], url: str) -> T:
    """Raises Unavailable when the body is not what this version of NoETL expects."""
    with _decoding(url):
        return msgspec.json.decode(body, type=kind)


@contextmanager
def _decoding(url: str) -> Iterator[None]:
    try:
        yield
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = "check the address, and that the server is not newer than this noetl"
        raise Unavailable(f"{url} does not respond like a NoETL server ({error}): {hint}") from error


def error_from(status: int, body: bytes, url: str, file: str = "playbook") -> NoetlError:
    """The exception for an error response. `file`: the name of the playbook in the positions of problems."""
    try:
        details = msgspec.json.decode(body, type=ProblemDetails)
    except (msgspec.DecodeError, UnicodeDecodeError):
        details = ProblemDetails(type="", title="", status=status, detail="", code="")
    message = (details.detail or details.title)[:DETAIL_CHARS_MAX].removeprefix(f"{details.code}: ")
    if details.problems:
        problems = tuple(to_problem(each, file) for each in details.problems)
        id = details.execution_id
        return PlaybookRefused(problems, id) if id else PlaybookError(problems)
    if details.code == "bad-input" and details.fields:
        fields = (InputProblem(each.name.removeprefix("workload."), each.message) for each in details.fields)
        return InputError(fields)
    if 300 <= status < 400:
        return Unavailable(f"{url} redirects (HTTP {status}): use the address of the server itself")
    if details.code == "damaged":
        return Damaged(message)
    if status in _TEMPORARY:
        return Unavailable(f"{url} is temporarily unable to do this: {message or f'HTTP {status}'}")
    if not details.code and not message:
        return Unavailable(f"{url} does not respond like a NoETL server (HTTP {status})")
    if status == 401:
        return Rejected(details.code or "unauthorized", f"{message}; {_TOKEN_HINT}")
    if status == 404:
        recorded = f"; the log records the request as {details.execution_id}" if details.execution_id else ""
        return NotFound(f"{message}{recorded}")
    return Rejected(details.code or f"http-{status}", message or f"HTTP {status}")


def address(url: str) -> str:
    """The normalized address of a server, without a trailing slash. Raises Rejected."""
    try:
        parts = urlsplit(url.strip())
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise Rejected("bad-address", f'"{url}" is not the address of a server: {error}') from error
    if parts.scheme not in ("http", "https") or not host:
        raise Rejected("bad-address", f'"{url}" is not the address of a server: write it as https://host:port')
    if parts.username is not None or parts.password is not None:
        raise Rejected("bad-address", "an address contains no user and no password: servers use tokens")
    if parts.query or parts.fragment or not url.strip().isprintable() or " " in url.strip():
        raise Rejected("bad-address", f'"{url}" is not the address of a server: remove everything after its path')
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def is_private(url: str) -> bool:
    """Whether the connection is protected from eavesdropping: over TLS, or on the loopback interface."""
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def token_value(token: str | Secret | None) -> Secret | None:
    """Raises Rejected for an invalid token; the message does not contain it."""
    if token is None:
        return None
    value = (token.reveal() if isinstance(token, Secret) else token).strip()
    if not value or not value.isascii() or not value.isprintable() or " " in value:
        raise Rejected("bad-token", "a token is one word of ASCII characters, as `noetl token create` prints it")
    return Secret(value)


class OpenResponse(Protocol):
    """A response whose body is still to be read."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def content(self) -> aiohttp.StreamReader: ...


class HttpTransport:
    """Sends requests to one server. Its session belongs to the running event loop and is closed with it."""

    def __init__(self, url: str, token: str | Secret | None = None, clock: Clock | None = None) -> None:
        self.url = address(url)
        self.clock = clock or SystemClock()
        self._token = token_value(token)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._holder: AsyncGenerator[aiohttp.ClientSession, None] | None = None
        self._session: aiohttp.ClientSession | None = None

    async def session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop or self._session.closed:
            # A loop closes its asynchronous generators when it ends, so a session never outlives its loop.
            self._holder = _open_session(self.default_headers())
            self._loop, self._session = loop, await anext(self._holder)
        return self._session

    async def close(self) -> None:
        if self._holder is not None and self._loop is asyncio.get_running_loop():
            await self._holder.aclose()
        self._holder = self._session = None

    def default_headers(self) -> dict[str, str]:
        headers = {"User-Agent": f"noetl/{__version__}"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.reveal()}"
        return headers

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, JSON] | None = None,
        body: Struct | None = None,
        headers: Mapping[str, str] | None = None,
        retry: bool | None = None,
        wait_s: float = 0.0,
        file: str = "playbook",
    ) -> ServerResponse:
        """The response of a request that succeeds.

        `retry`: the request may be repeated; None: only a GET. `wait_s`: how long the server may wait before
        it responds. Raises Unavailable, NotFound, Rejected, or PlaybookError with positions in `file`.
        """
        encoded = None if body is None else msgspec.json.encode(body)
        request = OutgoingRequest(method, path, _query(params), encoded, headers or {})
        tries = TRIES if (method == "GET" if retry is None else retry) else 1
        for number in range(1, tries + 1):
            try:
                return await self._once(request, RESPONSE_S + wait_s, file)
            except _RetryLater as error:
                if number == tries:
                    raise Unavailable(str(error)) from error
                delay_s = max(RETRY_S * 2 ** (number - 1), min(error.after_s, RETRY_MAX_S))
                await self.clock.sleep(delay_s)
        raise AssertionError("there is at least one try")

    async def get(self, path: str, kind: type[T], params: Mapping[str, JSON] | None = None) -> T:
        """The decoded response of a GET. Raises as `request` does."""
        return (await self.request("GET", path, params=params)).read(kind)

    async def send(self, method: str, path: str, *, params: Mapping[str, JSON] | None = None) -> None:
        """A request whose response has no body. Raises as `request` does."""
        response = await self.request(method, path, params=params)
        if response.status != 204:
            raise Unavailable(f"{self.url} does not respond like a NoETL server (HTTP {response.status})")

    async def _once(self, request: OutgoingRequest, timeout_s: float, file: str) -> ServerResponse:
        async with self.open(request, timeout_s, file) as response:
            chunks, size = [], 0
            async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                chunks.append(chunk)
                size += len(chunk)
                if size > RESPONSE_BYTES_MAX:
                    raise Unavailable(f"{self.url} sent a response of more than {RESPONSE_BYTES_MAX >> 20} MiB")
            return ServerResponse(response.status, b"".join(chunks), self.url)

    @asynccontextmanager
    async def open_get(
        self,
        path: str,
        params: Mapping[str, JSON] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        silence_s: float,
    ) -> AsyncIterator[OpenResponse]:
        """The response of a GET whose body is still to be read. `silence_s`: longest time without data."""
        request = OutgoingRequest("GET", path, _query(params), None, headers or {})
        async with self.open(request, None, silence_s=silence_s) as response:
            yield response

    @asynccontextmanager
    async def open(
        self, request: OutgoingRequest, timeout_s: float | None, file: str = "playbook", silence_s: float | None = None
    ) -> AsyncIterator[OpenResponse]:
        """The response of a request that succeeds. `timeout_s`: for all of it; `silence_s`: without data."""
        session = await self.session()
        headers = dict(request.headers)
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S, sock_read=silence_s)
        with self._errors_translated():
            async with session.request(
                request.method,
                self.url + request.path,
                params=request.params,
                data=request.body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                if not 200 <= response.status < 300:
                    await self.raise_error(response, file)
                yield response

    async def raise_error(self, response: OpenResponse, file: str) -> None:
        body = await response.content.read(1 << 20)
        while not response.content.at_eof() and len(body) < 1 << 22:
            body += await response.content.read(1 << 20)
        error = error_from(response.status, body, self.url, file)
        if response.status in _RETRYABLE and isinstance(error, Unavailable):
            raise _RetryLater(str(error), _seconds(response.headers.get("Retry-After", "")))
        raise error

    @contextmanager
    def _errors_translated(self) -> Iterator[None]:
        try:
            yield
        except aiohttp.ClientConnectorCertificateError as error:
            message = f"the certificate of {self.url} is not trusted"
            raise Unavailable(f"{message}: {error.certificate_error}") from error
        except aiohttp.ClientConnectorError as error:
            raise Unavailable(f"no server answers at {self.url}: {_reason(error.os_error)}") from error
        except aiohttp.ClientError as error:
            message = f"the connection to {self.url} was lost: {error or type(error).__name__}"
            raise _RetryLater(message) from error
        except TimeoutError as error:
            raise _RetryLater(f"{self.url} did not respond in time") from error


class OutgoingRequest(NamedTuple):
    method: str
    path: str
    params: list[tuple[str, str]]
    body: bytes | None
    headers: Mapping[str, str]


def _query(params: Mapping[str, JSON] | None) -> list[tuple[str, str]]:
    """The parameters of a query string, without those that are None; a list is a repeated parameter."""
    return [
        (key, str(each).lower() if isinstance(each, bool) else str(each))
        for key, value in (params or {}).items()
        for each in (value if isinstance(value, list) else [value])
        if each is not None
    ]


def _reason(error: OSError) -> str:
    """The message of the operating system: asyncio replaces it, and a failed name lookup has no errno."""
    number = error.errno or 0
    return (os.strerror(number) if number > 0 else error.strerror or str(error)).lower()


def _seconds(text: str) -> float:
    return float(text) if text.isdecimal() and len(text) < 6 else 0.0


async def _open_session(headers: dict[str, str]) -> AsyncGenerator[aiohttp.ClientSession, None]:
    async with aiohttp.ClientSession(headers=headers, cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield session
