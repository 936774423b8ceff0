"""Results in a NATS object store, by execution and digest. A result exists once its metadata is stored.

A NATS server that has not synced may lose acknowledged data: use `sync_interval: always`, or three replicas.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import BufferedIOBase, BytesIO
from pathlib import Path
from typing import Any, Final, TypeVar

from nats.aio.client import Client
from nats.errors import ConnectionClosedError
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, ObjectStoreConfig, StorageType
from nats.js.errors import BadRequestError, BucketNotFoundError, ObjectNotFoundError
from nats.js.errors import NotFoundError as NatsNotFound
from nats.js.object_store import ObjectStore

from noetl.adapters.files import spooled
from noetl.adapters.nats import subjects
from noetl.adapters.nats.client import NatsClient
from noetl.adapters.nats.connection import CONNECT_S, FIRST_TRIES, RECONNECT_S, NatsSettings
from noetl.adapters.result_refs import KEY, RefLocation, ResultName, joined, name_of, verified
from noetl.errors import Rejected, Unavailable
from noetl.output import JSON
from noetl.ports import StoredResult

BUCKET: Final = subjects.BUCKET
TIMEOUT_S: Final = 10.0  # of one request
FETCH_CHUNKS: Final = 8  # of 128 KiB
READER_EXPIRY_S: Final = 60.0  # after which the server forgets a reader that died

T = TypeVar("T")
_BUCKET: Final = re.compile(r"[0-9a-zA-Z_-]{1,64}")


class NatsResults:
    """A `ResultStore`. It connects at the first use and belongs to that event loop."""

    def __init__(self, url: str, bucket: str = BUCKET, replicas: int = 1, *, inbox: str = "") -> None:
        """`inbox`: the prefix of the subjects for replies; "": the default of NATS."""
        if not _BUCKET.fullmatch(bucket):
            raise Rejected("bad-setting", f'"{bucket}" is not a valid bucket name')
        self.place = RefLocation("nats", {"bucket": bucket})
        self._url, self._bucket, self._replicas = url, bucket, replicas
        self._inbox = inbox or subjects.INBOX
        self._opening = asyncio.Lock()
        self._connection: Client | None = None
        self._objects: ObjectStore | None = None
        self._lost: asyncio.Future[None] | None = None  # done when the connection is lost

    async def create(self) -> None:
        """Create the bucket, if it is missing: workers of isolated pools may not. Raises Unavailable."""
        with self._translated():
            await self._open()

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        name = name_of(execution_id, body)
        await self._upload(name, BytesIO(body))
        return self.place.ref(name, content_type)

    async def get(self, ref: dict[str, JSON]) -> bytes:
        return await joined(self.read(ref))

    async def write(self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str) -> dict[str, JSON]:
        async with spooled(execution_id, chunks) as whole:
            if isinstance(whole.body, Path):
                with open(whole.body, "rb") as file:
                    await self._upload(whole.name, file)
            else:
                await self._upload(whole.name, BytesIO(whole.body))
            return self.place.ref(whole.name, content_type)

    async def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        name = self.place.name(ref)
        async for chunk in verified(name, self._chunks(name)):
            yield chunk

    async def kept(self) -> AsyncIterator[StoredResult]:
        with self._translated():
            objects = await self._open()
            try:
                found = await objects.list()
            except NatsNotFound:
                return
        for each in sorted(found, key=lambda info: str(info.name)):
            if each.name is not None and KEY.fullmatch(each.name) and not each.deleted:
                yield StoredResult(each.name, each.size or 0, _instant(each.mtime))

    async def drop(self, keys: Sequence[str]) -> None:
        for key in dict.fromkeys(keys):
            if KEY.fullmatch(key):
                with self._translated(), suppress(NatsNotFound):
                    await (await self._open()).delete(key)

    async def close(self) -> None:
        connection, self._connection, self._objects = self._connection, None, None
        if connection is not None:
            await connection.close()

    async def _upload(self, name: ResultName, body: BufferedIOBase) -> None:
        with self._translated():
            objects = await self._open()
            with suppress(ObjectNotFoundError):
                info = await objects.get_info(name.key)
                if info.size == name.size:
                    return  # Storing it again would remove the chunks under a reader.
            await self._until_lost(objects.put(name.key, body))

    async def _chunks(self, name: ResultName) -> AsyncIterator[bytes]:
        """Pulls the chunks, so that the server sends no more than requested."""
        with self._translated():
            objects = await self._open()
            try:
                info = await objects.get_info(name.key)
            except ObjectNotFoundError as error:
                raise name.missing() from error
            left = info.chunks or 0
            if not left:
                return
            assert self._connection is not None
            stream: JetStreamContext = self._connection.jetstream(timeout=TIMEOUT_S)
            reader = await stream.pull_subscribe(
                f"$O.{self._bucket}.C.{info.nuid}",
                stream=f"OBJ_{self._bucket}",
                config=ConsumerConfig(ack_policy=AckPolicy.NONE, inactive_threshold=READER_EXPIRY_S, mem_storage=True),
            )
            try:
                while left > 0:
                    for message in await reader.fetch(min(left, FETCH_CHUNKS), timeout=TIMEOUT_S):
                        left -= 1
                        yield message.data
            finally:
                with suppress(NatsError, OSError):
                    await reader.unsubscribe()

    async def _open(self) -> ObjectStore:
        async with self._opening:
            if self._objects is None:
                self._connection = self._connection or await self._connect()
                self._objects = await self._bucket_of(self._connection.jetstream(timeout=TIMEOUT_S))
            return self._objects

    async def _connect(self) -> Client:
        """The first connection gives up soon, and shows the error; later ones retry without limit."""
        options = NatsSettings(self._url).resolve()
        connection = NatsClient(secure=options.tls is not None)
        self._lost = asyncio.get_running_loop().create_future()
        await connection.connect(
            **options.as_kwargs(),
            connect_timeout=CONNECT_S,
            max_reconnect_attempts=FIRST_TRIES,
            reconnect_time_wait=RECONNECT_S,  # type: ignore[arg-type]  # it is only passed to sleep
            error_cb=_ignore,
            disconnected_cb=self._on_disconnected,
            inbox_prefix=self._inbox,
        )
        connection.options["max_reconnect_attempts"] = -1
        return connection

    async def _on_disconnected(self) -> None:
        assert self._lost is not None
        if not self._lost.done():
            self._lost.set_result(None)
        self._lost = asyncio.get_running_loop().create_future()

    async def _until_lost(self, work: Coroutine[Any, Any, T]) -> T:
        """NATS does not answer requests of a connection that was lost: do not wait for the timeout."""
        assert self._lost is not None
        doing = asyncio.ensure_future(work)
        both: set[asyncio.Future[Any]] = {doing, self._lost}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise ConnectionClosedError
            return doing.result()
        finally:
            doing.cancel()

    async def _bucket_of(self, stream: JetStreamContext) -> ObjectStore:
        try:
            return await stream.object_store(self._bucket)
        except (BucketNotFoundError, NatsNotFound):
            config = ObjectStoreConfig(storage=StorageType.FILE, replicas=self._replicas)
            with suppress(BadRequestError):  # another process has just created it
                return await stream.create_object_store(self._bucket, config)
            return await stream.object_store(self._bucket)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise Unavailable with the type of the error only: its text may contain a password."""
        try:
            yield
        except (NatsError, OSError, TimeoutError) as error:
            message = f'the result store "{self._bucket}" in NATS does not answer'
            raise Unavailable(f"{message} ({type(error).__name__})") from error


async def _ignore(_error: Exception) -> None:
    """The client reconnects automatically; requests fail meanwhile."""


def _instant(text: Any) -> datetime:
    """The time of storing. An unreadable one is in the future, so that a cleanup keeps the result."""
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
