"""Lists that are too large for the log, in the result store: an index, and pages that are read one by one.

Whoever needs an item fetches its page and keeps it for the neighbours; nobody holds the list.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol, runtime_checkable

from msgspec.json import decode, encode

from noetl.output import JSON
from noetl.ports import ResultStore

PAGE_ITEMS: Final = 1_000
PAGE_BYTES: Final = 262_144
KEPT_PAGES: Final = 32
JSON_TYPE: Final = "application/json"


async def put_pages(results: ResultStore, execution_id: str, items: Sequence[JSON]) -> dict[str, JSON]:
    """Durable when it returns: a Ref to the index. The same items are the same Ref."""
    sizes = [len(encode(item)) for item in items]
    size = max(1, min(PAGE_ITEMS, PAGE_BYTES * len(items) // max(1, sum(sizes))))
    pages = [
        await results.put(execution_id, encode(items[first : first + size]), JSON_TYPE)
        for first in range(0, len(items), size)
    ]
    index = {"count": len(items), "size": size, "pages": pages}
    ref = await results.put(execution_id, encode(index), JSON_TYPE)
    return {**ref, "meta": {**ref["meta"], "count": len(items)}}


class Pages:
    """A reader of such lists that keeps the last pages it has seen."""

    def __init__(self, results: ResultStore) -> None:
        self._results = results
        self._kept: OrderedDict[str, list[JSON]] = OrderedDict()
        self._indexes: OrderedDict[str, JSON] = OrderedDict()

    async def item(self, ref: dict[str, JSON], place: int) -> JSON:
        """Raises NotFound, Damaged or Unavailable, as the store does."""
        index = await self._index(ref)
        page, offset = divmod(place, index["size"])
        return (await self._page(index["pages"][page]))[offset]

    async def _index(self, ref: dict[str, JSON]) -> JSON:
        return await self._remembered(self._indexes, ref)

    async def _page(self, ref: dict[str, JSON]) -> list[JSON]:
        page: list[JSON] = await self._remembered(self._kept, ref)
        return page

    async def _remembered(self, kept: OrderedDict[str, JSON], ref: dict[str, JSON]) -> JSON:
        key = str(ref["locator"])
        if key in kept:
            kept.move_to_end(key)
        else:
            kept[key] = decode(await self._results.get(ref))
            while len(kept) > KEPT_PAGES:
                kept.popitem(last=False)
        return kept[key]


@runtime_checkable
class Parted(Protocol):
    """A result store that gives parts of what it would not want to give whole."""

    async def part(self, ref: dict[str, JSON], first: int | None, last: int | None) -> list[JSON] | None:
        """Items of a list, as Python slices; None: it has no other way than the whole."""
        ...


async def lines(chunks: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    """Line by line, without those that are blank. Raises ValueError when one is larger than `most`."""
    waiting = b""
    async for chunk in chunks:
        *whole, waiting = (waiting + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
        if len(waiting) > most:
            raise ValueError(f"a line of it is larger than {most:,} bytes")
    if waiting.strip():
        yield waiting


def is_ndjson(content_type: str) -> bool:
    """One value a line."""
    return content_type.partition(";")[0].strip().lower().endswith("ndjson")


def is_json(ref: dict[str, JSON]) -> bool:
    """Results of a loop have no content type: they are made into JSON."""
    return str((ref.get("meta") or {}).get("content_type", JSON_TYPE)).startswith(JSON_TYPE)


def items_in(body: bytes, content_type: str) -> list[JSON]:
    """What lies behind a Ref, as the items of a loop (D44): a JSON array, NDJSON, or a mapping.

    Raises ValueError, which says what it is instead.
    """
    if is_ndjson(content_type):
        return [decode(line) for line in body.splitlines() if line.strip()]
    value = decode(body)
    if isinstance(value, dict):
        return [{"key": key, "value": each} for key, each in value.items()]
    if not isinstance(value, list):
        raise ValueError(f"it holds {type(value).__name__}, and not a list")
    return value
