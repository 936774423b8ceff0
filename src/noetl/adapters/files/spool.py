"""A stream on its way to a store that wants its name first, which is known only when the stream has ended.

What is large waits in a temporary file, so that nobody holds it in memory.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple

from noetl.adapters.files.durable import in_thread
from noetl.adapters.result_names import PART_BYTES, Name, checked, cut
from noetl.errors import Unavailable

HELD_PARTS_MAX: Final = 8  # of a megabyte; more goes to the disk


class Spooled(NamedTuple):
    """A whole stream: in memory when it is small, else in a file."""

    name: Name
    body: bytes | Path


@asynccontextmanager
async def spooled(execution_id: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[Spooled]:
    """Its file is gone when the block is left. Raises Rejected, or Unavailable when it does not fit."""
    checked(execution_id)
    digest, size, held = hashlib.sha256(), 0, list[bytes]()
    file: IO[bytes] | None = None
    try:
        async for chunk in cut(chunks, PART_BYTES):
            digest.update(chunk)
            size += len(chunk)
            held.append(chunk)
            if file is not None or len(held) > HELD_PARTS_MAX:
                file = await _moved(held, file)
                held.clear()
        name = Name(execution_id, digest.hexdigest(), size)
        yield Spooled(name, b"".join(held) if file is None else Path(file.name))
    finally:
        if file is not None:
            file.close()


async def _moved(parts: list[bytes], file: IO[bytes] | None) -> IO[bytes]:
    """The parts, into the file; into a new one when there is none yet."""
    made = file
    try:
        if made is None:
            made = _new_file()  # here: a thread that nobody waits for any more would leave it open
        for part in parts:
            await in_thread(made.write, part)
    except OSError as error:
        if made is not None:
            made.close()
        reason = error.strerror or error
        raise Unavailable(f"a stream does not fit into {tempfile.gettempdir()}: {reason}") from error
    except BaseException:
        if made is not None:
            made.close()
        raise
    return made


def _new_file() -> IO[bytes]:
    # Without a buffer a part that can be written is written, and whoever reads the file by name sees it.
    return tempfile.NamedTemporaryFile("wb", prefix="noetl-", buffering=0)
