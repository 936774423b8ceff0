"""All result stores of a deployment as one: new results go to the right store, Refs are read from theirs.

Compressed results are decompressed here, piece by piece, and never beyond the size in their Ref, so that a
manipulated result cannot exhaust the memory.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from noetl.errors import Damaged, NotFound, Rejected
from noetl.output import JSON
from noetl.ports import ResultCleanup, ResultStore

UNPACKED_BYTES_MAX: Final = 1 << 30
PIECE_BYTES: Final = 1 << 20
LEVEL: Final = 3  # 5 times faster than 9, and a tenth larger
_GZIP: Final = 31  # with a header, without a time: the same data gives the same bytes


class StoreLocation(Protocol):
    """The location that the Refs of a store contain."""

    @property
    def type(self) -> str: ...

    @property
    def locator(self) -> Mapping[str, str]:
        """Its parts besides the key: the bucket, the prefix."""
        ...

    def has(self, ref: JSON) -> bool: ...


class LocatedStore(ResultStore, ResultCleanup, Protocol):
    """A store that recognises its own Refs."""

    @property
    def place(self) -> StoreLocation: ...


@runtime_checkable
class StoreSelector(Protocol):
    """A result store that consists of several."""

    def select(self, wanted: Mapping[str, JSON]) -> ResultStore:
        """The store that `spec.result.store` names. Raises Rejected when none is configured."""
        ...


class NamedStore(NamedTuple):
    """A store, and the kind that playbooks use for it."""

    kind: str  # "files", "sqlite", "s3", "nats_object", "postgres"
    store: LocatedStore
    shared: bool = False  # with other deployments: their results must not be deleted


class ResultStores:
    """Implements ResultStore on several stores; the first one is the default."""

    def __init__(self, offered: Sequence[NamedStore]) -> None:
        self.offered = tuple(offered)

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        return await self.offered[0].store.put(execution_id, body, content_type)

    async def write(
        self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str
    ) -> dict[str, JSON]:
        return await self.offered[0].store.write(execution_id, chunks, content_type)

    async def get(self, ref: dict[str, JSON]) -> bytes:
        if "encoding" in _meta(ref):
            return b"".join([chunk async for chunk in self.read(ref)])
        return await self._holding(ref).get(ref)

    async def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        async for chunk in decompressed(_meta(ref), self._holding(ref).read(ref)):
            yield chunk

    def select(self, wanted: Mapping[str, JSON]) -> ResultStore:
        for kind, store, _ in self.offered:
            where = store.place.locator
            named = all(
                str(wanted[part]).strip("/") == where.get(part, "")
                for part in ("bucket", "prefix")
                if wanted.get(part) is not None
            )
            if wanted.get("kind") == kind and named and wanted.get("auth") is None:
                return store
        names = ", ".join(dict.fromkeys(f'"{each.kind}"' for each in self.offered))
        text = ", ".join(
            f"{part}: {wanted[part]}" for part in ("kind", "bucket", "prefix", "auth") if part in wanted
        )
        raise Rejected("unknown-store", f"no result store {{{text}}} is configured here; configured: {names}")

    async def close(self) -> None:
        """Close the connections of the stores."""
        for each in self.offered:
            close = getattr(each.store, "close", None)
            if close is not None:
                await close()

    def _holding(self, ref: dict[str, JSON]) -> ResultStore:
        for each in self.offered:
            if each.store.place.has(ref):
                return each.store
        raise NotFound(f"no result: no configured store of type {str(ref.get('type'))[:40]!a} has it")


async def compress(body: bytes) -> bytes:
    """With gzip, in another thread: 10 MB take about 100 ms."""
    return await asyncio.to_thread(zlib.compress, body, LEVEL, _GZIP)


async def decompressed(meta: Mapping[str, JSON], chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The original data; uncompressed chunks pass unchanged. Raises Damaged if they contradict their Ref."""
    if "encoding" not in meta:
        async for chunk in chunks:
            yield chunk
        return
    size = meta.get("unpacked_bytes")
    if meta["encoding"] != "gzip" or not isinstance(size, int) or not 0 <= size <= UNPACKED_BYTES_MAX:
        raise Damaged(f"a result has an unknown compression: {str(meta['encoding'])[:40]!a}")
    left, machine = size, zlib.decompressobj(_GZIP)
    try:
        async for chunk in chunks:
            while chunk:
                piece = machine.decompress(chunk, min(left + 1, PIECE_BYTES))
                chunk = machine.unconsumed_tail
                left -= len(piece)
                if left < 0:
                    raise Damaged(f"a compressed result is larger than its reference says ({size:,} bytes)")
                if piece:
                    yield piece
    except zlib.error as error:
        raise Damaged("a compressed result cannot be decompressed") from error
    if left or not machine.eof:
        raise Damaged(f"a compressed result is smaller than its reference says ({size:,} bytes)")


def _meta(ref: dict[str, JSON]) -> dict[str, JSON]:
    meta = ref.get("meta")
    return meta if isinstance(meta, dict) else {}
