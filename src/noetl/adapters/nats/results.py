"""Payloads in a NATS object store, by execution and digest; whole once their description is there.

A server that has not synced may lose what it acknowledged: `sync_interval: always`, or three replicas.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import BufferedIOBase, BytesIO
from pathlib import Path
from typing import Any, Final

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, ObjectStoreConfig, StorageType
from nats.js.errors import BadRequestError, BucketNotFoundError, ObjectNotFoundError
from nats.js.errors import NotFoundError as NatsNotFound
from nats.js.object_store import ObjectStore

from noetl.adapters.files.spool import spooled
from noetl.adapters.nats.connection import CONNECT_S, FIRST_TRIES, RECONNECT_S, NatsClient
from noetl.adapters.nats.credentials import NatsSettings
from noetl.adapters.result_names import Name, Place, gathered, name_of, verified
from noetl.errors import Rejected, Unavailable
from noetl.output import JSON
from noetl.ports import StoredResult

BUCKET: Final = "noetl-results"
PATIENCE_S: Final = 10.0  # for one answer of the server
FETCHED_TOGETHER: Final = 8  # chunks of 128 KiB
FORGOTTEN_S: Final = 60.0  # a reader that died is forgotten by the server

_BUCKET: Final = re.compile(r"[0-9a-zA-Z_-]{1,64}")
_KEY: Final = re.compile(r"[0-9a-zA-Z-]{1,64}/[0-9a-f]{64}")


class NatsResults:
    """Keeps the contract of ResultStore. It connects when it is first used, and belongs to that loop."""

    def __init__(self, url: str, bucket: str = BUCKET, replicas: int = 1) -> None:
        if not _BUCKET.fullmatch(bucket):
            raise Rejected("bad-setting", f'"{bucket}" is no name of a bucket')
        self.place = Place("nats", {"bucket": bucket})
        self._url, self._bucket, self._replicas = url, bucket, replicas
        self._opening = asyncio.Lock()
        self._connection: Client | None = None
        self._objects: ObjectStore | None = None

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        name = name_of(execution_id, body)
        await self._upload(name, BytesIO(body))
        return self.place.ref(name, content_type)

    async def get(self, ref: dict[str, JSON]) -> bytes:
        return await gathered(self.read(ref))

    async def write(
        self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str
    ) -> dict[str, JSON]:
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
            if each.name is not None and _KEY.fullmatch(each.name) and not each.deleted:
                yield StoredResult(each.name, each.size or 0, _instant(each.mtime))

    async def drop(self, keys: Sequence[str]) -> None:
        for key in dict.fromkeys(keys):
            if _KEY.fullmatch(key):
                with self._translated(), suppress(NatsNotFound):
                    await (await self._open()).delete(key)

    async def close(self) -> None:
        connection, self._connection, self._objects = self._connection, None, None
        if connection is not None:
            await connection.close()

    async def _upload(self, name: Name, body: BufferedIOBase) -> None:
        with self._translated():
            objects = await self._open()
            with suppress(ObjectNotFoundError):
                info = await objects.get_info(name.key)
                if info.size == name.size:
                    return  # Another one would take the chunks away from whoever reads them now.
            await objects.put(name.key, body)

    async def _chunks(self, name: Name) -> AsyncIterator[bytes]:
        """By pulling: nobody is sent more than was asked for."""
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
            stream: JetStreamContext = self._connection.jetstream(timeout=PATIENCE_S)
            reader = await stream.pull_subscribe(
                f"$O.{self._bucket}.C.{info.nuid}",
                stream=f"OBJ_{self._bucket}",
                config=ConsumerConfig(
                    ack_policy=AckPolicy.NONE, inactive_threshold=FORGOTTEN_S, mem_storage=True
                ),
            )
            try:
                while left > 0:
                    for message in await reader.fetch(min(left, FETCHED_TOGETHER), timeout=PATIENCE_S):
                        left -= 1
                        yield message.data
            finally:
                with suppress(NatsError, OSError):
                    await reader.unsubscribe()

    async def _open(self) -> ObjectStore:
        async with self._opening:
            if self._objects is None:
                self._connection = self._connection or await self._connect()
                self._objects = await self._found(self._connection.jetstream(timeout=PATIENCE_S))
            return self._objects

    async def _connect(self) -> Client:
        """The first time it gives up soon, so that people hear of it; once connected it never does."""
        options = NatsSettings(self._url).resolve()
        connection = NatsClient(secure=options.tls is not None)
        await connection.connect(
            **options.as_kwargs(),
            connect_timeout=CONNECT_S,
            max_reconnect_attempts=FIRST_TRIES,
            reconnect_time_wait=RECONNECT_S,  # type: ignore[arg-type]  # it is slept, and not counted
            error_cb=_nothing,
        )
        connection.options["max_reconnect_attempts"] = -1
        return connection

    async def _found(self, stream: JetStreamContext) -> ObjectStore:
        try:
            return await stream.object_store(self._bucket)
        except (BucketNotFoundError, NatsNotFound):
            config = ObjectStoreConfig(storage=StorageType.FILE, replicas=self._replicas)
            with suppress(BadRequestError):  # another one has just made it
                return await stream.create_object_store(self._bucket, config)
            return await stream.object_store(self._bucket)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """What nats-py says may hold the address with its password: people get its kind only."""
        try:
            yield
        except (NatsError, OSError, TimeoutError) as error:
            words = f'the result store "{self._bucket}" in NATS does not answer'
            raise Unavailable(f"{words} ({type(error).__name__})") from error


async def _nothing(_error: Exception) -> None:
    """It reconnects by itself; whoever asks meanwhile is told."""


def _instant(said: Any) -> datetime:
    """Of storing; what can not be read counts as now, so that nobody takes it for old."""
    try:
        at = datetime.fromisoformat(str(said))
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
