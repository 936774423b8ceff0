"""What all result stores share: how a result is named, what a Ref to it says, and how damage is seen.

A name is checked before any store hears of it, so that no Ref, whoever wrote it, reaches anything else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from typing import Final, NamedTuple

from noetl.errors import Damaged, NotFound, Rejected
from noetl.output import JSON

CHUNK_BYTES: Final = 1 << 18  # of a result that is read in pieces
PART_BYTES: Final = 1 << 20  # of a result that is kept in pieces, as rows of a table

_EXECUTION: Final = re.compile(r"[0-9a-zA-Z-]{1,64}")
_KEY: Final = re.compile(r"([0-9a-zA-Z-]{1,64})/([0-9a-f]{64})")


class Name(NamedTuple):
    """A result, as its Ref names it."""

    execution_id: str
    digest: str  # sha256 of what is stored
    size: int

    @property
    def key(self) -> str:
        return f"{self.execution_id}/{self.digest}"

    def check(self, size: int, digest: str) -> None:
        """Raises Damaged when what was read is not that."""
        if size != self.size or digest != self.digest:
            raise self.damaged()

    def damaged(self) -> Damaged:
        return Damaged(
            f"result {self.key} is not what was stored: restore it from a backup, or run its step again"
        )

    def missing(self) -> NotFound:
        return NotFound(f"no result {self.key}")


class Place(NamedTuple):
    """One result store, as Refs name it: their type, and what their locators say besides the key."""

    type: str
    locator: Mapping[str, str]

    def ref(self, name: Name, content_type: str) -> dict[str, JSON]:
        meta = {"content_type": content_type, "bytes": name.size, "sha256": name.digest}
        return {"type": self.type, "locator": {**self.locator, "key": name.key}, "meta": meta}

    def has(self, ref: JSON) -> bool:
        """Is it a Ref into this store?"""
        match ref:
            case {"type": self.type, "locator": {"key": _, **others}}:
                return others == self.locator
        return False

    def name(self, ref: JSON) -> Name:
        """Raises NotFound when the Ref names no result, or one that lies elsewhere."""
        if not self.has(ref):
            raise NotFound("no result: the reference names none in this store")
        key = ref["locator"]["key"]
        found = _KEY.fullmatch(key) if isinstance(key, str) else None
        if found is None:
            raise NotFound(f"no result {str(key)[:140]}")
        match ref.get("meta"):
            case {"bytes": int(size), "sha256": str(digest)} if digest == found[2] and size >= 0:
                return Name(found[1], digest, size)
        raise NotFound("no result: the reference does not say what is there")


def checked(execution_id: str) -> str:
    """The id, fit to be a part of a name. Raises Rejected."""
    if not _EXECUTION.fullmatch(execution_id):
        raise Rejected("bad-id", f'"{execution_id}" is no id of an execution')
    return execution_id


def name_of(execution_id: str, body: bytes) -> Name:
    """Raises Rejected for an id that is none."""
    return Name(checked(execution_id), hashlib.sha256(body).hexdigest(), len(body))


async def verified(name: Name, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same chunks; one more than there should be, or another digest in the end, is Damaged."""
    digest, size = hashlib.sha256(), 0
    async for chunk in chunks:
        size += len(chunk)
        if size > name.size:
            raise name.damaged()
        digest.update(chunk)
        yield chunk
    name.check(size, digest.hexdigest())


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    """What is held already, for those who write streams."""
    for first in range(0, len(body), PART_BYTES):
        yield body[first : first + PART_BYTES]


async def gathered(chunks: AsyncIterator[bytes]) -> bytes:
    """All of it, for whoever wants to hold it."""
    return b"".join([chunk async for chunk in chunks])


async def cut(chunks: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """The same bytes in pieces of that size, the last one aside; none of them is empty."""
    waiting = bytearray()
    async for chunk in chunks:
        if not waiting and len(chunk) == size:
            yield chunk
            continue
        waiting += chunk
        while len(waiting) >= size:
            yield bytes(waiting[:size])
            del waiting[:size]
    if waiting:
        yield bytes(waiting)
