"""The contract of result stores: a payload comes back byte for byte, or with an error.

The test of an adapter is a subclass that opens a store and can damage its content.
"""

from __future__ import annotations

import asyncio
import hashlib
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from noetl.errors import Damaged, NotFound, Rejected
from noetl.output import JSON
from noetl.ports import ResultCleanup, ResultStore
from noetl.testing.contracts import error_of, opened_test

LARGE: Final = b"0123456789abcde\n" * 200_000  # 3.2 MB: several parts in every store
PIECE: Final = 100_003  # a prime, unlike the part size of every store

# Names that a store must never use: they lead outside, to other results, or are no names at all.
HOSTILE: Final = (
    "", ".", "..", "/", "//", "../e", "e/..", "e/../f", "../../etc/passwd", "/etc/passwd", "e//x", "./e/x",
    "e/./x", "~", "~root/x", "e/~", "%2e%2e/x", "e/%2e%2e", "e/%2f..", "..%2fx", "%00", "e/\0", "\0",
    "e\0/x", "e/x\0.txt", "C:\\x", "e\\..\\f", "..\\x", "\\\\host\\share", "file:///etc/passwd", "e/x?y",
    "e/x#y", "e/*", "*/*", "e/>", "$O.b.M.>", "e/x y", " e/x", "e/x ", "e/x\n", "\ne/x", "e/\t",
    "e\u2215x", "\uff0e\uff0e/x", "e/\u202ex", "\u00e9/x", "e/\ud800", "CON", "nul/x", "e/x:stream",
    "'; DROP TABLE results; --", "e/%s", "{0}", "$(id)", "`id`", "e/" + "A" * 64, "e/" + "0" * 63,
    "e/" + "0" * 65, "e/" + "g" * 64, "x" * 65 + "/" + "0" * 64, "e/" + "0" * 64 + "/", "e/.stream.1.0",
    "a/b/" + "0" * 64, "x" * 10_000,
)  # fmt: skip


class ClearableStore(ResultStore, ResultCleanup, Protocol):
    """A result store with cleanup."""


async def pieces(body: bytes, size: int = PIECE) -> AsyncIterator[bytes]:
    for first in range(0, len(body), size):
        yield body[first : first + size]


async def broken(body: bytes) -> AsyncIterator[bytes]:
    """A stream that fails in the middle."""
    yield body
    raise ConnectionError("connection lost")


async def all_of(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


class ResultStoreContract:
    """Payloads by reference."""

    @abstractmethod
    def open_store(self) -> AbstractAsyncContextManager[ClearableStore]:
        """An empty store, for the duration of a test."""

    @abstractmethod
    async def damage(self, ref: dict[str, JSON]) -> None:
        """Change one stored byte of a result, without the knowledge of the open store."""

    @opened_test("open_store")
    async def test_a_result_comes_back_and_the_same_body_has_one_ref(self, store: ClearableStore) -> None:
        for body in (b"[1, 2]", b"", LARGE):
            ref = await store.put("e", body, "application/json")
            assert await store.get(ref) == body
            assert await store.put("e", body, "application/json") == ref
            digest = hashlib.sha256(body).hexdigest()
            meta = {"content_type": "application/json", "bytes": len(body), "sha256": digest}
            assert ref["meta"] == meta
            assert ref["locator"]["key"] == f"e/{digest}"

    @opened_test("open_store")
    async def test_a_written_stream_has_the_same_ref_as_its_body(self, store: ClearableStore) -> None:
        for body in (b"[1, 2]", b"", LARGE):
            written = await store.write("e", pieces(body), "text/plain")
            assert await store.get(written) == body
            assert await store.put("e", body, "text/plain") == written
            assert await store.write("e", pieces(body, 7 if len(body) < 9 else 1 << 20), "text/plain") == written

    @opened_test("open_store")
    async def test_chunks_are_complete_and_limited_in_size(self, store: ClearableStore) -> None:
        for body in (b"x", b"", LARGE):
            ref = await store.put("e", body, "text/plain")
            chunks = [chunk async for chunk in store.read(ref)]
            assert b"".join(chunks) == body
            assert all(0 < len(chunk) <= 1 << 20 for chunk in chunks)
            assert all(isinstance(chunk, bytes) for chunk in chunks)

    @opened_test("open_store")
    async def test_concurrent_results_are_independent(self, store: ClearableStore) -> None:
        bodies = [bytes([number % 8]) * 300_000 for number in range(24)]
        refs = await asyncio.gather(
            *(
                store.put("e", body, "text/plain") if place % 2 else store.write("e", pieces(body), "text/plain")
                for place, body in enumerate(bodies)
            )
        )
        assert await asyncio.gather(*(store.get(ref) for ref in refs)) == bodies

    @opened_test("open_store")
    async def test_a_failed_stream_leaves_no_result(self, store: ClearableStore) -> None:
        whole = await store.put("f", LARGE, "text/plain")
        try:
            await store.write("e", broken(LARGE), "text/plain")
        except ConnectionError:
            pass
        else:
            raise AssertionError("it was stored")
        moved = {**whole, "locator": {**whole["locator"], "key": f"e/{whole['meta']['sha256']}"}}
        assert isinstance(await error_of(store.get(moved)), NotFound)
        assert [each.key for each in [kept async for kept in store.kept()] if not each.torn] == [
            whole["locator"]["key"]
        ]

    @opened_test("open_store")
    async def test_one_changed_byte_is_detected_by_get_and_read(self, store: ClearableStore) -> None:
        for body in (b"small", LARGE):
            ref = await store.put("e", body, "text/plain")
            await self.damage(ref)
            assert isinstance(await error_of(store.get(ref)), Damaged)
            assert isinstance(await error_of(all_of(store.read(ref))), Damaged)

    @opened_test("open_store")
    async def test_a_changed_byte_of_10_mb_is_detected_20_times_of_20(self, store: ClearableStore) -> None:
        seen = 0
        for number in range(20):
            body = b"%d" % number + bytes(10_000_000)
            ref = await store.write("e", pieces(body, 1 << 20), "text/plain")
            assert await store.get(ref) == body
            await self.damage(ref)
            seen += isinstance(await error_of(all_of(store.read(ref))), Damaged)
            await store.drop([ref["locator"]["key"]])
        assert seen == 20

    @opened_test("open_store")
    async def test_executions_share_no_results_d53(self, store: ClearableStore) -> None:
        one, other = await store.put("e", b"x", "text/plain"), await store.put("f", b"x", "text/plain")
        assert one != other
        await store.drop([one["locator"]["key"]])
        assert await store.get(other) == b"x"

    @opened_test("open_store")
    async def test_an_unknown_result_is_not_found(self, store: ClearableStore) -> None:
        ref = await store.put("e", b"x", "text/plain")
        others = ["e/nothing", f"f/{ref['meta']['sha256']}", f"e/{'0' * 64}"]
        for key in others:
            digest = key[-64:] if len(key) > 64 else ref["meta"]["sha256"]
            other = {**ref, "locator": {**ref["locator"], "key": key}, "meta": {**ref["meta"], "sha256": digest}}
            assert isinstance(await error_of(store.get(other)), NotFound)
            assert isinstance(await error_of(all_of(store.read(other))), NotFound)

    @opened_test("open_store")
    async def test_a_hostile_name_finds_and_changes_nothing(self, store: ClearableStore) -> None:
        ref = await store.put("e", b"x", "text/plain")
        before = [kept async for kept in store.kept()]
        for name in HOSTILE:
            other = {**ref, "locator": {**ref["locator"], "key": name}}
            assert isinstance(await error_of(store.get(other)), NotFound), name
            assert isinstance(await error_of(all_of(store.read(other))), NotFound), name
            if "/" in name or len(name) > 64 or not name.isalnum():
                assert isinstance(await error_of(store.put(name, b"x", "text/plain")), Rejected), name
                written = store.write(name, pieces(b"x"), "text/plain")
                assert isinstance(await error_of(written), Rejected), name
            await store.drop([name])
        assert [kept async for kept in store.kept()] == before
        assert await store.get(ref) == b"x"

    @opened_test("open_store")
    async def test_results_are_listed_by_execution_until_dropped(self, store: ClearableStore) -> None:
        assert [kept async for kept in store.kept()] == []
        refs = [
            await store.put(execution_id, body, "text/plain")
            for body in (b"one", b"seven..")
            for execution_id in ("f", "e")
        ]
        keys = [ref["locator"]["key"] for ref in refs]
        found = [kept async for kept in store.kept()]
        assert {(kept.key, kept.bytes) for kept in found} == {
            (ref["locator"]["key"], ref["meta"]["bytes"]) for ref in refs
        }
        assert [kept.key.partition("/")[0] for kept in found] in (["e", "e", "f", "f"], ["f", "f", "e", "e"])
        assert not any(kept.torn for kept in found)
        await store.drop([keys[0], keys[0], f"unknown/{'0' * 64}"])
        await store.drop([])
        assert {kept.key async for kept in store.kept()} == set(keys[1:])
        assert isinstance(await error_of(store.get(refs[0])), NotFound)
        assert await store.put("f", b"one", "text/plain") == refs[0]
        assert await store.get(refs[0]) == b"one"
