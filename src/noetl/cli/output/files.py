"""Files that commands write: replaced in one step, so that none is ever half written."""

from __future__ import annotations

import os
import stat
import sys

from noetl.session.errors import UsageError
from noetl.session.sources import STDIN, reason_of


def write(file: str, data: bytes) -> None:
    """Replace a file in one step, and keep its permissions. Raises UsageError."""
    try:
        _write(os.path.realpath(file), data)
    except OSError as error:
        raise UsageError(f"{file}: {reason_of(error)}") from error


def create(file: str, data: bytes) -> None:
    """Write a new file. Raises UsageError when it exists."""
    try:
        with open(file, "xb") as stream:
            stream.write(data)
    except OSError as error:
        raise UsageError(f"{file}: {reason_of(error)}") from error


def _write(path: str, data: bytes) -> None:
    old = os.stat(path) if os.path.exists(path) else None
    if old is not None and not stat.S_ISREG(old.st_mode):
        # A pipe or a device cannot be replaced, only written to; a folder raises its own error.
        with open(path, "wb") as stream:
            stream.write(data)
        return
    folder, name = os.path.split(path)
    beside = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
    try:
        with open(beside, "xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if old is not None:
            os.chmod(beside, stat.S_IMODE(old.st_mode))
        os.replace(beside, path)
    except BaseException:
        if os.path.exists(beside):
            os.unlink(beside)
        raise


def put(data: bytes, out: str | None) -> None:
    """Write to a file, or to standard output as UTF-8, independent of the locale."""
    if out is not None and out != STDIN:
        write(out, data)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
