"""Items of lists in the result store: read page by page, in any order, of several lists in turns."""

from __future__ import annotations

import asyncio

from noetl.adapters.memory import MemoryResults
from noetl.paging import CACHED_PAGES, NOT_CACHED, PAGE_BYTES, PAGE_ITEMS, PageReader, put_pages


def test_items_of_several_lists_are_read_in_any_order() -> None:
    async def work() -> None:
        results = MemoryResults()
        lists = [[f"{name}{number}" for number in range(3 * PAGE_ITEMS + 7)] for name in "ab"]
        refs = [await put_pages(results, "e", items) for items in lists]
        reader = PageReader(results)
        places = [0, 1, PAGE_ITEMS - 1, PAGE_ITEMS, PAGE_ITEMS - 1, len(lists[0]) - 1]
        places += [number * 7_919 % len(lists[0]) for number in range(300)]
        for place in places:
            for ref, items in zip(refs, lists, strict=True):
                assert await reader.item(ref, place) == items[place]

    asyncio.run(work())


def test_a_list_with_more_pages_than_are_cached_is_read_twice() -> None:
    async def work() -> None:
        results = MemoryResults()
        items = list(range((CACHED_PAGES + 2) * PAGE_ITEMS))
        ref = await put_pages(results, "e", items)
        reader = PageReader(results)
        for _ in range(2):
            assert [await reader.item(ref, place) for place in range(0, len(items), 250)] == items[::250]

    asyncio.run(work())


def test_only_items_of_the_last_page_are_at_hand_without_reading() -> None:
    async def work() -> None:
        results = MemoryResults()
        mine, other = [[*range(first, first + PAGE_ITEMS + 1)] for first in (0, 7)]
        ref, other_ref = await put_pages(results, "e", mine), await put_pages(results, "e", other)
        reader = PageReader(results)
        assert reader.cached_item(ref, 0) is NOT_CACHED
        await reader.item(ref, 0)
        results.bodies.clear()
        assert reader.cached_item(ref, PAGE_ITEMS - 1) == mine[PAGE_ITEMS - 1]
        assert reader.cached_item(ref, PAGE_ITEMS) is NOT_CACHED
        assert reader.cached_item(other_ref, 0) is NOT_CACHED

    asyncio.run(work())


def test_pages_are_limited_by_items_and_bytes() -> None:
    async def sizes(items: list[str]) -> list[int]:
        results = MemoryResults()
        await put_pages(results, "e", items)
        return sorted(len(body) for body, _ in results.bodies.values())

    async def work() -> None:
        assert len(await sizes([f"{number:04}" for number in range(3 * PAGE_ITEMS)])) == 3 + 1  # and the index
        large = await sizes([f"{number:04}" + "x" * 1_000 for number in range(1_000)])
        assert PAGE_BYTES * 0.9 < large[-2] <= PAGE_BYTES * 1.01

    asyncio.run(work())
