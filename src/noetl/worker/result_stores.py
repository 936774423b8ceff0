"""All result stores of a house as one: what is put goes where it should, a Ref is found where it lies.

What was packed when it was stored is unpacked here, within the size that its Ref says.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from noetl.errors import NotFound, Rejected
from noetl.output import JSON
from noetl.ports import ResultCleanup, ResultStore
from noetl.worker.compression import unpacked


class Placed(Protocol):
    """Where the Refs of a store point."""

    @property
    def type(self) -> str: ...

    @property
    def locator(self) -> Mapping[str, str]:
        """What it says besides the key: the bucket, the prefix."""
        ...

    def has(self, ref: JSON) -> bool: ...


class PlacedStore(ResultStore, ResultCleanup, Protocol):
    """A store that knows its own Refs."""

    @property
    def place(self) -> Placed: ...


@runtime_checkable
class StoreSelector(Protocol):
    """A result store that is several."""

    def chosen(self, wanted: Mapping[str, JSON]) -> ResultStore:
        """What `spec.result.store` asks for. Raises Rejected: no such one is configured."""
        ...


class NamedStore(NamedTuple):
    """A store under the name that playbooks know it by."""

    kind: str  # "files", "sqlite", "s3", "nats_object", "postgres"
    store: PlacedStore
    shared: bool = False  # with other houses, whose results are not ours to judge


class ResultStores:
    """Keeps the contract of ResultStore over several; the first one is where things go by default."""

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
        async for chunk in unpacked(_meta(ref), self._holding(ref).read(ref)):
            yield chunk

    def chosen(self, wanted: Mapping[str, JSON]) -> ResultStore:
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
        said = ", ".join(
            f"{part}: {wanted[part]}" for part in ("kind", "bucket", "prefix", "auth") if part in wanted
        )
        raise Rejected("unknown-store", f"no result store {{{said}}} is configured here: there is {names}")

    async def close(self) -> None:
        """Those that have connections give them back."""
        for each in self.offered:
            close = getattr(each.store, "close", None)
            if close is not None:
                await close()

    def _holding(self, ref: dict[str, JSON]) -> ResultStore:
        for each in self.offered:
            if each.store.place.has(ref):
                return each.store
        raise NotFound(
            f"no result: no store of type {str(ref.get('type'))[:40]!a} is configured here that has it"
        )


def _meta(ref: dict[str, JSON]) -> dict[str, JSON]:
    meta = ref.get("meta")
    return meta if isinstance(meta, dict) else {}
