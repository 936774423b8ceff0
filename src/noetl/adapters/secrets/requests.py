"""Requests to services that hold secrets: limited in time and size, silent about what they send and get."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from noetl.adapters.secrets.sources import SECRET_BYTES_MAX
from noetl.errors import NotFound, Unavailable
from noetl.output import JSON
from noetl.tool import AddressPolicy

if TYPE_CHECKING:  # a playbook whose credentials lie here need not pay for aiohttp
    import aiohttp

ANSWER_S: Final = 10.0
BODY_BYTES_MAX: Final = 4 * SECRET_BYTES_MAX


class SecretRequest(NamedTuple):
    """One request. `what` is how errors speak of it."""

    method: str
    url: str
    what: str
    headers: Mapping[str, str]
    body: bytes | None = None


class Reply(NamedTuple):
    status: int
    data: JSON  # None: its body is no JSON object


class Asking:
    """One session for all of them, opened when it is first needed.

    With a policy, for addresses that authors name, the socket is made only for those that it allows.
    """

    def __init__(self, policy: AddressPolicy | None = None) -> None:
        self._policy = policy
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, asked: SecretRequest) -> Reply:
        """Whatever the status is. Raises Unavailable when there is no whole answer, NotFound for no URL."""
        import aiohttp
        from yarl import URL

        try:
            url = URL(asked.url, encoded=True)
        except ValueError:
            raise NotFound(f"{asked.what}: its address is no URL") from None
        if url.scheme not in ("http", "https") or not url.host:
            raise NotFound(f"{asked.what}: its address must begin with http:// or https://")
        try:
            async with (
                asyncio.timeout(ANSWER_S),
                self._open().request(
                    asked.method, url, headers=asked.headers, data=asked.body, allow_redirects=False
                ) as reply,
            ):
                body = await reply.content.read(BODY_BYTES_MAX + 1)
                while len(body) <= BODY_BYTES_MAX and (more := await reply.content.read(BODY_BYTES_MAX)):
                    body += more
        except (aiohttp.ClientError, OSError) as error:
            place = f"{url.scheme}://{url.host_port_subcomponent}"
            words = f"no answer within {ANSWER_S:g} s" if isinstance(error, TimeoutError) else "no answer"
            # Neither its cause nor its text: both may repeat what was sent.
            refused = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else None
            if isinstance(refused, PermissionError):
                raise NotFound(f"{asked.what}: {refused.strerror}, which is closed to playbooks") from None
            raise Unavailable(f"{asked.what}: {words} from {place}") from None
        if len(body) > BODY_BYTES_MAX:
            raise Unavailable(f"{asked.what}: the answer is larger than BODY_BYTES_MAX: {BODY_BYTES_MAX:,}")
        return Reply(reply.status, _object(body))

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


def refused(what: str, reply: Reply) -> NotFound | Unavailable:
    """Why a service gave nothing, by its status alone."""
    if reply.status == 404:
        return NotFound(f"{what}: there is no such secret")
    if reply.status in (401, 403):
        return Unavailable(f"{what}: HTTP {reply.status}, we may not read it")
    return Unavailable(f"{what}: HTTP {reply.status}, and no secret")
