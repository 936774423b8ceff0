"""Durable files: fsynced folders, atomic writes, spooled streams, and results, `<root>/<execution>/<sha256>`.

A result with its final name is complete and durable. Names are checked before they are used and no symbolic
link is followed, so nothing outside the root is read or written.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from stat import S_ISREG
from typing import IO, Final, NamedTuple, ParamSpec, TypeVar

from noetl.adapters.result_refs import (
    CHUNK_BYTES,
    EXECUTION,
    PART_BYTES,
    RefLocation,
    ResultName,
    checked_id,
    name_of,
    resized,
    verified,
)
from noetl.errors import Damaged, NotFound, Unavailable
from noetl.failpoints import failpoint
from noetl.output import JSON
from noetl.ports import StoredResult

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Create a folder and its missing parents durably; `mode` is for the last one. Raises OSError."""
    missing = []
    for each in (path, *path.parents):
        if each.is_dir():
            break
        missing.append(each)
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except FileExistsError as error:  # a file has that name: say so
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from error
    for each in reversed(missing):
        sync_folder(each.parent)


def sync_folder(path: Path) -> None:
    with _closing(os.open(path, FOLDER)) as descriptor:
        os.fsync(descriptor)


def write_private(path: Path, body: bytes) -> None:
    """Replace a private file atomically; it is on disk when this returns. Raises OSError."""
    temporary = path.with_name(path.name + ".new")
    with suppress(FileNotFoundError):
        temporary.unlink()  # of a process that died here
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


SYNC_BYTES: Final = 1 << 20  # of a large file that is written; its rest is synced at the end
_sync_data: Final = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class AtomicFile:
    """A file with a temporary name until it is complete and synced. It ends with `finish` or `abandon`.

    Every method raises OSError.
    """

    def __init__(self, folder: int, temporary: str) -> None:
        """`folder` is a descriptor, which the caller closes."""
        self._folder = folder
        self._temporary = temporary
        self._descriptor = os.open(temporary, _WRITE, 0o600, dir_fd=folder)
        self._unsynced = 0  # bytes
        failpoint("files.put.before-write")

    def add(self, chunk: bytes) -> None:
        """Sync as we go: a commit of the database on the same disk would wait for all that is not on disk yet."""
        rest = memoryview(chunk)
        while rest:
            if self._unsynced >= SYNC_BYTES:
                _sync_data(self._descriptor)
                self._unsynced = 0
            written = os.write(self._descriptor, rest[: SYNC_BYTES - self._unsynced])
            self._unsynced += written
            rest = rest[written:]

    def finish(self, name: str) -> None:
        """Sync and rename the file. The name is durable after the caller syncs the folder."""
        os.fsync(self._descriptor)
        failpoint("files.put.before-rename")
        os.rename(self._temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        failpoint("files.put.after-rename")
        self._close()

    def abandon(self) -> None:
        """Remove the file. After `finish` it has no effect."""
        with suppress(OSError):
            os.unlink(self._temporary, dir_fd=self._folder)
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], /, *values: P.args, **named: P.kwargs) -> T:
    """As asyncio.to_thread, but a cancellation takes effect only when the thread is done.

    Otherwise the caller would close a descriptor that the thread still uses, and the number of the descriptor
    could belong to another file by then.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work, *values, **named))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # mark it as retrieved: the cancellation matters
        raise


MEMORY_PARTS_MAX: Final = 8  # of a megabyte; more go to the disk


class Spooled(NamedTuple):
    """A complete stream, in memory or in a file."""

    name: ResultName
    body: bytes | Path


@asynccontextmanager
async def spooled(execution_id: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[Spooled]:
    """The file is removed at the end of the block. Raises Rejected, or Unavailable if the disk is full."""
    checked_id(execution_id)
    digest, size, parts = hashlib.sha256(), 0, list[bytes]()
    file: IO[bytes] | None = None
    try:
        async for chunk in resized(chunks, PART_BYTES):
            digest.update(chunk)
            size += len(chunk)
            parts.append(chunk)
            if file is not None or len(parts) > MEMORY_PARTS_MAX:
                file = await _written(parts, file)
                parts.clear()
        name = ResultName(execution_id, digest.hexdigest(), size)
        yield Spooled(name, b"".join(parts) if file is None else Path(file.name))
    finally:
        if file is not None:
            file.close()


async def _written(parts: list[bytes], file: IO[bytes] | None) -> IO[bytes]:
    """The file with the parts appended; a new one if there is none yet."""
    import tempfile  # it imports many modules, and few processes buffer a stream

    target: IO[bytes] | None = file
    try:
        if target is None:
            # Not in the thread: after a cancellation it would stay open. Unbuffered: readers see every part.
            target = tempfile.NamedTemporaryFile("wb", prefix="noetl-", buffering=0)  # noqa: SIM115  # see `spooled`
        for part in parts:
            await in_thread(target.write, part)
    except OSError as error:
        if target is not None:
            target.close()
        reason = error.strerror or error
        raise Unavailable(f"a stream cannot be buffered in {tempfile.gettempdir()}: {reason}") from error
    except BaseException:
        if target is not None:
            target.close()
        raise
    return target


IN_PLACE_BYTES: Final = 1 << 18  # reading it takes 0.2 ms; a thread reads larger results
KNOWN_MAX: Final = 1_024  # folders that are known to be durable
TRIES_MAX: Final = 100  # to create a folder while a cleanup removes empty ones

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # the disk, or the quota
_NOT_REGULAR: Final = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO})
_FILE: Final = re.compile(r"[0-9a-f]{64}|\.(?:[0-9a-f]{64}|stream)\.\d{1,20}\.\d{1,20}")


class FileResults:
    """A `ResultStore` in a folder, which the first `put` creates."""

    def __init__(self, root: Path) -> None:
        self.place = RefLocation("blob", {})
        self._root = root
        self._temporary = count()
        self._known: dict[str, None] = {}  # executions whose folder is durable

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        checked_id(execution_id)
        # Two syncs are too slow for the event loop; a thread costs 0.1 ms.
        name = await asyncio.to_thread(self._put, execution_id, body)
        return self.place.ref(name, content_type)

    async def get(self, ref: dict[str, JSON]) -> bytes:
        name = self.place.name(ref)
        work = partial(self._read, name)
        return work() if name.size <= IN_PLACE_BYTES else await asyncio.to_thread(work)

    async def write(self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str) -> dict[str, JSON]:
        # Errors of the stream are raised unchanged: only our own work is translated.
        folder, file = await self._work(self._begin, checked_id(execution_id), "stream", -1)
        assert file is not None
        with _closing(folder):
            try:
                digest, size = hashlib.sha256(), 0
                async for chunk in resized(chunks, PART_BYTES):
                    await self._work(_append, file, digest.update, chunk)
                    size += len(chunk)
                name = ResultName(execution_id, digest.hexdigest(), size)
                await self._work(file.finish, name.digest)
            except BaseException:
                file.abandon()
                raise
            await self._work(os.fsync, folder)
            failpoint("files.put.after")
        return self.place.ref(name, content_type)

    async def _work(self, work: Callable[P, T], /, *values: P.args, **named: P.kwargs) -> T:
        with self._translated("of a stream"):
            return await in_thread(work, *values, **named)

    async def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        name = self.place.name(ref)
        async for chunk in verified(name, self._chunks(name)):
            yield chunk

    async def kept(self) -> AsyncIterator[StoredResult]:
        for execution_id in await asyncio.to_thread(_executions, self._root):
            for each in await asyncio.to_thread(_results, self._root, execution_id):
                yield each

    async def drop(self, keys: Sequence[str]) -> None:
        with self._translated("to remove"):
            for key in keys:
                await asyncio.to_thread(_remove, self._root, key)
        self._known.clear()

    async def _chunks(self, name: ResultName) -> AsyncIterator[bytes]:
        with self._translated(name.key), self._opened(name) as descriptor:
            while chunk := await in_thread(os.read, descriptor, CHUNK_BYTES):
                yield chunk

    def _put(self, execution_id: str, body: bytes) -> ResultName:
        name = name_of(execution_id, body)
        with self._translated(name.key):
            folder, file = self._begin(execution_id, name.digest, name.size)
            with _closing(folder):
                if file is not None:
                    try:
                        file.add(body)
                        file.finish(name.digest)
                    except BaseException:
                        file.abandon()
                        raise
                # Also for an existing file: its writer may have died before this.
                os.fsync(folder)
                failpoint("files.put.after")
        return name

    def _begin(self, execution_id: str, name: str, size: int) -> tuple[int, AtomicFile | None]:
        """The open folder, and a new file in it; None: the result already exists.

        A cleanup removes empty folders, so the folder may have to be created again.
        """
        for _ in range(TRIES_MAX):
            folder = self._open_folder(execution_id)
            try:
                if _exists(folder, name, size):
                    return folder, None
                return folder, AtomicFile(folder, f".{name}.{os.getpid()}.{next(self._temporary)}")
            except FileNotFoundError:
                os.close(folder)
            except BaseException:
                os.close(folder)
                raise
        raise Unavailable(f'the folder of {execution_id} in "{self._root}" disappears repeatedly')

    def _read(self, name: ResultName) -> bytes:
        with self._translated(name.key), self._opened(name) as descriptor:
            # One byte more than expected: a file that has grown is damaged.
            body = _read_all(partial(os.read, descriptor), name.size + 1)
        name.check(len(body), hashlib.sha256(body).hexdigest())
        return body

    @contextmanager
    def _opened(self, name: ResultName) -> Iterator[int]:
        with (
            _closing(os.open(self._root, FOLDER)) as root,
            _closing(os.open(name.execution_id, FOLDER | os.O_NOFOLLOW, dir_fd=root)) as folder,
            _closing(os.open(name.digest, _READ, dir_fd=folder)) as file,
        ):
            yield file

    def _open_folder(self, execution_id: str) -> int:
        """The folder of an execution, whose own name is durable."""
        for _ in range(TRIES_MAX):
            with suppress(FileNotFoundError):
                return self._create_folder(execution_id)
        raise Unavailable(f'the folder of {execution_id} in "{self._root}" disappears repeatedly')

    def _create_folder(self, execution_id: str) -> int:
        self._create_root()
        with _closing(os.open(self._root, FOLDER)) as root:
            try:
                os.mkdir(execution_id, 0o700, dir_fd=root)
                durable = False
            except FileExistsError:
                durable = execution_id in self._known  # its creator may have died before the sync
            if not durable:
                os.fsync(root)
                if len(self._known) >= KNOWN_MAX:
                    self._known.clear()
                self._known[execution_id] = None
            return os.open(execution_id, FOLDER | os.O_NOFOLLOW, dir_fd=root)

    def _create_root(self) -> None:
        if self._root.is_dir():
            return
        try:
            make_folder(self._root, 0o700)
        except OSError as error:
            raise Unavailable(f'"{self._root}" cannot be created: {error.strerror or error}') from error

    @contextmanager
    def _translated(self, key: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise NotFound(f"no result {key}") from error
        except OSError as error:
            if error.errno in _FULL:
                message = f'storage full: no space for result {key} in "{self._root}"; free some space'
                raise Unavailable(message) from error
            if error.errno in _NOT_REGULAR:
                raise Damaged(f"result {key} is not a regular file in a regular folder") from error
            raise Unavailable(f'result {key} in "{self._root}": {error.strerror or error}') from error


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _append(file: AtomicFile, digest: Callable[[bytes], None], chunk: bytes) -> None:
    digest(chunk)
    file.add(chunk)


def _exists(folder: int, name: str, size: int) -> bool:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_size == size
    except FileNotFoundError:
        return False


def _read_all(read: Callable[[int], bytes], limit: int) -> bytes:
    """A single read may return less."""
    parts: list[bytes] = []
    while limit and (part := read(limit)):
        parts.append(part)
        limit -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _executions(root: Path) -> list[str]:
    """The executions with a folder, sorted; empty without a root."""
    try:
        with os.scandir(root) as found:
            return sorted(
                each.name for each in found if EXECUTION.fullmatch(each.name) and each.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []


def _results(root: Path, execution_id: str) -> list[StoredResult]:
    try:
        return list(_results_in(root / execution_id, execution_id))
    except OSError:
        return []  # another cleanup has just removed it


def _results_in(folder: Path, execution_id: str) -> Iterator[StoredResult]:
    with os.scandir(folder) as found:
        for each in found:
            stat = each.stat(follow_symlinks=False)
            if _FILE.fullmatch(each.name) and S_ISREG(stat.st_mode):
                at = datetime.fromtimestamp(stat.st_mtime, UTC)
                torn = each.name.startswith(".")
                yield StoredResult(f"{execution_id}/{each.name}", stat.st_size, at, torn)


def _remove(root: Path, key: str) -> None:
    """Remove a result, and its folder if that is empty then. Raises OSError."""
    execution_id, _, name = key.partition("/")
    if not EXECUTION.fullmatch(execution_id) or not _FILE.fullmatch(name):
        return
    # A symbolic link is neither followed nor removed.
    with suppress(FileNotFoundError, NotADirectoryError), _closing(os.open(root, FOLDER)) as top:
        with _closing(os.open(execution_id, FOLDER | os.O_NOFOLLOW, dir_fd=top)) as folder:
            os.unlink(name, dir_fd=folder)
        with suppress(OSError):  # it is not empty
            os.rmdir(execution_id, dir_fd=top)
