"""Durable files: fsynced directories, atomic writes, and streams that are spooled to disk."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Final, NamedTuple, ParamSpec, TypeVar

from noetl.adapters.result_refs import PART_BYTES, ResultName, checked_id, resized
from noetl.errors import Unavailable
from noetl.failpoints import failpoint

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
    descriptor = os.open(path, FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
        failpoint("files.put.before-write")

    def add(self, chunk: bytes) -> None:
        rest = memoryview(chunk)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

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
    target = file
    try:
        if target is None:
            target = _new_file()  # not in the thread: after a cancellation it would stay open
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


def _new_file() -> IO[bytes]:
    # Unbuffered, so that readers of the file see every part.
    return tempfile.NamedTemporaryFile("wb", prefix="noetl-", buffering=0)
