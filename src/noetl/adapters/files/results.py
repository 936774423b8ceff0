"""Payloads as files, `<root>/<execution>/<sha256>`: whole and durable once they have their name.

Names are checked before they reach the disk and no symbolic link is followed, so nothing is written or read
outside the root.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from noetl.adapters.files.cleanup import drop_file, kept_in, listed
from noetl.adapters.files.durable import FOLDER, Growing, in_thread, make_folder
from noetl.adapters.result_names import CHUNK_BYTES, PART_BYTES, Name, Place, checked, cut, name_of, verified
from noetl.errors import Damaged, NotFound, Unavailable
from noetl.failpoints import failpoint
from noetl.output import JSON
from noetl.ports import StoredResult

P = ParamSpec("P")
T = TypeVar("T")
IN_PLACE_BYTES: Final = 1 << 18  # that much is read in 0.2 ms; for more the loop goes on, and a thread reads
KNOWN_MAX: Final = 1_024  # folders that are remembered as durable
TRIES_MAX: Final = 100  # to have a folder that stays

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # of the disk, or what of it is ours
_NOT_PLAIN: Final = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO})


class FileResults:
    """Keeps the contract of ResultStore in a folder that it makes when it first puts something."""

    def __init__(self, root: Path) -> None:
        self.place = Place("blob", {})
        self._root = root
        self._temporary = count()
        self._known: dict[str, None] = {}  # executions whose folder is durable

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        checked(execution_id)
        # Two waits for the disk are never quick enough for the loop; by thread it costs 0.1 ms more.
        name = await asyncio.to_thread(self._put, execution_id, body)
        return self.place.ref(name, content_type)

    async def get(self, ref: dict[str, JSON]) -> bytes:
        """Raises Damaged when the file is not what was put."""
        name = self.place.name(ref)
        work = partial(self._read, name)
        return work() if name.size <= IN_PLACE_BYTES else await asyncio.to_thread(work)

    async def write(
        self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str
    ) -> dict[str, JSON]:
        # What goes wrong with the chunks is their maker's affair: only our own work is translated.
        folder, growing = await self._work(self._begun, checked(execution_id), "stream", -1)
        assert growing is not None
        with _closing(folder):
            try:
                digest, size = hashlib.sha256(), 0
                async for chunk in cut(chunks, PART_BYTES):
                    await self._work(_grow, growing, digest.update, chunk)
                    size += len(chunk)
                name = Name(execution_id, digest.hexdigest(), size)
                await self._work(growing.finish, name.digest)
            except BaseException:
                growing.abandon()
                raise
            await self._work(os.fsync, folder)
            failpoint("files.put.after")
        return self.place.ref(name, content_type)

    async def _work(self, work: Callable[P, T], /, *values: P.args, **named: P.kwargs) -> T:
        with self._translated("in pieces"):
            return await in_thread(work, *values, **named)

    async def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        name = self.place.name(ref)
        async for chunk in verified(name, self._chunks(name)):
            yield chunk

    async def kept(self) -> AsyncIterator[StoredResult]:
        for execution_id in await asyncio.to_thread(listed, self._root):
            for each in await asyncio.to_thread(kept_in, self._root, execution_id):
                yield each

    async def drop(self, keys: Sequence[str]) -> None:
        with self._translated("to be dropped"):
            for key in keys:
                await asyncio.to_thread(drop_file, self._root, key)
        self._known.clear()

    async def _chunks(self, name: Name) -> AsyncIterator[bytes]:
        with self._translated(name.key), self._opened(name) as descriptor:
            while chunk := await in_thread(os.read, descriptor, CHUNK_BYTES):
                yield chunk

    def _put(self, execution_id: str, body: bytes) -> Name:
        name = name_of(execution_id, body)
        with self._translated(name.key):
            folder, growing = self._begun(execution_id, name.digest, name.size)
            with _closing(folder):
                if growing is not None:
                    try:
                        growing.add(body)
                        growing.finish(name.digest)
                    except BaseException:
                        growing.abandon()
                        raise
                # Also when it was there: whoever wrote it may have died before this.
                os.fsync(folder)
                failpoint("files.put.after")
        return name

    def _begun(self, execution_id: str, name: str, size: int) -> tuple[int, Growing | None]:
        """The folder, and a file in it that grows; None: it is there already.

        Whoever clears takes empty folders away: until there is a file in it, it may have to be made again.
        """
        for _ in range(TRIES_MAX):
            folder = self._open_folder(execution_id)
            try:
                if _is_there(folder, name, size):
                    return folder, None
                return folder, Growing(folder, self._unique(name))
            except FileNotFoundError:
                os.close(folder)
            except BaseException:
                os.close(folder)
                raise
        raise Unavailable(f'the folder of {execution_id} in "{self._root}" does not stay')

    def _unique(self, name: str) -> str:
        return f".{name}.{os.getpid()}.{next(self._temporary)}"

    def _read(self, name: Name) -> bytes:
        with self._translated(name.key), self._opened(name) as descriptor:
            # One byte more than there should be, and no more: a file that has grown is damaged.
            body = _all(partial(os.read, descriptor), name.size + 1)
        name.check(len(body), hashlib.sha256(body).hexdigest())
        return body

    @contextmanager
    def _opened(self, name: Name) -> Iterator[int]:
        with (
            _closing(os.open(self._root, FOLDER)) as root,
            _closing(os.open(name.execution_id, FOLDER | os.O_NOFOLLOW, dir_fd=root)) as folder,
            _closing(os.open(name.digest, _READ, dir_fd=folder)) as file,
        ):
            yield file

    def _open_folder(self, execution_id: str) -> int:
        """The folder of an execution, durable itself."""
        for _ in range(TRIES_MAX):
            with suppress(FileNotFoundError):
                return self._made_folder(execution_id)
        raise Unavailable(f'the folder of {execution_id} in "{self._root}" does not stay')

    def _made_folder(self, execution_id: str) -> int:
        self._make_root()
        with _closing(os.open(self._root, FOLDER)) as root:
            try:
                os.mkdir(execution_id, 0o700, dir_fd=root)
            except FileExistsError:
                durable = execution_id in self._known  # or made by one who died before it was
            else:
                durable = False
            if not durable:
                os.fsync(root)
                if len(self._known) >= KNOWN_MAX:
                    self._known.clear()
                self._known[execution_id] = None
            return os.open(execution_id, FOLDER | os.O_NOFOLLOW, dir_fd=root)

    def _make_root(self) -> None:
        if self._root.is_dir():
            return
        try:
            make_folder(self._root, 0o700)
        except OSError as error:
            raise Unavailable(f'"{self._root}" can not be made: {error.strerror or error}') from error

    @contextmanager
    def _translated(self, key: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise NotFound(f"no result {key}") from error
        except OSError as error:
            if error.errno in _FULL:
                words = f'storage full: result {key} does not fit into "{self._root}"; make space, then go on'
                raise Unavailable(words) from error
            if error.errno in _NOT_PLAIN:
                raise Damaged(f"result {key} is not a plain file in a plain folder") from error
            raise Unavailable(f'result {key} in "{self._root}": {error.strerror or error}') from error


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _grow(growing: Growing, digest: Callable[[bytes], None], chunk: bytes) -> None:
    digest(chunk)
    growing.add(chunk)


def _is_there(folder: int, name: str, size: int) -> bool:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_size == size
    except FileNotFoundError:
        return False


def _all(read: Callable[[int], bytes], most: int) -> bytes:
    """One read answers with less than was asked for when that is much."""
    parts: list[bytes] = []
    while most and (part := read(most)):
        parts.append(part)
        most -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
