"""Contracts of adapters for credentials, stored secrets, API tokens and sessions.

The test of an adapter is a subclass whose `make` opens a fresh adapter and closes it again.
"""

from __future__ import annotations

import asyncio
import hashlib
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import NamedTuple

from noetl.errors import NotFound, Rejected, Unavailable
from noetl.playbook.model import Credential
from noetl.ports import (
    ApiToken,
    ApiTokenStore,
    RoleGrant,
    SecretProvider,
    SecretRow,
    SecretRows,
    WebSession,
    WebSessionStore,
)
from noetl.testing.contracts import async_test, error_of, opened_test
from noetl.testing.contracts.stores import AT, STRANGE


class SecretSetup(NamedTuple):
    """A provider with one credential."""

    provider: SecretProvider
    known: Credential
    missing: Credential  # named "missing"
    change: Callable[[], Awaitable[None]]  # give it another value


class SecretProviderContract:
    """The current values of credentials. Errors name the entry and contain no value."""

    @abstractmethod
    def open(self) -> AbstractAsyncContextManager[SecretSetup]: ...

    @async_test
    async def test_the_version_changes_with_the_value(self) -> None:
        async with self.open() as (provider, known, _, change):
            first, again = await provider.fetch(known), await provider.fetch(known)
            assert (again.values, again.version) == (first.values, first.version)
            await change()
            other = await provider.fetch(known, fresh=True)
            assert other.values != first.values
            assert other.version != first.version

    @async_test
    async def test_an_error_names_the_entry_and_contains_no_value_d57(self) -> None:
        async with self.open() as (provider, known, missing, _):
            fetched = await provider.fetch(known)
            error = await error_of(provider.fetch(missing))
            assert isinstance(error, NotFound | Unavailable)
            message = str(error)
            assert 'keychain entry "missing"' in message
            for secret in fetched.values.values():
                assert secret.reveal() not in (message + repr(fetched) + fetched.version)


def _token(id: str, seconds: float, *scopes: str, lasts_s: float | None = None) -> tuple[ApiToken, bytes]:
    created_at = AT + timedelta(seconds=seconds)
    expires_at = None if lasts_s is None else created_at + timedelta(seconds=lasts_s)
    token = ApiToken(id, f"the token {id} of Jürgen", frozenset(scopes), created_at, expires_at)
    return token, hashlib.sha256(id.encode()).digest()


class TokensContract:
    """API tokens by the digest of their secrets."""

    @abstractmethod
    def make(self) -> AbstractAsyncContextManager[ApiTokenStore]: ...

    @opened_test("make")
    async def test_a_token_is_found_by_digest_even_if_it_has_expired(self, tokens: ApiTokenStore) -> None:
        for made in (_token("a", 0.5, "read", "run"), _token("b", -1, "admin", lasts_s=0.25)):
            await tokens.add(*made)
            assert await tokens.find(made[1]) == made[0]
        for digest in (b"", b"\0" * 32, hashlib.sha256(b"unknown").digest()):
            assert await tokens.find(digest) is None

    @opened_test("make")
    async def test_a_token_keeps_its_roles(self, tokens: ApiTokenStore) -> None:
        roles = (RoleGrant(role="operator", paths=("a/*", "b"), pools=("gpu",)), RoleGrant(role="viewer"))
        token, digest = _token("a", 0, "run", "read")
        await tokens.add(token._replace(roles=roles), digest)
        found = await tokens.find(digest)
        assert found is not None
        assert found.roles == roles
        assert [each.roles for each in await tokens.list()] == [roles]

    @opened_test("make")
    async def test_tokens_are_listed_in_the_order_of_creation(self, tokens: ApiTokenStore) -> None:
        assert await tokens.list() == []
        made = [_token("z", 1, "read"), _token("b", 2), _token("a", 2, "write"), _token("c", 0)]
        for each in made:
            await tokens.add(*each)
        assert [token.id for token in await tokens.list()] == ["c", "z", "a", "b"]
        assert set(await tokens.list()) == {token for token, _ in made}

    @opened_test("make")
    async def test_a_removed_token_is_not_found(self, tokens: ApiTokenStore) -> None:
        (kept, kept_digest), (gone, digest) = _token("a", 0, "read"), _token("b", 1, "read")
        await tokens.add(kept, kept_digest)
        await tokens.add(gone, digest)
        await tokens.remove("b")
        assert await tokens.find(digest) is None
        assert await tokens.list() == [kept]
        for name in ("b", *STRANGE):
            assert isinstance(await error_of(tokens.remove(name)), NotFound)
        assert await tokens.find(kept_digest) == kept


def _session(id: str, seconds: float, user: str = "oidc:ann", *, lasts_s: float = 100) -> tuple[WebSession, bytes]:
    at = AT + timedelta(seconds=seconds)
    expires_at = at + timedelta(seconds=lasts_s)
    return WebSession(id, user, "Jürgen", at, expires_at, at), hashlib.sha256(id.encode()).digest()


class WebSessionsContract:
    """Sessions by the digest of their secrets."""

    @abstractmethod
    def make(self) -> AbstractAsyncContextManager[WebSessionStore]: ...

    @opened_test("make")
    async def test_a_session_is_found_by_digest_unchanged(self, sessions: WebSessionStore) -> None:
        plain, digest = _session("a", 0)
        roles = (RoleGrant(role="operator", paths=("a/*", "b"), pools=("gpu",)), RoleGrant(role="viewer"))
        limited, other = _session("b", 1)[0]._replace(roles=roles, token=b"\0digest\xff"), b"\1" * 32
        for each in ((plain, digest), (limited, other)):
            await sessions.add(*each, idle_since=AT, keep=9)
        assert [await sessions.find(digest), await sessions.find(other)] == [plain, limited]
        assert await sessions.list() == [plain, limited]
        for unknown in (b"", b"\0" * 32):
            assert await sessions.find(unknown) is None

    @opened_test("make")
    async def test_a_new_session_deletes_those_that_have_ended(self, sessions: WebSessionStore) -> None:
        for made in (_session("short", 0, lasts_s=5), _session("idle", 1), _session("used", 2)):
            await sessions.add(*made, idle_since=AT, keep=9)
        await sessions.touch("used", AT + timedelta(seconds=8))
        await sessions.touch("used", AT + timedelta(seconds=3))  # an older request of another server
        await sessions.touch("unknown", AT)
        await sessions.add(*_session("new", 10, "oidc:bob"), idle_since=AT + timedelta(seconds=8), keep=9)
        assert [(each.id, each.seen_at) for each in await sessions.list()] == [
            ("used", AT + timedelta(seconds=8)),
            ("new", AT + timedelta(seconds=10)),
        ]

    @opened_test("make")
    async def test_the_oldest_sessions_of_a_user_end_when_there_are_too_many(self, sessions: WebSessionStore) -> None:
        await sessions.add(*_session("other", 0, "oidc:bob"), idle_since=AT, keep=2)
        for number in range(4):
            await sessions.add(*_session(f"s{number}", number), idle_since=AT, keep=2)
        assert {each.id for each in await sessions.list()} == {"other", "s2", "s3"}

    @opened_test("make")
    async def test_a_removed_session_is_not_found(self, sessions: WebSessionStore) -> None:
        (kept, kept_digest), (gone, digest) = _session("a", 0), _session("b", 1)
        await sessions.add(kept, kept_digest, idle_since=AT, keep=9)
        await sessions.add(gone, digest, idle_since=AT, keep=9)
        await sessions.remove("b")
        assert await sessions.find(digest) is None
        assert await sessions.find(kept_digest) == kept
        for name in ("b", *STRANGE):
            assert isinstance(await error_of(sessions.remove(name)), NotFound)

    @opened_test("make")
    async def test_a_name_that_is_not_text_is_rejected(self, sessions: WebSessionStore) -> None:
        session, digest = _session("a", 0)
        error = await error_of(sessions.add(session._replace(name="\ud800"), digest, idle_since=AT, keep=9))
        assert isinstance(error, Rejected)
        assert await sessions.list() == []


def _row(name: str, version: int, nonce: bytes = b"nonce\0\xff", body: bytes = b"\0body\xfe") -> SecretRow:
    return SecretRow(name, version, nonce, body, "key", AT + timedelta(seconds=version))


class SecretRowsContract:
    """Stored secrets: a writer names the row that it replaces."""

    @abstractmethod
    def make(self) -> AbstractAsyncContextManager[SecretRows]: ...

    @opened_test("make")
    async def test_a_row_comes_back_unchanged(self, rows: SecretRows) -> None:
        assert await rows.get("a") is None
        row = _row("a", 1)
        assert await rows.put(row, None)
        assert await rows.get("a") == row
        for name in ("b", *STRANGE):
            assert await rows.get(name) is None

    @opened_test("make")
    async def test_only_the_current_row_can_be_replaced(self, rows: SecretRows) -> None:
        first, second = _row("a", 1), _row("a", 2)
        assert not await rows.put(second, first), "there is none yet"
        assert await rows.get("a") is None
        assert await rows.put(first, None)
        assert not await rows.put(second, None)
        assert await rows.put(second, first)
        assert not await rows.put(_row("a", 3), first)
        assert await rows.get("a") == second

    @opened_test("make")
    async def test_a_reencrypted_row_is_another_one_with_the_same_version(self, rows: SecretRows) -> None:
        first = _row("a", 1)
        again = first._replace(nonce=b"other", body=b"other", key_id="new")
        assert await rows.put(first, None)
        assert await rows.put(again, first)
        assert not await rows.put(_row("a", 2), first)
        assert await rows.get("a") == again

    @opened_test("make")
    async def test_of_concurrent_writers_of_a_row_one_wins(self, rows: SecretRows) -> None:
        for before in (None, _row("a", 1)):
            version = before.version + 1 if before else 1
            new = [_row("a", version, body=b"%d" % number) for number in range(8)]
            done = await asyncio.gather(*(rows.put(row, before) for row in new))
            assert sum(done) == 1
            assert await rows.get("a") == new[done.index(True)]
            assert await rows.put(_row("a", 1), await rows.get("a"))

    @opened_test("make")
    async def test_rows_are_listed_by_name_without_removed_ones(self, rows: SecretRows) -> None:
        made = [_row(name, number) for number, name in enumerate(("b", "ä", "a/b", "a", "B"), 1)]
        for row in made:
            assert await rows.put(row, None)
        gone = made[0]._replace(nonce=b"", body=b"", key_id="")
        assert await rows.put(gone, made[0])
        assert await rows.list() == sorted(made[1:])
        assert await rows.get("b") == gone, "its version is never reused"
