"""HTTP requests to secret services, limited in time and size. No error shows what was sent or received."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from noetl.adapters.secrets.sources import SECRET_BYTES_MAX
from noetl.errors import NotFound, Unavailable
from noetl.output import JSON
from noetl.tool import AddressPolicy

if TYPE_CHECKING:  # playbooks with local credentials must not pay for aiohttp
    import aiohttp

TIMEOUT_S: Final = 10.0
BODY_BYTES_MAX: Final = 4 * SECRET_BYTES_MAX


class SecretRequest(NamedTuple):
    """One request. `what` describes it in errors."""

    method: str
    url: str
    what: str
    headers: Mapping[str, str]
    body: bytes | None = None


class SecretReply(NamedTuple):
    status: int
    data: JSON  # None: the body is not a JSON object


class SecretServiceClient:
    """One HTTP session, opened by the first request.

    A policy restricts the addresses, because authors of playbooks may name some of them.
    """

    def __init__(self, policy: AddressPolicy | None = None) -> None:
        self._policy = policy
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: SecretRequest) -> SecretReply:
        """The reply with any status. Raises Unavailable if it is incomplete, NotFound for an invalid URL."""
        import aiohttp
        from yarl import URL

        try:
            url = URL(request.url, encoded=True)
        except ValueError:
            raise NotFound(f"{request.what}: its address is not a URL") from None
        if url.scheme not in ("http", "https") or not url.host:
            raise NotFound(f"{request.what}: its address must begin with http:// or https://")
        try:
            async with (
                asyncio.timeout(TIMEOUT_S),
                self._open().request(
                    request.method, url, headers=request.headers, data=request.body, allow_redirects=False
                ) as reply,
            ):
                body = await reply.content.read(BODY_BYTES_MAX + 1)
                while len(body) <= BODY_BYTES_MAX and (more := await reply.content.read(BODY_BYTES_MAX)):
                    body += more
        except (aiohttp.ClientError, OSError) as error:
            host = f"{url.scheme}://{url.host_port_subcomponent}"
            message = f"no answer within {TIMEOUT_S:g} s" if isinstance(error, TimeoutError) else "no answer"
            # Without cause and text of the error: both may contain what was sent.
            refused = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else None
            if isinstance(refused, PermissionError):
                raise NotFound(f"{request.what}: {refused.strerror}, which playbooks may not use") from None
            raise Unavailable(f"{request.what}: {message} from {host}") from None
        if len(body) > BODY_BYTES_MAX:
            raise Unavailable(f"{request.what}: the answer is larger than BODY_BYTES_MAX: {BODY_BYTES_MAX:,}")
        return SecretReply(reply.status, _object(body))

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            connector = aiohttp.TCPConnector(
                socket_factory=None if self._policy is None else self._policy.socket
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "noetl"},
                trust_env=False,
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()


def _object(body: bytes) -> JSON:
    try:
        data = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def refusal(what: str, reply: SecretReply) -> NotFound | Unavailable:
    """The error for a reply without a secret, by its status alone."""
    if reply.status == 404:
        return NotFound(f"{what}: there is no such secret")
    if reply.status in (401, 403):
        return Unavailable(f"{what}: HTTP {reply.status}, access denied")
    return Unavailable(f"{what}: HTTP {reply.status} without a secret")
