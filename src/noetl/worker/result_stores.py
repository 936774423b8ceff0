"""All configured result stores as one, and the policy that selects a store for a result."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from msgspec.json import encode
from msgspec.structs import replace

from noetl.engine.scopes import ABSENT, at_path
from noetl.errors import Damaged, NotFound, Rejected
from noetl.output import JSON, Output, failed
from noetl.playbook.model import INLINE_BYTES_MAX
from noetl.ports import ResultCleanup, ResultStore

INLINE_BYTES_LIMIT: Final = 1 << 20  # upper limit for data in the log, regardless of the playbook
COMPRESS_FROM: Final = 1_024  # bytes; less does not become smaller
SELECTED_BYTES_MAX: Final = 16_384  # of all values that `select` keeps
COMPRESSIONS: Final = ("none", "gzip")
_DURATION: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*(s|m|h|d|w)?")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def seconds_of(text: JSON) -> float | None:
    """A number of seconds, or `90s`, `30m`, `24h`, `7d`, `2w`; None: it is not a duration."""
    if isinstance(text, bool):
        return None
    found = _DURATION.fullmatch(str(text).strip()) if isinstance(text, str | int | float) else None
    return float(found[1]) * _SECONDS[found[2] or "s"] if found else None


class ResultPolicy(NamedTuple):
    """The policy of one task."""

    inline_max: int = INLINE_BYTES_MAX
    store: Mapping[str, JSON] | None = None  # None: the default store
    ttl: JSON = None  # as written; None: as long as its execution is in the log
    compression: str = "none"
    select: Mapping[str, str] = {}  # name → dotted path in the data

    @classmethod
    def of(cls, spec: Mapping[str, JSON]) -> ResultPolicy:
        """Raises Rejected for invalid options."""
        options = spec.get("result")
        if not isinstance(options, dict):
            return DEFAULT
        inline, store = options.get("inline_max_bytes", INLINE_BYTES_MAX), options.get("store")
        ttl, compression = options.get("ttl"), options.get("compression", "none")
        if not isinstance(inline, int) or isinstance(inline, bool) or inline < 0:
            raise Rejected("bad-spec", "spec.result.inline_max_bytes must be a number of bytes")
        if isinstance(store, str):
            store = {"kind": store}
        if store is not None and not isinstance(store, dict):
            raise Rejected("bad-spec", "spec.result.store must be a mapping with the `kind` of a store")
        if ttl is not None and seconds_of(ttl) is None:
            raise Rejected("bad-spec", "spec.result.ttl must be seconds, or a duration such as 24h or 7d")
        if compression not in COMPRESSIONS:
            raise Rejected("bad-spec", f"spec.result.compression must be one of {', '.join(COMPRESSIONS)}")
        select = options.get("select") or {}
        if not isinstance(select, dict) or not all(isinstance(path, str) for path in select.values()):
            raise Rejected("bad-spec", "spec.result.select must be a mapping from names to paths such as `paging.next`")
        return cls(min(inline, INLINE_BYTES_LIMIT), store, ttl, compression, select)

    def selected(self, output: Output) -> Output:
        """The output with the small values that `select` keeps, even if the data is stored elsewhere."""
        if not self.select or output.data is None:
            return output
        found = {name: at_path(output.data, tuple(path.split("."))) for name, path in self.select.items()}
        kept = {name: value for name, value in found.items() if value is not ABSENT}
        if len(encode(kept)) > SELECTED_BYTES_MAX:
            message = f"spec.result.select keeps more than {SELECTED_BYTES_MAX:,} bytes: name smaller values"
            return failed("payload-too-large", message)
        return replace(output, meta={**output.meta, "select": kept})

    def store_in(self, results: ResultStore) -> ResultStore:
        """The store that the policy names. Raises Rejected when there is no such store."""
        if self.store is None:
            return results
        if not isinstance(results, StoreSelector):
            raise Rejected("unknown-store", "this worker has one result store, and `spec.result.store` names another")
        return results.select(self.store)

    async def put(self, results: ResultStore, execution_id: str, body: bytes) -> dict[str, JSON]:
        """Store JSON that is too large for the log. Raises as a store does."""
        small = await compress(body) if self.compression == "gzip" and len(body) >= COMPRESS_FROM else body
        if len(small) >= len(body):
            return self.with_ttl(execution_id, await results.put(execution_id, body, "application/json"))
        ref = await results.put(execution_id, small, "application/json")
        meta = {**ref["meta"], "encoding": "gzip", "unpacked_bytes": len(body)}
        return self.with_ttl(execution_id, {**ref, "meta": meta})

    def with_ttl(self, execution_id: str, ref: dict[str, JSON]) -> dict[str, JSON]:
        """The Ref with its time to live, if it belongs to this execution."""
        match ref:
            case {"locator": {"key": str(key)}, "meta": dict(meta)} if self.ttl is not None:
                if key.startswith(f"{execution_id}/"):
                    return {**ref, "meta": {**meta, "ttl": self.ttl}}
        return ref


DEFAULT: Final = ResultPolicy()


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

    kind: str  # "files", "sqlite", "s3", "gs", "az", "nats_object", "postgres"
    store: LocatedStore
    shared: bool = False  # with other deployments: their results must not be deleted


class ResultStores:
    """Implements ResultStore on several stores; the first one is the default."""

    def __init__(self, offered: Sequence[NamedStore]) -> None:
        self.offered = tuple(offered)

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        return await self.offered[0].store.put(execution_id, body, content_type)

    async def write(self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str) -> dict[str, JSON]:
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
        text = ", ".join(f"{part}: {wanted[part]}" for part in ("kind", "bucket", "prefix", "auth") if part in wanted)
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
