"""Results as objects in a bucket, `<prefix>/<execution>/<sha256>`. An object is complete or does not exist.

Credentials come from the environment or the machine, as for the tools of the cloud. No Ref contains one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

from noetl.adapters.files import spooled
from noetl.adapters.result_refs import (
    CHUNK_BYTES,
    KEY,
    PART_BYTES,
    RefLocation,
    ResultName,
    joined,
    name_of,
    resized,
    verified,
)
from noetl.errors import NotFound, Rejected, Unavailable
from noetl.output import JSON
from noetl.ports import StoredResult

if TYPE_CHECKING:
    from obstore.store import RetryConfig

MULTIPART_BYTES: Final = 8 << 20  # of one part of a large upload
UPLOADS_MAX: Final = 4  # concurrent parts: 32 MB of memory for one upload
DELETE_BATCH: Final = 500
RETRIES: Final = 4
RETRY_S: Final = 20
SCHEMES: Final = ("s3", "gs", "az")


class ObjectResults:
    """A `ResultStore` on `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`."""

    def __init__(self, url: str, endpoint: str | None = None) -> None:
        """`endpoint`: of another S3 service than Amazon's. Raises Rejected."""
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or not parts.hostname or parts.username or parts.query:
            known = ", ".join(f"{each}://bucket/prefix" for each in SCHEMES)
            raise Rejected("bad-setting", f"the address of an object store is one of {known}")
        bucket, prefix = parts.netloc, parts.path.strip("/")
        locator = {"store": parts.scheme, "bucket": bucket, **({"prefix": prefix} if prefix else {})}
        self.place = RefLocation("object_store", locator)
        self._url = f"{parts.scheme}://{bucket}"
        self._store = _open(parts.scheme, bucket, prefix or None, endpoint)

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        name = name_of(execution_id, body)
        await self._upload(name, body)
        return self.place.ref(name, content_type)

    async def get(self, ref: dict[str, JSON]) -> bytes:
        return await joined(self.read(ref))

    async def write(self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str) -> dict[str, JSON]:
        async with spooled(execution_id, chunks) as whole:
            await self._upload(whole.name, whole.body)
            return self.place.ref(whole.name, content_type)

    async def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        name = self.place.name(ref)
        async for chunk in verified(name, resized(self._chunks(name), CHUNK_BYTES)):
            yield chunk

    async def kept(self) -> AsyncIterator[StoredResult]:
        with self._translated():
            async for batch in obstore.list(self._store, chunk_size=1_000):
                for each in batch:
                    if KEY.fullmatch(each["path"]):
                        yield StoredResult(each["path"], each["size"], each["last_modified"])

    async def drop(self, keys: Sequence[str]) -> None:
        known = list(dict.fromkeys(key for key in keys if KEY.fullmatch(key)))
        for first in range(0, len(known), DELETE_BATCH):
            with self._translated(), _ignore_missing():
                await obstore.delete_async(self._store, known[first : first + DELETE_BATCH])

    async def _upload(self, name: ResultName, body: bytes | Path) -> None:
        """An object of this name always has the same content: writing it again changes nothing."""
        with self._translated():
            await obstore.put_async(
                self._store,
                name.key,
                body,
                use_multipart=None if name.size > MULTIPART_BYTES else False,
                chunk_size=MULTIPART_BYTES,
                max_concurrency=UPLOADS_MAX,
            )

    async def _chunks(self, name: ResultName) -> AsyncIterator[bytes]:
        with self._translated(name):
            found = await obstore.get_async(self._store, name.key)
            async for chunk in found.stream(min_chunk_size=PART_BYTES):
                yield bytes(chunk)

    @contextmanager
    def _translated(self, name: ResultName | None = None) -> Iterator[None]:
        """Raise Unavailable with the type of the error only: its text may contain addresses and answers."""
        try:
            yield
        except FileNotFoundError as error:
            raise name.missing() if name else NotFound(f"{self._url} does not exist") from error
        except (BaseError, OSError, ValueError) as error:
            raise Unavailable(f"the result store {self._url} fails ({type(error).__name__})") from error


def _open(scheme: str, bucket: str, prefix: str | None, endpoint: str | None) -> ObjectStore:
    """The store, with the credentials and settings of the environment, or the role of the machine."""
    retry: RetryConfig = {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_S)}
    try:
        if scheme == "gs":
            return GCSStore(bucket, prefix=prefix, client_options={"allow_http": True}, retry_config=retry)
        if scheme == "az":
            return AzureStore(bucket, prefix=prefix, client_options={"allow_http": True}, retry_config=retry)
    except (BaseError, ValueError) as error:
        # Without the text of the error, which may contain a key.
        raise Rejected("bad-setting", f"the environment has no valid credentials for {scheme}://{bucket}") from error
    return S3Store(
        bucket,
        prefix=prefix,
        config={"endpoint": endpoint} if endpoint else None,
        client_options={"allow_http": bool(endpoint and endpoint.startswith("http://"))},
        retry_config=retry,
    )


@contextmanager
def _ignore_missing() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        return
