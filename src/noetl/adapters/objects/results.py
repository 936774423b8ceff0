"""Payloads as objects in a bucket, `<prefix>/<execution>/<sha256>`: an object is whole or not there at all.

Credentials are the environment's or the machine's own, as the cloud's tools know them; none is in a Ref.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from noetl.adapters.files.spool import spooled
from noetl.adapters.result_names import CHUNK_BYTES, PART_BYTES, Name, Place, cut, gathered, name_of, verified
from noetl.errors import NotFound, Rejected, Unavailable
from noetl.output import JSON
from noetl.ports import StoredResult

MULTIPART_BYTES: Final = 8 << 20  # of one part of a large upload
UPLOADS_MAX: Final = 4  # parts on their way at once: 32 MB of memory for one upload
DROPPED_TOGETHER: Final = 500
RETRIES: Final = 4
RETRY_S: Final = 20

_KEY: Final = re.compile(r"[0-9a-zA-Z-]{1,64}/[0-9a-f]{64}")


class ObjectResults:
    """Keeps the contract of ResultStore on `s3://bucket/prefix`."""

    def __init__(self, url: str, endpoint: str | None = None) -> None:
        """`endpoint`: of a store that speaks S3 and is not Amazon's. Raises Rejected."""
        parts = urlsplit(url)
        if parts.scheme != "s3" or not parts.hostname or parts.username or parts.query:
            raise Rejected("bad-setting", "an object store is written as s3://bucket/prefix")
        bucket, prefix = parts.netloc, parts.path.strip("/")
        where = {"store": "s3", "bucket": bucket, **({"prefix": prefix} if prefix else {})}
        self.place = Place("object_store", where)
        self._told = f"s3://{bucket}"
        self._store = S3Store(
            bucket,
            prefix=prefix or None,
            config={"endpoint": endpoint} if endpoint else None,
            client_options={"allow_http": bool(endpoint and endpoint.startswith("http://"))},
            retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_S)},
        )

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        name = name_of(execution_id, body)
        await self._upload(name, body)
        return self.place.ref(name, content_type)

    async def get(self, ref: dict[str, JSON]) -> bytes:
        return await gathered(self.read(ref))

    async def write(
        self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str
    ) -> dict[str, JSON]:
        async with spooled(execution_id, chunks) as whole:
            await self._upload(whole.name, whole.body)
            return self.place.ref(whole.name, content_type)

    async def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        name = self.place.name(ref)
        async for chunk in verified(name, cut(self._chunks(name), CHUNK_BYTES)):
            yield chunk

    async def kept(self) -> AsyncIterator[StoredResult]:
        with self._translated():
            async for batch in obstore.list(self._store, chunk_size=1_000):
                for each in batch:
                    if _KEY.fullmatch(each["path"]):
                        yield StoredResult(each["path"], each["size"], each["last_modified"])

    async def drop(self, keys: Sequence[str]) -> None:
        ours = list(dict.fromkeys(key for key in keys if _KEY.fullmatch(key)))
        for first in range(0, len(ours), DROPPED_TOGETHER):
            with self._translated(), _passed_over():
                await obstore.delete_async(self._store, ours[first : first + DROPPED_TOGETHER])

    async def _upload(self, name: Name, body: bytes | Path) -> None:
        """An object under this name is always the same one: writing it twice changes nothing."""
        with self._translated():
            await obstore.put_async(
                self._store,
                name.key,
                body,
                use_multipart=None if name.size > MULTIPART_BYTES else False,
                chunk_size=MULTIPART_BYTES,
                max_concurrency=UPLOADS_MAX,
            )

    async def _chunks(self, name: Name) -> AsyncIterator[bytes]:
        with self._translated(name):
            found = await obstore.get_async(self._store, name.key)
            async for chunk in found.stream(min_chunk_size=PART_BYTES):
                yield bytes(chunk)

    @contextmanager
    def _translated(self, name: Name | None = None) -> Iterator[None]:
        """What obstore says holds addresses and sometimes answers of the server: people get its kind only."""
        try:
            yield
        except FileNotFoundError as error:
            raise name.missing() if name else NotFound(f"{self._told} is not there") from error
        except (BaseError, OSError, ValueError) as error:
            words = f"the result store {self._told} does not do what it is asked for"
            raise Unavailable(f"{words} ({type(error).__name__})") from error


@contextmanager
def _passed_over() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        return
