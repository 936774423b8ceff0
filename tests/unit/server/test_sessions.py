"""Limits of sessions, and the moment at which they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from noetl.control.api_tokens import digest_of, new_token
from noetl.ports import RoleGrant, WebSession, WebSessionStore
from noetl.runtime.embedded import open_local_store
from noetl.server.auth import CACHED_S, Authenticator
from noetl.server.errors import ApiError
from noetl.server.sessions import TOUCH_S, SessionLimits, Sessions
from noetl.testing import FakeClock

ROLES = (RoleGrant(role="viewer", paths=("orders/*",)),)
LIMITS = SessionLimits(lifetime_s=10_000, idle_s=1_000, per_user=3)


class SlowStore:
    """A `WebSessionStore` whose writes wait until the test lets them through."""

    def __init__(self, store: WebSessionStore) -> None:
        self._store = store
        self.find, self.touch, self.list = store.find, store.touch, store.list
        self.removing, self.may_remove = asyncio.Event(), asyncio.Event()

    async def add(self, session: WebSession, digest: bytes, *, idle_since: datetime, keep: int) -> None:
        await self._store.add(session, digest, idle_since=idle_since, keep=keep)

    async def remove(self, id: str) -> None:
        self.removing.set()
        await self.may_remove.wait()
        await self._store.remove(id)


@asynccontextmanager
async def opened(folder: Path, clock: FakeClock) -> AsyncIterator[tuple[Sessions, Sessions, SlowStore]]:
    """The sessions of two servers on one store; the first one has a slow store."""
    local = open_local_store(folder / "noetl.db", clock)
    slow = SlowStore(local.sessions)
    try:
        yield (
            Sessions(slow, Authenticator(local.tokens, clock), clock, LIMITS),
            Sessions(local.sessions, Authenticator(local.tokens, clock), clock, LIMITS),
            slow,
        )
    finally:
        local.close()


def run(folder: Path, work: Callable[[Sessions, Sessions, SlowStore, FakeClock], Awaitable[None]]) -> None:
    async def whole() -> None:
        clock = FakeClock()
        async with asyncio.timeout(60), opened(folder, clock) as (sessions, other, slow):
            await work(sessions, other, slow, clock)

    asyncio.run(whole())


async def code_of(sessions: Sessions, secret: str) -> str:
    """Why a session is refused; "": it is not."""
    try:
        await sessions.authenticate(secret)
    except ApiError as error:
        return error.details.code or ""
    return ""


def test_a_session_ends_after_its_lifetime_even_if_it_is_used(tmp_path: Path) -> None:
    async def work(sessions: Sessions, other: Sessions, _slow: SlowStore, clock: FakeClock) -> None:
        _, secret = await sessions.begin_for_person("oidc:ann", "ann", ROLES)
        for _ in range(19):
            clock.advance(500)
            caller = await sessions.authenticate(secret, "::1")
            assert (caller.id, caller.name, caller.roles, caller.address) == ("oidc:ann", "ann", ROLES, "::1")
        clock.advance(500)
        assert [await code_of(each, secret) for each in (sessions, other)] == ["no-session", "no-session"]

    run(tmp_path, work)


def test_a_session_without_requests_ends(tmp_path: Path) -> None:
    async def work(sessions: Sessions, other: Sessions, _slow: SlowStore, clock: FakeClock) -> None:
        _, secret = await sessions.begin_for_person("oidc:ann", "ann", ROLES)
        clock.advance(999)
        assert await code_of(sessions, secret) == ""  # recorded for all servers
        clock.advance(999)
        assert await code_of(other, secret) == ""
        clock.advance(1_000)
        assert [await code_of(each, secret) for each in (sessions, other)] == ["no-session", "no-session"]

    run(tmp_path, work)


def test_requests_are_recorded_once_a_minute(tmp_path: Path) -> None:
    async def work(sessions: Sessions, _other: Sessions, slow: SlowStore, clock: FakeClock) -> None:
        begun, secret = await sessions.begin_for_person("oidc:ann", "ann", ROLES)
        for _ in range(3):
            clock.advance(TOUCH_S / 4)
            await sessions.authenticate(secret)
        assert [each.seen_at for each in await slow.list()] == [begun.created_at]
        clock.advance(TOUCH_S / 4)
        await sessions.authenticate(secret)
        assert [each.seen_at for each in await slow.list()] == [begun.created_at + timedelta(seconds=TOUCH_S)]

    run(tmp_path, work)


def test_a_request_during_the_sign_out_does_not_keep_the_session_alive(tmp_path: Path) -> None:
    async def work(sessions: Sessions, _other: Sessions, slow: SlowStore, _clock: FakeClock) -> None:
        begun, secret = await sessions.begin_for_person("oidc:ann", "ann", ROLES)
        ending = asyncio.create_task(sessions.end(secret))
        await slow.removing.wait()
        assert await code_of(sessions, secret) == ""  # it fills the cache
        slow.may_remove.set()
        ended = await ending
        assert ended is not None
        assert ended.id == begun.id
        assert await code_of(sessions, secret) == "no-session"
        assert await sessions.end(secret) is None

    run(tmp_path, work)


def test_another_server_notices_the_end_of_a_session_after_a_few_seconds(tmp_path: Path) -> None:
    async def work(sessions: Sessions, other: Sessions, slow: SlowStore, clock: FakeClock) -> None:
        _, secret = await sessions.begin_for_person("oidc:ann", "ann", ROLES)
        assert await code_of(other, secret) == ""
        slow.may_remove.set()
        await sessions.end(secret)
        clock.advance(CACHED_S)
        assert await code_of(other, secret) == "no-session"

    run(tmp_path, work)


@pytest.mark.parametrize("lasts_s", [100, 100_000])
def test_a_session_of_a_token_ends_no_later_than_the_token(tmp_path: Path, lasts_s: float) -> None:
    async def work(sessions: Sessions, _other: Sessions, _slow: SlowStore, clock: FakeClock) -> None:
        expires_at = clock.now() + timedelta(seconds=lasts_s)
        token, text = new_token("ann", ["read"], expires_at, clock, bytes)
        begun, _ = await sessions.begin_for_token(token, digest_of(text))
        assert begun.expires_at == min(expires_at, clock.now() + timedelta(seconds=LIMITS.lifetime_s))

    run(tmp_path, work)
