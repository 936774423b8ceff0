"""`oauth2_client`: tokens of the client-credentials grant, cached until shortly before they expire.

Concurrent callers share one request.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

from noetl.adapters.secrets.client import SecretReply, SecretRequest, SecretServiceClient
from noetl.adapters.secrets.sources import Sources, ValueVersions
from noetl.clock import Clock
from noetl.errors import Unavailable
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential
from noetl.secret import Secret

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

    def __init__(
        self, sources: Sources, client: SecretServiceClient, versions: ValueVersions, clock: Clock
    ) -> None:
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
                return _Cached(
                    FetchedCredential(values, self._versions.of(values), lifetime_s), sent_at + lifetime_s
                )
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
