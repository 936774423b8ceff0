"""The contract of catalogs. The test of an adapter is a subclass whose `make` opens an empty one."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Final

from noetl.errors import NotFound, Rejected
from noetl.ports import Catalog, PlaybookText, PlaybookVersion
from noetl.testing.contracts import async_test, error_of

HALF: Final = "half \ud800"  # a lone surrogate, which a command line may contain and no database can store
STRANGE: Final = (HALF, "\0", "%", "_", "'", "", "x" * 10_000)  # names that are never stored


class CatalogContract:
    """Playbook texts by digest, by path and by version."""

    @abstractmethod
    def make(self) -> AbstractAsyncContextManager[Catalog]: ...

    @async_test
    async def test_a_text_is_found_by_digest_and_the_newest_by_path(self) -> None:
        async with self.make() as catalog:
            first, second = (PlaybookText("d1", "p", "ü: 1\n", "/tmp/p.yaml"), PlaybookText("d2", "p", "ü: 2\n"))
            for text in (first, second, PlaybookText("d3", "q", "other")):
                await catalog.put(text)
            assert await catalog.get("d1") == first
            assert await catalog.newest("p") == second

    @async_test
    async def test_a_repeated_text_becomes_the_newest_without_a_new_version(self) -> None:
        async with self.make() as catalog:
            first, second = PlaybookText("d1", "p", "1"), PlaybookText("d2", "p", "2")
            for text in (first, second, second, first):
                await catalog.put(text)
            assert await catalog.newest("p") == first
            assert await catalog.get("d2") == second
            assert [_short(each) for each in await catalog.versions("p")] == [(2, "d2", False), (1, "d1", True)]

    @async_test
    async def test_a_repeated_text_gets_the_new_origin(self) -> None:
        async with self.make() as catalog:
            text = PlaybookText("d1", "p", "1", "/a.yaml")
            for origin in ("/a.yaml", "/b.yaml", None):
                await catalog.put(text._replace(origin=origin))
            assert (await catalog.get("d1")).origin == "/b.yaml", "a text without an origin keeps the known one"

    @async_test
    async def test_versions_of_each_path_are_numbered_from_one(self) -> None:
        async with self.make() as catalog:
            texts = [PlaybookText(f"{path}{number}", path, f"{number}") for number in (1, 2) for path in "pq"]
            for text in texts:
                await catalog.put(text)
            assert [(await catalog.newest("q", number)).digest for number in (1, 2)] == ["q1", "q2"]
            assert [_short(each) for each in await catalog.versions("p")] == [(2, "p2", True), (1, "p1", False)]
            for version in (-1, 0, 3, 1 << 40, 1 << 70):
                assert isinstance(await error_of(catalog.newest("p", version)), NotFound)

    @async_test
    async def test_a_version_keeps_the_time_of_its_first_registration(self) -> None:
        async with self.make() as catalog:
            for digest in ("d1", "d2"):
                await catalog.put(PlaybookText(digest, "p", digest))
            before = await catalog.versions("p")
            await catalog.put(PlaybookText("d1", "p", "d1", "/p.yaml"))
            after = await catalog.versions("p")
            assert [each.at for each in after] == [each.at for each in before]
            assert after[0].at >= after[1].at
            assert all(each.at.utcoffset() == timedelta(0) for each in after)

    @async_test
    async def test_concurrent_texts_get_one_version_each(self) -> None:
        async with self.make() as catalog:
            texts = [PlaybookText(f"d{number % 8}", "p", f"{number % 8}") for number in range(24)]
            await asyncio.gather(*(catalog.put(text) for text in texts))
            found = await catalog.versions("p")
            assert [each.version for each in found] == [8, 7, 6, 5, 4, 3, 2, 1]
            assert {each.digest for each in found} == {text.digest for text in texts}
            assert [each.digest for each in found if each.current] == [(await catalog.newest("p")).digest]

    @async_test
    async def test_paths_are_listed_in_order_and_in_pages(self) -> None:
        async with self.make() as catalog:
            assert await catalog.list() == []
            paths = ["b", "B", "a/b", "a-b", "a", "ä", "_", "a b"]
            for path in paths:
                for number in (1, 2):
                    await catalog.put(PlaybookText(f"{path}{number}", path, path * number))
            found = await catalog.list()
            assert [each.path for each in found] == sorted(paths)
            assert all(each.version == 2 and each.current and not each.archived for each in found)
            assert await catalog.list(limit=3) == found[:3]
            assert await catalog.list(after=found[2].path, limit=3) == found[3:6]
            assert await catalog.list(after=sorted(paths)[-1]) == []
            assert await catalog.list(after="a,") == [each for each in found if each.path > "a,"]
            assert await catalog.list(limit=0) == await catalog.list(limit=-1) == []

    @async_test
    async def test_an_archived_path_has_no_newest_text_but_keeps_its_versions(self) -> None:
        async with self.make() as catalog:
            for text in (PlaybookText("d1", "p", "1"), PlaybookText("d2", "p", "2"), PlaybookText("d3", "q", "3")):
                await catalog.put(text)
            for _ in range(2):
                await catalog.archive("p")
            for work in (catalog.newest("p"), catalog.newest("p", 1)):
                assert isinstance(await error_of(work), NotFound)
            assert (await catalog.get("d2")).text == "2"
            assert [each.path for each in await catalog.list()] == ["q"]
            both = await catalog.list(archived=True)
            assert [(each.path, each.archived) for each in both] == [("p", True), ("q", False)]
            assert all(each.archived for each in await catalog.versions("p"))

    @async_test
    async def test_registering_any_text_reopens_an_archived_path(self) -> None:
        async with self.make() as catalog:
            texts = (PlaybookText("d1", "p", "1"), PlaybookText("d2", "p", "2"), PlaybookText("d3", "p", "3"))
            await catalog.put(texts[0])
            await catalog.put(texts[1])
            for text in (texts[1], texts[0], texts[2]):  # the current one, an older one, a new one
                await catalog.archive("p")
                await catalog.put(text)
                assert await catalog.newest("p") == text
                assert not any(each.archived for each in await catalog.versions("p"))

    @async_test
    async def test_an_unknown_text_is_not_found(self) -> None:
        async with self.make() as catalog:
            await catalog.put(PlaybookText("d1", "p", "1"))
            for name in ("none", *STRANGE):
                for read in (catalog.get, catalog.newest, catalog.versions, catalog.archive):
                    assert isinstance(await error_of(read(name)), NotFound)
            for after in STRANGE:
                assert len(await catalog.list(after=after)) <= 1

    @async_test
    async def test_invalid_unicode_is_refused(self) -> None:
        async with self.make() as catalog:
            for text in (PlaybookText("d", HALF, "1"), PlaybookText("d", "p", HALF), PlaybookText("d", "p", "1", HALF)):
                assert isinstance(await error_of(catalog.put(text)), Rejected)
            assert await catalog.list() == []


def _short(version: PlaybookVersion) -> tuple[int, str, bool]:
    return version.version, version.digest, version.current
