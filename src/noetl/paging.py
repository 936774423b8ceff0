"""Lists that are too large for the log, in the result store: an index, and pages that are read separately.

A reader of an item caches its page for the neighbouring items; the whole list is never in memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct
from msgspec.json import decode, encode

from noetl.cache import BoundedCache
from noetl.output import JSON
from noetl.ports import ResultStore

PAGE_ITEMS: Final = 4_000
PAGE_BYTES: Final = 262_144
CACHED_PAGES: Final = 16  # about 1 MB each, decoded
JSON_TYPE: Final = "application/json"
NOT_CACHED: Final = object()  # in place of an item


async def put_pages(results: ResultStore, execution_id: str, items: Sequence[JSON]) -> dict[str, JSON]:
    """Store the items durably, and return a Ref to the index. Equal items give equal Refs."""
    total = sum(len(encode(items[first : first + PAGE_ITEMS])) for first in range(0, len(items), PAGE_ITEMS))
    size = max(1, min(PAGE_ITEMS, PAGE_BYTES * len(items) // max(1, total)))
    pages = [
        await results.put(execution_id, encode(items[first : first + size]), JSON_TYPE)
        for first in range(0, len(items), size)
    ]
    index = {"count": len(items), "size": size, "pages": pages}
    ref = await results.put(execution_id, encode(index), JSON_TYPE)
    return {**ref, "meta": {**ref["meta"], "count": len(items)}}


class _Page(Struct, frozen=True):
    locator: JSON  # of the list
    first: int  # the place of its first item
    items: Sequence[JSON]


class PageReader:
    """A reader of such lists with a cache of recent pages."""

    def __init__(self, results: ResultStore) -> None:
        self._results = results
        self._pages: BoundedCache[str, JSON] = BoundedCache(CACHED_PAGES)
        self._indexes: BoundedCache[str, JSON] = BoundedCache(CACHED_PAGES)
        self._last = _Page(None, 0, ())  # the next item is usually in it

    async def item(self, ref: dict[str, JSON], place: int) -> JSON:
        """Raises NotFound, Damaged or Unavailable, as the store does."""
        item = self.cached_item(ref, place)
        if item is NOT_CACHED:
            page = self._last = await self._page(ref, place)
            item = page.items[place - page.first]
        return item

    def cached_item(self, ref: dict[str, JSON], place: int) -> JSON:
        """The item, if its page was the last one that was read; otherwise NOT_CACHED."""
        page = self._last
        if page.locator != ref["locator"] or not 0 <= place - page.first < len(page.items):
            return NOT_CACHED
        return page.items[place - page.first]

    async def _page(self, ref: dict[str, JSON], place: int) -> _Page:
        index = await self._read(self._indexes, ref)
        number = place // index["size"]
        items = await self._read(self._pages, index["pages"][number])
        return _Page(ref["locator"], number * index["size"], items)

    async def _read(self, cache: BoundedCache[str, JSON], ref: dict[str, JSON]) -> JSON:
        key = str(ref["locator"])
        found = cache.get(key)
        return cache.put(key, decode(await self._results.get(ref))) if found is None else found


@runtime_checkable
class SliceableStore(Protocol):
    """A result store that returns slices of a list without reading the whole."""

    async def part(self, ref: dict[str, JSON], first: int | None, last: int | None) -> list[JSON] | None:
        """A slice of a list, as in Python; None: only the whole list can be read."""
        ...


async def lines(chunks: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    """All lines except blank ones. Raises ValueError when one is larger than `most`."""
    waiting = b""
    async for chunk in chunks:
        *whole, waiting = (waiting + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
        if len(waiting) > most:
            raise ValueError(f"a line is larger than {most:,} bytes")
    if waiting.strip():
        yield waiting


def is_ndjson(content_type: str) -> bool:
    """Whether it has one JSON value on each line."""
    return content_type.partition(";")[0].strip().lower().endswith("ndjson")


def is_json(ref: dict[str, JSON]) -> bool:
    """Whether the data is JSON. Results of a loop have no content type: they are converted to JSON."""
    return str((ref.get("meta") or {}).get("content_type", JSON_TYPE)).startswith(JSON_TYPE)


def items_in(body: bytes, content_type: str) -> list[JSON]:
    """The data behind a Ref as items of a loop (D44): a JSON array, NDJSON, or a mapping.

    Raises ValueError, which names the actual type.
    """
    if is_ndjson(content_type):
        return [decode(line) for line in body.splitlines() if line.strip()]
    value = decode(body)
    if isinstance(value, dict):
        return [{"key": key, "value": each} for key, each in value.items()]
    if not isinstance(value, list):
        raise ValueError(f"the data is {type(value).__name__}, not a list")
    return value
