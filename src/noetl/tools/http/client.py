"""The HTTP client: persistent connections, redirects, and the check of every address.

The address is checked where the socket is created, so the check applies to the final address, after name
resolution and redirects.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from os import strerror
from typing import TYPE_CHECKING, Final, NamedTuple

import aiohttp

from noetl.clock import Clock
from noetl.output import JSON, Output, failed
from noetl.tool import AddressPolicy, Call
from noetl.tools.errors import InvalidInput, allow_hint
from noetl.tools.http.auth import explain_missing_auth, send_with_auth
from noetl.tools.http.encoding import ACCEPTED, BodyEncodingError
from noetl.tools.http.framing import Connector
from noetl.tools.http.request import BodyNotSent, HttpRequest, build_request, redirect_request, safe_url
from noetl.tools.http.response import ResponseOptions, read_response

if TYPE_CHECKING:
    from noetl.tools.http.tool import HttpInput

CONNECTIONS_MAX = 256
REDIRECTS_MAX = 10  # the default of spec.redirects
DNS_CACHE_S = 10
READ_BYTES = 16 * 1024  # of a body that are parsed in one turn of the event loop, or twice as many
BODY_BYTES_AT_ONCE = 262_144  # a larger body is sent in parts, so that it does not block other calls
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class Timeouts(NamedTuple):
    """In seconds; None: no limit."""

    connect: float | None
    read: float | None  # between two parts of the response

    @classmethod
    def of(cls, spec: JSON) -> Timeouts:
        """Without `total`, which the worker enforces for every tool."""
        parts = spec if isinstance(spec, dict) else {}
        return cls(_seconds(parts.get("connect")), _seconds(parts.get("read")))


def _seconds(value: JSON) -> float | None:
    return value if isinstance(value, int | float) and value > 0 else None


class HttpClient:
    """One aiohttp session, which keeps connections open between requests."""

    def __init__(self, clock: Clock, *, allow_private: bool, allow: Sequence[str]) -> None:
        self._clock = clock
        self._policy = AddressPolicy(allow_private, tuple(allow))
        self._session: aiohttp.ClientSession | None = None
        self._timeouts: dict[Timeouts, aiohttp.ClientTimeout] = {}

    async def run(self, input: HttpInput, call: Call) -> Output:
        try:
            request = await build_request(input, call)
            if call.auth is None:
                return explain_missing_auth(await self.send(request, input.response, call))
            return await send_with_auth(self, request, input.response, call)
        except InvalidInput as error:
            return error.output()

    async def send(self, request: HttpRequest, response: str, call: Call) -> Output:
        """Send a request and follow its redirects."""
        timeouts = Timeouts.of(call.spec.get("timeout"))
        options = ResponseOptions(response, call, self._clock, self._clock.monotonic())
        try:
            return await self._follow(request, options, self._timeout(timeouts))
        except (aiohttp.ClientError, OSError) as error:
            return failure_of(error, request, timeouts)

    async def _follow(self, request: HttpRequest, options: ResponseOptions, timeout: aiohttp.ClientTimeout) -> Output:
        spec = options.call.spec
        redirects = spec.get("redirects", REDIRECTS_MAX)
        if type(redirects) is not int or redirects < 0:
            return failed("input", "`spec.redirects` must be an integer of at least 0")
        session = self._session or self._open()
        for _ in range(redirects + 1):
            async with session.request(
                request.method,
                request.url,
                headers=request.headers,
                data=_request_body(request),
                allow_redirects=False,
                timeout=timeout,
                ssl=bool(spec.get("verify", True)),
            ) as reply:
                location = reply.headers.get("Location") if reply.status in REDIRECTS else None
                if location is None or not redirects:
                    return await read_response(reply, request, options)
            try:
                request = redirect_request(request, reply.status, location)
            except InvalidInput:
                return failed("http", f"{request} redirects to an address that is not a valid HTTP URL")
            except BodyNotSent as error:
                return failed("http", f"{error}: send the request there, if you trust it")
        return failed("http", f"more than {redirects} redirects, the last one to {safe_url(request.url)}")

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
            connector = Connector(limit=CONNECTIONS_MAX, ttl_dns_cache=DNS_CACHE_S, socket_factory=self._policy.socket)
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),  # executions must not share cookies
                headers={"User-Agent": "noetl", "Accept-Encoding": ACCEPTED},
                auto_decompress=False,  # encoding.py does it
                read_bufsize=READ_BYTES,
                trust_env=False,
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def _request_body(request: HttpRequest) -> bytes | BytesIO | aiohttp.MultipartWriter | None:
    """A large body is sent in parts. A multipart body can be sent only once, so each redirect creates a new one."""
    if request.body is None:
        return None
    if not isinstance(request.body, tuple):
        return request.body if len(request.body) <= BODY_BYTES_AT_ONCE else BytesIO(request.body)
    form = aiohttp.MultipartWriter("form-data")
    for part in request.body:
        headers = {} if part.content_type is None else {"Content-Type": part.content_type}
        payload = form.append(part.value, headers)
        if part.filename is None:
            payload.set_content_disposition("form-data", name=part.name)
        else:
            payload.set_content_disposition("form-data", name=part.name, filename=part.filename)
    return form


def failure_of(error: Exception, request: HttpRequest, timeouts: Timeouts) -> Output:
    """An exception of aiohttp as a failure. The message contains no password, and the query without secrets."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            message = f"no connection within {timeouts.connect} s for {request}"
            return failed("timeout", message, retryable=True)
        case aiohttp.SocketTimeoutError():
            message = f"no data received for {timeouts.read} s from {request}"
            return failed("timeout", message, retryable=True)
        case aiohttp.ClientConnectorDNSError():
            message, retryable = f'the host name "{error.host}" cannot be resolved', True
        case aiohttp.ClientConnectorCertificateError():
            message, retryable = f"the certificate is not valid: {error.certificate_error}", False
        case aiohttp.ClientSSLError() | aiohttp.ServerFingerprintMismatch():
            message, retryable = "the TLS handshake failed; does the server use http:// instead?", False
        case aiohttp.ClientConnectorError(os_error=PermissionError() as refused):
            reason = refused.strerror or str(refused)
            message, retryable = f"the address is not allowed: {reason}{allow_hint(reason)}", False
        case aiohttp.ClientConnectorError(os_error=ConnectionResetError()) if request.url.scheme == "https":
            # Either a plain HTTP server, or a server that is being restarted: only the latter helps a retry.
            message = "the server closed the connection in the TLS handshake; does it use http:// instead?"
            retryable = True
        case aiohttp.ClientConnectorError():
            number = error.os_error.errno  # the text of os_error is written by asyncio, for programmers
            message, retryable = (f"no connection: {strerror(number) if number else 'no address answers'}", True)
        case aiohttp.InvalidURL():
            return failed("input", "`url` is not a valid URL")
        case BodyEncodingError():
            message, retryable = f"the body cannot be read: {error}", False
        case aiohttp.ClientResponseError():
            message, retryable = "the response is not valid HTTP", False
        case aiohttp.ClientPayloadError():
            message, retryable = "the response ended early", True
        case _:
            message, retryable = "the connection was lost", True
    return failed("http", f"{message} ({request})", retryable=retryable)
