"""The content of one object: read as a stream, compared with the digest of its Ref, and written with one."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

import obstore
from obstore.store import ObjectStore

from noetl.output import JSON, Output
from noetl.tools.errors import ToolError
from noetl.tools.object.stores import ObjectUrl, failure_of

CHUNK_BYTES: Final = 1 << 20
PART_BYTES: Final = 8 << 20  # of a multipart upload
UPLOADS_MAX: Final = 4  # concurrent parts: 32 MB of memory for one upload


class ChangedObject(ToolError):
    """The object is not the one that the Ref names."""

    kind = "reference"


class OpenedObject(NamedTuple):
    size: int
    etag: str | None
    content_type: str
    chunks: AsyncIterator[bytes]


async def open_object(store: ObjectStore, url: ObjectUrl, if_match: str | None = None) -> OpenedObject:
    """Raises the errors of obstore."""
    options: Any = None if if_match is None else {"if_match": if_match}
    found = await obstore.get_async(store, url.path, options=options)

    async def chunks() -> AsyncIterator[bytes]:
        async for chunk in found.stream(min_chunk_size=CHUNK_BYTES):
            yield bytes(chunk)

    declared = str(found.attributes.get("Content-Type") or "")
    content_type = url.content_type if declared in ("", "application/octet-stream", "binary/octet-stream") else declared
    return OpenedObject(found.meta["size"], found.meta["e_tag"], content_type, chunks())


class WrittenObject(NamedTuple):
    size: int
    sha256: str
    etag: str | None


async def write_object(
    store: ObjectStore, url: ObjectUrl, body: bytes | AsyncIterator[bytes], content_type: str, *, overwrite: bool = True
) -> WrittenObject:
    """Store the content; an object is complete or does not exist. Raises the errors of obstore."""
    digest, size = hashlib.sha256(), 0

    async def counted(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        nonlocal size
        async for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
            yield chunk

    if isinstance(body, bytes):
        digest.update(body)
        size = len(body)
    done = await obstore.put_async(
        store,
        url.path,
        body if isinstance(body, bytes) else counted(body),
        attributes=None if url.system == "file" else {"Content-Type": content_type},
        mode="overwrite" if overwrite else "create",
        use_multipart=False if not overwrite or (isinstance(body, bytes) and size <= PART_BYTES) else None,
        chunk_size=PART_BYTES,
        max_concurrency=UPLOADS_MAX,
    )
    return WrittenObject(size, digest.hexdigest(), done["e_tag"])


class ObjectPayload:
    """The object of a Ref, with the reading methods of a result store. Its digest is verified."""

    def __init__(self, store: ObjectStore, url: ObjectUrl) -> None:
        self._store = store
        self._url = url

    async def get(self, ref: dict[str, JSON]) -> bytes:
        return b"".join([chunk async for chunk in self.read(ref)])

    async def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        """Raises ToolError, also after the last chunk."""
        meta = ref.get("meta") or {}
        expected, etag = meta.get("sha256"), meta.get("etag")
        digest = hashlib.sha256()
        try:
            opened = await open_object(self._store, self._url, etag if expected is None else None)
            async for chunk in opened.chunks:
                digest.update(chunk)
                yield chunk
        except ToolError:
            raise
        except Exception as error:
            raise ObjectError(error, self._url) from error
        if expected is not None and digest.hexdigest() != expected:
            raise ChangedObject(f'"{self._url}" has changed since the Ref was made')


class ObjectError(ToolError):
    """The store failed while the object was read."""

    kind = "object"

    def __init__(self, error: Exception, url: ObjectUrl) -> None:
        self._output = failure_of(error, url)
        failure = self._output.error
        super().__init__(failure.message if failure is not None else str(url))

    def output(self) -> Output:
        return self._output
