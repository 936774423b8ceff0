"""Documents that commands write: JSON for programs, YAML for people.

Characters that could forge text on a terminal are escaped, which changes only the spelling of the values.
"""

from __future__ import annotations

import os
import re
import stat
import sys

import msgspec

from noetl.output import JSON
from noetl.session.errors import UsageError
from noetl.session.sources import STDIN, reason_of

_FORGING = "[\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff]"
_encode = msgspec.json.Encoder().encode


def as_document(value: object) -> str:
    """Indented, with a newline at the end."""
    return f"{_harmless(msgspec.json.format(_encode(value), indent=2))}\n"


def as_line(value: object) -> str:
    """The shortest form, on one line."""
    return f"{_harmless(_encode(value))}\n"


def as_lines(value: JSON) -> list[str]:
    """A value for people: YAML, and a string as it is."""
    if isinstance(value, str):
        return value.splitlines() or [""]
    if isinstance(value, dict | list):
        from noetl.playbook.write import emit  # JSON output does not need it

        return emit(value).splitlines()
    return [_harmless(_encode(value))]


def _harmless(encoded: bytes) -> str:
    text = encoded.decode()
    if text.isascii() and "\x7f" not in text:
        return text
    return re.sub(_FORGING, lambda found: f"\\u{ord(found[0]):04x}", text)


# Files that commands write: replaced in one step, so that none is ever half written.


def write_file(file: str, data: bytes) -> None:
    """Replace a file in one step, and keep its permissions. Raises UsageError."""
    try:
        _replace(os.path.realpath(file), data)
    except OSError as error:
        raise UsageError(f"{file}: {reason_of(error)}") from error


def create_file(file: str, data: bytes) -> None:
    """Write a new file. Raises UsageError when it exists."""
    try:
        with open(file, "xb") as stream:
            stream.write(data)
    except OSError as error:
        raise UsageError(f"{file}: {reason_of(error)}") from error


def _replace(path: str, data: bytes) -> None:
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
        write_file(out, data)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
