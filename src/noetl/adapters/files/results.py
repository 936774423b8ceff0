"""Payloads as files, `<root>/<execution>/<sha256>`: whole and durable once they have their name.

Names are checked before they reach the disk and no symbolic link is followed, so nothing is written or read
outside the root.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from noetl.adapters.files.folders import FOLDER, make_folder
from noetl.errors import Damaged, NotFound, Rejected, Unavailable
from noetl.failpoints import failpoint
from noetl.output import JSON

IN_PLACE_BYTES: Final = 1 << 18  # that much is read in 0.2 ms; for more the loop goes on, and a thread reads
KNOWN_MAX: Final = 1_024  # folders that are remembered as durable

_EXECUTION: Final = re.compile(r"[0-9a-zA-Z-]{1,64}")
_KEY: Final = re.compile(r"([0-9a-zA-Z-]{1,64})/([0-9a-f]{64})")
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # of the disk, or what of it is ours
_NOT_PLAIN: Final = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO})


class FileResults:
    """Keeps the contract of ResultStore in a folder that it makes when it first puts something."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._temporary = count()
        self._known: dict[str, None] = {}  # executions whose folder is durable

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        if not _EXECUTION.fullmatch(execution_id):
            raise Rejected("bad-id", f'"{execution_id}" is no id of an execution')
        # Two waits for the disk are never quick enough for the loop; by thread it costs 0.1 ms more.
        digest = await asyncio.to_thread(self._put, execution_id, body)
        meta = {"content_type": content_type, "bytes": len(body), "sha256": digest}
        return {"type": "blob", "locator": {"key": f"{execution_id}/{digest}"}, "meta": meta}

    async def get(self, ref: dict[str, JSON]) -> bytes:
        """Raises Damaged when the file is not what was put."""
        match ref:
            case {"locator": {"key": str(key)}, "meta": {"bytes": int(size), "sha256": str(digest)}}:
                found = _KEY.fullmatch(key)
            case _:
                raise NotFound("no result: the reference names none")
        if found is None:
            raise NotFound(f"no result {key}")
        work = partial(self._read, found[1], found[2], size)
        body = work() if size <= IN_PLACE_BYTES else await asyncio.to_thread(work)
        if len(body) != size or hashlib.sha256(body).hexdigest() != digest:
            raise Damaged(
                f"result {key} is not what was stored: restore it from a backup, or run its step again"
            )
        return body

    def _put(self, execution_id: str, body: bytes) -> str:
        digest = hashlib.sha256(body).hexdigest()
        with self._translated(f"{execution_id}/{digest}"), self._folder(execution_id) as folder:
            if not _is_there(folder, digest, len(body)):
                self._write(folder, digest, body)
            # Also when it was there: whoever wrote it may have died before this.
            os.fsync(folder)
            failpoint("files.put.after")
        return digest

    def _write(self, folder: int, digest: str, body: bytes) -> None:
        temporary = f".{digest}.{os.getpid()}.{next(self._temporary)}"
        descriptor = os.open(temporary, _WRITE, 0o600, dir_fd=folder)
        try:
            failpoint("files.put.before-write")
            with open(descriptor, "wb", buffering=0, closefd=False) as file:
                rest = memoryview(body)
                while rest:
                    rest = rest[file.write(rest) :]
            os.fsync(descriptor)
            failpoint("files.put.before-rename")
            os.rename(temporary, digest, src_dir_fd=folder, dst_dir_fd=folder)
            failpoint("files.put.after-rename")
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        finally:
            os.close(descriptor)

    def _read(self, execution_id: str, digest: str, size: int) -> bytes:
        key = f"{execution_id}/{digest}"
        with (
            self._translated(key),
            self._descriptor(os.open(self._root, FOLDER)) as root,
            self._descriptor(os.open(execution_id, FOLDER | os.O_NOFOLLOW, dir_fd=root)) as folder,
            open(os.open(digest, _READ, dir_fd=folder), "rb", buffering=0) as file,
        ):
            # One byte more than there should be, and no more: a file that has grown is damaged.
            return _all(file.read, size + 1)

    @contextmanager
    def _folder(self, execution_id: str) -> Iterator[int]:
        """The folder of an execution, open and durable itself."""
        self._make_root()
        with self._descriptor(os.open(self._root, FOLDER)) as root:
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
            with self._descriptor(os.open(execution_id, FOLDER | os.O_NOFOLLOW, dir_fd=root)) as folder:
                yield folder

    def _make_root(self) -> None:
        if self._root.is_dir():
            return
        try:
            make_folder(self._root, 0o700)
        except OSError as error:
            raise Unavailable(f'"{self._root}" can not be made: {error.strerror or error}') from error

    @staticmethod
    @contextmanager
    def _descriptor(descriptor: int) -> Iterator[int]:
        try:
            yield descriptor
        finally:
            os.close(descriptor)

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


def _is_there(folder: int, digest: str, size: int) -> bool:
    try:
        return os.stat(digest, dir_fd=folder, follow_symlinks=False).st_size == size
    except FileNotFoundError:
        return False


def _all(read: Callable[[int], bytes | None], most: int) -> bytes:
    """One read answers with less than was asked for when that is much."""
    parts: list[bytes] = []
    while most and (part := read(most)):
        parts.append(part)
        most -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
