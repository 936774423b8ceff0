"""Concurrent requests with the same token share one lookup, its result or its failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from noetl.control.api_tokens import digest_of
from noetl.errors import NotFound, Unavailable
from noetl.ports import ApiToken
from noetl.server.auth import Authenticator
from noetl.testing import FakeClock

SECRET = "noetl_0123456789abcdef_secret"
TOKEN = ApiToken("0123456789abcdef", "ci", frozenset({"run"}), datetime(2026, 1, 1, tzinfo=UTC), None)


class SlowTokens:
    """An `ApiTokenStore` whose lookups wait until the test lets them through."""

    def __init__(self) -> None:
        self.tokens = {digest_of(SECRET): TOKEN}
        self.lookups = 0
        self.finding, self.may_find = asyncio.Event(), asyncio.Event()
        self.error: Unavailable | None = None

    async def add(self, token: ApiToken, digest: bytes) -> None:
        self.tokens[digest] = token

    async def find(self, digest: bytes) -> ApiToken | None:
        self.lookups += 1
        self.finding.set()
        found = self.tokens.get(digest)
        await self.may_find.wait()
        if self.error is not None:
            raise self.error
        return found

    async def list(self) -> list[ApiToken]:
        return list(self.tokens.values())

    async def remove(self, id: str) -> None:
        raise NotFound(f"no token {id}")


def run(work: Callable[[SlowTokens, Authenticator], Awaitable[None]]) -> None:
    async def whole() -> None:
        tokens = SlowTokens()
        async with asyncio.timeout(60):
            await work(tokens, Authenticator(tokens, FakeClock()))

    asyncio.run(whole())


def test_concurrent_requests_share_a_lookup() -> None:
    async def work(tokens: SlowTokens, authenticator: Authenticator) -> None:
        tasks = [asyncio.ensure_future(authenticator.authenticate(SECRET)) for _ in range(10)]
        await tokens.finding.wait()
        tasks[0].cancel()  # its client is gone
        tokens.may_find.set()
        names = [(await task).name for task in tasks[1:]]
        assert (names, tokens.lookups) == (["ci"] * 9, 1)

    run(work)


def test_a_failed_lookup_is_repeated_by_the_next_request() -> None:
    async def work(tokens: SlowTokens, authenticator: Authenticator) -> None:
        tokens.error = Unavailable("the database is unreachable")
        tokens.may_find.set()
        found = await asyncio.gather(*[authenticator.authenticate(SECRET) for _ in range(3)], return_exceptions=True)
        assert [type(each) for each in found] == [Unavailable] * 3
        tokens.error = None
        assert (await authenticator.authenticate(SECRET)).name == "ci"
        assert tokens.lookups == 2

    run(work)


@pytest.mark.parametrize("is_asked_meanwhile", [False, True])
def test_a_lookup_that_began_before_a_change_is_not_kept(is_asked_meanwhile: bool) -> None:
    async def work(tokens: SlowTokens, authenticator: Authenticator) -> None:
        before = asyncio.ensure_future(authenticator.find_token(digest_of(SECRET)))
        await tokens.finding.wait()
        tokens.tokens.clear()
        authenticator.clear_cache()
        after = asyncio.ensure_future(authenticator.find_token(digest_of(SECRET))) if is_asked_meanwhile else None
        tokens.may_find.set()
        assert await before == TOKEN
        if after is not None:
            assert await after is None
        assert await authenticator.find_token(digest_of(SECRET)) is None

    run(work)
