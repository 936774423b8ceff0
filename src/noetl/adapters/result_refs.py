"""Names and Refs of results, shared by all result stores.

A store checks the name in a Ref before it uses it, so a forged Ref reaches nothing else.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from noetl.errors import Damaged, NoetlError, NotFound, Rejected
from noetl.output import JSON

CHUNK_BYTES: Final = 1 << 18  # of a result that is read in chunks
PART_BYTES: Final = 1 << 20  # of a result that is stored in parts, as rows of a table

EXECUTION: Final = re.compile(r"[0-9a-zA-Z-]{1,64}")
KEY: Final = re.compile(r"([0-9a-zA-Z-]{1,64})/([0-9a-f]{64})")
TORN_KEY: Final = re.compile(r"([0-9a-zA-Z-]{1,64})/\.(\d{1,18})")  # of an incomplete result in a table


class ResultName(NamedTuple):
    """A result as its Ref identifies it."""

    execution_id: str
    digest: str  # sha256 of the stored bytes
    size: int

    @property
    def key(self) -> str:
        return f"{self.execution_id}/{self.digest}"

    def check(self, size: int, digest: str) -> None:
        """Raises Damaged if the stored bytes do not match the name."""
        if size != self.size or digest != self.digest:
            raise self.damaged()

    def damaged(self) -> Damaged:
        advice = "restore it from a backup, or run its step again"
        return Damaged(f"result {self.key} has changed since it was stored: {advice}")

    def missing(self) -> NotFound:
        return NotFound(f"no result {self.key}")


class RefLocation(NamedTuple):
    """The part of a Ref that identifies the store: the type, and the locator without the key."""

    type: str
    locator: Mapping[str, str]

    def ref(self, name: ResultName, content_type: str) -> dict[str, JSON]:
        meta = {"content_type": content_type, "bytes": name.size, "sha256": name.digest}
        return {"type": self.type, "locator": {**self.locator, "key": name.key}, "meta": meta}

    def has(self, ref: JSON) -> bool:
        """Whether the Ref belongs to this store."""
        match ref:
            case {"type": self.type, "locator": {"key": _, **others}}:
                return others == self.locator
        return False

    def name(self, ref: JSON) -> ResultName:
        """Raises NotFound if the Ref is invalid or belongs to another store."""
        if not self.has(ref):
            raise NotFound("no result: the reference does not belong to this store")
        key = ref["locator"]["key"]
        match = KEY.fullmatch(key) if isinstance(key, str) else None
        if match is None:
            raise NotFound(f"no result {str(key)[:140]}")
        match ref.get("meta"):
            case {"bytes": int(size), "sha256": str(digest)} if digest == match[2] and size >= 0:
                return ResultName(match[1], digest, size)
        raise NotFound("no result: the reference has no valid size and digest")


def checked_id(execution_id: str) -> str:
    """The id, if it can be part of a key. Raises Rejected."""
    if not EXECUTION.fullmatch(execution_id):
        raise Rejected("bad-id", f'"{execution_id}" is not an execution id')
    return execution_id


def name_of(execution_id: str, body: bytes) -> ResultName:
    """Raises Rejected for an invalid id."""
    return ResultName(checked_id(execution_id), hashlib.sha256(body).hexdigest(), len(body))


async def verified(name: ResultName, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same chunks. Raises Damaged if they are too many, or have another digest in the end."""
    digest, size = hashlib.sha256(), 0
    async for chunk in chunks:
        size += len(chunk)
        if size > name.size:
            raise name.damaged()
        digest.update(chunk)
        yield chunk
    name.check(size, digest.hexdigest())


async def split(body: bytes) -> AsyncIterator[bytes]:
    """A body in parts."""
    for first in range(0, len(body), PART_BYTES):
        yield body[first : first + PART_BYTES]


async def joined(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


async def resized(chunks: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """The same bytes in chunks of that size; the last one may be smaller. None of them is empty."""
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


class PartTable(Protocol):
    """A table that stores a result in parts, under a number until its name is known."""

    async def add_part(self, execution_id: str, id: int | None, place: int, part: bytes) -> int:
        """Commit a part, so that no writer waits for a slow stream. Returns the number of the result."""
        ...

    async def finish(self, id: int | None, name: ResultName) -> None:
        """Give the result its name, or remove it if the same one exists. `id` None: it is empty."""
        ...

    async def forget(self, id: int) -> None: ...


async def write_parts(table: PartTable, execution_id: str, chunks: AsyncIterator[bytes]) -> ResultName:
    """Store a stream. If it fails, its parts are removed."""
    digest, size, place = hashlib.sha256(), 0, 0
    id: int | None = None
    try:
        async for part in resized(chunks, PART_BYTES):
            digest.update(part)
            size += len(part)
            id = await table.add_part(execution_id, id, place, part)
            place += 1
        name = ResultName(execution_id, digest.hexdigest(), size)
        await table.finish(id, name)
    except BaseException:
        if id is not None:
            with suppress(NoetlError):
                await asyncio.shield(table.forget(id))
        raise
    return name
