"""Sends requests over kept-alive connections, follows redirects itself, checks every address.

The check sits where the socket is made: it sees the final address, whatever name or redirect led there.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import strerror
from typing import TYPE_CHECKING, Final, NamedTuple

import aiohttp

from noetl.clock import Clock
from noetl.output import JSON, Failure, Output, failed
from noetl.tool import AddressPolicy, Call
from noetl.tools.http.auth import send_signed_in, without_auth
from noetl.tools.http.request import Request, Unfit, build, redirected, shown
from noetl.tools.http.response import ResponseOptions, answered

if TYPE_CHECKING:
    from noetl.tools.http.tool import HttpInput

CONNECTIONS_MAX = 256
HOPS_MAX = 10  # redirects that are followed, unless the spec says otherwise
DNS_CACHE_S = 10
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class Timeouts(NamedTuple):
    """In seconds; None: as long as it takes."""

    connect: float | None
    read: float | None  # between two parts of the answer

    @classmethod
    def of(cls, spec: JSON) -> Timeouts:
        """Without `total`, which the worker sees to, as for every tool."""
        parts = spec if isinstance(spec, dict) else {}
        return cls(_seconds(parts.get("connect")), _seconds(parts.get("read")))


def _seconds(value: JSON) -> float | None:
    return value if isinstance(value, int | float) and value > 0 else None


class Client:
    """One session; connections live as long as it does."""

    def __init__(self, clock: Clock, *, allow_private: bool, allow: Sequence[str]) -> None:
        self._clock = clock
        self._policy = AddressPolicy(allow_private, tuple(allow))
        self._session: aiohttp.ClientSession | None = None
        self._timeouts: dict[Timeouts, aiohttp.ClientTimeout] = {}

    async def ask(self, input: HttpInput, call: Call) -> Output:
        """What the world does is an Output, and so are fields that make no request."""
        try:
            request = await build(input, call)
            if call.auth is None:
                return without_auth(await self.send(request, input.response, call))
            return await send_signed_in(self, request, input.response, call)
        except Unfit as error:
            return failed("input", str(error))

    async def send(self, request: Request, response: str, call: Call) -> Output:
        """One request, and where it is redirected to."""
        timeouts = Timeouts.of(call.spec.get("timeout"))
        asked = ResponseOptions(response, call, self._clock, self._clock.monotonic())
        try:
            return await self._follow(request, asked, self._timeout(timeouts))
        except (aiohttp.ClientError, OSError) as error:
            return failure_of(error, request, timeouts)

    async def _follow(
        self, request: Request, asked: ResponseOptions, timeout: aiohttp.ClientTimeout
    ) -> Output:
        spec = asked.call.spec
        hops = spec.get("redirects", HOPS_MAX)
        if type(hops) is not int or hops < 0:
            return failed("input", "`spec.redirects` takes a whole number of at least 0")
        session = self._session or self._open()
        for _ in range(hops + 1):
            async with session.request(
                request.method,
                request.url,
                headers=request.headers,
                data=_sendable(request),
                allow_redirects=False,
                timeout=timeout,
                ssl=bool(spec.get("verify", True)),
            ) as reply:
                location = reply.headers.get("Location") if reply.status in REDIRECTS else None
                if location is None or not hops:
                    return await answered(reply, request, asked)
            try:
                request = redirected(request, reply.status, location)
            except Unfit:
                return failed("http", f"{request} redirects to where no HTTP request can go")
        return failed("http", f"more than {hops} redirects, the last one to {shown(request.url)}")

    def _timeout(self, timeouts: Timeouts) -> aiohttp.ClientTimeout:
        found = self._timeouts.get(timeouts)
        if found is None:
            if len(self._timeouts) >= 64:
                self._timeouts.clear()
            found = aiohttp.ClientTimeout(total=None, connect=timeouts.connect, sock_read=timeouts.read)
            self._timeouts[timeouts] = found
        return found

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=CONNECTIONS_MAX, ttl_dns_cache=DNS_CACHE_S, socket_factory=self._policy.socket
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),  # one execution's cookies are no other's
                headers={"User-Agent": "noetl"},
                trust_env=False,
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def _sendable(request: Request) -> bytes | aiohttp.MultipartWriter | None:
    """A form can be sent once, so that each hop makes its own."""
    if not isinstance(request.body, tuple):
        return request.body
    form = aiohttp.MultipartWriter("form-data")
    for part in request.body:
        headers = {} if part.content_type is None else {"Content-Type": part.content_type}
        payload = form.append(part.value, headers)
        if part.filename is None:
            payload.set_content_disposition("form-data", name=part.name)
        else:
            payload.set_content_disposition("form-data", name=part.name, filename=part.filename)
    return form


def failure_of(error: Exception, request: Request, timeouts: Timeouts) -> Output:
    """Foreign exceptions become failures here, and nowhere else. A message holds no query and no password."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            words = f"no connection within {timeouts.connect} s for {request}"
            return failed("timeout", words, retryable=True)
        case aiohttp.SocketTimeoutError():
            words = f"nothing came for {timeouts.read} s from {request}"
            return failed("timeout", words, retryable=True)
        case aiohttp.ClientConnectorDNSError():
            words, retryable = f'no address for the host "{error.host}"', True
        case aiohttp.ClientConnectorCertificateError():
            words, retryable = f"the certificate is not valid: {error.certificate_error}", False
        case aiohttp.ClientSSLError() | aiohttp.ServerFingerprintMismatch():
            words, retryable = "no TLS connection: is it http://?", False
        case aiohttp.ClientConnectorError(os_error=PermissionError() as refused):
            words, retryable = f"refused: {refused.strerror}", False
        case aiohttp.ClientConnectorError(os_error=ConnectionResetError()) if request.url.scheme == "https":
            # What speaks plain HTTP may do so, and what is just being restarted.
            words, retryable = "the connection was closed before TLS stood: is it http://?", True
        case aiohttp.ClientConnectorError():
            number = error.os_error.errno  # its text is a line of asyncio's, for programmers
            words, retryable = f"no connection: {strerror(number) if number else 'no address answers'}", True
        case aiohttp.InvalidURL():
            return failed("input", "`url` is no URL")
        case aiohttp.ClientResponseError():
            words, retryable = "the answer is no valid HTTP", False
        case aiohttp.ClientPayloadError():
            words, retryable = "the answer broke off", True
        case _:
            words, retryable = "the connection was lost", True
    failure = Failure(kind="http", message=f"{words} ({request})", retryable=retryable)
    return Output(status="error", error=failure)
