"""HTTP requests to services that hold secrets, and OAuth 2 tokens by the client-credentials grant."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from noetl.adapters.secrets.sources import SECRET_BYTES_MAX, Sources, ValueVersions
from noetl.clock import Clock
from noetl.errors import NotFound, Unavailable
from noetl.output import JSON
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential
from noetl.secret import Secret
from noetl.tool import AddressPolicy

if TYPE_CHECKING:
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

            connector = aiohttp.TCPConnector(socket_factory=None if self._policy is None else self._policy.socket)
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


EARLY_S: Final = 30.0  # a token that expires sooner is not used
DEFAULT_S: Final = 300.0  # how long a token without an expiry is cached
TOKENS_MAX: Final = 1_024


class _Grant(NamedTuple):
    """The request for a token, and the key of the cache."""

    url: str
    client: Secret
    password: Secret
    scope: str


class _Cached(NamedTuple):
    fetched: FetchedCredential
    until: float  # monotonic


class OauthTokens:
    """The token cache of this process."""

    def __init__(self, sources: Sources, client: SecretServiceClient, versions: ValueVersions, clock: Clock) -> None:
        self._sources = sources
        self._client = client
        self._versions = versions
        self._clock = clock
        self._cached: dict[_Grant, _Cached] = {}
        self._locks: dict[_Grant, asyncio.Lock] = {}

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        grant = _Grant(
            await self._sources.text(credential, "token_url"),
            Secret(await self._sources.text(credential, "client_id")),
            Secret(await self._sources.text(credential, "client_secret")),
            await self._sources.text(credential, "scope", ""),
        )
        before = self._cached.get(grant)
        if len(self._locks) >= TOKENS_MAX:
            self._locks = {each: lock for each, lock in self._locks.items() if lock.locked()}
            self._cached.clear()
        async with self._locks.setdefault(grant, asyncio.Lock()):
            cached = self._cached.get(grant)
            # A caller that waited here for the request of another one gets a fresh token.
            if cached is not None and not (fresh and cached is before) and self._left_s(cached) > 0:
                return cached.fetched._replace(expires_s=self._left_s(cached))
            cached = self._cached[grant] = await self._request_token(grant)
            return cached.fetched

    def _left_s(self, cached: _Cached) -> float:
        return cached.until - self._clock.monotonic()

    async def _request_token(self, grant: _Grant) -> _Cached:
        sent_at = self._clock.monotonic()
        reply = await self._client.send(_request(grant, in_body=False))
        if _is_unknown_client(reply):  # some services accept the client in the body only
            reply = await self._client.send(_request(grant, in_body=True))
        match reply.data:
            case {"access_token": str(token), **rest} if reply.status == 200 and token:
                valid = _seconds(rest.get("expires_in"))
                lifetime_s = DEFAULT_S if valid is None else max(0.0, valid - EARLY_S)
                values = {"": Secret(token)}
                return _Cached(FetchedCredential(values, self._versions.of(values), lifetime_s), sent_at + lifetime_s)
        raise Unavailable(f"the token service {_public(grant.url)} sent no token: HTTP {reply.status}")


def _request(grant: _Grant, *, in_body: bool) -> SecretRequest:
    form = {"grant_type": "client_credentials", **({"scope": grant.scope} if grant.scope else {})}
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    client, password = grant.client.reveal(), grant.password.reveal()
    if in_body:
        form |= {"client_id": client, "client_secret": password}
    else:
        pair = f"{quote(client, safe='')}:{quote(password, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    what = f"the token service {_public(grant.url)}"
    return SecretRequest("POST", grant.url, what, headers, urlencode(form).encode())


def _is_unknown_client(reply: SecretReply) -> bool:
    error = reply.data.get("error") if isinstance(reply.data, dict) else None
    return reply.status == 401 or (reply.status == 400 and error in ("invalid_client", "invalid_request"))


def _seconds(value: object) -> float | None:
    """Some services send a string."""
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except ValueError:
        return None


def _public(url: str) -> str:
    """The address without user and query, which may be secret."""
    return url.partition("?")[0].rpartition("@")[2][:200]
