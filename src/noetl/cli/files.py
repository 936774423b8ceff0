"""Files and standard streams: what is read, what is written whole or not at all, what is said of failures."""

from __future__ import annotations

import os
import stat
import sys
from typing import NamedTuple

from noetl.cli.exits import Usage
from noetl.playbook.source import TEXT_BYTES_MAX

STDIN = "-"
READ_BYTES_MAX = 16 * TEXT_BYTES_MAX  # more is not a playbook, whatever it is


class Source(NamedTuple):
    name: str  # as shown
    data: bytes


def read(file: str) -> Source:
    """The bytes of a file, or of standard input for `-`."""
    if file == STDIN:
        if not sys.stdin:  # None when it was closed before we began
            raise Usage("standard input is closed")
        return Source("<stdin>", sys.stdin.buffer.read(READ_BYTES_MAX))
    try:
        with open(file, "rb") as stream:
            return Source(file, stream.read(READ_BYTES_MAX))
    except OSError as error:
        raise Usage(f"{file}: {_reason(error)}") from error


def write(file: str, data: bytes) -> None:
    """Into a file: whole or not at all, with the permissions that it had."""
    try:
        _write(os.path.realpath(file), data)
    except OSError as error:
        raise Usage(f"{file}: {_reason(error)}") from error


def make(file: str, data: bytes) -> None:
    """A new file. Raises Usage also when there is one."""
    try:
        with open(file, "xb") as stream:
            stream.write(data)
    except OSError as error:
        raise Usage(f"{file}: {_reason(error)}") from error


def _write(path: str, data: bytes) -> None:
    old = os.stat(path) if os.path.exists(path) else None
    if old is not None and not stat.S_ISREG(old.st_mode):
        # A pipe or a device can not be replaced, only written to; a folder says so itself.
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
    """To a file, or to standard output as UTF-8 whatever the locale says."""
    if out is not None and out != STDIN:
        write(out, data)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _reason(error: OSError) -> str:
    match error:
        case FileNotFoundError():
            return "there is no such file"
        case FileExistsError():
            return "it is there already: name another file"
        case IsADirectoryError():
            return "this is a folder, not a file"
        case PermissionError():
            return "permission denied"
    return error.strerror or str(error)
