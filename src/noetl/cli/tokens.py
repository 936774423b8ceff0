"""`noetl token`: who may ask a server for what. A token is told once, to whoever made it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

from noetl.cli.choices import FormatChoice
from noetl.cli.contexts import server_at
from noetl.cli.encoded import as_document
from noetl.cli.exits import OK, Usage
from noetl.cli.looking import opened_file, screen_for
from noetl.cli.screen import Screen
from noetl.cli.times import ago
from noetl.clock import Clock, SystemClock
from noetl.control.api_tokens import SCOPES, digest_of, new_token
from noetl.escape import visible
from noetl.output import JSON
from noetl.ports import ApiToken, ApiTokenStore
from noetl.runtime import open_local_store
from noetl.runtime.adapters import open_tokens
from noetl.runtime.settings import database_path, database_url
from noetl.views.log import instant
from noetl.views.styled_text import Styled, table
from noetl.worker.result_policy import seconds_of

LASTS_S_MAX: Final = 100 * 365 * 86_400.0  # longer than any of us: it need not expire, then


class TokenDesk(Protocol):
    """Where tokens are made and given back."""

    async def create(self, name: str, scopes: frozenset[str], lasts_s: float | None) -> tuple[ApiToken, str]:
        """The token, and the text that is told once."""
        ...

    async def list(self) -> list[ApiToken]: ...

    async def remove(self, id: str) -> None:
        """Raises NotFound."""
        ...


class KeptTokens:
    """A TokenDesk over tokens that we keep ourselves."""

    def __init__(self, tokens: ApiTokenStore, clock: Clock) -> None:
        self._tokens = tokens
        self._clock = clock

    async def create(self, name: str, scopes: frozenset[str], lasts_s: float | None) -> tuple[ApiToken, str]:
        expires_at = None if lasts_s is None else self._clock.now() + timedelta(seconds=lasts_s)
        token, text = new_token(name, scopes, expires_at, self._clock, os.urandom)
        await self._tokens.add(token, digest_of(text))
        return token, text

    async def list(self) -> list[ApiToken]:
        return await self._tokens.list()

    async def remove(self, id: str) -> None:
        await self._tokens.remove(id)


class PostgresDesk:
    """A TokenDesk for whoever has the database itself: someone must make the first token."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def create(self, name: str, scopes: frozenset[str], lasts_s: float | None) -> tuple[ApiToken, str]:
        async with open_tokens(self._url) as tokens:
            return await KeptTokens(tokens, SystemClock()).create(name, scopes, lasts_s)

    async def list(self) -> list[ApiToken]:
        async with open_tokens(self._url) as tokens:
            return await tokens.list()

    async def remove(self, id: str) -> None:
        async with open_tokens(self._url) as tokens:
            await tokens.remove(id)


@contextmanager
def desk_at(db: str | None, *, make: bool = False) -> Iterator[TokenDesk]:
    """That of a server, or of a file, which is made when that is asked for. Raises Usage: there is none."""
    if (server := server_at(db)) is not None:
        from noetl.cli.remote_desks import ServerTokens

        yield ServerTokens(server)
        return
    if (url := database_url(db)) is not None:
        yield PostgresDesk(url)
    elif make:
        disk = open_local_store(database_path(db))
        try:
            yield KeptTokens(disk.tokens, disk.database.clock)
        finally:
            disk.close()
    else:
        with opened_file(db) as disk:
            yield KeptTokens(disk.tokens, disk.database.clock)


class TokenAsked(NamedTuple):
    """The arguments of `noetl token create`."""

    name: str
    scopes: tuple[str, ...]
    expires: str | None  # in how long: `30d`; None: never
    db: str | None
    form: FormatChoice


def run_create(asked: TokenAsked) -> int:
    lasts_s = None if asked.expires is None else _length(asked.expires)
    if not asked.scopes:
        raise Usage(f"a token needs a scope: give --scope once or more, with {', '.join(SCOPES)}")
    with desk_at(asked.db, make=True) as desk:
        token, text = asyncio.run(desk.create(asked.name, frozenset(asked.scopes), lasts_s))
    if asked.form == "json":
        sys.stdout.write(as_document({**_document(token), "token": text}))
        return OK
    Screen(sys.stderr).line(f"{visible(token.name)}: keep it safe, it is not shown again")
    screen_for(asked.form).line(text)
    return OK


def _length(given: str) -> float:
    seconds = seconds_of(given)
    if seconds is None or not 0 < seconds <= LASTS_S_MAX:
        raise Usage(f'--expires "{given}" is no length of time up to 100 years: write 12h, 30d or 52w')
    return seconds


def run_list(db: str | None, form: FormatChoice) -> int:
    found: list[ApiToken] = []
    if server_at(db) is not None or database_url(db) is not None or database_path(db).exists():
        with desk_at(db) as desk:
            found = asyncio.run(desk.list())
    if form == "json":
        sys.stdout.write(as_document([_document(each) for each in found]))
    elif not found:
        Screen(sys.stderr).line("nothing to list: there is no token here")
    else:
        titles = [Styled(title, "faint") for title in ("ID", "NAME", "SCOPES", "MADE", "EXPIRES")]
        now = SystemClock().now()
        screen_for(form).lines(table([titles, *(_row(each, now) for each in found)], indent=""))
    return OK


def run_revoke(id: str, db: str | None, form: FormatChoice) -> int:
    with desk_at(db) as desk:
        asyncio.run(desk.remove(id))
    if form == "json":
        sys.stdout.write(as_document({"id": id}))
    else:
        screen_for(form).line(f"{visible(id)}: revoked")
    return OK


def _scopes(token: ApiToken) -> list[str]:
    return [scope for scope in SCOPES if scope in token.scopes]


def _document(token: ApiToken) -> dict[str, JSON]:
    return {
        "id": token.id,
        "name": token.name,
        "scopes": _scopes(token),
        "created_at": instant(token.created_at),
        "expires_at": None if token.expires_at is None else instant(token.expires_at),
    }


def _row(token: ApiToken, now: datetime) -> list[Styled]:
    return [
        Styled(token.id, "name"),
        Styled(visible(token.name)),
        Styled(" ".join(_scopes(token))),
        Styled(ago(token.created_at, now), "faint"),
        _expiry(token.expires_at, now),
    ]


def _expiry(at: datetime | None, now: datetime) -> Styled:
    if at is None:
        return Styled("never", "faint")
    return Styled("expired", "warning") if at <= now else Styled(f"{at:%Y-%m-%d %H:%M}Z", "faint")
