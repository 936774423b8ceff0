"""`oauth2_client`: tokens by the client-credentials grant, kept until shortly before they expire.

However many wait for a token, one is asked for.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

from noetl.adapters.secrets.requests import Asking, Reply, SecretRequest
from noetl.adapters.secrets.sources import Sources
from noetl.adapters.secrets.versions import Versions
from noetl.clock import Clock
from noetl.errors import Unavailable
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential
from noetl.secret import Secret

EARLY_S: Final = 30.0  # a token that is about to expire is not given out
UNSAID_S: Final = 300.0  # how long a token is kept that does not say how long it is valid
TOKENS_MAX: Final = 1_024


class _Grant(NamedTuple):
    """What a token is asked for with, and what it is kept under."""

    url: str
    client: Secret
    password: Secret
    scope: str


class _Kept(NamedTuple):
    fetched: FetchedCredential
    until: float  # on the clock's pulse


class OauthTokens:
    """The tokens of this process."""

    def __init__(self, sources: Sources, asking: Asking, versions: Versions, clock: Clock) -> None:
        self._sources = sources
        self._asking = asking
        self._versions = versions
        self._clock = clock
        self._kept: dict[_Grant, _Kept] = {}
        self._locks: dict[_Grant, asyncio.Lock] = {}

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        grant = _Grant(
            await self._sources.text(credential, "token_url"),
            Secret(await self._sources.text(credential, "client_id")),
            Secret(await self._sources.text(credential, "client_secret")),
            await self._sources.text(credential, "scope", ""),
        )
        before = self._kept.get(grant)
        if len(self._locks) >= TOKENS_MAX:
            self._locks = {each: lock for each, lock in self._locks.items() if lock.locked()}
            self._kept.clear()
        async with self._locks.setdefault(grant, asyncio.Lock()):
            kept = self._kept.get(grant)
            # Whoever waited here for another's token has a fresh one.
            if kept is not None and not (fresh and kept is before) and self._left_s(kept) > 0:
                return kept.fetched._replace(expires_s=self._left_s(kept))
            kept = self._kept[grant] = await self._ask(grant)
            return kept.fetched

    def _left_s(self, kept: _Kept) -> float:
        return kept.until - self._clock.monotonic()

    async def _ask(self, grant: _Grant) -> _Kept:
        asked_at = self._clock.monotonic()
        reply = await self._asking.ask(_request(grant, in_body=False))
        if _is_unknown_client(reply):  # some services read the client only where the standard allows it too
            reply = await self._asking.ask(_request(grant, in_body=True))
        match reply.data:
            case {"access_token": str(token), **rest} if reply.status == 200 and token:
                valid = _seconds(rest.get("expires_in"))
                kept_s = UNSAID_S if valid is None else max(0.0, valid - EARLY_S)
                values = {"": Secret(token)}
                return _Kept(FetchedCredential(values, self._versions.of(values), kept_s), asked_at + kept_s)
        raise Unavailable(f"the token service {_place(grant.url)} gave no token: HTTP {reply.status}")


def _request(grant: _Grant, *, in_body: bool) -> SecretRequest:
    form = {"grant_type": "client_credentials", **({"scope": grant.scope} if grant.scope else {})}
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    client, password = grant.client.reveal(), grant.password.reveal()
    if in_body:
        form |= {"client_id": client, "client_secret": password}
    else:
        pair = f"{quote(client, safe='')}:{quote(password, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    what = f"the token service {_place(grant.url)}"
    return SecretRequest("POST", grant.url, what, headers, urlencode(form).encode())


def _is_unknown_client(reply: Reply) -> bool:
    error = reply.data.get("error") if isinstance(reply.data, dict) else None
    return reply.status == 401 or (reply.status == 400 and error in ("invalid_client", "invalid_request"))


def _seconds(value: object) -> float | None:
    """Some services say it as text."""
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except ValueError:
        return None


def _place(url: str) -> str:
    """An address without what may be secret in it."""
    return url.partition("?")[0].rpartition("@")[2][:200]
