"""Secret values that a person gives to a command: at a prompt without echo, in a file, or in the environment."""

from __future__ import annotations

import os
import sys
from typing import Final

from noetl.escape import visible
from noetl.session.errors import UsageError

VALUE_BYTES_MAX: Final = 1 << 20  # that are read; less may be stored


def from_person(name: str, option: str) -> str:
    """Ask for it without echo. Raises UsageError without a terminal."""
    from getpass import getpass

    if sys.stdin is None or not sys.stdin.isatty():
        advice = "name a file (=@FILE) or an environment variable (=env:VARIABLE)"
        raise UsageError(f"{option}: there is no terminal to ask for the value: {advice}")
    return getpass(f"Value of {visible(name)}: ", sys.stderr)


def from_file(path: str, option: str) -> str:
    """The content without its last line break. Raises UsageError."""
    from pathlib import Path

    try:
        with Path(path).expanduser().open("rb") as file:
            return decoded(file.read(VALUE_BYTES_MAX + 1), f'{option}: "{path}"')
    except OSError as error:
        raise UsageError(f'{option}: "{path}" cannot be read: {error.strerror}') from error


def from_environment(variable: str, option: str) -> str:
    """Raises UsageError."""
    value = os.environ.get(variable)
    if value is None:
        raise UsageError(f'{option}: the environment variable "{variable}" is not set')
    return value


def decoded(body: bytes, name: str) -> str:
    """Raises UsageError without the bytes, which UnicodeDecodeError would show."""
    try:
        return body.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not UTF-8 text") from None
