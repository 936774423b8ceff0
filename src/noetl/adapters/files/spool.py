"""Buffers a stream for stores that need its name first, which is known only at the end of the stream.

A large stream is buffered in a temporary file.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple

from noetl.adapters.files.durable import in_thread
from noetl.adapters.result_refs import PART_BYTES, ResultName, checked_id, resized
from noetl.errors import Unavailable

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
