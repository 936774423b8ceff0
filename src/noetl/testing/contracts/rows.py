"""What every adapter must keep that holds texts, lists of executions, tokens or stored secrets.

An adapter's own test is a subclass whose `make` opens a fresh one, and closes it again.
"""

from __future__ import annotations

import asyncio
import hashlib
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from noetl.engine.facts import Fact, Processed, Requested
from noetl.engine.state import Status
from noetl.errors import NotFound
from noetl.ports import (
    ApiToken,
    ApiTokenStore,
    Append,
    EventStore,
    ExecutionListing,
    SecretRow,
    SecretRows,
)
from noetl.testing.contracts.catalog import HALF, STRANGE
from noetl.testing.contracts.catalog import CatalogContract as CatalogContract
from noetl.testing.contracts.results import error_of
from noetl.testing.contracts.stores import run

AT: Final = datetime(2026, 1, 1, 12, 30, 59, 123456, tzinfo=UTC)
ENDED: Final[frozenset[Status]] = frozenset(("ok", "error", "cancelled"))


class ListedLog(NamedTuple):
    """A log, and the questions over all of it."""

    store: EventStore
    listing: ExecutionListing
    owner: Callable[[str], Awaitable[int]]  # execution → ours from now on: the number that its appends carry


MADE: Final[tuple[tuple[str, str, Status, str | None], ...]] = (
    ("0199-aa", "p", "ok", None),
    ("0199-ab", "q", "running", "0199-aa/call#1@1"),
    ("0200-aa", "p", "error", "0199-ab/call#1[0]@2"),
    ("0200", "q", "paused", "0199-aa/call#2@1"),
    ("0199-a", "p", "cancelled", "0199-a0/call#1@1"),
)


async def _fill(log: ListedLog) -> None:
    """The executions of MADE, a second apart, so that the last of them is the newest."""
    for place, (execution_id, path, status, parent) in enumerate(MADE):
        at, owner = AT + timedelta(seconds=place), await log.owner(execution_id)
        first: Fact = Requested(path=path, digest=f"d{place}", workload={}, parent=parent)
        done = await log.store.append([Append(execution_id, 1, at, (first,), owner, "running")])
        last = Append(execution_id, 2, at + timedelta(minutes=1), (Processed(status="ok"),), owner, status)
        assert [*done, *await log.store.append([last])] == [None, None]


class ListingContract:
    """Executions, from their heads."""

    @abstractmethod
    def make(self) -> AbstractAsyncContextManager[ListedLog]: ...

    def test_a_head_says_how_an_execution_stands(self) -> None:
        async def work() -> None:
            async with self.make() as log:
                await _fill(log)
                head = await log.listing.head("0199-ab")
                assert (head.path, head.digest, head.status, head.seq) == ("q", "d1", "running", 2)
                assert head.started_at == AT + timedelta(seconds=1)
                assert head.updated_at == AT + timedelta(seconds=61)
                assert (head.parent, head.owner_alive) == ("0199-aa/call#1@1", True)
                assert (await log.listing.head("0199-aa")).parent is None
                for name in ("0199", *STRANGE):
                    assert isinstance(await error_of(log.listing.head(name)), NotFound)

        run(work())

    def test_executions_are_listed_newest_first_a_page_at_a_time(self) -> None:
        async def work() -> None:
            async with self.make() as log:
                assert await log.listing.executions() == []
                await _fill(log)
                found = await log.listing.executions()
                assert [head.execution_id for head in found] == [each[0] for each in reversed(MADE)]
                assert found == [await log.listing.head(head.execution_id) for head in found]
                assert await log.listing.executions(2) == found[:2]
                assert await log.listing.executions(2, before=found[1].execution_id) == found[2:4]
                assert await log.listing.executions(0) == await log.listing.executions(-1) == []
                for before in ("nobody", HALF, "\0"):
                    assert await log.listing.executions(before=before) == []

        run(work())

    def test_executions_are_chosen_by_status_path_and_whether_they_have_ended(self) -> None:
        async def work() -> None:
            async with self.make() as log:
                await _fill(log)
                ask, found = log.listing.executions, await log.listing.executions()
                assert await ask(open_only=True) == [head for head in found if head.status not in ENDED]
                assert await ask(status="error") == [head for head in found if head.status == "error"]
                assert await ask(path="p") == [head for head in found if head.path == "p"]
                assert await ask(path="p", status="ok", before="0199-a") == found[-1:]
                assert (
                    await ask(path="p", open_only=True) == await ask(path="%") == await ask(path=HALF) == []
                )

        run(work())

    def test_children_are_those_that_frames_of_an_execution_have_started(self) -> None:
        async def work() -> None:
            async with self.make() as log:
                await _fill(log)

                async def children(execution_id: str) -> list[str]:
                    return [head.execution_id for head in await log.listing.children(execution_id)]

                assert await children("0199-aa") == ["0199-ab", "0200"], "in the order of their starts"
                assert await children("0199-ab") == ["0200-aa"], "and not those of its children"
                for name in ("0200", "0199-a", "0199", *STRANGE):
                    assert await children(name) == []
                (head,) = await log.listing.children("0199-ab")
                assert head == await log.listing.head("0200-aa")

        run(work())

    def test_an_id_may_be_shortened(self) -> None:
        async def work() -> None:
            async with self.make() as log:
                await _fill(log)
                find = log.listing.find
                assert await find("0199-aa") == ["0199-aa"]
                assert await find("0200-") == ["0200-aa"]
                assert await find("0199") == ["0199-a", "0199-aa", "0199-ab"]
                assert await find("0200") == ["0200"], "the whole id, and not what begins with it"
                assert len(await find("")) == len(MADE)
                for prefix in ("0200%", "02_0", *(name for name in STRANGE if name)):
                    assert await find(prefix) == []

        run(work())

    def test_the_last_is_the_one_that_started_last(self) -> None:
        async def work() -> None:
            async with self.make() as log:
                assert isinstance(await error_of(log.listing.last()), NotFound)
                await _fill(log)
                assert await log.listing.last() == "0199-a"

        run(work())


def _token(id: str, seconds: float, *scopes: str, lasts_s: float | None = None) -> tuple[ApiToken, bytes]:
    created_at = AT + timedelta(seconds=seconds)
    expires_at = None if lasts_s is None else created_at + timedelta(seconds=lasts_s)
    token = ApiToken(id, f"the token {id} of Jürgen", frozenset(scopes), created_at, expires_at)
    return token, hashlib.sha256(id.encode()).digest()


class TokensContract:
    """Who may ask for what: found by the digest of a secret that nobody keeps."""

    @abstractmethod
    def make(self) -> AbstractAsyncContextManager[ApiTokenStore]: ...

    def test_a_token_is_found_by_its_digest_also_when_it_has_expired(self) -> None:
        async def work() -> None:
            async with self.make() as tokens:
                for made in (_token("a", 0.5, "read", "run"), _token("b", -1, "admin", lasts_s=0.25)):
                    await tokens.add(*made)
                    assert await tokens.find(made[1]) == made[0]
                for digest in (b"", b"\0" * 32, hashlib.sha256(b"nobody's").digest()):
                    assert await tokens.find(digest) is None

        run(work())

    def test_tokens_are_listed_in_the_order_they_were_made(self) -> None:
        async def work() -> None:
            async with self.make() as tokens:
                assert await tokens.list() == []
                made = [_token("z", 1, "read"), _token("b", 2), _token("a", 2, "write"), _token("c", 0)]
                for each in made:
                    await tokens.add(*each)
                assert [token.id for token in await tokens.list()] == ["c", "z", "a", "b"]
                assert set(await tokens.list()) == {token for token, _ in made}

        run(work())

    def test_a_token_that_was_removed_opens_nothing(self) -> None:
        async def work() -> None:
            async with self.make() as tokens:
                (kept, kept_digest), (gone, digest) = _token("a", 0, "read"), _token("b", 1, "read")
                await tokens.add(kept, kept_digest)
                await tokens.add(gone, digest)
                await tokens.remove("b")
                assert await tokens.find(digest) is None
                assert await tokens.list() == [kept]
                for name in ("b", *STRANGE):
                    assert isinstance(await error_of(tokens.remove(name)), NotFound)
                assert await tokens.find(kept_digest) == kept

        run(work())


def _row(name: str, version: int, nonce: bytes = b"nonce\0\xff", body: bytes = b"\0body\xfe") -> SecretRow:
    return SecretRow(name, version, nonce, body, "key", AT + timedelta(seconds=version))


class SecretRowsContract:
    """Stored secrets as they lie there: whoever changes one names what he saw."""

    @abstractmethod
    def make(self) -> AbstractAsyncContextManager[SecretRows]: ...

    def test_a_row_comes_back_as_it_was_put(self) -> None:
        async def work() -> None:
            async with self.make() as rows:
                assert await rows.get("a") is None
                row = _row("a", 1)
                assert await rows.put(row, None)
                assert await rows.get("a") == row
                for name in ("b", *STRANGE):
                    assert await rows.get(name) is None

        run(work())

    def test_only_what_is_there_can_be_replaced(self) -> None:
        async def work() -> None:
            async with self.make() as rows:
                first, second = _row("a", 1), _row("a", 2)
                assert not await rows.put(second, first), "there is none yet"
                assert await rows.get("a") is None
                assert await rows.put(first, None)
                assert not await rows.put(second, None)
                assert await rows.put(second, first)
                assert not await rows.put(_row("a", 3), first)
                assert await rows.get("a") == second

        run(work())

    def test_a_row_that_was_encrypted_anew_is_another_under_the_same_version(self) -> None:
        async def work() -> None:
            async with self.make() as rows:
                first = _row("a", 1)
                again = first._replace(nonce=b"other", body=b"other", key_id="new")
                assert await rows.put(first, None)
                assert await rows.put(again, first)
                assert not await rows.put(_row("a", 2), first)
                assert await rows.get("a") == again

        run(work())

    def test_of_those_who_replace_the_same_row_one_wins(self) -> None:
        async def work() -> None:
            async with self.make() as rows:
                for before in (None, _row("a", 1)):
                    version = before.version + 1 if before else 1
                    new = [_row("a", version, body=b"%d" % number) for number in range(8)]
                    done = await asyncio.gather(*(rows.put(row, before) for row in new))
                    assert sum(done) == 1
                    assert await rows.get("a") == new[done.index(True)]
                    assert await rows.put(_row("a", 1), await rows.get("a"))

        run(work())

    def test_rows_are_listed_by_name_without_those_that_were_removed(self) -> None:
        async def work() -> None:
            async with self.make() as rows:
                made = [_row(name, number) for number, name in enumerate(("b", "ä", "a/b", "a", "B"), 1)]
                for row in made:
                    assert await rows.put(row, None)
                gone = made[0]._replace(nonce=b"", body=b"", key_id="")
                assert await rows.put(gone, made[0])
                assert await rows.list() == sorted(made[1:])
                assert await rows.get("b") == gone, "its version is known for ever"

        run(work())
